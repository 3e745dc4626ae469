"""Efforts that are sampled as seldom as their commands: what an unknown part of each step adds to them.

If an actuator is commanded every 4 ms and its effort is recorded every 4 ms, all samples have the same phase of the
ripple that the steps of the commands make. Their error is proportional to the speed, as viscous friction is, and no
filter shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.design import Rows
from sim_core.identification.regressor import LinearEfforts

Array = np.ndarray[Any, np.dtype[np.float64]]
SHARE_SD = 12.0**-0.5  # standard deviation of a share that is uniform from -1/2 to 1/2


def ripples_of(regressor: LinearEfforts, base: BaseParameters, rows: Rows, beta: Array) -> list[Array]:
    """Changes (n, n_q) of all joints' efforts with a whole step of the commands, one array per joint with such steps.

    The ripple of a joint's effort accelerates the joint. The others hold it by the inertia that they share with it.

    beta  (n_b,) base parameters of the model
    """
    found = []
    rest = np.zeros_like(rows.q)
    for joint in np.flatnonzero(rows.ripple.any(axis=0)):
        unit = rest.copy()
        unit[:, joint] = 1.0
        inertia = regressor.efforts(rows.q, rest, unit, base.columns, beta)
        inertia = inertia - regressor.efforts(rows.q, rest, rest, base.columns, beta)
        own = inertia[:, [joint]]
        share = np.divide(inertia, own, out=np.zeros_like(inertia), where=own > 0.0)
        share[:, joint] = 1.0
        found.append(share * rows.ripple[:, [joint]])
    return found

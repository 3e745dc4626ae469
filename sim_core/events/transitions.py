"""Changes of the parameters p and velocities v when a guard fires: CapturedParameters are set, and impacts computed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.mechanism.guards import Crossing, Guard
from sim_core.system import System


def capture(system: System, w: Workspace, guard: Crossing | Guard) -> None:
    """Set a guard's CapturedParameters in p such that the current state satisfies the constraints that contain them."""
    if not guard.captures:
        return
    names = system.mechanism.captured_constraints
    found = np.zeros(len(names))
    system.bind("captures", [w.t, w.q, w.v, w.u, w.p], [found])()
    for name in guard.captures:
        place = system.parameter_names.index(system.mechanism.captured_by(name).name)
        w.p[place] = found[names.index(name)]


def impact(system: System, w: Workspace, engaged: Collection[str] = ()) -> np.ndarray:
    """Project the velocities onto the engaged constraints by impulses; return the energy loss (n_r,), J, of each row.

    The impulses y and the velocity change x solve M x + J' y = 0 with the mass matrix M and the constraint Jacobian J.
    With the rates Phidot of the constraint violations, J x is -Phidot for engaged rows and 0 for other rows. The other
    rows keep their Phidot, because a violation that the stabilizer is correcting is no part of the impact. The loss of
    kinetic energy by an engaged row is y Phidot / 2, and 0 by other rows.

    engaged  names of the constraints that were engaged; if empty, the velocities are projected onto all rows
    """
    state, row_names = [w.t, w.q, w.v, w.u, w.p], system.constraint_modes[0].row_names
    w.U[:] = 0.0
    system.bind("acceleration", [*state, w.U], [w.a, w.lam, w.factor])()
    system.bind("residual", state, [w.phi, w.phidot])()
    w.r1[:] = 0.0
    rates = [rate if not engaged or name in engaged else 0.0 for name, rate in zip(row_names, w.phidot, strict=True)]
    w.r2[:] = -np.array(rates)
    system.bind("apply", [w.factor, w.r1, w.r2], [w.x, w.y])()
    w.v[:] += w.x
    return np.asarray(-0.5 * w.y * w.r2)

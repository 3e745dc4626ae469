"""Friction of a joint, rotor inertia, offset and errors of the measurement as linear columns of a regression.

The effort is sum of coefficient times column. The first four columns are always fitted; each of the others only if it
improves the prediction of data that were not fitted.

viscous    v
coulomb    s(v) = tanh(v / v_0)
offset     1: of the effort sensor, or a constant load
armature   a: inertia of the rotor behind the gear, as seen at the joint
stribeck   s(v) exp(-(v / v_S)^2): friction that decreases with speed. [DupontEtAl2002]
load       s(v) |load|: Coulomb friction in proportion to the load of the gear, by the model before the fit
asymmetry  |v|: viscous friction that depends on the direction
gain       effort by the model: relative error of the motor constant
delay      -d/dt of it: time by which the efforts are late, s
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
ALWAYS = ("viscous", "coulomb", "offset", "armature")
WRITTEN = ("stribeck",)  # further columns that a joint of a mechanism can have
NAMED = ("load", "asymmetry")  # further columns that are only named if they improve the prediction
CALIBRATION = ("gain", "delay")  # errors of the measurement, fitted on request, see `calibration`
FRICTION = (*ALWAYS, *WRITTEN, *NAMED)
COLUMNS = (*FRICTION, *CALIBRATION)
NOT_NEGATIVE = ("viscous", "coulomb", "armature", "stribeck", "load")
SMOOTHING, STRIBECK = 0.05, 0.2  # v_0 and v_S as shares of the joint's root-mean-square speed


def speed_scales(v: Array) -> Array:
    """Root-mean-square speed (n_q,) of velocities v (n, n_q); 1 for a joint that does not move."""
    rms = np.sqrt(np.mean(v**2, axis=0))
    return np.where(rms > 0.0, rms, 1.0)


def friction_columns(v: Array, a: Array, load: Array, scales: Array) -> Array:
    """(n, n_q, len(FRICTION)) for velocities v, accelerations a and loads, (n, n_q) each; `scales`: `speed_scales`."""
    s = np.tanh(v / (SMOOTHING * scales))
    falling = s * np.exp(-((v / (STRIBECK * scales)) ** 2))
    return np.stack([v, s, np.ones_like(v), a, falling, s * np.abs(load), np.abs(v)], axis=-1)

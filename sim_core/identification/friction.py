"""Friction of a joint, rotor inertia, load and errors of the measurement as linear columns of a regression.

The effort is sum of coefficient times column. The first four columns are always fitted, the first two for a joint
without motor; each of the others only if it improves the prediction of data that were not fitted.

viscous    v
coulomb    s(v) = tanh(v / v_0)
load       -1: constant effort on the joint, against which the motor acts; or the offset of the effort sensor
armature   a: inertia of the rotor behind the gear, as seen at the joint
stribeck   s(v) exp(-(v / v_S)^2): friction that decreases with speed. [DupontEtAl2002]
gear       s(v) |effort|: Coulomb friction in proportion to the effort of the gear, by the model before the fit
asymmetry  |v|: viscous friction that depends on the direction
previous, next  s(v + v_k) + s(v - v_k): friction of two motors that move this joint and the one before or after it,
                k, together, as through a differential
gain       effort by the model: relative error of the motor constant
delay      -d/dt of it: time by which the efforts are late, s
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
ALWAYS = ("viscous", "coulomb", "load", "armature")
WITHOUT_MOTOR = ("viscous", "coulomb")  # of a joint that has neither a rotor nor a measured effort
WRITTEN = ("stribeck",)  # further columns that a joint of a mechanism can have
NAMED = ("gear", "asymmetry", "previous", "next")  # further columns that are only named if they improve the prediction
CALIBRATION = ("gain", "delay")  # errors of the measurement, fitted on request, see `calibration`
FRICTION = (*ALWAYS, *WRITTEN, *NAMED)
COLUMNS = (*FRICTION, *CALIBRATION)
OF_SPEED, OF_ACCELERATION = ("viscous", "coulomb", *WRITTEN), ("armature",)  # columns of the joint's own
NOT_NEGATIVE = ("viscous", "coulomb", "armature", "stribeck", "gear", "previous", "next")
SMOOTHING, STRIBECK = 0.05, 0.2  # v_0 and v_S as shares of the joint's root-mean-square speed


def speed_scales(v: Array) -> Array:
    """Root-mean-square speed (n_q,) of velocities v (n, n_q); 1 for a joint that does not move."""
    rms = np.sqrt(np.mean(v**2, axis=0))
    return np.where(rms > 0.0, rms, 1.0)


def friction_columns(v: Array, a: Array, effort: Array, scales: Array) -> Array:
    """(n, n_q, len(FRICTION)) for velocities v, accelerations a and efforts of the gears, (n, n_q) each.

    scales  `speed_scales`
    """
    s = np.tanh(v / (SMOOTHING * scales))
    falling = s * np.exp(-((v / (STRIBECK * scales)) ** 2))
    pairs = _of_pairs(v, scales)
    return np.stack([v, s, -np.ones_like(v), a, falling, s * np.abs(effort), np.abs(v), *pairs], axis=-1)


def _of_pairs(v: Array, scales: Array) -> tuple[Array, Array]:
    """Columns `previous` and `next` (n, n_q); 0 for a joint without that neighbour."""
    previous, following = np.zeros_like(v), np.zeros_like(v)
    width = SMOOTHING * np.hypot(scales[:-1], scales[1:])
    both, apart = np.tanh((v[:, :-1] + v[:, 1:]) / width), np.tanh((v[:, :-1] - v[:, 1:]) / width)
    following[:, :-1], previous[:, 1:] = both + apart, both - apart
    return previous, following

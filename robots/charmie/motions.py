"""Motions of CHARMIE's 21 joints over time: the paper's validation motion, and a motion that squats and leans.

[GoncalvesEtAl2024, sec. 6]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from robots.charmie.geometry import Motion, lift_motion, tilt_motion
from robots.charmie.parameters import Parameters

DURATION = 5.0
REVOLUTE = math.pi / 9  # reference accelerations: rad/s2 ...
ACTUATOR, BASE = 3e-3, 30e-3  # ... and m/s2, of the lengths of 4d and 5d, and of the base along x and y

Instant = tuple[np.ndarray, np.ndarray, np.ndarray]
JointMotion = Callable[[float], Instant]


def bang(acceleration: float, t: float, half: float = DURATION / 2) -> Motion:
    """Bang-bang motion at time t (s): acceleration -a for the time `half`, then +a for the same time.

    The motion starts from rest at t = 0 and ends at rest at t = 2 half.

    acceleration  a (rad/s2 or m/s2)
    half          half of the duration (s)
    """
    if t < half:
        return Motion(-acceleration * t * t / 2, -acceleration * t, -acceleration)
    if t <= 2 * half:
        left = 2 * half - t
        return Motion(-acceleration * (half * half - left * left / 2), -acceleration * left, acceleration)
    return Motion(-acceleration * half * half)


def validation_motion(p: Parameters, names: Sequence[str]) -> JointMotion:
    """Return a function of time (s) that returns q, v, a (21,) of the paper's validation motion.

    Lift and tilt start at the positions at which their actuators have their initial lengths. All other joints start at
    0.

    names  names of the joints of the open tree
    """

    def at(t: float) -> Instant:
        found = {name: bang(REVOLUTE, t) for name in names}
        found["base_x"] = found["base_y"] = bang(BASE, t)
        x, v, a = bang(ACTUATOR, t)
        found["lift"] = lift_motion(p, Motion(p.lift.start_length + x, v, a))
        found["tilt"] = tilt_motion(p, Motion(p.tilt.start_length + x, v, a))
        return _columns([found[name] for name in names])

    return at


SQUAT_S = 6.0


def squat_and_lean(p: Parameters, names: Sequence[str]) -> JointMotion:
    """Return a function of time (s) that returns q, v, a (21,) of a motion that squats once and leans forward twice.

    The motion takes 6 s. The robot squats over nine tenths of the lift's range and leans by 0.9 rad. Both arms hang
    beside the body and bend forward during the leans. The motion is smooth, and at rest at both ends.

    names  names of the joints of the open tree
    """

    def swing(low: float, high: float, turns: float, t: float) -> Motion:
        w = 2 * math.pi * turns / SQUAT_S
        half = (high - low) / 2
        return Motion(low + half * (1 - math.cos(w * t)), half * w * math.sin(w * t), half * w * w * math.cos(w * t))

    def at(t: float) -> Instant:
        low, high = p.lift.lower, p.lift.upper
        rest = dict.fromkeys(names, Motion(0.0))
        rest["lift"] = swing(low + 0.95 * (high - low), low + 0.05 * (high - low), 1, t)
        rest["tilt"] = swing(-0.05, -0.95, 2, t)
        for side, inward in (("left", -1.0), ("right", 1.0)):
            rest[f"{side}_arm_2"] = Motion(1.4)  # the arm hangs ...
            rest[f"{side}_arm_3"] = Motion(inward * math.pi / 2)  # ... with its elbow turned, to bend it forward
            rest[f"{side}_arm_4"] = swing(0.2, 1.4, 2, t)
        return _columns([rest[name] for name in names])

    return at


def _columns(motions: Sequence[Motion]) -> Instant:
    x, v, a = np.array(motions).T
    return x, v, a

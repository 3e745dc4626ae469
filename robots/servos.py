"""Servos for actuators of robots from files that have none, with gains computed from the joints' inertias."""

from __future__ import annotations

import dataclasses

import numpy as np

from robots.smoothing import bounded, coordinates_of, mobilities_of
from sim_core.mechanism import Mechanism, Servo
from sim_core.mobility import rounded

RATE = 120.0  # rad/s: largest circular frequency of joints on their servos; efforts that are constant for 1 ms suit it
SPEED_SHARE = 0.5  # largest part of the effort limit that the damping takes at the velocity limit
DAMPING_RATIO = 2.0  # of the fastest motion; motions of many joints at once move more mass, and are damped less


def with_servos(mechanism: Mechanism) -> Mechanism:
    """A copy of a mechanism in which each actuator of a joint has a servo, so that it accepts positions and velocities.

    The mechanism must be a tree in joint coordinates. An actuator that has a servo keeps it. The stiffnesses of the
    others are the largest with which no joint vibrates on these servos faster than RATE in several postures. A joint
    under a load f deflects by f / stiffness.
    """
    names = [actuator.joint for actuator in mechanism.actuators if actuator.joint and actuator.servo is None]
    if not names:
        return mechanism
    places = coordinates_of(mechanism)
    moving = [name for name in names if name in places]
    of = {actuator.joint: actuator for actuator in mechanism.actuators}
    fast = [SPEED_SHARE * (of[name].effort_limit or np.inf) / (of[name].velocity_limit or 1.0) for name in moving]
    stiffness = bounded(np.array(fast) * RATE / (2.0 * DAMPING_RATIO), mobilities_of(mechanism, moving), RATE**2)
    found = dict(zip(moving, map(rounded, stiffness.tolist()), strict=True))
    actuators = [
        dataclasses.replace(
            actuator,
            servo=Servo(
                stiffness=found[actuator.joint], damping=rounded(2.0 * DAMPING_RATIO * found[actuator.joint] / RATE)
            ),
        )
        if actuator.servo is None and actuator.joint in found
        else actuator
        for actuator in mechanism.actuators
    ]
    return dataclasses.replace(mechanism, actuators=tuple(actuators))

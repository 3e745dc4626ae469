"""The numbers of the two gibbons, one that swings along a cable and one along bars. Their sources: SOURCES.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arm:
    """Mass, kg; length from hand to elbow, m; centre of mass from the hand, m; inertia about it, kg m2."""

    mass: float
    length: float
    centre: float
    inertia: float

    def scaled(self, mass: float) -> Arm:
        """The same with all masses times a factor."""
        return Arm(self.mass * mass, self.length, self.centre, self.inertia * mass)


def rod(mass: float, length: float, centre: float | None = None) -> Arm:
    """An arm with the inertia of a uniform rod."""
    return Arm(mass, length, length / 2 if centre is None else centre, mass * length**2 / 12)


@dataclass(frozen=True)
class Robot:
    """Two arms, from hand a and from hand b to the elbow, and what belongs to their line.

    hand_mass     of each hand with its gripper, kg
    torque_limit  of the elbow, N m
    step          how far apart the places are that the hands grip, m
    """

    arm_a: Arm
    arm_b: Arm
    hand_mass: float
    torque_limit: float
    step: float


CABLE_ROBOT = Robot(rod(5.0, 0.6), rod(5.0, 0.6), hand_mass=0.1, torque_limit=30.0, step=0.9)
BAR_ROBOT = Robot(
    rod(1.0419, 0.31401, 0.23347),
    rod(0.49759, 0.31401, 0.31401 - 0.091773),
    hand_mass=0.05045,
    torque_limit=16.0,
    step=0.34,
)

REACH = 0.03  # m, the gap that a gripper closes over
CLOSING_SPEED = 1.5  # m/s, at most, of a hand that is caught
BARS = 24
GRAVITY = 9.81

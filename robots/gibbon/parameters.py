"""Parameters of the gibbons: one robot for a cable and one for bars, each with two or three links.

SOURCES.md lists the sources of the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Link:
    """A rigid link.

    mass     mass, kg
    length   length, m
    centre   distance of the centre of mass from the end from which the link hangs, m
    inertia  moment of inertia about the centre of mass, perpendicular to the link, kg m2
    """

    mass: float
    length: float
    centre: float
    inertia: float

    def scaled(self, factor: float) -> Link:
        """The link with mass and inertia multiplied by a factor."""
        return replace(self, mass=self.mass * factor, inertia=self.inertia * factor)


def rod(mass: float, length: float) -> Link:
    """A uniform rod of a given mass, kg, and length, m."""
    return Link(mass, length, length / 2, mass * length**2 / 12)


@dataclass(frozen=True)
class Robot:
    """Two arms with hands, and an optional trunk. Arm a reaches from hand a to the elbow, arm b from the elbow to hand
    b.

    hand_a, hand_b  hands; the `centre` of a hand is the distance, m, from its grip to its centre of mass, towards the
                    elbow
    trunk           link that hangs from the elbow; None for a robot of two links
    torque_limit    torque limit of the elbow, N m
    step            default distance between the two grips, m
    """

    arm_a: Link
    arm_b: Link
    hand_a: Link
    hand_b: Link
    torque_limit: float
    step: float
    trunk: Link | None = None

    @property
    def mass(self) -> float:
        """Total mass of the robot, kg."""
        links = (self.hand_a, self.arm_a, self.arm_b, self.hand_b, self.trunk)
        return sum(link.mass for link in links if link is not None)

    def scaled(self, factor: float) -> Robot:
        """The robot with the masses and inertias of its arms and trunk multiplied by a factor."""
        trunk = self.trunk and self.trunk.scaled(factor)
        return replace(self, arm_a=self.arm_a.scaled(factor), arm_b=self.arm_b.scaled(factor), trunk=trunk)


CLAMP = Link(0.1, 0.0, 0.0, 0.0)
CABLE_ROBOT = Robot(rod(5.0, 0.6), rod(5.0, 0.6), CLAMP, CLAMP, torque_limit=30.0, step=0.9)
BAR_ROBOT = Robot(
    Link(1.0419, 0.31401, 0.23347, 0.0017085),
    Link(0.49759, 0.31401, 0.091773, 0.00099182),
    Link(0.0, 0.0, 0.0, 0.0),
    Link(0.1009, 0.0, 0.035143, 0.00014182),
    torque_limit=16.0,
    step=0.34,
)

ROBOTS = {
    ("cable", 2): CABLE_ROBOT,
    ("cable", 3): replace(CABLE_ROBOT, trunk=rod(5.0, 0.5)),
    ("bars", 2): BAR_ROBOT,
    ("bars", 3): Robot(
        Link(0.31253, 0.31401, 0.16959, 0.00099006),
        Link(0.140648, 0.31401, 0.089177, 0.0008365),
        Link(0.0, 0.0, 0.0, 0.0),
        Link(0.171894, 0.0, 0.035208, 0.00015356),
        torque_limit=16.0,
        step=0.34,
        trunk=Link(2.63097, 0.31401, 0.18245, 0.0052379),
    ),
}

REACH = 0.03  # m, largest gap over which a gripper can close
CLOSING_SPEED = 1.5  # m/s, largest speed of a hand at which its gripper can close
BARS = 24
GRAVITY = 9.81

CABLE_LENGTH = 20.0
CABLE_MASS = 1.179  # kg/m
CABLE_BENDING = 590.0  # N m2
CABLE_ELEMENTS = 50
CABLE_SEGMENTS = 200  # of the cable as a chain of rigid segments
CABLE_START = 5.0  # m along the cable
CLAMP_WIDTH = 0.05
TENSIONS = (2e3, 20e3)
MOST_DAMPED = 0.999  # largest damping ratio of a running cable: from 1 on it does not vibrate
FEWEST_SEGMENTS = 10
LIGHTEST = 0.01  # smallest share of its mass and inertia to which a part of a running robot may be set
DEEPEST = 1.0  # m, largest permitted sag of a cable with a robot on it

"""Parts that AcroMonk and RicMonk share: the hanging position, links, bars, and checks of their parameters.

In a link's axes x is the axis of the joints, and y runs along the link, downwards while the robot hangs. All joints are
at 0 while the robot hangs at rest, up to the offsets of the joints from the links; a positive angle swings a link
towards x of the world, along which the bars are placed.
"""

from __future__ import annotations

from sim_core.mechanism import Body, Matrix3, Shape, Vector3

# Axes of a hanging link in the world, as columns: x = -y0, y = -z0 (down), z = x0.
HANGING: Matrix3 = ((0.0, 0.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0))
SWING: Vector3 = (0.0, -1.0, 0.0)  # axis of the hook on the bar, in the world
GRAVITY = 9.81
SPACING = 0.34  # m, between two bars
TORQUE_LIMIT = 16.0  # N m
BAR = Shape(kind="cylinder", size=(0.008, 0.25), quaternion=(0.7071067811865476, 0.7071067811865476, 0.0, 0.0))

Inertia = tuple[float, float, float, float, float, float]


def link(
    name: str, mass: float, center: Vector3, inertia: Inertia, end: Vector3 | None = None, color: str = ""
) -> Body:
    """A body of the robot, drawn as a line from its origin to `end` (m, in its axes), or as a ball at its origin."""
    ball = Shape(kind="sphere", size=(0.015,), color=color)
    shape = ball if end is None else Shape(kind="line", points=(0.0, 0.0, 0.0, *end), color=color)
    return Body(name=name, mass=mass, inertia=inertia, center_of_mass=center, shapes=(shape,))


def bars(each_side: int = 2) -> tuple[Shape, ...]:
    """Shapes of the bars in the world: the bar that the robot hangs from, and `each_side` bars on either side."""
    places = range(-each_side, each_side + 1)
    return tuple(
        Shape(kind=BAR.kind, size=BAR.size, quaternion=BAR.quaternion, position=(SPACING * k, 0.0, 0.0)) for k in places
    )

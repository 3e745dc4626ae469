"""Shapes of CHARMIE for drawing: boxes for links, cylinders for joints; white shells, grey links, blue claws.

The shapes follow the numbers of the parameter file. They do not affect the inertia, which is computed from a separate
box for each body.
"""

from __future__ import annotations

import math

from robots.charmie.parameters import Arm, ArmLink, Head, Parameters, Point
from sim_core.mechanism import Shape, X, Y

WHITE, GREY, DARK, STEEL, BLUE = "#e4e7ea", "#aeb6bf", "#3a434d", "#8a939c", "#2f6fa8"
WHEEL_WIDTH = 0.04  # m
QUARTER_ABOUT_X = (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)
QUARTER_ABOUT_Y = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)


def brick(size: Point, center: Point, color: str) -> Shape:
    """A box shape of the given size (m) around `center`."""
    return Shape(kind="box", size=size, position=center, color=color)


def drum(radius: float, length: float, center: Point, color: str, along: str = "z") -> Shape:
    """A cylinder shape of the given radius and length (m) around `center`, along an axis of its body."""
    turn = {"x": QUARTER_ABOUT_Y, "y": QUARTER_ABOUT_X, "z": (1.0, 0.0, 0.0, 0.0)}[along]
    return Shape(kind="cylinder", size=(radius, length), position=center, quaternion=turn, color=color)


def rail(axis: Point, length: float) -> tuple[Shape, ...]:
    """A line on the floor, as long as the base, for a massless link that represents a translation of the base."""
    end = [length / 2 * part for part in axis]
    return (Shape(kind="line", points=(*(-x + 0.0 for x in end), *end), color=GREY),)


def base(p: Parameters) -> tuple[Shape, ...]:
    """Shapes of the base: a round shell over a dark skirt, a column as high as the lift, and the wheels.

    A wheel's axle points from the yaw axis towards the wheel.
    """
    x, _, height = p.base.size
    wide, deep, _ = p.lower_body.size
    top = p.base.lift_joint[2] + p.lift.upper
    bottom, wheels = p.base.floor_gap, p.base.wheels
    skirt = height / 3
    found = [
        drum(0.97 * x / 2, skirt, (0.0, 0.0, bottom + skirt / 2), DARK),
        drum(x / 2, height - skirt, (0.0, 0.0, bottom + (height + skirt) / 2), WHITE),
        brick((0.8 * wide, 0.8 * deep, top - bottom - height), (0.0, 0.0, (top + bottom + height) / 2), STEEL),
    ]
    for k in range(wheels.count):
        beta = wheels.first_angle + 2 * math.pi * k / wheels.count
        at = (wheels.distance * math.cos(beta), wheels.distance * math.sin(beta), wheels.radius)
        # the cylinder's z axis, laid horizontal, then turned to (cos beta, sin beta)
        h, c, s = math.sqrt(0.5), math.cos(beta / 2), math.sin(beta / 2)
        axle = (h * c, -h * s, h * c, h * s)
        found.append(
            Shape(kind="cylinder", size=(wheels.radius, WHEEL_WIDTH), position=at, quaternion=axle, color=DARK)
        )
    return tuple(found)


def trunk(p: Parameters) -> dict[str, tuple[Shape, ...]]:
    """{link: shapes} of links 1 to 5."""
    lower, upper = p.lower_body, p.upper_body
    shoulders = abs(upper.left_shoulder[0] - upper.right_shoulder[0])
    height = (upper.left_shoulder[2] + upper.right_shoulder[2]) / 2
    wide, deep, tall = lower.size
    seen = tall / 2 + lower.center_of_mass[2]  # visible height; the rest slides into the base
    chest = (0.8 * shoulders, 0.10, 0.20)
    return {
        "link_1": rail(X, p.base.size[0]),
        "link_2": rail(Y, p.base.size[1]),
        "link_3": base(p),
        "link_4": (
            brick((wide, deep, seen), (0.0, 0.0, seen / 2), GREY),
            drum(0.04, 0.9 * wide, lower.tilt_joint, DARK, along="x"),
        ),
        "link_5": (
            brick(upper.size, upper.center_of_mass, DARK),
            brick(chest, (0.0, 0.0, height - 0.02), WHITE),
        ),
    }


def arm_link(link: ArmLink) -> tuple[Shape, ...]:
    """Shapes of an arm link along z, with the housing of its joint. Links that rotate about z are white shells."""
    length, width = link.length, link.width
    if link.axis == "z" and length < width:
        return (drum(0.5 * width, length, (0.0, 0.0, length / 2), DARK),)
    color = WHITE if link.axis == "z" else GREY
    beam = brick((0.75 * width, 0.75 * width, length), (0.0, 0.0, length / 2), color)
    if link.axis == "z":
        return (beam,)
    return (beam, drum(0.5 * width, width, (0.0, 0.0, 0.0), DARK, along=link.axis))


def hand(arm: Arm) -> tuple[Shape, ...]:
    """Shape of the claw's second finger, which is fixed to link 12, in the position that it has in a closed claw."""
    x, y, z = arm.claw.hinge
    claw = arm.claw
    return (brick((claw.width, claw.width, claw.length), (-x + 0.0, -y + 0.0, z + claw.length / 2), BLUE),)


def head(p: Head) -> dict[str, tuple[Shape, ...]]:
    """Return {link: shapes} of the head: neck, and a face with a dark screen and two eyes that look forward."""
    x, y, z = p.tilt.size
    at = p.tilt.center_of_mass
    front = at[1] + 0.03 + y / 2
    eyes = [
        Shape(kind="sphere", size=(0.014,), position=(side * x / 4, front + y, at[2] + z / 8), color=WHITE)
        for side in (-1.0, 1.0)
    ]
    return {
        "link_7c": (drum(p.pan.size[0] / 2, p.pan.size[2], p.pan.center_of_mass, DARK),),
        "link_8c": (
            brick((x, 0.06, z), at, WHITE),
            brick((0.84 * x, y, 0.7 * z), (at[0], front, at[2]), DARK),
            *eyes,
        ),
    }

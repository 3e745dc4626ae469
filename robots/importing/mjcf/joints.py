"""Numbers of MJCF joints: limits, springs, and the poses of ball and free joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robots.importing.notes import Notes
from robots.importing.rotations import rows, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import GROUND, ORIGIN, Joint, JointSpring
from sim_core.spatial import quaternions_from_rotations

Array = np.ndarray[Any, np.dtype[np.float64]]


def kind_of(joint: Element) -> str:
    """Type of a joint in MJCF: "hinge", "slide", "ball", "free", or the unknown word that the file gives."""
    return "free" if joint.tag == "freejoint" else joint.attributes.get("type", "hinge")


def not_negative(joint: Element, name: str) -> float:
    """Value of an attribute; 0 if the attribute is missing. Raises InvalidMechanism for a negative value."""
    value = joint.number(name, 0.0)
    if value < 0.0:
        joint.fail(f"{name} is {value:g}; it must not be negative")
    return value


def spring_of(joint: Element, unit: float) -> JointSpring | None:
    """Spring of a hinge or slide joint; None without stiffness.

    unit  rad or m per unit of the joint's position in the file
    """
    stiffness = not_negative(joint, "stiffness")
    rest = joint.number("springref", 0.0) * unit
    return JointSpring(stiffness=stiffness, rest=rest) if stiffness > 0.0 else None


def limits_of(joint: Element, unit: float, autolimits: bool) -> tuple[float | None, float | None]:
    """(lower, upper) limits of a joint, rad or m; None for a limit that the joint does not have.

    unit        rad or m per unit of the joint's position in the file
    autolimits  whether a joint with a `range` has limits although the attribute `limited` is missing
    """
    limited = joint.attributes.get("limited", "auto")
    if limited == "false" or (limited == "auto" and not (autolimits and "range" in joint.attributes)):
        return None, None
    lower, upper = (bound * unit for bound in joint.numbers("range", 2))
    if not lower < upper:
        joint.fail(f"range is {joint.attributes['range']!r}; its first number must be below the second")
    return lower, upper


def largest_angle(ball: Element, unit: float, autolimits: bool, notes: Notes) -> float | None:
    """Limit of a ball joint's rotation angle, rad; None for a joint without a limit.

    unit        rad per unit of the joint's position in the file
    autolimits  whether a joint with a `range` has limits although the attribute `limited` is missing
    """
    lower, upper = limits_of(ball, unit, autolimits)
    if lower is None or upper is None:
        return None
    if lower != 0.0:
        ball.fail(f"range is {ball.attributes['range']!r}; that of a ball joint must begin with 0")
    if upper >= math.pi:
        notes.add(ball, "the range of the ball joint reaches 180 degrees, and limits nothing")
        return None
    return upper


def check_free(joints: Sequence[Element], body: str, parent: str, alignfree: bool) -> None:
    """Raise InvalidMechanism for a free joint that the import does not support.

    A free joint must be the only joint of its body, the parent of this body must be the world, and the joint must not
    be aligned with the body's inertia.

    joints     joints of the body
    alignfree  whether a free joint without the attribute `align` is aligned with the body's inertia
    """
    free = [joint for joint in joints if kind_of(joint) == "free"]
    if not free:
        return
    if parent != GROUND:
        free[0].fail(
            f"body {body!r} has a free joint, but is not a child of the world; "
            "move the body to the world, or remove the joint"
        )
    if len(joints) > 1:
        free[0].fail(
            f"body {body!r} has a free joint and {len(joints) - 1} more; a free joint must be the body's only joint"
        )
    align = free[0].attributes.get("align", "auto")
    if align == "true" or (align == "auto" and alignfree):
        free[0].fail("align is true, which moves the body's frame and is not supported; set align to false")


def oriented_joint(element: Element, joint: Joint, p: Array, R: Array, upper: float | None) -> Joint:
    """A ball or free joint with the pose, spring, damping and armature that its element gives.

    joint  the joint with its name, kind and bodies
    p, R   pose of the body in the parent body. A free joint starts at this pose; the spring of the joint is at rest at
           this pose
    upper  limit of a ball joint's rotation angle, rad; None for no limit
    """
    stiffness = not_negative(element, "stiffness")
    joint = replace(joint, damping=not_negative(element, "damping"), armature=not_negative(element, "armature"))
    if joint.kind == "free":
        w, x, y, z = quaternions_from_rotations(R[None])[0].tolist()
        spring = JointSpring(stiffness=stiffness, rest_quaternion=(w, x, y, z), rest_point=vector(p))
        return replace(joint, quaternion=(w, x, y, z), spring=spring if stiffness > 0.0 else None)
    point = np.array(element.numbers("pos", 3, ORIGIN))
    return replace(
        joint,
        parent_point=vector(p + R @ point),
        child_point=vector(point),
        rotation=rows(R),
        spring=JointSpring(stiffness=stiffness) if stiffness > 0.0 else None,
        upper=upper,
    )

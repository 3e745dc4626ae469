"""Numbers of MJCF joints: limits, springs and poses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robots.importing.notes import Notes
from robots.importing.rotations import rows, turned_axis, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import GROUND, ORIGIN, Joint, JointSpring, Z
from sim_core.mechanism.joints import Quaternion
from sim_core.spatial import rotation_about

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


def check_order(joints: Sequence[Element], body: str) -> None:
    """Raise InvalidMechanism for a ball joint that is followed by another rotation, which MuJoCo refuses too."""
    for index, joint in enumerate(joints):
        if kind_of(joint) == "ball" and any(kind_of(later) in ("ball", "hinge") for later in joints[index + 1 :]):
            joint.label = f"joint {joint.attributes['name']!r}" if "name" in joint.attributes else joint.label
            joint.fail(f"body {body!r} has a hinge or ball joint after this ball joint; put it in front, or remove it")


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


def axial_joint(element: Element, joint: Joint, p: Array, R: Array, unit: float) -> Joint:
    """A hinge or slide joint with the pose, spring, damping and armature that its element gives.

    joint  the joint with its name, kind and bodies
    p, R   pose of the body in the parent body at the joint position `ref`
    unit   rad or m per unit of the joint's position in the file
    """
    along = element.numbers("axis", 3, Z)
    if math.hypot(*along) < 1e-12:
        element.fail("axis is 0 0 0; give a vector that is not zero")
    axis, ref = turned_axis(R, along), element.number("ref", 0.0) * unit
    point = np.array(element.numbers("pos", 3, ORIGIN)) if joint.kind == "revolute" else np.zeros(3)
    at = p + R @ point
    if ref != 0.0 and joint.kind == "revolute":
        R = np.asarray(rotation_about(axis, -ref)) @ R
    elif ref != 0.0:
        at = at - ref * np.array(axis)
    return replace(
        joint,
        parent_point=vector(at),
        child_point=vector(point),
        axis=axis,
        rotation=rows(R),
        damping=not_negative(element, "damping"),
        armature=not_negative(element, "armature"),
        spring=spring_of(element, unit),
    )


def ball_joint(element: Element, joint: Joint, p: Array, R: Array) -> Joint:
    """A ball joint with the pose, spring, damping and armature that its element gives.

    joint  the joint with its name, kind and bodies
    p, R   pose of the body in the parent body, at which the spring of the joint is at rest
    """
    stiffness = not_negative(element, "stiffness")
    point = np.array(element.numbers("pos", 3, ORIGIN))
    return replace(
        joint,
        parent_point=vector(p + R @ point),
        child_point=vector(point),
        rotation=rows(R),
        damping=not_negative(element, "damping"),
        armature=not_negative(element, "armature"),
        spring=JointSpring(stiffness=stiffness) if stiffness > 0.0 else None,
    )


def free_joint(element: Element, joint: Joint, p: Array, quaternion: Quaternion) -> Joint:
    """A free joint with the spring, damping and armature that its element gives.

    joint          the joint with its name, kind and bodies
    p, quaternion  pose of the body in the world, at which the body starts and the spring of the joint is at rest
    """
    stiffness = not_negative(element, "stiffness")
    spring = JointSpring(stiffness=stiffness, rest_quaternion=quaternion, rest_point=vector(p))
    return replace(
        joint,
        quaternion=quaternion,
        damping=not_negative(element, "damping"),
        armature=not_negative(element, "armature"),
        spring=spring if stiffness > 0.0 else None,
    )

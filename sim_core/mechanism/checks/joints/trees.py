"""Checks that the joints form a tree and, for absolute angles, that they are revolute about one common axis."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import GROUND, Mechanism

OTHERS = "set coordinates='absolute' or 'joint'"


def check_tree(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for a loop, a joint listed before its parent's joint, or a body
    without a joint.
    """
    known = {GROUND}
    for joint in mechanism.joints:
        if joint.child in known:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} closes a loop: another joint already has the child {joint.child!r}; "
                "close the loop with a constraint"
            )
        if joint.parent not in known:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} is listed before the joint that moves its parent {joint.parent!r}; "
                "list the joint of a parent first"
            )
        known.add(joint.child)
    missing = [body.name for body in mechanism.bodies if body.name not in known]
    if missing:
        raise InvalidMechanism(
            f"{owner}: no joint has {missing} as its child; give each body a joint, such as a fixed one"
        )


def check_one_axis(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for a mechanism that absolute angles cannot describe.

    Every moving joint must be revolute about the axis of the first moving joint. The `rotation` of every joint, also of
    fixed ones, must leave this axis unchanged. The mechanism must have no beams.
    """
    head = f"{owner}: coordinates='absolute_angle' requires revolute joints about one axis, and no beams, but"
    if mechanism.beams:
        raise InvalidMechanism(f"{head} the mechanism has beams ({len(mechanism.beams)}); {OTHERS}")
    axis = mechanism.moving_joints[0].axis
    for joint in mechanism.joints:
        if joint.kind not in ("revolute", "fixed"):
            raise InvalidMechanism(f"{head} joint {joint.name!r} is {joint.kind}; {OTHERS}")
        if joint.kind == "revolute" and joint.axis != axis:
            raise InvalidMechanism(
                f"{head} joint {joint.name!r} has the axis {joint.axis}, which differs from the axis {axis} of the "
                f"first moving joint; {OTHERS}"
            )
        turned = [sum(row[k] * axis[k] for k in range(3)) for row in joint.rotation]
        if max(abs(a - b) for a, b in zip(turned, axis, strict=True)) > 1e-12:
            raise InvalidMechanism(
                f"{head} the rotation of joint {joint.name!r} turns the axis {axis}, which all joints must share; "
                f"{OTHERS}"
            )

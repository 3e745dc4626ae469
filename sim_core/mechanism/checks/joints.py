"""Checks of joints: limits, the fields of their kinds, springs, dry friction and stops, and the tree that they form."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.checks.types import refuse
from sim_core.mechanism.description import GROUND, Joint, JointFriction, JointSpring, JointStops, Mechanism
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIGIN
from sim_core.mechanism.quantities import value_of

EXPONENTS = (1.0, 1.5, 2.0, 3.0)  # of the force of a stop
OTHERS = "set coordinates='absolute' or 'joint'"


def check_joints(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first joint that cannot be simulated."""
    for joint in mechanism.joints:
        where = f"{owner}: joint {joint.name!r}"
        _check_ends(joint, where)
        _check_fields_of_kind(joint, where)
        if joint.is_oriented:
            _check_oriented(joint, mechanism, where)
        if joint.friction is not None:
            _check_friction(joint.friction, f"{where}: friction")
        if joint.stops is not None:
            _check_stops(joint, joint.stops, where)
    if turned := turned_joint(mechanism, mechanism.initial_q):
        raise InvalidMechanism(f"{owner}: initial_q: {turned}")


def _check_ends(joint: Joint, where: str) -> None:
    if joint.child == GROUND:
        refuse(where, f"child is {GROUND!r}, which cannot move; make it the parent")
    if joint.child == joint.parent:
        refuse(where, f"parent and child are both {joint.child!r}; they must be two different bodies")
    if joint.lower is not None and joint.upper is not None and joint.lower > joint.upper:
        refuse(where, f"lower is {joint.lower} and upper is {joint.upper}; lower must not be above upper")


def _check_fields_of_kind(joint: Joint, where: str) -> None:
    """Raise InvalidMechanism if a field of the joint, or of its spring, is set that does not apply to joints of its
    kind.
    """
    absent, freedom = Joint(name=joint.name), joint.freedom
    if given := [name for name in freedom.without if getattr(joint, name) != getattr(absent, name)]:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that it can have no {' and no '.join(given)}; {freedom.instead}"
        )
    if not joint.is_oriented and joint.quaternion != IDENTITY_QUATERNION:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that it cannot have a quaternion; give its orientation at position 0 as "
            "`rotation`"
        )
    names = ("rest", "preload") if joint.is_oriented else ("rest_quaternion", "rest_point")
    if given := [n for n in names if joint.spring and getattr(joint.spring, n) != getattr(JointSpring(), n)]:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that its spring can have no {' and no '.join(given)}; its rest position is "
            f"given by {'rest_quaternion' if joint.is_oriented else 'rest'}"
        )


def _check_oriented(joint: Joint, mechanism: Mechanism, where: str) -> None:
    if not mechanism.has_joint_coordinates:
        instead = "no joint" if joint.slides else "a Coincidence"
        raise InvalidMechanism(
            f"{where} is {joint.kind}, which needs coordinates='joint', not {mechanism.coordinates!r}; in absolute "
            f"coordinates use a body with orientation='euler_parameters' and {instead} instead"
        )
    if joint.upper is not None and not 0.0 < joint.upper < math.pi:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, and its upper limit is {joint.upper:g} rad; the limit of its rotation angle "
            "must lie between 0 and pi"
        )
    if joint.bristle:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that its friction can have no bristle_stiffness; remove it: the friction is "
            "then smooth near rest"
        )
    if not joint.slides and joint.spring is not None and joint.spring.rest_point != ORIGIN:
        raise InvalidMechanism(f"{where} is {joint.kind}, so that its spring can have no rest_point")


def turned_joint(mechanism: Mechanism, q: Sequence[float]) -> str:
    """Text about the first spherical or free joint whose rotation coordinates in a start q (n_q,) are not 0, or "".

    These coordinates are neither the angles nor the rotation vector that a description would give; with them, the
    velocities are not the angular velocity.
    """
    first = 0
    for joint in mechanism.joints:
        first += len(joint.coordinates)
        given = tuple(q[first - 3 : first]) if joint.is_oriented else ()
        if any(given):
            return (
                f"joint {joint.name!r} is {joint.kind}, and its {', '.join(joint.coordinates[-3:])} are "
                f"{', '.join(f'{value:g}' for value in given)}; in a start they must be 0: give the orientation as "
                "`quaternion` of the joint"
            )
    return ""


def _check_friction(friction: JointFriction, where: str) -> None:
    static, coulomb = friction.static, value_of(friction.coulomb)
    if static is not None and value_of(static) < coulomb:
        refuse(where, f"static is {value_of(static)}; it must be at least {coulomb}, the value of coulomb")
    if friction.bristle_stiffness is not None and coulomb == 0.0:
        refuse(where, "coulomb is 0; friction with bristles needs a value above 0")
    if not 0.0 < friction.elastic_share < 1.0:
        refuse(where, f"elastic_share is {friction.elastic_share}; it must lie between 0 and 1")


def _check_stops(joint: Joint, stops: JointStops, where: str) -> None:
    if joint.lower is None and joint.upper is None:
        refuse(where, "the joint has stops but neither a lower nor an upper limit; give it a limit")
    if stops.exponent not in EXPONENTS:
        refuse(where, f"stops: exponent is {stops.exponent}; it must be 1, 1.5, 2 or 3")


def check_tree(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for a loop, a joint listed before its parent's joint, or a body
    without a joint; in absolute angles, also for joints that these cannot describe.
    """
    if mechanism.has_body_coordinates:
        return
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
    if not mechanism.has_joint_coordinates:
        _check_one_axis(mechanism, owner)


def _check_one_axis(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for a mechanism that absolute angles cannot describe.

    Every moving joint must be revolute about the axis of the first moving joint. The `rotation` of every joint, also of
    fixed ones, must leave this axis unchanged. The mechanism must have no beams.
    """
    head = f"{owner}: coordinates='absolute_angle' requires revolute joints about one axis, and no beams, but"
    if mechanism.beams:
        raise InvalidMechanism(f"{head} the mechanism has beams ({len(mechanism.beams)}); {OTHERS}")
    axis = mechanism.moving_joints[0].axis
    for joint in mechanism.joints:
        if joint.slides or joint.is_oriented:
            raise InvalidMechanism(f"{head} joint {joint.name!r} is {joint.kind}; {OTHERS}")
        if joint.turns and joint.axis != axis:
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

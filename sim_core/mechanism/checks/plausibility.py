"""Warnings about valid but implausible descriptions, one line each."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sim_core.mechanism.checks.inertias import implausible_inertias
from sim_core.mechanism.description import Joint, Mechanism
from sim_core.mechanism.quantities import Tunable, value_of


def implausibilities(mechanism: Mechanism, idle: Iterable[str] = ()) -> list[str]:
    """Warnings about a valid but implausible description, one line each.

    The warnings concern physically impossible inertias; damping or load of a planar joint, which acts on the joint's
    angle alone; initial positions beyond joint limits; and constraints that restrain nothing.

    idle  names of the constraints that restrain nothing, because their Jacobian rows are zero
    """
    owner = f"mechanism {mechanism.name!r}"
    found = implausible_inertias(mechanism)
    for joint in mechanism.moving_joints:
        if joint.is_planar:
            acting = [name for name in ("damping", "load") if _acts(getattr(joint, name))]
            found += [
                f"{owner}: joint {joint.name!r} is planar, and its {name} of {value_of(getattr(joint, name)):g} N m"
                f"{' s' if name == 'damping' else ''} acts on its angle alone, not on its two translations"
                for name in acting
            ]
    found += _beyond_limits(mechanism, owner)
    found += [f"{owner}: constraint {name!r} restrains nothing: no coordinate changes its value" for name in idle]
    return found


def _acts(number: object) -> bool:
    return isinstance(number, Tunable) or bool(number)


def _beyond_limits(mechanism: Mechanism, owner: str) -> list[str]:
    if not mechanism.has_joint_coordinates:
        return []
    if mechanism.is_partitioned:
        return []  # initial_q lacks the eliminated coordinate, so that it does not match the joints
    found, at = [], 0
    for joint in mechanism.joints:
        given = mechanism.initial_q[at : at + len(joint.coordinates)]
        at += len(joint.coordinates)
        if not given or (joint.lower is None and joint.upper is None):
            continue
        position = _rotation_angle(joint) if joint.is_oriented else given[-1]
        lower = float("-inf") if joint.lower is None else joint.lower
        upper = float("inf") if joint.upper is None else joint.upper
        slack = 1e-9 * max(1.0, abs(position))
        if not lower - slack <= position <= upper + slack:
            limits = f"limit {upper:g}" if joint.is_oriented else f"limits {lower:g} to {upper:g}"
            stops = joint.stops is not None
            found.append(
                f"{owner}: joint {joint.name!r} starts at {position:g} {joint.unit}, beyond its {limits}, "
                f"{'and a stop pushes the joint back' if stops else 'and no stop pushes the joint back'}"
            )
    return found


def _rotation_angle(joint: Joint) -> float:
    """Rotation angle, rad, of a spherical joint at the start, from 0 to pi."""
    return 2.0 * math.acos(min(1.0, abs(joint.quaternion[0]) / math.hypot(*joint.quaternion)))

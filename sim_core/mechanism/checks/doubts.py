"""Warnings about valid but implausible descriptions, one line each."""

from __future__ import annotations

from collections.abc import Iterable

from sim_core.mechanism.checks.inertias import inertia_doubts
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import Tunable, value_of


def doubts(mechanism: Mechanism, idle: Iterable[str] = ()) -> list[str]:
    """Warnings about a valid but implausible description, one line each.

    The warnings concern physically impossible inertias; damping or load of a planar joint, which acts on the joint's
    angle alone; initial positions beyond joint limits; and constraints that restrain nothing.

    idle  names of the constraints that restrain nothing, because their Jacobian rows are zero
    """
    owner = f"mechanism {mechanism.name!r}"
    found = inertia_doubts(mechanism)
    for joint in mechanism.moving_joints:
        if joint.kind == "planar":
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
    if mechanism.coordinates != "joint" or not mechanism.has_single_coordinates:
        return []
    if "partitioned" in mechanism.formulation:
        return []  # initial_q lacks the eliminated coordinate, so that it does not match the joints
    found = []
    for joint, position in zip(mechanism.moving_joints, mechanism.initial_q, strict=False):
        lower = float("-inf") if joint.lower is None else joint.lower
        upper = float("inf") if joint.upper is None else joint.upper
        slack = 1e-9 * max(1.0, abs(position))
        if not lower - slack <= position <= upper + slack:
            stops = joint.stops is not None
            found.append(
                f"{owner}: joint {joint.name!r} starts at {position:g} {joint.unit}, beyond its limits {lower:g} to "
                f"{upper:g}, {'and a stop pushes the joint back' if stops else 'and no stop pushes the joint back'}"
            )
    return found

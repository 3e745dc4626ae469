"""Robots some of whose joints are locked at a position: they become fixed joints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.identification.rigid_tree import fixed_at
from sim_core.mechanism import JointOutput, JointRelation, Mechanism
from sim_core.mechanism.quantities import value_of


def positions_of(text: object, owner: str) -> dict[str, float]:
    """{joint: position} of a text such as "head_1=0.2, head_2", where a joint without a number is at 0.

    owner  beginning of error messages
    """
    found = {}
    for part in filter(None, (each.strip() for each in str(text).split(","))):
        name, _, number = (each.strip() for each in part.partition("="))
        try:
            found[name] = float(number) if number else 0.0
        except ValueError:
            found[name] = math.nan
        if not math.isfinite(found[name]):
            raise InvalidRequest(f'{owner}: locked is {text!r}; write it as "joint=position, joint=position"')
    return found


def with_locked_joints(mechanism: Mechanism, positions: Mapping[str, float]) -> Mechanism:
    """The mechanism with fixed joints in place of the joints in `positions`, rad or m.

    Their actuators, their damping, friction, springs, stops and armatures, and outputs of their positions are left out.
    A relation of joints keeps its terms of other joints. Raises UnknownName for a joint that the mechanism does not
    have, and InvalidRequest for a joint that has several coordinates, and for a mechanism in absolute coordinates.
    """
    owner = f"robot {mechanism.name!r}"
    moving = mechanism.moving_joints
    for name in positions:
        if name not in [joint.name for joint in moving]:
            raise UnknownName(owner, "joint", name, [joint.name for joint in moving])
    several = [joint.name for joint in mechanism.joints if len(joint.coordinates) > 1]
    if mechanism.coordinates != "joint" or several or mechanism.beams:
        raise InvalidRequest(
            f"{owner}: joints can be locked only in a robot in joint coordinates, without beams, whose joints have one "
            "coordinate each"
        )
    kept = [index for index, joint in enumerate(moving) if joint.name not in positions]
    start: dict[str, Any] = {
        key: tuple(getattr(mechanism, key)[index] for index in kept)
        for key in ("initial_q", "initial_v", "reference_q")
        if getattr(mechanism, key)
    }
    return dataclasses.replace(
        mechanism,
        joints=tuple(
            fixed_at(joint, positions[joint.name]) if joint.name in positions else joint for joint in mechanism.joints
        ),
        constraints=tuple(filter(None, (_related(each, positions) for each in mechanism.constraints))),
        actuators=tuple(each for each in mechanism.actuators if each.joint not in positions),
        outputs=tuple(o for o in mechanism.outputs if not (isinstance(o, JointOutput) and o.joint in positions)),
        **start,
    )


def _related(constraint: Any, positions: Mapping[str, float]) -> Any:
    """A constraint without its terms of locked joints; None if no term is left."""
    if not isinstance(constraint, JointRelation):
        return constraint
    terms = tuple((name, factor) for name, factor in constraint.terms if name not in positions)
    if len(terms) == len(constraint.terms):
        return constraint
    moved = sum(factor * positions[name] for name, factor in constraint.terms if name in positions)
    offset = value_of(constraint.offset) - moved
    return dataclasses.replace(constraint, terms=terms, offset=offset) if terms else None

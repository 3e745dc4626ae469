"""Finds constraints that make two points coincide, for model formats that can only connect points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from robots.export.tree import Array, Branch, poses_at, value
from sim_core.mechanism import Coincidence, Constraint, Distance, JointRelation, Mechanism, Slider, Vector3

SAMPLES = 8  # random joint positions at which the joints alone must keep a direction closed
NOTHING = 1e-9  # share of the characteristic length: a smaller gap is rounding


@dataclass(frozen=True)
class PointClosure:
    """A point of body a and a point of body b that the constraints `parts` make coincide."""

    name: str
    parts: tuple[Coincidence | Slider, ...]
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3


def point_closures(mechanism: Mechanism, branches: Sequence[Branch]) -> list[PointClosure]:
    """Return a PointClosure for each group of Coincidence and Slider constraints that make two points coincide.

    The constraints of a group restrain the vector between the two points in all three directions. Constraints in two
    directions are enough if the joints alone keep the component in the third direction zero, as in a planar loop.
    """
    groups: dict[tuple[object, ...], list[Coincidence | Slider]] = {}
    for constraint in mechanism.constraints:
        if isinstance(constraint, Coincidence | Slider):
            ends = (constraint.body_a, constraint.point_a, constraint.body_b, constraint.point_b)
            whole = isinstance(constraint, Coincidence) and len(constraint.directions) == 3
            key = (type(constraint), *ends, constraint.name if whole else "")
            groups.setdefault(key, []).append(constraint)
    found = []
    for group in groups.values():
        if _closes(group, mechanism, branches):
            first = group[0]
            name = _shared_name([part.name for part in group])
            found.append(PointClosure(name, tuple(group), first.body_a, first.point_a, first.body_b, first.point_b))
    return found


def _shared_name(names: list[str]) -> str:
    """Common prefix of the names; the first name if they have no common prefix."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike).rstrip("_-. ") or names[0]


def _closes(group: list[Coincidence | Slider], mechanism: Mechanism, branches: Sequence[Branch]) -> bool:
    axes = np.array([axis for part in group for axis in _axes(part)])
    _, sizes, directions = np.linalg.svd(axes)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    return rank == 3 or (rank == 2 and _is_always_closed(group[0], directions[2], mechanism, branches))


def _axes(part: Coincidence | Slider) -> tuple[Vector3, ...]:
    return part.directions if isinstance(part, Coincidence) else (part.axis_a,)


def _is_always_closed(
    part: Coincidence | Slider, direction: Array, mechanism: Mechanism, branches: Sequence[Branch]
) -> bool:
    """Whether the joints alone make the two points of a constraint coincide along `direction`.

    part       the constraint
    direction  unit vector (3,), with components along the world's axes for a Coincidence, and along the axes of body a
               for a Slider
    branches   bodies with their connections to the parent bodies
    """
    random, names = np.random.default_rng(0), [motion.name for branch in branches for motion in branch.motions]
    for _ in range(SAMPLES):
        poses = poses_at(branches, dict(zip(names, random.normal(size=len(names)), strict=True)))
        gap = gap_of(part, poses)
        along = direction if isinstance(part, Coincidence) else poses[part.body_a][1] @ direction
        if abs(gap @ along) > NOTHING * mechanism.characteristic_length:
            return False
    return True


def gap_of(part: Coincidence | Slider | Distance, poses: dict[str, tuple[Array, Array]]) -> Array:
    """Vector r_b - r_a (3,) in m from a constraint's point on body a to its point on body b, in the world's axes.

    poses  {body: (position p_WB, rotation matrix R_WB)}
    """
    (p_a, R_a), (p_b, R_b) = poses[part.body_a], poses[part.body_b]
    return np.asarray(p_b + R_b @ np.array(part.point_b) - p_a - R_a @ np.array(part.point_a))


def constraints_of(found: Sequence[PointClosure]) -> list[Constraint]:
    """The constraints that make up the given point closures."""
    return [part for meeting in found for part in meeting.parts]


@dataclass(frozen=True)
class Mimic:
    """A relation of two joints: position of `follower` = multiplier * position of `leader` + offset."""

    relation: JointRelation
    follower: str
    leader: str
    multiplier: float
    offset: float


def mimics_of(mechanism: Mechanism) -> list[Mimic]:
    """Return a Mimic for each JointRelation between two joints.

    The first joint of the relation is the follower, the second joint is the leader.
    """
    found = []
    for relation in mechanism.constraints:
        if isinstance(relation, JointRelation) and len(relation.terms) == 2:
            (follower, a), (leader, b) = relation.terms
            found.append(Mimic(relation, follower, leader, -b / a + 0.0, value(relation.offset) / a))
    return found

"""A mechanism in joint coordinates as a tree of branches: a common form for export to URDF and MJCF.

A branch is a body with its connection to the parent body. The connection has one degree of freedom (`Motion`) or
several, or none if it is rigid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.mechanism import GROUND, Body, Constraint, Joint, Mechanism, Tunable
from sim_core.spatial import rotation_about

Array = np.ndarray[Any, np.dtype[np.float64]]

NO_LIMIT = 1e30  # written for a missing limit if the format requires a number; fits a single-precision float
ROUNDING = 1e-12  # relative violation of the triangle inequality of principal moments that rounding may cause


@dataclass(frozen=True)
class Export:
    """Text of an exported file, and one note for each part of the mechanism that the format cannot represent."""

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Motion:
    """One degree of freedom of a body relative to its parent body: a rotation or a translation along an axis.

    If the connection of the two bodies has several degrees of freedom, these follow one another from the parent to the
    body. The degrees of freedom of a spherical or free joint form one Motion.

    axis   unit vector along the axis; zero for a spherical or free joint
    point  point on the axis, m
    joint  joint whose damping, load, limits and actuators belong to this degree of freedom; None for the two
           translations of a planar joint
    ref    reference position, rad or m: with all degrees of freedom of a Branch at their `ref`, the body has the pose
           p, R of the Branch

    `axis` and `point` are in the body's frame as it is while this degree of freedom and all later ones are at `ref`.
    """

    name: str
    kind: Literal["revolute", "prismatic", "spherical", "free"]
    axis: Array
    point: Array
    joint: Joint | None
    ref: float = 0.0

    def expressed_in(self, p: Array, R: Array) -> Motion:
        """The same motion with `axis` and `point` in another frame.

        p, R  position and rotation of the other frame in the frame in which the motion is expressed now
        """
        return replace(self, axis=R.T @ self.axis, point=R.T @ (self.point - p))


@dataclass(frozen=True)
class Branch:
    """A body and its connection to its parent body.

    The connection is the constant pose p, R of the body relative to the parent, followed by the motions (degrees of
    freedom) in order. The pose holds with all motions at their `ref`, which is 0 by default.
    """

    joint: Joint
    body: Body
    parent: str
    p: Array
    R: Array
    motions: tuple[Motion, ...]


def branches_of(mechanism: Mechanism) -> list[Branch]:
    """The branches (bodies with their connections to the parent bodies) of a mechanism, parents before children.

    The order is that of the joints.

    Raises InvalidRequest if the mechanism is not in joint coordinates, and InvalidMechanism if the joints form no tree.
    """
    owner = f"robot {mechanism.name!r}"
    if not mechanism.has_joint_coordinates:
        raise InvalidRequest(
            f"{owner} is in {mechanism.family.called}; a tree can be exported only from joint coordinates, "
            "so choose coordinates = joint if the robot has this parameter"
        )
    reached = {GROUND}
    found: list[Branch] = []
    for joint in mechanism.joints:
        if joint.child in reached:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} moves body {joint.child!r}, which another joint moves already; "
                "remove one of these joints"
            )
        if joint.parent not in reached:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} is listed before the joint that moves its parent {joint.parent!r}; "
                "list parents first"
            )
        reached.add(joint.child)
        found.append(_branch(joint, mechanism.body(joint.child)))
    missing = [body.name for body in mechanism.bodies if body.name not in reached]
    if missing:
        raise InvalidMechanism(
            f"{owner}: no joint carries the bodies {', '.join(map(repr, missing))}; add a joint for each of them"
        )
    return found


def _branch(joint: Joint, body: Body) -> Branch:
    R = np.array(joint.rotation, dtype=float)
    point = np.array(joint.child_point, dtype=float)
    p = np.array(joint.parent_point, dtype=float) - R @ point
    axis, nowhere = R.T @ np.array(joint.axis, dtype=float), np.zeros(3)
    if joint.is_oriented:
        motions = [Motion(joint.name, "free" if joint.slides else "spherical", nowhere, point, joint)]
    else:
        on, carrier = (nowhere, joint) if joint.is_length else (point, None)
        slides = zip(joint.coordinates, joint.slides, strict=False)
        motions = [Motion(name, "prismatic", R.T @ np.array(along), on, carrier) for name, along in slides]
        motions += [Motion(joint.coordinates[-1], "revolute", axis, point, joint)] if joint.turns else []
    return Branch(joint, body, joint.parent, p, R, tuple(motions))


def poses_at(branches: Sequence[Branch], positions: Mapping[str, float]) -> dict[str, tuple[Array, Array]]:
    """{body or ground: (p_WB, R_WB)} at given positions of the degrees of freedom.

    positions  {name of a Motion: position, rad or m}; the position of a Motion that is not listed is 0. Spherical and
               free joints are at 0 always
    """
    poses = {GROUND: (np.zeros(3), np.eye(3))}
    for branch in branches:
        p, R = poses[branch.parent]
        p, R = p + R @ branch.p, R @ branch.R
        for motion in branch.motions:
            at, (x, y, z) = positions.get(motion.name, 0.0), motion.axis.tolist()
            if motion.kind == "prismatic":
                p = p + R @ motion.axis * at
            if motion.kind != "revolute":
                continue
            turn = rotation_about((x, y, z), at)
            p, R = p + R @ (motion.point - turn @ motion.point), R @ turn
        poses[branch.body.name] = p, R
    return poses


def value(number: Any) -> float:
    """A number of a mechanism's description as a float; for a Tunable, its default value."""
    return float(number.value if isinstance(number, Tunable) else number)


def mass_of(body: Body) -> float:
    """Mass of a body, kg; if the mass is a Tunable, its default value."""
    return value(body.mass)


def tensor_of(body: Body) -> Array:
    """Inertia matrix (3, 3) of a body about its centre of mass, in the body's axes, kg m2."""
    xx, yy, zz, xy, xz, yz = map(value, body.inertia)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def is_massless(body: Body) -> bool:
    """Whether a body has neither mass nor inertia."""
    return mass_of(body) == 0.0 and not tensor_of(body).any()


def principal_moments(body: Body) -> tuple[Array, Array]:
    """(principal moments (3,) about the centre of mass, kg m2; rotation R_BP with the principal axes as columns).

    R_BP is the identity if the body's axes are principal.
    """
    tensor = tensor_of(body)
    diagonal = np.diagonal(tensor)
    if not (tensor - np.diag(diagonal)).any():
        return diagonal.copy(), np.eye(3)
    moments, R = np.linalg.eigh(tensor)
    return moments, R * np.sign(np.linalg.det(R))


def triangle_excess(moments: Array) -> float:
    """Excess of the largest of three principal moments over the sum of the other two, as a fraction of the largest.

    The fraction is at most 0 for a real body.
    """
    low, middle, high = sorted(moments.tolist())
    return float((high - (low + middle)) / high) if high > 0.0 else 0.0


def impossible_inertia(body: Body) -> str | None:
    """One line about an inertia that no distribution of mass can have; None if the body's inertia is possible."""
    moments = principal_moments(body)[0]
    printed = ", ".join(f"{moment:.6g}" for moment in moments)
    what = f"body {body.name!r} has the principal moments of inertia {printed} kg m2"
    if moments.min() < -ROUNDING * abs(moments).max():
        return f"{what}; none may be negative"
    if triangle_excess(moments) > ROUNDING:
        return f"{what}; none may exceed the sum of the other two"
    return None


def closing(
    mechanism: Mechanism,
    expressible: Sequence[Constraint],
    open_tree: bool,
    language: str,
    contacts: Collection[str] = (),
) -> list[str]:
    """List with one note about the parts that the exported file leaves out; [] if the file contains all parts.

    The parts in question are those that do not belong to the tree of joints: constraints, beams, contacts and custom
    forces.

    expressible  constraints that the format can express
    open_tree    whether parts may be left out
    language     name of the format
    contacts     names of the contacts that the format can express
    Raises InvalidRequest if a part would be left out although `open_tree` is false.
    """
    closures = [constraint for constraint in mechanism.constraints if constraint not in expressible]
    left_out: dict[str, Sequence[Any]] = {"constraints": closures, "beams": mechanism.beams}
    left_out |= {
        "contacts": [contact for contact in mechanism.contacts if contact.name not in contacts],
        "forces": mechanism.forces,
    }
    lines = [
        f"{kind} {', '.join(f'{item.name!r} ({type(item).__name__})' for item in items)}"
        for kind, items in left_out.items()
        if items
    ]
    if lines and not open_tree:
        raise InvalidRequest(
            f"robot {mechanism.name!r}: {language} cannot express the {' and '.join(lines)}; "
            "pass --open-tree to leave them out"
        )
    opened = "the tree is open: " if closures and not expressible else ""
    return [f"{opened}left out are the {' and '.join(lines)}"] * bool(lines)


def effort_limit_of(mechanism: Mechanism, joint: Joint) -> float | None:
    """Sum of the effort limits of a joint's actuators; None without actuators, or if one of them has no limit."""
    limits = [actuator.effort_limit for actuator in mechanism.actuators if actuator.joint == joint.name]
    return sum(limit for limit in limits if limit is not None) if limits and None not in limits else None


def velocity_limit_of(mechanism: Mechanism, joint: Joint) -> float | None:
    """Smallest velocity limit of a joint's actuators; None if no actuator has a limit."""
    limits = [actuator.velocity_limit for actuator in mechanism.actuators if actuator.joint == joint.name]
    return min((limit for limit in limits if limit is not None), default=None)


def require_unique(owner: str, kind: str, names: Sequence[str]) -> None:
    """Raise InvalidRequest if two elements of an exported file would have the same name.

    owner, kind  robot and kind of the elements, for the error message
    """
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise InvalidRequest(f"{owner}: two {kind}s of the file would be named {doubles[0]!r}; rename one of them")

"""Welding: merges bodies that are connected by fixed joints into one body."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from sim_core.errors import InvalidMechanism
from sim_core.mechanism import GROUND, IDENTITY, ORIGIN, Body, Joint, Vector3

Places = dict[str, tuple[str, Vector3]]


def welded(bodies: Sequence[Body], joints: Sequence[Joint]) -> tuple[tuple[Body, ...], tuple[Joint, ...], Places]:
    """Merge those bodies of a chain or tree that are connected by fixed joints.

    Returns (merged bodies, moving joints, places).

    `places` is {original body: (merged body, position of the original body's origin in the merged body's frame)}. A
    fixed joint must not rotate the child body, and must be at the child's origin. Bodies that are fixed to the ground
    are left out.
    """
    places: Places = {GROUND: (GROUND, ORIGIN)}
    members: dict[str, list[tuple[Body, Vector3]]] = {GROUND: []}
    moving: list[Joint] = []
    named = {body.name: body for body in bodies}
    for joint in joints:
        owner, at = places[joint.parent]
        point = plus(at, joint.parent_point)
        if not joint.is_fixed:
            moving.append(dataclasses.replace(joint, parent=owner, parent_point=point))
            owner, at = joint.child, ORIGIN
            members[owner] = []
        elif joint.rotation != IDENTITY or joint.child_point != ORIGIN:
            raise InvalidMechanism(
                f"the fixed joint {joint.name!r} rotates or displaces its child; welding needs a joint without "
                "rotation and with child_point at the child's origin"
            )
        else:
            at = point
        places[joint.child] = (owner, at)
        members[owner].append((named[joint.child], at))
    whole = tuple(_joined(members[body.name]) for body in bodies if body.name in members)
    return whole, tuple(moving), places


def _joined(parts: Sequence[tuple[Body, Vector3]]) -> Body:
    """Merge several bodies, given as (body, position of its origin), into one body with the axes of the first body.

    The merged body has the total mass, the common centre of mass, the inertia about this centre, and all shapes.
    """
    first = parts[0][0]
    if len(parts) == 1:
        return first
    masses = [float(body.mass) for body, _ in parts]  # type: ignore[arg-type]
    mass = sum(masses)
    centers = [np.array(plus(at, body.center_of_mass)) for body, at in parts]
    center = sum((m * c for m, c in zip(masses, centers, strict=True)), np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for (body, _), m, c in zip(parts, masses, centers, strict=True):
        d = c - center
        inertia += _tensor(body) + m * (d @ d * np.eye(3) - np.outer(d, d))
    shapes = tuple(
        dataclasses.replace(shape, position=plus(at, shape.position)) for body, at in parts for shape in body.shapes
    )
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return dataclasses.replace(
        first, mass=mass, center_of_mass=_triple(center), inertia=(xx, yy, zz, xy, xz, yz), shapes=shapes
    )


def _tensor(body: Body) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = (float(value) for value in body.inertia)  # type: ignore[arg-type]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _triple(values: Iterable[float]) -> Vector3:
    x, y, z = (float(value) for value in values)
    return x, y, z


def plus(a: Vector3, b: Vector3) -> Vector3:
    """Sum of two 3-vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]

"""Inertia matrices: those that a real body can have, and those of bodies that fixed joints hold together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_core.mechanism.description import GROUND, Body, Mechanism, Shape, Vector3
from sim_core.mechanism.quantities import value_of
from sim_core.spatial import quaternions_from_rotations

Array = np.ndarray[Any, np.dtype[np.float64]]
LEAST_DENSITY = 200.0  # kg/m3, of a drawn box; links of robots have 300 and more
SECOND_MOMENTS = np.ones((3, 3)) - np.eye(3)  # from the principal second moments of mass to the principal inertias


def nearest_inertia(inertia: Any, least: float = 0.0) -> Array:
    """The consistent inertia matrix (3, 3) nearest to a symmetric matrix (3, 3) in the Frobenius norm, kg m2.

    An inertia about the centre of mass is consistent if a body of positive density can have it: no principal moment is
    negative, and none exceeds the sum of the other two. Equivalently, the second moments of mass s along the principal
    axes, of which the principal moments are the sums of two, are not negative. The axes of the nearest matrix are those
    of the given one. A consistent matrix is returned unchanged.

    least  smallest second moment of mass s in the result; above 0, the result is positive definite
    [WensingEtAl2018]
    """
    I = np.asarray(inertia, dtype=float)
    moments, R = np.linalg.eigh(I)
    if (moments.sum() / 2.0 - moments).min() >= least:
        return I
    from scipy.optimize import nnls  # slow to load, seldom needed

    s = nnls(SECOND_MOMENTS, moments - SECOND_MOMENTS @ np.full(3, least))[0] + least
    nearest = R @ np.diag(SECOND_MOMENTS @ s) @ R.T
    return np.asarray((nearest + nearest.T) / 2.0)


def inertia_matrix(body: Body) -> Array:
    """Inertia matrix (3, 3) of a body about its centre of mass, kg m2."""
    xx, yy, zz, xy, xz, yz = map(value_of, body.inertia)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def held_together(mechanism: Mechanism, name: str) -> dict[str, tuple[Array, Array]]:
    """{body: (p (3,), R (3, 3))}: the bodies that fixed joints hold to a body, and their poses; the body included.

    The poses are those in the frame of the body of the group that lies next to the ground. If the group is fixed to the
    ground, the ground is this body.
    """
    if mechanism.has_body_coordinates:
        return {name: (np.zeros(3), np.eye(3))}
    fixed = {joint.child: joint for joint in mechanism.joints if joint.is_fixed}
    root = name
    while root in fixed:
        root = fixed[root].parent
    poses = {root: (np.zeros(3), np.eye(3))}
    for joint in mechanism.joints:  # parents before children
        if joint.is_fixed and joint.parent in poses:
            p, R = poses[joint.parent]
            R_child = R @ np.array(joint.rotation)
            poses[joint.child] = p + R @ np.array(joint.parent_point) - R_child @ np.array(joint.child_point), R_child
    return poses


def carried_by(mechanism: Mechanism, body: str) -> tuple[str, ...]:
    """Names of a body and of all its descendants in the tree of joints."""
    carried, names = [body], {body}
    for parent in carried:
        below = [each.child for each in mechanism.joints_at.get(parent, ()) if each.parent == parent]
        carried += [child for child in below if child not in names]
        names.update(below)
    return tuple(carried)


def common_inertia(mechanism: Mechanism, name: str) -> tuple[float, Array] | None:
    """(mass, kg; inertia (3, 3) about the common centre of mass, kg m2) of a body and all that fixed joints hold to it.

    None if these bodies are fixed to the ground, so that their inertia has no effect.
    """
    poses = held_together(mechanism, name)
    if GROUND in poses:
        return None
    bodies = [body for body in mechanism.bodies if body.name in poses]
    masses = np.array([value_of(body.mass) for body in bodies])
    centers = np.array([poses[body.name][0] + poses[body.name][1] @ np.array(body.center_of_mass) for body in bodies])
    mass = float(masses.sum())
    center = masses @ centers / mass if mass > 0.0 else np.zeros(3)
    total = np.zeros((3, 3))
    for body, m, d in zip(bodies, masses, centers - center, strict=True):
        R = poses[body.name][1]
        total += R @ inertia_matrix(body) @ R.T + m * (d @ d * np.eye(3) - np.outer(d, d))
    return mass, total


def inertia_box(mass: float, center: Vector3, inertia: Sequence[float]) -> Shape | None:
    """The uniform box with a mass, kg, and an inertia, kg m2 as of Body, to be drawn; None if there is no such box.

    If this box had a density below LEAST_DENSITY, as with placeholders for an inertia, it is smaller in proportion.
    """
    xx, yy, zz, xy, xz, yz = inertia
    if mass <= 0.0:
        return None
    moments, R = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    squares = 6.0 / mass * (moments.sum() - 2.0 * moments)
    edges = [math.sqrt(max(square, 0.0)) for square in squares]
    if not max(edges) > 0.0:
        return None
    a, b, c = (max(edge, 0.05 * max(edges)) for edge in edges)
    scale = min(1.0, (mass / (a * b * c) / LEAST_DENSITY) ** (1.0 / 3.0))
    w, x, y, z = (quaternions_from_rotations(np.sign(np.linalg.det(R)) * R[None])[0] + 0.0).tolist()
    size = scale * a, scale * b, scale * c
    return Shape(kind="box", size=size, position=center, quaternion=(w, x, y, z))

"""Mass matrix and forces of a description, effective masses at contacts, and the default stiffness of contacts.

The numbers come from the description alone, before its equations are derived. Constraints and beams are neglected; with
them, the effective masses could only be larger.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import GROUND, Body, Joint, Mechanism
from sim_core.mechanism.joints import stiffness_for
from sim_core.mechanism.quantities import value_of
from sim_core.spatial import rotation_from_quaternion

Array = np.ndarray[Any, np.dtype[np.float64]]
STEP = 1e-5  # s: step of central differences along a motion
DIGITS = 3  # of a computed stiffness, so that it is the same number on every processor


@dataclass(frozen=True)
class MovingBody:
    """Poses of a body in the world, one for each posture of its mechanism, and the Jacobians of its velocity.

    The dimensions of the postures, none for a single one, come before those of the arrays.

    p   (..., 3) position p_WB
    R   (..., 3, 3) rotation matrix R_WB
    Jv  (..., 3, n) Jacobian of the velocity of the body's origin with respect to the n coordinate velocities, in world
        axes
    Jw  (..., 3, n) Jacobian of the angular velocity, in world axes
    """

    p: Array
    R: Array
    Jv: Array
    Jw: Array

    def velocity(self, point: Any) -> Array:
        """Jacobian (..., 3, n) of the velocity of a body-fixed point, in world axes.

        point  (3,) point in the body's frame
        """
        return np.asarray(self.Jv - _cross(self.R @ np.asarray(point)) @ self.Jw)


def moving_bodies(mechanism: Mechanism, q: Array) -> dict[str, MovingBody]:
    """{body: MovingBody} of a tree of joints at joint positions q; the ground is included.

    Spherical and free joints are taken at their initial orientation, whatever q is.

    q  (..., n) joint positions of one posture, or of several
    """
    n = sum(len(joint.coordinates) for joint in mechanism.joints)
    still = np.zeros((*q.shape[:-1], 3, n))
    found = {GROUND: MovingBody(np.zeros(3), np.eye(3), still, still)}
    at = 0
    for joint in mechanism.joints:
        size = len(joint.coordinates)
        found[joint.child] = _moving_child(joint, found[joint.parent], q[..., at : at + size], at)
        at += size
    return found


def _moving_child(joint: Joint, parent: MovingBody, q: Array, at: int) -> MovingBody:
    """Poses and Jacobians of the child of a joint.

    q   (..., n_j) positions of this joint alone
    at  index of the joint's first coordinate among all coordinates
    """
    directions = [parent.R @ np.array(axis) for axis in joint.slides]
    arm = parent.R @ np.array(joint.parent_point)
    for number, direction in enumerate(directions):
        arm = arm + q[..., number, None] * direction
    Jv, Jw, R = parent.Jv - _cross(arm) @ parent.Jw, parent.Jw.copy(), parent.R
    for number, direction in enumerate(directions):
        Jv[..., at + number] = direction
    first = at + len(directions)
    if joint.turns:
        Jw[..., first] = R @ np.array(joint.axis)
        R = R @ _rotations(joint.axis, q[..., -1])
    R = R @ np.array(joint.rotation)
    if joint.is_oriented:
        e = np.array(joint.quaternion, dtype=float)
        R = R @ np.asarray(rotation_from_quaternion(e / np.linalg.norm(e)))
        Jw[..., first : first + 3] = R
    back = -(R @ np.array(joint.child_point))
    return MovingBody(parent.p + arm + back, R, Jv - _cross(back) @ Jw, Jw)


def mass_matrix_at(mechanism: Mechanism, bodies: dict[str, MovingBody]) -> Array:
    """Mass matrix (..., n, n) of a tree of joints, with the joints' armatures.

    bodies  result of `moving_bodies`
    """
    *postures, _, n = bodies[GROUND].Jv.shape
    M = np.zeros((*postures, n, n))
    movers = _movers(mechanism)
    for body in mechanism.bodies:
        own, whole = movers[body.name], bodies[body.name]
        moving = MovingBody(whole.p, whole.R, whole.Jv[..., own], whole.Jw[..., own])
        velocity, turning = moving.velocity(body.center_of_mass), moving.R.mT @ moving.Jw
        M[..., own[:, None], own] += value_of(body.mass) * velocity.mT @ velocity
        M[..., own[:, None], own] += turning.mT @ _inertia(body) @ turning
    return np.asarray(M + _armatures(mechanism, n))


def _movers(mechanism: Mechanism) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """{body: indices of the coordinates that move it} in a tree of joints."""
    found, at = {GROUND: np.zeros(0, dtype=np.int64)}, 0
    for joint in mechanism.joints:
        end = at + len(joint.coordinates)
        found[joint.child] = np.concatenate([found[joint.parent], np.arange(at, end)])
        at = end
    return found


def dynamics_at(mechanism: Mechanism, q: Array, v: Array, shares: Array) -> tuple[Array, Array, Array]:
    """Terms of M a = g - c + tau for a tree of joints in many states: mass matrix M, gravity g and speed terms c.

    M (N, n, n) has the joints' armatures. g and c have the shape (N, n), in N m or N along the coordinates. Springs,
    joint loads, friction, damping and constraints are left out. c is computed from central differences of the bodies'
    Jacobians along v, with a relative error of about 1e-8.

    q, v    (N, n) positions and velocities of the joints
    shares  (N, number of bodies) factors of the bodies' masses and inertias
    """
    before, now, after = (moving_bodies(mechanism, q + sign * STEP * v) for sign in (-1.0, 0.0, 1.0))
    N, n = q.shape
    M, g, c = np.zeros((N, n, n)), np.zeros((N, n)), np.zeros((N, n))
    gravity = np.array([value_of(each) for each in mechanism.gravity])
    for body, share in zip(mechanism.bodies, shares.T, strict=True):
        mass, inertia = value_of(body.mass) * share[:, None, None], _inertia(body) * share[:, None, None]
        velocities, turns = [], []
        for bodies in (before, now, after):
            moving = bodies[body.name]
            velocities.append(np.broadcast_to(moving.velocity(body.center_of_mass), (N, 3, n)))
            turns.append(np.broadcast_to(moving.R.mT @ moving.Jw, (N, 3, n)))
        velocity, turning = velocities[1], turns[1]
        M += mass * velocity.mT @ velocity + turning.mT @ inertia @ turning
        g += np.einsum("nij,i->nj", mass * velocity, gravity)
        a, alpha = ((np.einsum("nij,nj->ni", one[2] - one[0], v) / (2.0 * STEP)) for one in (velocities, turns))
        w = np.einsum("nij,nj->ni", turning, v)
        torque = np.einsum("nij,nj->ni", inertia, alpha) + np.cross(w, np.einsum("nij,nj->ni", inertia, w))
        c += np.einsum("nij,ni->nj", mass * velocity, a) + np.einsum("nij,ni->nj", turning, torque)
    M += _armatures(mechanism, n)
    return M, g, c


def _armatures(mechanism: Mechanism, n: int) -> Array:
    """Diagonal matrix (n, n) of the armatures of the joints."""
    diagonal, at = np.zeros(n), 0
    for joint in mechanism.joints:
        size = len(joint.coordinates)
        at += size
        armed = size if joint.is_oriented else min(size, 1)  # in a planar joint, the rotation alone
        diagonal[at - armed : at] += value_of(joint.armature)
    return np.diag(diagonal)


def inverse_of(M: Array) -> Array:
    """Inverse (..., n, n) of mass matrices (..., n, n); zero along directions that move no mass."""
    scale = np.sqrt(np.diagonal(M, axis1=-2, axis2=-1))
    scale = np.where(scale > 0.0, scale, 1.0)
    scales = scale[..., :, None] * scale[..., None, :]
    scaled, found = M / scales, np.zeros(M.shape)
    for block in _blocks(M):
        places = (..., block[:, None], block)
        found[places] = np.linalg.pinv(scaled[places], hermitian=True)
    return np.asarray(found / scales)


def _blocks(M: Array) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Yield the indices of each block of matrices (..., n, n) that have the same blocks, up to the order of indices."""
    linked = (M != 0.0).any(axis=tuple(range(M.ndim - 2)))
    left = np.ones(len(linked), dtype=bool)
    while left.any():
        block, wider = np.zeros(len(linked), dtype=bool), np.arange(len(linked)) == left.argmax()
        while (wider != block).any():
            block, wider = wider, wider | linked[wider].any(axis=0)
        left &= ~block
        yield np.flatnonzero(block)


def effective_masses(mechanism: Mechanism, q: Array | None = None) -> dict[str, float]:
    """{contact: effective mass, kg} of all sphere contacts at q, by default at the start.

    The effective mass is the mass with which the two bodies, and all that moves with them, resist a relative
    acceleration at the contact, in the direction in which this mass is smallest. It is inf if neither body can move at
    the contact.
    """
    start = np.array(mechanism.initial_q if q is None else q, dtype=float)
    if mechanism.has_body_coordinates:
        mobilities = {body.name: _free_mobility(body) for body in mechanism.bodies}
        return {
            contact.name: _effective(
                _largest(mobilities[name](point) for point in points)
                for name, points in _points(contact)
                if name != GROUND
            )
            for contact in mechanism.contacts
        }
    if not mechanism.has_joint_coordinates:
        start = _relative_angles(mechanism, start)
    bodies = moving_bodies(mechanism, start)
    mobility = inverse_of(mass_matrix_at(mechanism, bodies))
    found = {}
    for contact in mechanism.contacts:
        sides = []
        for name, points in _points(contact):
            velocities = [bodies[name].velocity(point) for point in points]
            sides.append(_largest(velocity @ mobility @ velocity.T for velocity in velocities))
        found[contact.name] = _effective(sides)
    return found


def _points(contact: SphereContact) -> list[tuple[str, list[Array]]]:
    """[(body, points)] for the two bodies of a contact: extreme points through which the contact normal may pass.

    The points, in the body's frame, m, are the centre of a sphere, the ends of a capsule's axis, the corners of a box,
    or the given point of a plane.
    """
    center, other = np.array(contact.center), np.array(contact.other_point)
    if contact.other_half_sizes is not None:
        R = np.asarray(rotation_from_quaternion(np.array(contact.other_quaternion, dtype=float)))
        signs = itertools.product((-1.0, 1.0), repeat=3)
        others = [other + R @ (np.array(sign) * contact.other_half_sizes) for sign in signs]
    else:
        others = [other + sign * np.array(contact.other_half_axis) for sign in (-1.0, 1.0)]
    return [(contact.body, [center]), (contact.other, others)]


def _largest(mobilities: Iterable[Array]) -> float:
    """Largest acceleration per force, 1/kg, in any direction and at any of several points.

    mobilities  for each point, the matrix (3, 3) that maps a force to the acceleration of the point
    """
    return max(float(np.linalg.eigvalsh(each)[-1]) for each in mobilities)


def _effective(mobilities: Iterable[float]) -> float:
    total = sum(mobilities)
    return 1.0 / total if total > 0.0 else float("inf")


def _free_mobility(body: Body) -> Any:
    """Function that returns the mobility (3, 3), 1/kg, at a point of a body that has no joint.

    The argument of the function is the point in the body's frame. The mobility maps a force at the point to the
    acceleration of the point.
    """
    mass, inertia = value_of(body.mass), _inertia(body)
    planar = body.is_planar
    turning = np.diag([0.0, 0.0, 1.0]) if planar else np.eye(3)
    moving = np.diag([1.0, 1.0, 0.0]) if planar else np.eye(3)
    inverse = np.linalg.pinv(turning @ inertia @ turning, hermitian=True)
    translation = moving / mass if mass > 0.0 else np.zeros((3, 3))

    def mobility(point: Array) -> Array:
        K = _cross(np.asarray(point) - np.array(body.center_of_mass))
        return np.asarray(translation + K @ inverse @ K.T)

    return mobility


def masses_for_stiffness(mechanism: Mechanism) -> dict[str, float]:
    """{contact: mass, kg, from which the default stiffness is computed}.

    The mass is the effective mass at the start, but at most the total mass of all bodies. The total mass is used, for
    example, at a contact on the axis of a hinge, where the body cannot move.
    """
    total = sum(value_of(body.mass) for body in mechanism.bodies)
    return {name: min(mass, total) for name, mass in effective_masses(mechanism).items()}


def with_contact_stiffness(mechanism: Mechanism) -> Mechanism:
    """A copy of the mechanism in which contacts with stiffness None have a stiffness computed from the effective mass.

    Raises InvalidMechanism if the effective mass of one of these contacts is 0.
    """
    if all(contact.stiffness is not None for contact in mechanism.contacts):
        return mechanism
    masses = masses_for_stiffness(mechanism)
    contacts = []
    for contact in mechanism.contacts:
        if contact.stiffness is None:
            if not masses[contact.name] > 0.0:
                raise InvalidMechanism(
                    f"mechanism {mechanism.name!r}: contact {contact.name!r}: its effective mass is 0, so that no "
                    "stiffness can be computed from it; set `stiffness`"
                )
            stiffness = rounded(stiffness_for(masses[contact.name], contact.exponent))
            contact = dataclasses.replace(contact, stiffness=stiffness)
        contacts.append(contact)
    return mechanism.with_stiffness(tuple(contacts))


def rounded(value: float) -> float:
    """The value rounded to three significant digits."""
    return float(f"{value:.{DIGITS}g}")


def _relative_angles(mechanism: Mechanism, q: Array) -> Array:
    """Joint positions (n_joints,) from absolute angles: the angle of each joint's child minus that of the joint's
    parent.
    """
    angle, found, index = {GROUND: 0.0}, [], 0
    for joint in mechanism.joints:
        angle[joint.child] = angle[joint.parent]
        if not joint.is_fixed:
            angle[joint.child] = float(q[index])
            found.append(angle[joint.child] - angle[joint.parent])
            index += 1
    return np.array(found)


def _inertia(body: Body) -> Array:
    xx, yy, zz, xy, xz, yz = (value_of(value) for value in body.inertia)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _cross(a: Array) -> Array:
    """Cross-product matrices (..., 3, 3) of vectors (..., 3), with _cross(a) @ b = a x b."""
    K = np.zeros((*a.shape, 3))
    K[..., (2, 0, 1), (1, 2, 0)] = a
    K[..., (1, 2, 0), (2, 0, 1)] = -a
    return K


def _rotations(axis: Any, angle: Array) -> Array:
    """Rotation matrices (..., 3, 3) about a unit axis by angles (...), rad: `spatial.rotation_about` for arrays."""
    K = _cross(np.array(axis, dtype=float))
    return np.asarray(np.eye(3) + np.sin(angle)[..., None, None] * K + (1.0 - np.cos(angle))[..., None, None] * (K @ K))

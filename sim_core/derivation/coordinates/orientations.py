"""Orientations of spherical and free joints, described by a unit quaternion and three coordinates.

The quaternion gives the orientation at the start of a time step and is constant during the step, as one of the
parameters p. The three coordinates s describe the rotation since the start of the step: s is a vector of length
4 tan(angle / 4) along the rotation axis, which is four times the modified Rodrigues parameters. [SchaubJunkins1996] At
the end of each time step, `rebased` multiplies the quaternion by this rotation and sets s = 0. At s = 0, ds/dt equals
the body's angular velocity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation.symbols import Symbols
from sim_core.mechanism.description import Joint, Mechanism
from sim_core.spatial import quaternions_from_rotations


def quaternion_of(joint: Joint, symbols: Symbols, index: int) -> ca.SX:
    """Quaternion (4,), w x y z, of a joint's orientation.

    index  index in q of the joint's first rotation coordinate
    """
    first = symbols.parameter_names.index(joint.orientation_names[0])
    sigma = symbols.q[index : index + 3] / 4
    square = ca.dot(sigma, sigma)
    step = ca.vertcat(1 - square, 2 * sigma) / (1 + square)
    return _product(symbols.p[first : first + 4], step)


def rotation_of(joint: Joint, symbols: Symbols, index: int) -> ca.SX:
    """Rotation matrix (3, 3) of a joint's orientation.

    index  index in q of the joint's first rotation coordinate
    """
    return ca.SX(spatial.rotation_from_quaternion(quaternion_of(joint, symbols, index)))


@dataclass(frozen=True)
class QuasiVelocities:
    """Velocities w = B(q) v (n_q,) of the joints: rates of rotation coordinates are replaced by angular velocities.

    For a spherical or free joint, the three rotational entries of w are the child's angular velocity in the child's
    axes. All other entries of w equal those of v, the rates of the coordinates.

    symbols  the symbols of the mechanism, with w in place of the velocities v
    bias     vector b (n_q,) in the accelerations B a + b of the links (see `Link` in tree.py), with a = dv/dt

    The rotation of a spherical or free joint is modelled by three links that rotate in sequence about the axes x, y, z
    of the child. This sequence would add the term (w_y w_z, -w_x w_z, w_x w_y) to the child's angular acceleration. To
    cancel this term, b is (dB/dt) v minus the term.
    """

    symbols: Symbols
    B: ca.SX
    bias: ca.SX


def quasi_velocities(mechanism: Mechanism, symbols: Symbols) -> QuasiVelocities | None:
    """The QuasiVelocities of a mechanism, or None if the mechanism has neither spherical nor free joints."""
    if not mechanism.oriented_joints:
        return None
    n = symbols.v.numel()
    B, sequence = ca.SX.eye(n), ca.SX(n, 1)
    for index in _first_rotations(mechanism).values():
        block = slice(index, index + 3)
        B[block, block] = angular_velocity_per_rate(symbols.q[block])
        x, y, z = ca.vertsplit(B[block, block] @ symbols.v[block])
        sequence[block] = ca.vertcat(y * z, -x * z, x * y)
    w = B @ symbols.v
    return QuasiVelocities(replace(symbols, v=w), B, ca.jtimes(w, symbols.q, symbols.v) - sequence)


def rebased(mechanism: Mechanism, symbols: Symbols) -> list[ca.SX]:
    """[q, v, p] of the same motion, with the rotation coordinates moved from q into the quaternions in p.

    The rotation coordinates become 0, and their velocities become angular velocities.
    """
    q, v, p = ca.SX(symbols.q), ca.SX(symbols.v), ca.SX(symbols.p)
    firsts = _first_rotations(mechanism)
    for joint in mechanism.oriented_joints:
        block = slice(firsts[joint.name], firsts[joint.name] + 3)
        first = symbols.parameter_names.index(joint.orientation_names[0])
        whole = quaternion_of(joint, symbols, block.start)
        p[first : first + 4] = whole / ca.sqrt(ca.dot(whole, whole))
        v[block] = angular_velocity_per_rate(symbols.q[block]) @ symbols.v[block]
        q[block] = ca.SX.zeros(3)
    return [q, v, p]


def frames_and_twists(mechanism: Mechanism, symbols: Symbols) -> list[ca.SX]:
    """[poses (7 n,), velocities (6 n,)] of the n spherical, free and planar joints, one joint after another.

    pose      7 numbers: position, m, of the joint's point on the child relative to the joint's point on the parent,
              along the parent's axes; quaternion w x y z of the rotation R_PC from the child's axes to the parent's
    velocity  6 numbers: linear velocity, m/s, along the parent's axes; angular velocity, rad/s, in the child's axes
    """
    frames: list[ca.SX] = []
    twists: list[ca.SX] = []
    index = 0
    for joint in mechanism.joints:
        index += len(joint.coordinates)
        if joint.is_planar:
            pose, rate = _planar_pose(joint, symbols, index - 3)
            frames.append(pose)
            twists.append(rate)
        if not joint.orientation_names:
            continue
        first, turning = index - len(joint.coordinates), slice(index - 3, index)
        R = np.array(joint.rotation, dtype=float)
        fixed = ca.SX(ca.DM(quaternions_from_rotations(R[None])[0]))
        whole = quaternion_of(joint, symbols, index - 3)
        slides = slice(first, first + 3) if joint.slides else None
        position, rate = (ca.SX.zeros(3) if slides is None else each[slides] for each in (symbols.q, symbols.v))
        frames += [position, whole if np.array_equal(R, np.eye(3)) else _product(fixed, whole)]
        twists += [rate, angular_velocity_per_rate(symbols.q[turning]) @ symbols.v[turning]]
    return [ca.vertcat(*frames), ca.vertcat(*twists)]


def _planar_pose(joint: Joint, symbols: Symbols, first: int) -> tuple[ca.SX, ca.SX]:
    """Pose (7,) and velocity (6,) of a planar joint, as in `frames_and_twists`.

    first  index in q of the joint's coordinates x, y, theta
    """
    x, y = (ca.DM(axis) for axis in spatial.perpendicular_axes(joint.axis))
    R = np.array(joint.rotation, dtype=float)
    fixed = ca.SX(ca.DM(quaternions_from_rotations(R[None])[0]))
    q, v = symbols.q[first : first + 3], symbols.v[first : first + 3]
    turned = ca.vertcat(ca.cos(q[2] / 2), ca.sin(q[2] / 2) * ca.DM(joint.axis))
    axis = ca.DM(R.T @ np.array(joint.axis, dtype=float))
    pose = ca.vertcat(x * q[0] + y * q[1], _product(turned, fixed))
    return pose, ca.vertcat(x * v[0] + y * v[1], axis * v[2])


def angular_velocity(mechanism: Mechanism, joint: Joint, symbols: Symbols) -> ca.SX:
    """Angular velocity (3,) of the child of a spherical or free joint relative to the parent, in the child's axes."""
    block = rotation_block(mechanism, joint)
    return angular_velocity_per_rate(symbols.q[block]) @ symbols.v[block]


def rotation_block(mechanism: Mechanism, joint: Joint) -> slice:
    """Indices in q of the three rotation coordinates of a spherical or free joint."""
    first = _first_rotations(mechanism)[joint.name]
    return slice(first, first + 3)


def translation_block(mechanism: Mechanism, joint: Joint) -> slice:
    """Indices in q of the three translations of a free joint; empty for a spherical joint."""
    first = _first_rotations(mechanism)[joint.name]
    return slice(first - len(joint.slides), first)


def damping_forces(mechanism: Mechanism, symbols: Symbols) -> ca.SX:
    """Generalized forces (n_q,) of viscous damping in spherical and free joints.

    A joint with the damping coefficient d, the angular velocity w and, for a free joint, the linear velocity v exerts
    the moment -d w and the force -d v.
    """
    forces = ca.SX.zeros(symbols.v.numel())
    for joint in mechanism.oriented_joints:
        if joint.slides and joint.damping == 0.0:
            continue
        block = rotation_block(mechanism, joint)
        sigma = symbols.q[block] / 4
        # T' T = 1 / (1 + sigma^2)^2
        forces[block] = -symbols.number(joint.damping) * symbols.v[block] / (1 + ca.dot(sigma, sigma)) ** 2
        if joint.slides:
            slides = translation_block(mechanism, joint)
            forces[slides] = -symbols.number(joint.damping) * symbols.v[slides]
    return forces


def _first_rotations(mechanism: Mechanism) -> dict[str, int]:
    """{name of a spherical or free joint: index in q of its first rotation coordinate}."""
    found, index = {}, 0
    for joint in mechanism.joints:
        index += len(joint.coordinates)
        if joint.orientation_names:
            found[joint.name] = index - 3
    return found


def angular_velocity_per_rate(s: ca.SX) -> ca.SX:
    """Matrix T (3, 3) with w = T ds/dt, for the rotation coordinates s and the angular velocity w in the child's axes.

    T depends on s, and is the identity at s = 0.
    """
    sigma = s / 4
    square = ca.dot(sigma, sigma)
    inverse = (1 - square) * ca.SX.eye(3) - 2 * ca.skew(sigma) + 2 * sigma @ sigma.T
    return inverse / (1 + square) ** 2


def _product(a: ca.SX, b: ca.SX) -> ca.SX:
    """Product a b (4,) of two quaternions, w x y z."""
    return ca.vertcat(a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))

"""Orientations of spherical and free joints: a unit quaternion per step and three small coordinates within it.

The coordinates s are 4 tan(angle / 4) along the axis of the rotation since the start of the step: four times the
modified Rodrigues parameters. [SchaubJunkins1996] The orientation at the start of the step is a quaternion in p. Each
step ends by `rebased`: the quaternion takes up the rotation, s becomes 0, and ds/dt the body's angular velocity.
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
    """Quaternion (4,), w x y z, of a joint's orientation; its first rotation coordinate has this index."""
    first = symbols.parameter_names.index(joint.orientation_names[0])
    sigma = symbols.q[index : index + 3] / 4
    square = ca.dot(sigma, sigma)
    step = ca.vertcat(1 - square, 2 * sigma) / (1 + square)
    return _product(symbols.p[first : first + 4], step)


def rotation_of(joint: Joint, symbols: Symbols, index: int) -> ca.SX:
    """Rotation matrix of a joint's orientation; its first rotation coordinate has this index."""
    return ca.SX(spatial.rotation_from_quaternion(quaternion_of(joint, symbols, index)))


@dataclass(frozen=True)
class QuasiVelocities:
    """Velocities w = B(q) v of the links: the angular velocity in the child's axes, for orientations.

    bias  b of the links' accelerations B a + b. Three rotations in sequence about the axes x, y, z, which coincide with
          the child's at this instant, accelerate a body by (w_y w_z, -w_x w_z, w_x w_y) beside their own accelerations:
          b is dB/dt v less that.
    """

    symbols: Symbols
    B: ca.SX
    bias: ca.SX


def quasi_velocities(mechanism: Mechanism, symbols: Symbols) -> QuasiVelocities | None:
    """The links' velocities of a mechanism with spherical or free joints; None without any, as they are v then."""
    if not mechanism.oriented_joints:
        return None
    n = symbols.v.numel()
    B, sequence = ca.SX.eye(n), ca.SX(n, 1)
    for index in _first_rotations(mechanism).values():
        block = slice(index, index + 3)
        B[block, block] = _angular_velocity_per_rate(symbols.q[block])
        x, y, z = ca.vertsplit(B[block, block] @ symbols.v[block])
        sequence[block] = ca.vertcat(y * z, -x * z, x * y)
    w = B @ symbols.v
    return QuasiVelocities(replace(symbols, v=w), B, ca.jtimes(w, symbols.q, symbols.v) - sequence)


def rebased(mechanism: Mechanism, symbols: Symbols) -> list[ca.SX]:
    """q, v and p of the same motion, with the orientations in the quaternions alone: their coordinates are 0."""
    q, v, p = ca.SX(symbols.q), ca.SX(symbols.v), ca.SX(symbols.p)
    firsts = _first_rotations(mechanism)
    for joint in mechanism.oriented_joints:
        block = slice(firsts[joint.name], firsts[joint.name] + 3)
        first = symbols.parameter_names.index(joint.orientation_names[0])
        whole = quaternion_of(joint, symbols, block.start)
        p[first : first + 4] = whole / ca.sqrt(ca.dot(whole, whole))
        v[block] = _angular_velocity_per_rate(symbols.q[block]) @ symbols.v[block]
        q[block] = ca.SX.zeros(3)
    return [q, v, p]


def frames_and_twists(mechanism: Mechanism, symbols: Symbols) -> list[ca.SX]:
    """Poses (7 each) and velocities (6 each) of the spherical and free joints, one after another.

    Position of the child's point from the parent's, along the parent's axes, and quaternion of R_PC, w x y z; linear
    velocity along the parent's axes, angular velocity in the child's axes.
    """
    frames, twists, index = [], [], 0
    for joint in mechanism.joints:
        index += len(joint.coordinates)
        if not joint.orientation_names:
            continue
        first, turning = index - len(joint.coordinates), slice(index - 3, index)
        R = np.array(joint.rotation, dtype=float)
        fixed = ca.SX(ca.DM(quaternions_from_rotations(R[None])[0]))
        whole = quaternion_of(joint, symbols, index - 3)
        slides = slice(first, first + 3) if joint.kind == "free" else None
        position, rate = (ca.SX.zeros(3) if slides is None else each[slides] for each in (symbols.q, symbols.v))
        frames += [position, whole if np.array_equal(R, np.eye(3)) else _product(fixed, whole)]
        twists += [rate, _angular_velocity_per_rate(symbols.q[turning]) @ symbols.v[turning]]
    return [ca.vertcat(*frames), ca.vertcat(*twists)]


def damping_forces(mechanism: Mechanism, symbols: Symbols) -> ca.SX:
    """(n_q,) generalized forces of the damping of spherical joints, -d w for the angular velocity w."""
    forces = ca.SX.zeros(symbols.v.numel())
    firsts = _first_rotations(mechanism)
    for joint in mechanism.oriented_joints:
        block = slice(firsts[joint.name], firsts[joint.name] + 3)
        sigma = symbols.q[block] / 4
        # T' T = 1 / (1 + sigma^2)^2
        forces[block] = -symbols.number(joint.damping) * symbols.v[block] / (1 + ca.dot(sigma, sigma)) ** 2
    return forces


def _first_rotations(mechanism: Mechanism) -> dict[str, int]:
    """{joint: index of its first rotation coordinate} of the spherical and free joints."""
    found, index = {}, 0
    for joint in mechanism.joints:
        index += len(joint.coordinates)
        if joint.orientation_names:
            found[joint.name] = index - 3
    return found


def _angular_velocity_per_rate(s: ca.SX) -> ca.SX:
    """T(s) (3, 3) of w = T ds/dt, the angular velocity in the child's axes; 1 at s = 0."""
    sigma = s / 4
    square = ca.dot(sigma, sigma)
    inverse = (1 - square) * ca.SX.eye(3) - 2 * ca.skew(sigma) + 2 * sigma @ sigma.T
    return inverse / (1 + square) ** 2


def _product(a: ca.SX, b: ca.SX) -> ca.SX:
    """The product of two quaternions, w x y z."""
    return ca.vertcat(a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))

"""Slow numpy kinematics of a tree of joints, independent of the symbolic derivation: the reference for others.

Kinematic quantities are jets: the value and the first two derivatives along a line q + s d in the coordinates. If d is
a coordinate axis, the first derivative is a column of a Jacobian. If d = v, the second derivative is the
velocity-dependent part of an acceleration. Both results are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.mechanism.description import GROUND, Joint, Mechanism


@dataclass(frozen=True)
class Jet:
    """Value and derivatives x(s), x'(s), x''(s) at s = 0 of a scalar, vector or matrix."""

    x: Any
    d: Any
    dd: Any

    def __add__(self, other: Jet) -> Jet:
        return Jet(self.x + other.x, self.d + other.d, self.dd + other.dd)

    def __sub__(self, other: Jet) -> Jet:
        return Jet(self.x - other.x, self.d - other.d, self.dd - other.dd)

    def __matmul__(self, other: Jet) -> Jet:
        dd = self.dd @ other.x + 2 * self.d @ other.d + self.x @ other.dd
        return Jet(self.x @ other.x, self.d @ other.x + self.x @ other.d, dd)

    def scaled(self, factor: float) -> Jet:
        """The jet multiplied by a constant."""
        return Jet(factor * self.x, factor * self.d, factor * self.dd)


def constant(x: Any) -> Jet:
    """The jet of a constant, whose two derivatives are zero."""
    x = np.asarray(x, dtype=float)
    return Jet(x, np.zeros_like(x), np.zeros_like(x))


def turn(axis: tuple[float, float, float], angle: Jet) -> Jet:
    """Jet of the rotation matrix exp(angle K) = 1 + sin(angle) K + (1 - cos(angle)) K^2.

    K is the cross-product matrix of the unit vector `axis`.
    """
    K = cross_matrix(np.array(axis))
    s, c = np.sin(angle.x), np.cos(angle.x)
    first, second = c * K + s * K @ K, -s * K + c * K @ K
    return Jet(np.eye(3) + s * K + (1 - c) * K @ K, first * angle.d, second * angle.d**2 + first * angle.dd)


def cross_matrix(a: np.ndarray) -> np.ndarray:
    """Cross-product matrix [a]x (3, 3), with [a]x b = a x b."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def axial(K: np.ndarray) -> np.ndarray:
    """Axial vector (3,) of the skew-symmetric part of a matrix (3, 3)."""
    return np.asarray(np.array([K[2, 1] - K[1, 2], K[0, 2] - K[2, 0], K[1, 0] - K[0, 1]]) / 2)


@dataclass(frozen=True)
class MovingFrame:
    """Pose of a body as jets along a line q + s d in the coordinates.

    p  jet of the position
    R  jet of the rotation matrix
    e  jet of the Euler parameters; None for a body without Euler parameters
    """

    p: Jet
    R: Jet
    e: Jet | None = None

    def point(self, point: Any) -> Jet:
        return self.p + self.R @ constant(point)

    def angular_velocity(self) -> np.ndarray:
        """Angular velocity w_WB_B = axial(R' dR/ds) (3,), with the line parameter s as time.

        For a body with Euler parameters, w_WB_B is computed from the Euler parameters, whose norm may differ from 1.
        """
        if self.e is None:
            return axial(np.asarray(self.R.x.T @ self.R.d))
        return _quaternion_rate(self.e.x, self.e.d)

    def angular_acceleration(self) -> np.ndarray:
        """Derivative (3,) of the angular velocity w_WB_B along the line."""
        if self.e is None:
            return axial(np.asarray(self.R.d.T @ self.R.d + self.R.x.T @ self.R.dd))
        return np.asarray(_quaternion_rate(self.e.x, self.e.dd) + _quaternion_rate(self.e.d, self.e.d))


def _quaternion_rate(e: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Twice the vector part (3,) of the quaternion product conj(e) rate: the angular velocity in the body's axes."""
    return np.asarray(2 * (e[0] * rate[1:] - rate[0] * e[1:] - np.cross(e[1:], rate[1:])))


def frames_along(mechanism: Mechanism, q: np.ndarray, direction: np.ndarray) -> dict[str, MovingFrame]:
    """{body: MovingFrame} of a tree in joint coordinates, along the line q + s * direction, at s = 0."""
    return tree_frames(mechanism, [Jet(x, d, 0.0) for x, d in zip(q, direction, strict=True)])


def tree_frames(mechanism: Mechanism, line: list[Jet]) -> dict[str, MovingFrame]:
    """{body: MovingFrame} of a tree of joints, for the jets `line` of the coordinates."""
    frames = {GROUND: MovingFrame(constant(np.zeros(3)), constant(np.eye(3)))}
    if not mechanism.has_joint_coordinates:
        line = _relative_angles(mechanism, line)
    moving = iter(line)
    for joint in mechanism.joints:
        parent = frames[joint.parent]
        p = parent.point(joint.parent_point)
        for axis in joint.slides:
            step = next(moving)
            along = np.array(axis)
            p = p + parent.R @ Jet(step.x * along, step.d * along, step.dd * along)
        R = parent.R @ turn(joint.axis, next(moving)) if joint.turns else parent.R
        R = R @ constant(joint.rotation)
        if joint.is_oriented:
            R = R @ _orientation(joint, stack([next(moving) for _ in range(3)]))
        frames[joint.child] = MovingFrame(p - R @ constant(joint.child_point), R)
    return frames


def _orientation(joint: Joint, s: Jet) -> Jet:
    """Jet of the rotation of a spherical or free joint: the orientation at the start times the rotation R(s).

    s  jet of the rotation coordinates: a vector of length 4 tan(angle / 4) along the axis of rotation
    """
    start = np.array(joint.quaternion) / np.linalg.norm(joint.quaternion)
    square = s @ s
    e = [
        np.concatenate([[16.0 * first - n], 8 * x])
        for first, n, x in zip((1, 0, 0), vars(square).values(), vars(s).values(), strict=True)
    ]
    pairs = ((e[0], e[0]), (e[0], e[1]), (e[1], e[1]), (e[0], e[2]))
    R, half, bent, rest = (quaternion_product(*pair) for pair in pairs)
    # the norm of e is 16 + s.s
    n, dn, ddn = 16.0 + square.x, square.d, square.dd
    scale = Jet(1 / n**2, -2 * dn / n**3, 6 * dn**2 / n**4 - 2 * ddn / n**3)
    d, dd = 2 * half, 2 * bent + 2 * rest
    whole = Jet(scale.x * R, scale.d * R + scale.x * d, scale.dd * R + 2 * scale.d * d + scale.x * dd)
    return constant(quaternion_product(start, start)) @ whole


def _relative_angles(mechanism: Mechanism, line: list[Jet]) -> list[Jet]:
    """Jets of the joint positions: the absolute angle of each joint's child minus that of the joint's parent.

    The child of a fixed joint has the angle of the parent; a fixed joint has no position.

    line  jets of the absolute angles
    """
    zero = constant(0.0)
    angle, found, moving = {GROUND: zero}, [], iter(line)
    for joint in mechanism.joints:
        angle[joint.child] = angle[joint.parent] if joint.is_fixed else next(moving)
        if not joint.is_fixed:
            found.append(angle[joint.child] - angle[joint.parent])
    return found


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrix B(a, b) (3, 3), linear and symmetric in a and b, with B(e, e) = rotation matrix of Euler parameters e."""
    A, B = cross_matrix(a[1:]), cross_matrix(b[1:])
    dot = a[0] * b[0] - a[1:] @ b[1:]
    return np.asarray(dot * np.eye(3) + np.outer(a[1:], b[1:]) + np.outer(b[1:], a[1:]) + a[0] * B + b[0] * A)


def stack(jets: list[Jet]) -> Jet:
    """The jet of a vector from those of its entries."""
    return Jet(np.array([j.x for j in jets]), np.array([j.d for j in jets]), np.array([j.dd for j in jets]))

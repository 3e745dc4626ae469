"""Rotations and axes as written in model files: roll, pitch and yaw, quaternions, and axes in the child's frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_core.mechanism import Matrix3, Vector3
from sim_core.spatial import rotation_about

Array = np.ndarray[Any, np.dtype[np.float64]]
CosSin = tuple[Any, Any]

TINY = 1e-15


def rotation_rpy(rpy: Sequence[float]) -> Array:
    """Rotation matrix Rz(yaw) Ry(pitch) Rx(roll) of (roll, pitch, yaw), rad.

    For right angles given with at least 15 digits, all entries are exactly 0 or +-1.
    """
    return np.array(entries_rpy(*map(cos_sin, rpy)))


def entries_rpy(roll: CosSin, pitch: CosSin, yaw: CosSin) -> list[list[Any]]:
    """Rows of Rz(yaw) Ry(pitch) Rx(roll), from cosine and sine of each angle: numbers, or arrays that broadcast."""
    (cr, sr), (cp, sp), (cy, sy) = roll, pitch, yaw
    return [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]


def cos_sin(angle: float) -> tuple[float, float]:
    """(cos, sin) of an angle, rad; exactly 0 or +-1 for the floats nearest to multiples of pi/2."""
    turns = round(angle / (math.pi / 2))
    if abs(turns) < 16 and abs(angle - turns * (math.pi / 2)) <= 4e-16 * max(1.0, abs(angle)):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[turns % 4]
    return math.cos(angle), math.sin(angle)


def rotation_about_axis(axis: tuple[float, float, float], angle: float) -> Array:
    """Rotation matrix (3, 3) of a rotation by `angle`, rad, about a unit `axis`.

    For a right angle about a coordinate axis, given with at least 15 digits, all entries are exactly 0 or +-1.
    """
    c, s = cos_sin(angle)
    if c * s == 0.0 and sum(map(bool, axis)) == 1:
        return rotation_rpy([angle * along for along in axis])
    return np.asarray(rotation_about(axis, angle))


def normalized(quaternion: Sequence[float] | Array) -> Array:
    """A nonzero quaternion (4,) scaled to norm 1; also several quaternions (4, n).

    A quaternion whose norm is 1 up to rounding is returned unchanged. Normalizing twice therefore changes nothing more.
    """
    return _of_norm_1(np.asarray(quaternion, dtype=float))


def turned_axis(R: Array, axis: Sequence[float]) -> Vector3:
    """Unit vector R axis / |axis| (3,) in the parent's frame, for a nonzero `axis` in the child's frame.

    Components below TINY are rounding errors and become 0.
    """
    return vector(turned_axes(R, np.array(axis, dtype=float)))


def turned_axes(R: Array, axes: Array) -> Array:
    """`turned_axis` of several axes (3, n), with the same rounding."""
    x, y, z = _direction(axes)
    return _direction(np.array([a * x + b * y + c * z for a, b, c in R]))


def unit_vector(along: Array) -> Vector3:
    """The unit vector (3,) along a nonzero vector; components below TINY are rounding errors and become 0."""
    return vector(_direction(along))


def _direction(along: Array) -> Array:
    along = _of_norm_1(along)
    return np.asarray(np.where(np.abs(along) < TINY, 0.0, along))


def _of_norm_1(along: Array) -> Array:
    """Vector (m,) or vectors (m, n), scaled to norm 1 unless their norm is 1 up to rounding.

    Rounding does not depend on n, nor on the computer.
    """
    norm = np.sqrt(sum(part * part for part in along))
    return np.asarray(np.where(np.abs(norm - 1.0) < TINY, along, along / norm))


def rows(R: Array) -> Matrix3:
    """A matrix (3, 3) as a tuple of rows of Python floats, with 0.0 in place of -0.0."""
    a, b, c = (R + 0.0).tolist()
    return tuple(a), tuple(b), tuple(c)


def vector(v: Array) -> Vector3:
    """A vector (3,) as a tuple of Python floats, with 0.0 in place of -0.0."""
    x, y, z = (np.asarray(v) + 0.0).tolist()
    return x, y, z

"""Rotations and axes as written in model files: roll, pitch and yaw, quaternions, and axes in the child's frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_core.mechanism import Matrix3, Vector3
from sim_core.spatial import rotation_about

Array = np.ndarray[Any, np.dtype[np.float64]]

TINY = 1e-15


def rotation_rpy(rpy: Sequence[float]) -> Array:
    """Rotation matrix Rz(yaw) Ry(pitch) Rx(roll) of (roll, pitch, yaw), rad.

    For right angles given with at least 15 digits, all entries are exactly 0 or +-1.
    """
    (cr, sr), (cp, sp), (cy, sy) = map(_cos_sin, rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _cos_sin(angle: float) -> tuple[float, float]:
    """(cos, sin) of an angle, rad; exactly 0 or +-1 for the floats nearest to multiples of pi/2."""
    turns = round(angle / (math.pi / 2))
    if abs(turns) < 16 and abs(angle - turns * (math.pi / 2)) <= 4e-16 * max(1.0, abs(angle)):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[turns % 4]
    return math.cos(angle), math.sin(angle)


def rotation_about_axis(axis: tuple[float, float, float], angle: float) -> Array:
    """Rotation matrix (3, 3) of a rotation by `angle`, rad, about a unit `axis`.

    For a right angle about a coordinate axis, given with at least 15 digits, all entries are exactly 0 or +-1.
    """
    c, s = _cos_sin(angle)
    if c * s == 0.0 and sum(map(bool, axis)) == 1:
        return rotation_rpy([angle * along for along in axis])
    return np.asarray(rotation_about(axis, angle))


def normalized(quaternion: Sequence[float]) -> Array:
    """A nonzero quaternion (4,) scaled to norm 1.

    A quaternion whose norm is 1 up to rounding is returned unchanged. Normalizing twice therefore changes nothing more.
    """
    e = np.array(quaternion, dtype=float)
    norm = float(np.linalg.norm(e))
    return e if abs(norm - 1.0) < TINY else e / norm


def turned_axis(R: Array, axis: Sequence[float]) -> Vector3:
    """Unit vector R axis / |axis| (3,) in the parent's frame, for a nonzero `axis` in the child's frame.

    Components below TINY are rounding errors and become 0.
    """
    return vector(_direction(R @ _direction(np.array(axis, dtype=float))))


def unit_vector(along: Array) -> Vector3:
    """The unit vector (3,) along a nonzero vector; components below TINY are rounding errors and become 0."""
    return vector(_direction(along))


def _direction(along: Array) -> Array:
    length = float(np.linalg.norm(along))
    along = along if abs(length - 1.0) < TINY else along / length
    return np.asarray(np.where(np.abs(along) < TINY, 0.0, along))


def rows(R: Array) -> Matrix3:
    """A matrix (3, 3) as a tuple of rows of Python floats, with 0.0 in place of -0.0."""
    a, b, c = (R + 0.0).tolist()
    return tuple(a), tuple(b), tuple(c)


def vector(v: Array) -> Vector3:
    """A vector (3,) as a tuple of Python floats, with 0.0 in place of -0.0."""
    x, y, z = (np.asarray(v) + 0.0).tolist()
    return x, y, z

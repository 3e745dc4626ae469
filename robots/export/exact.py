"""Angles and axes for export files, from which an importer computes the exact original rotation or axis.

Exact means equal to the last bit. Numbers with few digits are preferred, so that a file that is imported and exported
again keeps its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from robots.export.attributes import quaternion_of, rotation_of, rpy_of
from robots.importing.rotations import rotation_rpy, turned_axis

Array = np.ndarray[Any, np.dtype[np.float64]]
Angles = tuple[float, ...]
DIGITS = (*range(1, 9), 17, 16, 15, *range(9, 15))  # significant digits, those that files have first
NEAR = (0, 1, -1, 2, -2)  # units in the last place that are tried beside the angles
TURN = 2.0 * math.pi
NEARLY_UPRIGHT = 1e-4  # cosine of a pitch near +-pi/2: R determines a combination of roll and yaw better than each
QUARTERS = tuple(quarter * math.pi / 2 for quarter in range(-2, 3))


def exact_rpy(R: Array) -> Angles:
    """Angles (roll, pitch, yaw) in rad from which `rotation_rpy` computes exactly the rotation R.

    If no such angles are found, returns the angles of R with rounding errors.
    """
    angles = rpy_of(R)
    for candidate in (
        *_shorter(angles),
        *_beside(angles),
        *(short for each in _same(angles) for short in _shorter(each)),
    ):
        if np.array_equal(rotation_rpy(candidate), R):
            return candidate
    return angles


def exact_axis(R: Array, axis: Sequence[float]) -> Angles:
    """Axis (3,) in the child's frame that `turned_axis` converts exactly to `axis`, which is in the parent's frame.

    If no such axis is found, returns the axis in the child's frame with rounding errors.
    """
    turned = (R.T @ np.array(axis)).tolist()
    for candidate in (*_shorter(turned), *_beside(turned)):
        if any(candidate) and turned_axis(R, candidate) == tuple(axis):
            return candidate
    return tuple(turned)


def exact_quaternion(R: Array) -> Angles:
    """Quaternion w x y z from which an importer, which normalizes the quaternion, computes exactly the rotation R.

    If no such quaternion is found, returns the quaternion of R with rounding errors.
    """
    found = quaternion_of(R).tolist()
    for candidate in (*_shorter(found), *_beside(found)):
        if any(candidate) and np.array_equal(rotation_of(candidate), R):
            return candidate
    return tuple(found)


def exact_offset(whole: Array, part: Array) -> Array:
    """Vector x for which the floating-point sum x + part equals `whole`.

    If no number is found for an entry of x, the entry is that of `whole` - `part`, and the sum has a rounding error.
    """
    found = whole - part
    for k in range(len(found)):
        for step in NEAR:
            candidate = found[k] + step * math.ulp(found[k])
            if candidate + part[k] == whole[k]:
                found[k] = candidate
                break
    return np.asarray(found)


def _shorter(values: Sequence[float]) -> Iterator[Angles]:
    """Yield the values rounded to different numbers of significant digits, few digits first; values below 1e-15 become
    0.
    """
    values = [value if abs(value) > 1e-15 else 0.0 for value in values]
    for digits in DIGITS:
        yield tuple(float(f"{value:.{digits}g}") for value in values)


def _beside(values: Sequence[float]) -> Iterator[Angles]:
    """Yield all combinations of `values` in which each value is changed by at most two units in the last place."""
    for steps in product(NEAR, repeat=len(values)):
        yield tuple(value + step * math.ulp(value) for value, step in zip(values, steps, strict=True))


def _same(angles: Angles) -> Iterator[Angles]:
    """Yield other triples (roll, pitch, yaw) in rad that describe the same rotation.

    In these triples the pitch is beyond +-pi/2, or angles are changed by 2 pi. At a pitch of +-pi/2, where only the sum
    or difference of roll and yaw matters, further triples divide this sum or difference differently between the two.
    """
    roll, pitch, yaw = angles
    found = [angles, (roll + math.pi, math.pi - pitch, yaw + math.pi)]
    if abs(math.cos(pitch)) < NEARLY_UPRIGHT:
        sign = math.copysign(1.0, pitch)
        found += [(roll + sign * (other - yaw), pitch, other) for other in QUARTERS]
        found += [(other, pitch, yaw + sign * (other - roll)) for other in QUARTERS]
    for each in found:
        each = tuple(math.remainder(angle, TURN) for angle in each)
        yield from product(*[(angle, angle - math.copysign(TURN, angle)) for angle in each])

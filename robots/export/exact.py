"""Angles and axes for export files, from which an importer computes the exact original rotation or axis.

Exact means equal to the last bit. Numbers with few digits are preferred, so that a file that is imported and exported
again keeps its numbers. Where no such numbers give the original, the numbers nearest to it are searched, as each rounds
in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from robots.export.attributes import rpy_of
from robots.importing.rotations import cos_sin, entries_rpy, rotation_rpy, turned_axes, turned_axis

Array = np.ndarray[Any, np.dtype[np.float64]]
Angles = tuple[float, ...]
DIGITS = (*range(1, 9), 17, 16, 15, *range(9, 15))  # significant digits, those that files have first
FAR = sorted(range(-5, 6), key=abs)  # steps that are tried beside an angle
FINEST = (0.0, *(2.0**-bits for bits in range(54, 68)))  # smallest steps of a number that are tried
LENGTHS = [  # an importer takes the first few for 1, up to rounding, and normalizes the others
    1.0 + k * unit for unit in (2.0**-52, 2.0**-48) for k in sorted(range(-4, 5), key=abs)
]
UNIT = 1e-6  # difference of an axis's length from 1 that an importer does not warn of
TURN = 2.0 * math.pi
NEARLY_UPRIGHT = 1e-4  # cosine of a pitch near +-pi/2
QUARTERS = tuple(quarter * math.pi / 2 for quarter in range(-2, 3))
YAWS = (  # of an upright R, beside the quarters: those of files, and others that round otherwise
    *(round(quarter, digits) for quarter in QUARTERS for digits in (2, 3, 4, 5, 6)),
    *(tenth / 10.0 for tenth in range(-31, 32)),
)


def short_rpy(R: Array) -> Angles:
    """Angles (roll, pitch, yaw) in rad of the rotation R: with few digits if these give R exactly, otherwise with
    rounding errors.
    """
    return _short_rpy(R) or rpy_of(R)


def exact_rpy(R: Array) -> Angles:
    """Angles (roll, pitch, yaw) in rad from which `rotation_rpy` computes exactly the rotation R.

    If no such angles are found, returns the angles of R with rounding errors.
    """
    if (short := _short_rpy(R)) is not None:
        return short
    angles = rpy_of(R)
    separate = math.atan2(R[2, 1], R[2, 2]), math.atan2(-R[2, 0], math.hypot(R[2, 1], R[2, 2])), angles[2]
    near: list[tuple[Angles, float, Sequence[int]]] = [
        *((each, finest, FAR) for finest in FINEST[:4] for each in (separate, angles)),
        *((each, 0.0, FAR) for each in _same(separate)),
    ]
    if _is_upright(angles[1]):
        near += [(each, finest, (0,)) for finest in FINEST[:2] for each in _divided(angles, (*QUARTERS, *YAWS))]
    for each, finest, pitch_steps in near:
        if (found := _exact_angles(each, finest, pitch_steps, R)) is not None:
            return found
    return angles


def _short_rpy(R: Array) -> Angles | None:
    angles = rpy_of(R)
    others = [*_same(angles)]
    if _is_upright(angles[1]):
        others += [same for each in _divided(angles, QUARTERS) for same in _same(each)]
    for candidate in (short for each in (angles, *others) for short in _shorter(each)):
        if np.array_equal(rotation_rpy(candidate), R):
            return candidate
    return None


def _exact_angles(angles: Angles, finest: float, pitch_steps: Sequence[int], R: Array) -> Angles | None:
    """Angles that give exactly R and differ from `angles` by a few steps; None if there are none.

    finest       smallest step, rad; a step is at least one unit in the last place
    pitch_steps  steps of the pitch that are tried; those of the other angles are FAR
    """
    tried = [
        [angle + step * max(finest, math.ulp(angle)) for step in steps]
        for angle, steps in zip(angles, (FAR, pitch_steps, FAR), strict=True)
    ]
    roll, pitch, yaw = (np.array([cos_sin(angle) for angle in each]).T for each in tried)
    entries = entries_rpy(
        (roll[0][:, None, None], roll[1][:, None, None]),
        (pitch[0][:, None], pitch[1][:, None]),
        (yaw[0], yaw[1]),
    )
    same = np.ones([len(each) for each in tried], dtype=bool)
    for row, expected in zip(entries, R.tolist(), strict=True):
        for entry, number in zip(row, expected, strict=True):
            same &= entry == number
    found = np.argwhere(same).tolist()
    return tuple(each[k] for each, k in zip(tried, found[0], strict=True)) if found else None


def exact_axis(R: Array, axis: Sequence[float]) -> Angles:
    """Axis (3,) in the child's frame that `turned_axis` converts exactly to `axis`, which is in the parent's frame.

    If no such axis is found, returns the axis in the child's frame with rounding errors.
    """
    turned: Array = np.linalg.solve(R, np.array(axis, dtype=float))  # R is orthogonal only up to rounding
    for candidate in _shorter(turned.tolist()):
        if abs(math.hypot(*candidate) - 1.0) < UNIT and turned_axis(R, candidate) == tuple(axis):
            return candidate
    expected = np.array(axis)[:, None]
    found = _exact_beside(turned, 5, FINEST, lambda axes: (turned_axes(R, axes) == expected).all(axis=0))
    return found or tuple(turned.tolist())


def _exact_beside(
    found: Array, farthest: int, finest: Sequence[float], is_exact: Callable[[Array], Array]
) -> Angles | None:
    """Vector (n,) beside `found` that is exact; None if there is none among those tried.

    An importer normalizes the vector, so that its length is free. The tried vectors differ from `found` by that length
    and by at most `farthest` small steps of each component.

    finest    smallest steps that are tried; a step is at least one unit in the last place of the component
    is_exact  tells which of the vectors (n, k) are exact: booleans (k,)
    """
    steps = sorted(product(range(-farthest, farthest + 1), repeat=len(found)), key=lambda each: max(map(abs, each)))
    own = np.spacing(np.abs(found))[:, None]
    for length, smallest in product(LENGTHS, finest):
        candidates = found[:, None] * length + np.maximum(own, smallest) * np.transpose(steps)
        exact = is_exact(candidates)
        if exact.any():
            return tuple(candidates[:, np.argmax(exact)].tolist())
    return None


def _shorter(values: Sequence[float]) -> Iterator[Angles]:
    """Yield the values rounded to different numbers of significant digits, few digits first; values below 1e-15 become
    0.
    """
    values = [value if abs(value) > 1e-15 else 0.0 for value in values]
    for digits in DIGITS:
        yield tuple(float(f"{value:.{digits}g}") for value in values)


def _same(angles: Angles) -> Iterator[Angles]:
    """Yield other triples (roll, pitch, yaw) in rad that describe the same rotation: with a pitch beyond +-pi/2, and
    with angles changed by 2 pi.
    """
    roll, pitch, yaw = angles
    for each in (angles, (roll + math.pi, math.pi - pitch, yaw + math.pi)):
        each = tuple(math.remainder(angle, TURN) for angle in each)
        yield from product(*[(angle, angle - math.copysign(TURN, angle)) for angle in each])


def _is_upright(pitch: float) -> bool:
    """Whether a rotation of this pitch determines only a combination of roll and yaw well."""
    return abs(math.cos(pitch)) < NEARLY_UPRIGHT


def _divided(angles: Angles, others: Sequence[float]) -> Iterator[Angles]:
    """Yield other triples (roll, pitch, yaw) in rad of an upright rotation, with each of `others` as roll or yaw."""
    roll, pitch, yaw = angles
    sign = math.copysign(1.0, pitch)
    for other in others:
        yield math.remainder(roll + sign * (other - yaw), TURN), pitch, other
        yield other, pitch, math.remainder(yaw + sign * (other - roll), TURN)

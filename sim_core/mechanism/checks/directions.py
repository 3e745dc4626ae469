"""Checks that axes have length 1, rotation matrices are orthonormal with determinant 1, and quaternions have norm 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.checks.names import items_of
from sim_core.mechanism.description import Joint, Mechanism, SpinRelation

AXES = ("axis", "axis_a", "axis_b", "direction", "normal")  # fields that hold a unit vector
AXIS_LISTS = ("directions", "axes")  # fields that hold several unit vectors
QUATERNIONS = ("quaternion", "rest_quaternion", "other_quaternion")
TOLERANCE = 1e-12  # on a squared length
ROUNDED = 1e-6  # on a rotation's row products and on a quaternion's norm: files round their numbers


def check_directions(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism for the first axis that is no unit vector or the first rotation that is invalid."""
    for where, item in items_of(mechanism, owner):
        _check_item(item, where)
        for inside in (*getattr(item, "shapes", ()), *getattr(item, "conditions", ())):
            _check_item(inside, f"{where}: {type(inside).__name__.lower()}")
        if isinstance(item, Joint) and item.spring is not None:
            _check_item(item.spring, f"{where}: spring")


def _check_item(item: Any, where: str) -> None:
    for name in AXES:
        if isinstance(value := getattr(item, name, None), tuple):
            _check_unit(value, name, where)
    for name in AXIS_LISTS:
        if isinstance(value := getattr(item, name, None), tuple):
            if not value:
                raise InvalidMechanism(f"{where}: {name} is empty; it needs at least one direction")
            for axis in value:
                _check_unit(axis, name, where)
    if isinstance(item, SpinRelation):
        for body, axis, _ in item.terms:
            _check_unit(axis, f"the axis of {body!r}", where)
    if isinstance(item, Joint):
        _check_rotation(item.rotation, where)
    for name in QUATERNIONS:
        if isinstance(value := getattr(item, name, None), tuple):
            _check_quaternion(value, name, where)


def _check_unit(axis: Sequence[float], name: str, where: str) -> None:
    length = math.sqrt(sum(c * c for c in axis))
    if abs(length * length - 1.0) <= TOLERANCE:
        return
    hint = f": ({', '.join(f'{c / length:.16g}' for c in axis)})" if 0.0 < length < math.inf else ""
    raise InvalidMechanism(f"{where}: {name} is {tuple(axis)}; it must have length 1 (a unit vector){hint}")


def _check_rotation(R: Sequence[Sequence[float]], where: str) -> None:
    """Raise InvalidMechanism unless R' R = 1 and det R = 1."""
    off = max(abs(sum(R[k][i] * R[k][j] for k in range(3)) - (i == j)) for i in range(3) for j in range(3))
    (a, b, c), (d, e, f), (g, h, i) = R
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    if off > ROUNDED:
        raise InvalidMechanism(
            f"{where}: rotation is {tuple(R)}, not a rotation matrix; its rows must be perpendicular unit vectors"
        )
    if determinant < 0.0:
        raise InvalidMechanism(
            f"{where}: rotation is {tuple(R)}, a reflection; its determinant is {determinant:.3g} and must be 1"
        )


def _check_quaternion(quaternion: Sequence[float], name: str, where: str) -> None:
    norm = math.sqrt(sum(c * c for c in quaternion))
    if abs(norm - 1.0) > ROUNDED:
        raise InvalidMechanism(f"{where}: {name} is {tuple(quaternion)} of norm {norm:.6g}; its norm must be 1")

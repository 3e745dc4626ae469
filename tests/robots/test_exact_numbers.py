"""Angles and axes in exported files give the exact rotations and axes that they were written from."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from robots.export.attributes import numbers
from robots.export.exact import exact_axis, exact_rpy
from robots.importing.rotations import rotation_rpy, rows, turned_axis

Random = np.random.Generator

RIGHT = [0.0, math.pi / 2, -math.pi / 2, math.pi, 1.5708, 0.5]
ANGLES: dict[str, Callable[[Random], np.ndarray]] = {
    "two decimals": lambda random: random.uniform(-3.0, 3.0, 3).round(2),
    "right angles": lambda random: random.choice(RIGHT, 3),
    "upright": lambda random: np.array([random.uniform(-3.0, 3.0), random.choice(RIGHT[1:3]), random.choice(RIGHT)]),
    "turned upright": lambda random: np.array([random.uniform(-3.0, 3.0), math.pi / 2, random.uniform(-3.0, 3.0)]),
    "small": lambda random: random.normal(size=3) * 10.0 ** random.integers(-12, 0, 3),
}
AXES: dict[str, Callable[[Random], np.ndarray]] = {
    "all digits": lambda random: random.normal(size=3),
    "three decimals": lambda random: random.normal(size=3).round(3),
    "coordinate": lambda random: np.eye(3)[random.integers(3)] * random.choice([-1.0, 1.0]),
}


def rotation(kind: str, random: Random) -> np.ndarray:
    return np.array(rows(rotation_rpy(ANGLES[kind](random).tolist())))


def as_read(values: tuple[float, ...]) -> list[float]:
    """The values as an importer reads them from an attribute."""
    return [float(word) for word in numbers(values).split()]


@pytest.mark.parametrize("kind", ANGLES)
def test_roll_pitch_and_yaw_give_the_rotation_to_the_last_bit(kind: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        R = rotation(kind, random)
        np.testing.assert_array_equal(rotation_rpy(as_read(exact_rpy(R))), R)


@pytest.mark.parametrize("angles", ANGLES)
@pytest.mark.parametrize("kind", AXES)
def test_an_axis_is_the_same_to_the_last_bit(kind: str, angles: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        R = rotation(angles, random)
        axis = turned_axis(R, AXES[kind](random).tolist())
        assert turned_axis(R, as_read(exact_axis(R, axis))) == axis

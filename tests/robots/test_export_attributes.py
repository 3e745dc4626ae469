"""Numbers of exported files: roll, pitch and yaw, colours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robots.export.attributes import rgba_of, rpy_of
from sim_core.mechanism import X, Y, Z
from sim_core.spatial import rotation_about, rotation_from_quaternion


def rotation_of_rpy(roll: float, pitch: float, yaw: float) -> np.ndarray:
    turns = rotation_about(Z, yaw), rotation_about(Y, pitch), rotation_about(X, roll)
    return np.asarray(turns[0] @ turns[1] @ turns[2])


@settings(max_examples=500, deadline=None)
@given(st.tuples(*[st.floats(-4.0, 4.0)] * 4).filter(lambda e: np.linalg.norm(e) > 1e-2))
def test_roll_pitch_yaw_turn_back_into_the_rotation(e: tuple[float, ...]) -> None:
    R = rotation_from_quaternion(np.array(e) / np.linalg.norm(e))
    np.testing.assert_allclose(rotation_of_rpy(*rpy_of(R)), R, atol=2e-15)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("off", [0.0, 1e-16, 1e-12, 1e-9, 1e-8, 1e-7, 1e-4])
def test_roll_pitch_yaw_hold_where_the_pitch_is_a_right_angle(sign: float, off: float) -> None:
    for roll, yaw in np.random.default_rng(2).uniform(-3.0, 3.0, (200, 2)):
        R = rotation_of_rpy(roll, sign * (np.pi / 2 - off), yaw)
        np.testing.assert_allclose(rotation_of_rpy(*rpy_of(R)), R, atol=1e-15)


def test_colours_are_red_green_blue() -> None:
    assert rgba_of("#ff0033") == rgba_of("#f03") == "1.0 0.0 0.2 1.0"
    assert [rgba_of(color) for color in ("", "red", "#12", "#12345g", "123456")] == [None] * 5

"""Motion profiles against closed forms: what they meet at their ends, their derivatives, the limits they keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.planning.profiles import (
    Curve,
    Point,
    acceleration_segments,
    least_time,
    minimum_jerk,
    quintic,
    sine,
    trapezoidal,
)

TIMES = [0.5, 1.5, 2.0]
VALUES = [0.2, 1.4, -0.3]
ENDS: list[Point] = [(0.2, 0.3, -1.0), (1.4, -0.5, 2.0), (-0.3, 0.1, 0.4)]
PI_9 = math.pi / 9.0
PROFILES: dict[str, Curve] = {
    "sine": lambda t: sine(0.5, 3.0, t),
    "minimum_jerk": lambda t: minimum_jerk(TIMES, VALUES, t),
    "quintic": quintic(TIMES, ENDS),
    "trapezoidal": trapezoidal(TIMES, VALUES, 40.0, 9.0),
    "acceleration_segments": lambda t: acceleration_segments([(0.8, -PI_9), (0.8, PI_9)], t),
}
number = st.floats(-5.0, 5.0)
duration = st.floats(0.1, 10.0)


@pytest.mark.parametrize("t", [0.1, 0.61, 0.77, 1.2, 1.47, 1.63, 1.97, 2.6])
@pytest.mark.parametrize("name", PROFILES)
def test_rate_and_acceleration_are_the_derivatives_of_the_value(name: str, t: float) -> None:
    curve, h = PROFILES[name], 1e-5
    slope = (np.array(curve(t + h)) - np.array(curve(t - h))) / (2.0 * h)
    assert slope[:2] == pytest.approx(curve(t)[1:], rel=1e-6, abs=1e-6)


@given(st.tuples(number, number, number), st.tuples(number, number, number), duration)
def test_a_quintic_meets_value_rate_and_acceleration_at_both_ends(start: Point, end: Point, span: float) -> None:
    curve = quintic([1.0, 1.0 + span], [start, end])
    scale = 100.0 * max(1.0, 1.0 / span**2)
    assert curve(1.0) == pytest.approx(start, abs=1e-9)
    assert curve(1.0 + span) == pytest.approx(end, abs=1e-12 * scale)


def test_a_quintic_goes_through_every_waypoint_and_rests_outside() -> None:
    curve = PROFILES["quintic"]
    for t, point in zip(TIMES, ENDS, strict=True):
        assert curve(t) == pytest.approx(point, abs=1e-12)
    assert curve(0.0) == (0.2, 0.0, 0.0)
    assert curve(9.0) == (-0.3, 0.0, 0.0)
    assert quintic([1.0], ENDS[:1])(1.0) == (0.2, 0.0, 0.0)


def test_a_quintic_between_rests_is_the_minimum_jerk_move() -> None:
    curve = quintic(TIMES, [(value, 0.0, 0.0) for value in VALUES])
    for t in np.linspace(0.0, 2.5, 26):
        assert curve(float(t)) == pytest.approx(minimum_jerk(TIMES, VALUES, float(t)), abs=1e-11)


def test_a_minimum_jerk_move_peaks_as_it_must() -> None:
    """Over way d in T the largest rate is 15 d / 8 T at the middle, the largest acceleration 10 d / (sqrt(3) T^2)."""
    t = np.linspace(0.0, 2.0, 4001)
    rows = np.array([minimum_jerk([0.0, 2.0], [0.0, 3.0], float(x)) for x in t])
    assert rows[:, 1].max() == pytest.approx(15.0 / 8.0 * 3.0 / 2.0, rel=1e-9)
    assert rows[:, 2].max() == pytest.approx(10.0 / math.sqrt(3.0) * 3.0 / 4.0, rel=1e-6)


@given(number, number, duration, st.floats(0.5, 50.0))
def test_a_trapezoidal_move_arrives_within_its_acceleration(
    start: float, end: float, span: float, acceleration: float
) -> None:
    if least_time(end - start, acceleration, math.inf) > span:
        with pytest.raises(ValueError, match="move to waypoint 2"):
            trapezoidal([0.0, span], [start, end], acceleration, math.inf)
        return
    curve = trapezoidal([0.0, span], [start, end], acceleration, math.inf)
    h = span / 400
    rows = np.array([curve(t) for t in np.linspace(0.0, span, 401)])
    assert (rows[0, 0], rows[-1, 0]) == (start, end)
    assert np.abs(rows[:, 2]).max() <= acceleration
    # no jump: between two samples the value changes by no more than the rates allow
    assert np.abs(np.diff(rows[:, 1])).max() <= acceleration * h * (1 + 1e-6) + 1e-9
    assert np.abs(np.diff(rows[:, 0])).max() <= np.abs(rows[:, 1]).max() * h + acceleration * h * h + 1e-9
    assert np.all(np.diff(rows[:, 0]) * math.copysign(1.0, end - start) >= -1e-9)


def test_a_trapezoidal_move_as_fast_as_its_limits_allow_cruises_at_the_velocity_limit() -> None:
    span = least_time(2.0, 4.0, 1.6)
    assert span == pytest.approx(2.0 / 1.6 + 1.6 / 4.0)
    curve = trapezoidal([0.0, span], [0.0, -2.0], 4.0, 1.6)
    assert curve(span / 2.0) == (pytest.approx(-1.0), pytest.approx(-1.6), 0.0)
    with pytest.raises(ValueError, match=r"waypoint 2 lasts 1\.6 s; the limits require at least 1\.65 s"):
        trapezoidal([0.0, 1.6], [0.0, -2.0], 4.0, 1.6)


def test_the_papers_validation_motion_ends_at_rest() -> None:
    """Accelerations -a and +a for 2.5 s each: the way is -a 2.5^2."""
    segments = [(2.5, -PI_9), (2.5, PI_9)]
    assert acceleration_segments(segments, 0.0) == (0.0, 0.0, -PI_9)
    assert acceleration_segments(segments, 2.5) == pytest.approx((-PI_9 * 3.125, -PI_9 * 2.5, PI_9))
    assert acceleration_segments(segments, 6.0) == pytest.approx((-PI_9 * 6.25, 0.0, 0.0))
    assert acceleration_segments(segments, -1.0) == (0.0, 0.0, 0.0)

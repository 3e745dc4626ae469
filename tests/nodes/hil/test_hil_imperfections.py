"""Friction, play, encoder steps and clocks against what can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nodes.hil.emulation.imperfections import OwnClock, drag, dry_friction, quantize, take_up

G, H = 9.81, 1e-3


def slide(v: float, slope: float, mu: float, seconds: float) -> tuple[float, float]:
    """Way and speed of a block of 1 kg that starts downhill at v; semi-implicit steps, exact for constant forces."""
    way = 0.0
    limit = np.array([mu * G * math.cos(slope)])
    for _ in range(round(seconds / H)):
        a = np.array([G * math.sin(slope)])
        f = dry_friction(np.array([v]), a, np.eye(1), limit, H)
        before, v = v, v + H * float(a[0] + f[0])
        way += H * (before + v) / 2.0
    return way, v


def test_a_sliding_block_stops_after_its_braking_distance_and_stays() -> None:
    way, v = slide(1.0, 0.0, 0.3, 1.0)
    assert v == 0.0
    assert way == pytest.approx(1.0 / (2 * 0.3 * G), rel=1e-5)


def test_a_block_on_a_slope_sticks_below_the_angle_of_friction_and_slides_above() -> None:
    assert slide(0.0, 0.29, 0.3, 1.0) == (0.0, 0.0)  # tan(0.29) = 0.298
    _, v = slide(0.0, 0.5, 0.3, 1.0)
    assert v == pytest.approx(G * (math.sin(0.5) - 0.3 * math.cos(0.5)), rel=1e-9)


FINITE = st.floats(-10.0, 10.0)


@given(
    arrays(float, 3, elements=FINITE),
    arrays(float, 3, elements=FINITE),
    arrays(float, (3, 3), elements=st.floats(-1.0, 1.0)),
    arrays(float, 3, elements=st.floats(0.0, 20.0)),
)
def test_every_joint_of_a_chain_sticks_or_is_braked_with_all_its_friction(
    v: np.ndarray, a: np.ndarray, root: np.ndarray, limit: np.ndarray
) -> None:
    A = root @ root.T + 0.5 * np.eye(3)
    f = dry_friction(v, a, A, limit, H)
    after = v + H * (a + A @ f)
    assert (np.abs(f) <= limit).all()
    free = np.abs(f) < limit * (1.0 - 1e-9)
    assert after[free] == pytest.approx(0.0, abs=1e-8 * (1.0 + H * np.abs(A).max() * limit.max()))
    assert (f * after <= 1e-8).all()  # friction never drives


def test_a_gear_passes_nothing_on_while_it_crosses_its_play() -> None:
    play, rate = np.array([0.01]), 0.5
    place, passed = np.array([0.005]), []  # touches on the side it pushed to
    for _ in range(40):
        place, effort = take_up(place, np.array([-2.0]), rate, play, H)
        passed.append(float(effort[0]))
    free = passed.index(-2.0)
    assert free * H == pytest.approx(0.01 / rate, abs=1.001 * H)
    assert set(passed[:free]) == {0.0}
    assert set(passed[free:]) == {-2.0}
    _, without = take_up(np.zeros(1), np.array([3.0]), rate, np.zeros(1), H)
    assert without.tolist() == [3.0]


def test_a_dragged_encoder_shows_the_loop_of_its_play() -> None:
    play, shown = np.array([0.2]), np.zeros(1)
    up, down = np.linspace(0.0, 1.0, 101), np.linspace(1.0, 0.0, 101)
    for x in up:
        shown = drag(shown, np.array([x]), play)
    assert shown == pytest.approx(0.9)
    back = []
    for x in down:
        shown = drag(shown, np.array([x]), play)
        back.append(float(shown[0]))
    assert back[20] == pytest.approx(0.9)  # the whole play is lost on the way back
    assert back[-1] == pytest.approx(0.1)


@given(arrays(float, 5, elements=st.floats(-100.0, 100.0)), st.floats(1e-6, 1.0))
def test_an_encoder_is_off_by_half_a_step_at_most(values: np.ndarray, step: float) -> None:
    steps = np.array([step, step, step, step, 0.0])
    shown = quantize(values, steps)
    assert (np.abs(shown - values)[:4] <= step / 2.0 * (1.0 + 1e-6)).all()
    assert shown[4] == values[4]
    assert shown[:4] / step == pytest.approx(np.round(shown[:4] / step), rel=1e-9)


def test_a_clock_has_an_offset_drifts_and_is_put_forward() -> None:
    clock = OwnClock(offset_s=5.0, drift=1e-3, step_s=1.0, step_at_s=10.0)
    assert clock.at(0.0) == 5.0
    assert clock.at(9.0) == pytest.approx(14.009)
    assert clock.at(10.0) == pytest.approx(16.01)
    assert clock.elapsed(10.0) == pytest.approx(10.01)  # its timers are not put forward

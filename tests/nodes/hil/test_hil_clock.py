"""The other host's clock is found from synthetic round trips whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.hil.clocks.estimation import Exchange, detect_steps, estimate_clock, quickest


def exchanges(
    n: int = 400,
    offset: float = 3.2,
    drift: float = 40e-6,
    jitter: float = 2e-3,
    shortest: float = 1e-4,
    seed: int = 0,
    step: tuple[int, float] = (10**9, 0.0),
    back: float = 1.0,
) -> list[Exchange]:
    """Round trips once in 0.1 s; `step`: (exchange, s) from which their clock is that much further.

    Each way takes `shortest` and an exponential jitter; the way back `back` times as much.
    """
    random = np.random.default_rng(seed)
    found = []
    for k in range(n):
        t1 = 0.1 * k
        there = shortest + random.exponential(jitter)
        home = back * (shortest + random.exponential(jitter))
        error = offset + (step[1] if k >= step[0] else 0.0)
        t2 = t1 + there
        t3 = t2 + 50e-6

        def theirs(t: float, error: float = error) -> float:
            return t + error + drift * t

        found.append(Exchange(t1, theirs(t2), theirs(t3), t3 + home))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_offset_and_drift_are_found_within_their_uncertainty(seed: int) -> None:
    clock = estimate_clock(exchanges(seed=seed))
    for t in (0.0, 20.0, 40.0):
        assert abs(clock.offset_at(t) - (3.2 + 40e-6 * t)) < 4.0 * clock.uncertainty_at(t)
    assert abs(clock.drift - 40e-6) < 4.0 * clock.drift_sigma
    assert clock.uncertainty_at(20.0) < 3e-4  # where a single round trip is off by 1.4 ms
    assert clock.steps == ()


def test_the_uncertainty_is_neither_boast_nor_excuse() -> None:
    errors = []
    for seed in range(60):
        clock = estimate_clock(exchanges(seed=seed, shortest=0.0))
        errors.append((clock.offset_at(clock.since) - 3.2 - 40e-6 * clock.since) / clock.sigma_s)
    assert 0.4 < np.std(errors) < 2.5


def test_the_quickest_exchange_of_each_window_counts() -> None:
    found = exchanges(n=35)
    kept = quickest(found, 8)
    assert len(kept) == 4
    for i, each in enumerate(kept):
        assert each.way == min(other.way for other in found[8 * i : 8 * i + 8])


def test_without_jitter_the_line_is_met_exactly() -> None:
    clock = estimate_clock(exchanges(jitter=0.0))
    assert clock.offset_at(0.0) == pytest.approx(3.2, abs=1e-7)
    assert clock.drift == pytest.approx(40e-6, abs=1e-8)
    assert clock.bound_s == pytest.approx(1e-4, rel=0.01)


def test_ways_that_differ_are_within_the_bound() -> None:
    clock = estimate_clock(exchanges(jitter=1e-5, shortest=2e-3, back=5.0))
    error = abs(clock.offset_at(20.0) - (3.2 + 40e-6 * 20.0))
    assert 3.5e-3 < error <= clock.bound_s + 1e-4  # the way back took 8 ms longer: half of it goes unseen
    assert error < 2.0 * clock.uncertainty_at(20.0)


@pytest.mark.parametrize("size", [1.0, -1.0, 0.05])
def test_a_step_is_found_and_what_was_before_it_forgotten(size: float) -> None:
    clock = estimate_clock(exchanges(step=(150, size)))
    (step,) = clock.steps
    assert (step.after_s, step.before_s) == pytest.approx((14.9, 15.0), abs=0.02)
    assert abs(step.size_s - size) < 4.0 * step.sigma_s + 1e-4
    assert abs(clock.offset_at(30.0) - (3.2 + size + 40e-6 * 30.0)) < 4.0 * clock.uncertainty_at(30.0)
    assert clock.since > 15.0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.05), st.floats(-1e-4, 1e-4), st.floats(-1e6, 1e6))
def test_no_step_is_seen_where_there_is_none(seed: int, jitter: float, drift: float, offset: float) -> None:
    assert detect_steps(exchanges(n=60, seed=seed, jitter=jitter, drift=drift, offset=offset)) == []


@given(st.floats(-1e3, 1e3), st.integers(0, 100))
def test_our_time_and_theirs_are_each_others_inverse(t: float, seed: int) -> None:
    clock = estimate_clock(exchanges(n=80, seed=seed))
    assert clock.to_local(clock.to_peer(t)) == pytest.approx(t, abs=1e-9)


def test_too_few_and_impossible_exchanges_are_refused() -> None:
    with pytest.raises(
        ValueError,
        match="only 10 round trips since the clock's last jump; make at least 24",
    ):
        estimate_clock(exchanges(n=10))
    with pytest.raises(ValueError, match="round trip 1 has a travel time of -1 s"):
        estimate_clock([Exchange(0.0, 1.0, 1.0, 0.0), Exchange(0.0, 1.0, 2.0, 0.0)])
    assert estimate_clock(exchanges(n=10), window=2).exchanges == 5


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.floats(1e-4, 2e-2), st.floats(-1e-4, 1e-4), st.integers(3, 60), st.floats(0.2, 5.0)
)
def test_no_exchange_is_contradicted_and_the_truth_is_within_the_bound(
    seed: int, jitter: float, drift: float, n: int, back: float
) -> None:
    found = exchanges(n=n, seed=seed, jitter=jitter, drift=drift, back=back)
    clock = estimate_clock(found, window=1)
    for each in found:
        assert abs(clock.offset_at(each.time) - each.offset) <= each.way / 2.0 + 2e-6 + 2e-5 * each.way
    assert abs(clock.offset_at(clock.since) - (3.2 + drift * clock.since)) <= 1.05 * clock.bound_s + 2e-6
    assert clock.sigma_s <= clock.bound_s


def test_a_clock_whose_drift_changes_is_followed_as_well_as_can_be() -> None:
    first, then = exchanges(n=100, jitter=1e-5, drift=0.0), exchanges(n=200, jitter=1e-5, drift=300e-6, offset=3.197)
    clock = estimate_clock([*first, *then[100:]], window=1)
    assert abs(clock.offset_at(10.0) - 3.2) < 3e-3
    assert clock.bound_s > 1e-4

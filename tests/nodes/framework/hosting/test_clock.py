"""The pacer keeps its grid, skips what it missed and says so; durations are right within their bins."""

from __future__ import annotations

import random
import time

import pytest

from nodes.framework.hosting.timing.clock import Durations, Pacer
from nodes.framework.hosting.wakeup import Timer, WakeupPipe


def test_quantiles_are_right_within_a_bin() -> None:
    source = random.Random(1)
    values = sorted(int(10 ** source.uniform(0, 9)) for _ in range(5000))
    durations = Durations()
    for value in values:
        durations.add(value)
    for fraction in (0.01, 0.5, 0.99, 1.0):
        exact = values[max(round(fraction * len(values)) - 1, 0)] * 1e-9
        assert durations.quantile_s(fraction) == pytest.approx(exact, rel=0.033, abs=1e-9)
    assert durations.largest_ns == values[-1]


def test_durations_bear_what_cannot_be() -> None:
    durations = Durations()
    assert (durations.quantile_s(0.5), durations.largest_s) == (None, None)
    for value in (-5, 0, 1, 2**60):
        durations.add(value)
    assert durations.count == 3  # beyond the last bin nothing is counted


def test_ticks_come_on_the_grid_and_never_early() -> None:
    pacer = Pacer(2e-3)
    began = time.perf_counter()
    for tick in range(1, 51):
        pacer.wait()
        assert time.perf_counter() - began >= tick * 2e-3 - 1e-4 - pacer.skipped * 2e-3
    assert pacer.jitter.count == 50


@pytest.mark.parametrize(("late_ns", "spins_ns"), [(0, 5_000), (30_000, 30_000), (200_000, 60_000)])
def test_a_pacer_learns_how_late_sleeps_end(monkeypatch: pytest.MonkeyPatch, late_ns: int, spins_ns: int) -> None:
    now, before_deadline = 0, 0

    def clock() -> int:
        nonlocal now
        now += 50  # so long it takes to read it
        return now

    def doze(seconds: float) -> None:
        nonlocal now, before_deadline
        before_deadline = pacer.left_s * 1e9 - seconds * 1e9
        now += round(seconds * 1e9) + late_ns

    monkeypatch.setattr(time, "perf_counter_ns", clock)
    pacer = Pacer(1e-3)
    for _ in range(500):
        pacer.wait(doze)
    assert before_deadline == pytest.approx(spins_ns, abs=3_000)


def test_missed_deadlines_are_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("late, and yet it sleeps"))
    pacer = Pacer(1e-3)
    now = 1_900_000  # less than a period late: the grid is kept
    pacer.wait()
    assert (pacer.overruns, pacer.skipped) == (0, 0)
    now = 7_500_000  # the deadline was at 2 ms: 3 to 7 ms are given up but for the last
    pacer.wait()
    assert (pacer.overruns, pacer.skipped) == (1, 5)
    now = 8_000_000
    pacer.wait()
    assert pacer.overruns == 1


def test_a_timer_says_how_many_periods_ended() -> None:
    before = time.monotonic()
    timer = Timer(1e-3)
    after = time.monotonic()
    total = 0
    while (asked := time.monotonic()) - after < 0.05:
        total += timer.expired()
        answered = time.monotonic()
        at_least, at_most = int((asked - after) * 1e3 - 0.1), int((answered - before) * 1e3 + 0.1)
        assert at_least <= total <= at_most
    timer.close()


def test_a_wake_is_heard_once_however_often_it_was_set() -> None:
    import select

    wake = WakeupPipe()
    for _ in range(100_000):  # more than a pipe holds
        wake.set()
    assert select.select([wake], [], [], 0)[0]
    wake.clear()
    assert not select.select([wake], [], [], 0)[0]
    wake.close()

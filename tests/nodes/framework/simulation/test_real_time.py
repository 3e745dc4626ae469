"""Real-time discipline: what becomes of a missed deadline, what is measured, core and priority."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.client import read_recording
from nodes.framework.hosting.timing.clock import DeadlineMissedError, Durations, Pacer
from nodes.framework.hosting.timing.scheduling import arrange, as_it_is
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.pacer import StepPacer

MakePlan = Callable[..., Plan]
MS = 1_000_000


class Time:
    """A clock that moves when told to, and in a sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        monkeypatch.setattr(time, "perf_counter_ns", self.read)

    def read(self) -> int:
        self.now += 10
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def ticks(pacer: Pacer, clock: Time, count: int) -> list[float]:
    found = []
    for _ in range(count):
        pacer.wait(clock.sleep)
        found.append(round(clock.now / MS, 2))
    return found


def test_skipped_deadlines_are_left_out(clock: Time) -> None:
    pacer = Pacer(1e-3, "skip")
    assert ticks(pacer, clock, 2) == [1.0, 2.0]
    clock.now += round(4.5 * MS)
    assert ticks(pacer, clock, 3) == [6.5, 7.0, 8.0]
    assert (pacer.overruns, pacer.skipped) == (1, 3)


def test_missed_deadlines_are_made_up_for_at_once(clock: Time) -> None:
    pacer = Pacer(1e-3, "catch_up")
    assert ticks(pacer, clock, 2) == [1.0, 2.0]
    clock.now += round(4.5 * MS)
    assert ticks(pacer, clock, 6) == [6.5, 6.5, 6.5, 6.5, 7.0, 8.0]  # the ticks of 3, 4, 5 and 6 ms, then on the grid
    assert (pacer.overruns, pacer.skipped) == (3, 0)


def test_what_is_too_late_to_make_up_for_is_skipped(clock: Time) -> None:
    pacer = Pacer(1e-3, "catch_up")
    clock.now += 800 * MS
    assert ticks(pacer, clock, 3) == [800.0, 801.0, 802.0]
    assert (pacer.overruns, pacer.skipped) == (1, 799)


def test_a_missed_deadline_ends_it_where_that_was_asked_for(clock: Time) -> None:
    pacer = Pacer(1e-3, "stop")
    clock.now += round(1.9 * MS)
    ticks(pacer, clock, 1)  # late by less than a period
    clock.now += round(5.0 * MS)
    with pytest.raises(
        DeadlineMissedError,
        match=r"began 4\.9 ms late, .* delays below the period of 1 ms",
    ):
        pacer.wait(clock.sleep)


def test_jitter_is_the_difference_from_the_period(clock: Time) -> None:
    pacer = Pacer(1e-3)
    ticks(pacer, clock, 9)
    clock.now += round(1.4 * MS)
    ticks(pacer, clock, 2)
    assert pacer.jitter.count == 11
    assert pacer.jitter.largest_ns == pytest.approx(0.4 * MS, rel=0.01)
    assert pacer.jitter.histogram() == {"to 1 us": 9, "to 500 us": 2}  # one late, the next early by as much


def test_a_histogram_has_round_edges_and_holds_everything() -> None:
    durations = Durations()
    for ns in (0, 900, 1_500, 60_000, 3 * MS, 40 * MS, 9_000 * MS):
        durations.add(ns)
    assert durations.histogram() == {
        "to 1 us": 2,
        "to 2 us": 1,
        "to 100 us": 1,
        "to 5 ms": 1,
        "to 50 ms": 1,
        "above": 1,
    }


def test_a_cadence_counts_on_when_the_speed_changes(clock: Time) -> None:
    cadence = StepPacer(1e-4, "skip")
    pacer = cadence.at(1.0, begins=True)
    assert (cadence.batch, pacer.period_ns) == (5, MS // 2)
    clock.now += 3 * MS
    pacer.wait(clock.sleep)
    assert cadence.at(1.0, begins=False) is pacer
    faster = cadence.at(0.1, begins=False)
    assert (cadence.batch, faster.period_ns) == (1, MS)
    clock.now += 5 * MS
    faster.wait(clock.sleep)
    assert (cadence.overruns, cadence.skipped) == (2, 5 + 4)
    assert cadence.status()["jitter_histogram"] == cadence.jitter.histogram()


def test_core_and_priority_are_as_asked_or_it_is_said_why_not() -> None:
    before = os.sched_getscheduler(0), os.sched_getparam(0), os.sched_getaffinity(0)
    core = min(before[2])
    try:
        refused = arrange(core, True)
        assert os.sched_getaffinity(0) == {core}
        assert as_it_is() == f"core {core}, " + ("SCHED_OTHER" if refused else "SCHED_FIFO 50")
        assert all("SCHED_FIFO" in line for line in refused)
    finally:
        os.sched_setscheduler(0, before[0], before[1])
        os.sched_setaffinity(0, before[2])
    assert arrange(None, False) == []
    (line,) = arrange(4000, False)
    assert line.startswith("there is no core 4000 for this process; it may use core")


def test_the_server_tells_its_discipline(make_plan: MakePlan, run: Any) -> None:
    core = min(os.sched_getaffinity(0))
    running = run(make_plan("Damp", mode="realtime", duration_s=0.5, cpu=core, overrun_policy="catch_up"))
    running.call("sim", "resume")
    status = running.until(state="stopped")
    assert status["scheduling"] == f"core {core}, SCHED_OTHER"
    assert status["step_max_s"] >= status["step_p99_s"] > 0.0
    assert sum(status["jitter_histogram"].values()) == 500
    assert 0.0 <= status["jitter_p50_s"] <= status["jitter_p99_s"] <= status["jitter_max_s"] * 1.04
    assert status["tick"] == 500


def test_a_run_that_is_to_stop_at_a_missed_deadline_does_and_its_recording_says_so(
    run: Any, domain: int, until: Any, tmp_path: Path
) -> None:
    file = tmp_path / "run.mcap"
    recorder = f'[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = {{ file = "{file}" }}\n'
    sim = '[sim]\nrobot = "rotary_pendulum"\nmode = "realtime"\noverrun_policy = "stop"\n'
    (tmp_path / "plan.toml").write_text(f"domain = {domain}\n{sim}{recorder}")
    running = run(load_plan(tmp_path / "plan.toml"))
    running.call("sim", "step", n=1)
    until(lambda: running.call("recorder", "recording")["kept"])
    running.call("sim", "speed", x=1000.0)  # 1 us for each step: no computer keeps that
    running.call("sim", "resume")
    process = running.processes["sim"]
    assert process.wait(20.0) == 1
    assert "late, and overrun_policy is stop, which allows delays below" in (said := process.stderr.read())
    assert 'overrun_policy = "stop" ends the run' in said
    running.call("recorder", "shutdown")
    assert running.processes["recorder"].wait(10.0) == 0
    event = read_recording(file)["rotary_pendulum/event"]
    (late,) = np.flatnonzero(event["kind"] == "late")
    assert event["detail"][late] in said

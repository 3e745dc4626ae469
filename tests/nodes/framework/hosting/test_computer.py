"""What this computer can hold: its settings as /proc and /sys say them, and a loop's punctuality."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.framework.hosting.computer import Setting, settings
from nodes.framework.hosting.timing import scheduling
from nodes.framework.hosting.timing.jitter import RATES_HZ, Jitter, measure_jitter

CPU = "sys/devices/system/cpu"


def tree(root: Path, **files: str) -> Path:
    """A root folder with these files; "__" in a name stands for "/", so that names are words."""
    for name, text in files.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


def said(root: Path, kernel: str = "#1 SMP PREEMPT_DYNAMIC", cores: int = 2) -> dict[str, Setting]:
    return {each.subject: each for each in settings(root, kernel, cores)}


def test_a_tuned_computer_needs_no_advice(tmp_path: Path) -> None:
    tree(
        tmp_path,
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="performance",
        sys__devices__system__cpu__cpu1__cpufreq__scaling_governor="performance",
        sys__devices__system__cpu__isolated="1",
        sys__kernel__realtime="1",
        sys__devices__system__clocksource__clocksource0__current_clocksource="tsc",
        proc__sys__kernel__sched_rt_runtime_us="-1",
        proc__sys__kernel__sched_rt_period_us="1000000",
    )
    found = said(tmp_path)
    assert [each for each in found.values() if each.advice] == []
    assert found["isolated cores"].found == "1; the simulation server uses one with cpu = N in [sim]"
    assert found["kernel"].found == "PREEMPT_RT"
    assert found["real-time share"].found == "threads with SCHED_FIFO may use all of a core"


def test_what_could_be_better_comes_with_how(tmp_path: Path) -> None:
    tree(
        tmp_path,
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="powersave",
        sys__devices__system__cpu__cpu1__cpufreq__scaling_governor="schedutil",
        sys__devices__system__cpu__isolated="",
        sys__devices__system__clocksource__clocksource0__current_clocksource="hpet",
        proc__sys__kernel__sched_rt_runtime_us="950000",
        proc__sys__kernel__sched_rt_period_us="1000000",
        sys__fs__cgroup__cpu="",
    )
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("150000 100000\n")
    (tmp_path / "sys/fs/cgroup/cpu.stat").write_text("usage_usec 5\nnr_periods 9\nnr_throttled 3\n")
    found = said(tmp_path)
    assert found["cpu governor"].found == "powersave, schedutil"
    assert "cpupower frequency-set -g performance" in found["cpu governor"].advice
    assert "isolcpus=1" in found["isolated cores"].advice
    assert found["kernel"].found == "PREEMPT_DYNAMIC"
    assert "clocksource=tsc" in found["clock source"].advice
    assert "95 % of a core" in found["real-time share"].found
    assert found["cpu quota"].found == "1.5 cores, used up 3 times"
    assert "waits for the next 100 ms" in found["cpu quota"].advice


def test_a_computer_that_tells_little_is_asked_for_no_more(tmp_path: Path) -> None:
    found = said(tmp_path, kernel="#1 SMP", cores=1)
    assert set(found) == {"cpu governor", "isolated cores", "kernel"}
    assert found["isolated cores"] == Setting("isolated cores", "none")
    assert found["kernel"].found == "without preemption"


def jitter(**over: float) -> Jitter:
    late = {rate: over.get(f"at_{rate}", 0.0) for rate in RATES_HZ}
    return Jitter(
        scheduling="SCHED_OTHER",
        rate_hz=1000.0,
        seconds=1.0,
        ticks=1000,
        overruns=round(1000 * late[1000]),
        late_p50_s=3e-6,
        late_p99_s=2e-3,
        late_p999_s=3e-3,
        late_max_s=4e-3,
        late_over=late,
    )


def test_the_rate_that_is_held_is_the_highest_with_one_late_wake_up_in_a_thousand() -> None:
    assert jitter(at_1000=0.001).holds_hz == 1000
    assert jitter(at_1000=0.012, at_500=0.002).holds_hz == 250
    assert jitter(**{f"at_{rate}": 0.5 for rate in RATES_HZ}).holds_hz is None
    assert jitter(at_1000=0.012).text == (
        "a loop at 1000 Hz wakes 3 us late (p50), 2000 us (p99), 4000 us at most; 12 of 1000 by a period or more"
    )


def test_punctuality_is_measured_and_its_progress_told() -> None:
    shares: list[float] = []
    found = measure_jitter(0.3, progress=shares.append)
    assert isinstance(found, Jitter)
    assert found.scheduling == "SCHED_OTHER"
    assert 0 < found.ticks <= 301
    assert 0.0 <= found.late_p50_s <= found.late_p99_s <= found.late_p999_s <= found.late_max_s
    assert found.late_over[1000] == found.overruns / found.ticks
    assert list(found.late_over.values()) == sorted(found.late_over.values(), reverse=True)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_what_is_not_permitted_is_said_and_nothing_stays_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getscheduler(0), os.sched_getaffinity(0)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    found = measure_jitter(0.1, fifo=True)
    assert isinstance(found, str)
    assert found.startswith("SCHED_FIFO is not permitted (ulimit -r is ")
    assert scheduling.pin(4096).startswith("there is no core 4096 for this process; it may use core")
    assert (os.sched_getscheduler(0), os.sched_getaffinity(0)) == before


def test_what_is_permitted_holds_for_the_thread_while_it_is_asked_for() -> None:
    before = os.sched_getscheduler(0)
    with scheduling.preferred() as refused:
        assert bool(refused) == (os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO)
    assert os.sched_getscheduler(0) == before

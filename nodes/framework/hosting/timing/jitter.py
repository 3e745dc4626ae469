"""Measures the wake-up latency of this computer, with a loop that waits like the simulation server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from nodes.framework.hosting.timing.clock import Durations, Pacer, tighten_timer_slack
from nodes.framework.hosting.timing.scheduling import preferred

PERIOD_S = 1e-3
RATES_HZ = (1000, 500, 250, 200, 100, 50, 20, 10)
HELD = 1e-3  # a rate is sustained where at most this share of wake-ups is late by a period or more


class Jitter(msgspec.Struct, frozen=True, kw_only=True):
    """Wake-up latencies of a loop at `rate_hz`.

    The latency of a wake-up is the time (s) from the end of the loop's period until the wait returned.

    scheduling  "SCHED_OTHER" or "SCHED_FIFO"
    overruns    number of wake-ups that were late by one period or more
    late_over   {rate in Hz: share of the wake-ups that were late by a period of this rate or more}
    stolen      share of CPU time that the hypervisor gave to other machines; None where it is not reported
    """

    scheduling: str
    rate_hz: float
    seconds: float
    ticks: int
    overruns: int
    late_p50_s: float
    late_p99_s: float
    late_p999_s: float
    late_max_s: float
    late_over: dict[int, float]
    stolen: float | None = None

    @property
    def holds_hz(self) -> int | None:
        """Highest of the usual loop rates that this computer sustains (Hz); None if it sustains none of them."""
        return next((rate for rate in RATES_HZ if self.late_over[rate] <= HELD), None)

    @property
    def text(self) -> str:
        """The latencies in one line."""
        p50, p99, most = (f"{1e6 * each:.0f} us" for each in (self.late_p50_s, self.late_p99_s, self.late_max_s))
        return (
            f"a loop at {self.rate_hz:g} Hz wakes {p50} late (p50), {p99} (p99), {most} at most; "
            f"{self.overruns} of {self.ticks} by a period or more"
        )


def measure_jitter(seconds: float, fifo: bool = False, progress: Callable[[float], None] | None = None) -> Jitter | str:
    """Measure the wake-up latencies of a loop at 1 kHz for a number of seconds.

    fifo      whether to use SCHED_FIFO
    progress  function that is called ten times a second with the completed fraction of the measurement, 0 .. 1

    Returns one line with the reason if SCHED_FIFO is refused.
    """
    tighten_timer_slack()
    if not fifo:
        return _measure("SCHED_OTHER", seconds, progress)
    with preferred() as refused:
        return refused or _measure("SCHED_FIFO", seconds, progress)


def _measure(scheduling: str, seconds: float, progress: Callable[[float], None] | None) -> Jitter:
    clock, late = time.perf_counter_ns, Durations()
    over = dict.fromkeys(RATES_HZ, 0)
    stolen = _stolen_jiffies()
    begin = reported = clock()
    end = begin + round(seconds * 1e9)
    pacer = Pacer(PERIOD_S)
    while (now := clock()) < end:
        if progress is not None and now - reported > 10**8:
            reported = now
            progress((now - begin) / (end - begin))
        pacer.wait()
        lateness = pacer.period_ns - round(pacer.left_s * 1e9)
        late.add(lateness)
        for rate in RATES_HZ:
            if lateness * rate < 10**9:
                break
            over[rate] += 1
    if progress is not None:
        progress(1.0)
    ticks = max(late.count, 1)
    p50, p99, p999 = (late.quantile_s(fraction) or 0.0 for fraction in (0.50, 0.99, 0.999))
    return Jitter(
        scheduling=scheduling,
        rate_hz=1.0 / PERIOD_S,
        seconds=seconds,
        ticks=late.count,
        overruns=over[RATES_HZ[0]],
        late_p50_s=p50,
        late_p99_s=p99,
        late_p999_s=p999,
        late_max_s=late.largest_ns * 1e-9,
        late_over={rate: count / ticks for rate, count in over.items()},
        stolen=_share(stolen, _stolen_jiffies()),
    )


def _stolen_jiffies() -> tuple[int, int] | None:
    """Return (CPU time stolen by the hypervisor, total CPU time) since the computer started, in jiffies.

    None if the computer does not report stolen time.
    """
    try:
        times = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return times[7], sum(times[:8])
    except (OSError, IndexError, ValueError):
        return None


def _share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])

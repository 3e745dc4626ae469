"""Timing of a real-time loop: pacer, histogram of durations, timer slack."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Literal

PR_SET_TIMERSLACK = 29
LONGEST_SPIN_NS, SHORTEST_SPIN_NS = 60_000, 5_000
LONGEST_CATCH_UP_NS = 500_000_000
EDGES_NS = tuple(step * 10**power for power in range(3, 10) for step in (1, 2, 5))  # 1 us .. 5 s

Deadline = Literal["skip", "catch_up", "stop"]


class DeadlineMissedError(RuntimeError):
    """Raised if a tick of the loop was late by a period or more and the run has to end.

    The only argument is a one-line message.
    """


def tighten_timer_slack() -> None:
    """Set the timer slack of this thread to 1 ns, so that sleeps end closer to the requested time than with the
    default, 50 us.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Durations:
    """A histogram of durations, with 32 bins per factor of two, from 1 ns to 2^40 ns.

    Adding a duration costs one list access. A quantile is accurate to 1.6 %.
    """

    BITS = 5

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all durations."""
        self._bins = [0] * (41 << self.BITS)
        self.count = 0
        self.largest_ns = 0

    def add(self, ns: int) -> None:
        """Count one duration in nanoseconds."""
        if ns > self.largest_ns:
            self.largest_ns = ns
        shift = ns.bit_length() - self.BITS - 1
        bin_ = (shift << self.BITS) + (ns >> shift) if shift > 0 else max(ns, 0)
        if bin_ < len(self._bins):
            self._bins[bin_] += 1
            self.count += 1

    def quantile_s(self, fraction: float) -> float | None:
        """Quantile of the durations (s); None if no duration was added. `fraction` 0.5 is the median."""
        rank = fraction * self.count
        seen = 0
        for bin_, count in enumerate(self._bins):
            seen += count
            if count and seen >= rank:
                return min(self._middle(bin_), self.largest_ns) * 1e-9
        return None

    @property
    def largest_s(self) -> float | None:
        """Longest duration (s); None if no duration was added."""
        return self.largest_ns * 1e-9 if self.count else None

    def histogram(self) -> dict[str, int]:
        """Histogram with coarse edges, as {"to 20 us": number of durations up to this edge and above the previous
        edge}.

        The edges are 1, 2 and 5 times powers of ten. Ranges without durations are left out.
        """
        found: dict[str, int] = {}
        for bin_, count in enumerate(self._bins):
            if count:
                middle = min(self._middle(bin_), self.largest_ns)
                edge = next((edge for edge in EDGES_NS if middle <= edge), None)
                label = "above" if edge is None else f"to {_edge_text(edge)}"
                found[label] = found.get(label, 0) + count
        return found

    def _middle(self, bin_: int) -> float:
        """Duration in the middle of a bin (ns)."""
        shift = max((bin_ >> self.BITS) - 1, 0)
        low = (bin_ - (shift << self.BITS)) << shift
        return low + (1 << shift) / 2 if shift else low


def _edge_text(ns: int) -> str:
    factor, unit = next((f, unit) for f, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")) if ns >= f)
    return f"{ns // factor} {unit}"


class Pacer:
    """Deadlines at a fixed period: sleeps until shortly before each deadline, then spins.

    The spin time adapts to the lateness of earlier sleeps, between 5 and 60 us, so that little time is spent spinning
    on a computer that wakes fast.

    A tick that is late by less than a period does not change the deadlines. If a tick is late by a period or more,
    the argument `deadline` decides what happens:

    skip      the missed deadlines are skipped, so simulated time falls behind, which the real-time factor shows
    catch_up  the missed ticks follow at once; if the tick is more than half a second late, the missed deadlines are
              skipped
    stop      DeadlineMissedError is raised

    period_s  period (s)
    overruns  number of ticks that were late by a period or more
    skipped   number of skipped deadlines
    jitter    histogram of |time between two ticks - period|
    """

    def __init__(self, period_s: float, deadline: Deadline = "skip", jitter: Durations | None = None) -> None:
        self.period_ns = max(round(period_s * 1e9), 1)
        self._deadline = deadline
        self.overruns = 0
        self.skipped = 0
        self.jitter = Durations() if jitter is None else jitter
        self._spin_ns = LONGEST_SPIN_NS
        self.restart()

    def restart(self) -> None:
        """Restart the deadlines; the first one is one period from now."""
        self._last_ns = time.perf_counter_ns()
        self._deadline_ns = self._last_ns + self.period_ns

    @property
    def left_s(self) -> float:
        """Time to the next deadline (s); negative if the deadline has passed."""
        return (self._deadline_ns - time.perf_counter_ns()) * 1e-9

    def wait(self, doze: Callable[[float], object] = time.sleep) -> None:
        """Return at the next deadline. `doze` is called to sleep for a number of seconds, and may return earlier."""
        clock = time.perf_counter_ns
        now = clock()
        late = now - self._deadline_ns
        if late >= self.period_ns:
            self._miss(late)
        while (left := self._deadline_ns - now - self._spin_ns) > 0:
            doze(left * 1e-9)
            asked, now = now + left, clock()
            self._learn(now - asked)
        while (now := clock()) < self._deadline_ns:
            pass
        self.jitter.add(abs(now - self._last_ns - self.period_ns))
        self._last_ns = now
        self._deadline_ns += self.period_ns

    def _miss(self, late_ns: int) -> None:
        self.overruns += 1
        if self._deadline == "stop":
            late, period = (f"{1e-6 * each:.3g} ms" for each in (late_ns, self.period_ns))
            raise DeadlineMissedError(
                f"a time step began {late} late, and overrun_policy is stop, which allows delays below the period of "
                f"{period}; choose another policy, or a longer step_ms"
            )
        if self._deadline == "skip" or late_ns > LONGEST_CATCH_UP_NS:
            missed = late_ns // self.period_ns
            self.skipped += missed
            self._deadline_ns += missed * self.period_ns

    def _learn(self, late_ns: int) -> None:
        """Adapt the spin time to the lateness `late_ns` of a sleep, so that four of five sleeps end before the
        deadline.
        """
        self._spin_ns += 2_000 if late_ns > self._spin_ns else -500
        self._spin_ns = min(max(self._spin_ns, SHORTEST_SPIN_NS), LONGEST_SPIN_NS)

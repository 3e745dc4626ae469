"""Wall time for a real-time loop: the pacer, and a histogram of durations."""

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
    """A deadline was missed by a whole period or more, and that ends the run; the only argument is one line."""


def tighten_timer_slack() -> None:
    """Let this thread's sleeps end within 1 ns of what was asked, instead of the kernel's 50 us."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Durations:
    """A histogram of durations: adding costs one list access, a quantile is right within 1.6 %.

    Logarithmic: 32 bins per factor of two, from 1 ns to 2^40 ns.
    """

    BITS = 5

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
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
        """The duration in seconds that this fraction of all stays below; None without any."""
        rank = fraction * self.count
        seen = 0
        for bin_, count in enumerate(self._bins):
            seen += count
            if count and seen >= rank:
                return min(self._middle(bin_), self.largest_ns) * 1e-9
        return None

    @property
    def largest_s(self) -> float | None:
        """The longest duration in seconds; None without any."""
        return self.largest_ns * 1e-9 if self.count else None

    def histogram(self) -> dict[str, int]:
        """{"to 20 us": durations above the edge before and up to this one}, edges of 1, 2 and 5, those with any."""
        found: dict[str, int] = {}
        for bin_, count in enumerate(self._bins):
            if count:
                middle = min(self._middle(bin_), self.largest_ns)
                edge = next((edge for edge in EDGES_NS if middle <= edge), None)
                label = "above" if edge is None else f"to {_edge_text(edge)}"
                found[label] = found.get(label, 0) + count
        return found

    def _middle(self, bin_: int) -> float:
        """Nanoseconds in the middle of a bin."""
        shift = max((bin_ >> self.BITS) - 1, 0)
        low = (bin_ - (shift << self.BITS)) << shift
        return low + (1 << shift) / 2 if shift else low


def _edge_text(ns: int) -> str:
    factor, unit = next((f, unit) for f, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")) if ns >= f)
    return f"{ns // factor} {unit}"


class Pacer:
    """Deadlines at a fixed period. Sleeps to shortly before each and spins the rest.

    How shortly follows from how late sleeps have ended: between 5 and 60 us, so that a computer that wakes fast does
    not burn its time waiting.

    A tick late by less than a period keeps its grid. What becomes of one that is later, `deadline` says:

    skip      it skips the deadlines it missed: simulated time falls behind and the real-time factor says so
    catch_up  the ticks it missed follow at once; what is more than half a second late is skipped all the same
    stop      DeadlineMissedError

    overruns  ticks whose deadline had passed by a whole period or more
    skipped   deadlines given up
    jitter    histogram of by how much the time between two ticks differed from the period
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
        """Begin the grid anew, one period from now."""
        self._last_ns = time.perf_counter_ns()
        self._deadline_ns = self._last_ns + self.period_ns

    @property
    def left_s(self) -> float:
        """Seconds to the next deadline, below zero when it has passed."""
        return (self._deadline_ns - time.perf_counter_ns()) * 1e-9

    def wait(self, doze: Callable[[float], object] = time.sleep) -> None:
        """Return at the next deadline. `doze` sleeps for so many seconds, or less."""
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
            raise DeadlineMissedError(f"a step was {late} late, its period is {period}")
        if self._deadline == "skip" or late_ns > LONGEST_CATCH_UP_NS:
            missed = late_ns // self.period_ns
            self.skipped += missed
            self._deadline_ns += missed * self.period_ns

    def _learn(self, late_ns: int) -> None:
        """A sleep ended so much too late: settle where four of five sleeps end in time."""
        self._spin_ns += 2_000 if late_ns > self._spin_ns else -500
        self._spin_ns = min(max(self._spin_ns, SHORTEST_SPIN_NS), LONGEST_SPIN_NS)

"""Deadlines of the server's time steps in mode realtime, at any speed, with counts of missed deadlines."""

from __future__ import annotations

from typing import Any

from nodes.framework.hosting.timing.clock import Deadline, Durations, Pacer

SHORTEST_SLEEP_S = 0.5e-3  # steps with a shorter period are taken in batches
LONGEST_BATCH = 256


class StepPacer:
    """Paces the time steps of a simulation by the wall clock, at any speed.

    step_s  simulated time per time step, s
    pacer   pacer of the present speed; None before the first time step
    batch   number of time steps per deadline
    """

    def __init__(self, step_s: float, deadline: Deadline = "skip") -> None:
        self.pacer: Pacer | None = None
        self.batch = 1
        self.jitter = Durations()
        self._step_s, self._deadline = step_s, deadline
        self._speed = 0.0
        self._overruns = self._skipped = 0

    def at(self, speed: float, begins: bool) -> Pacer:
        """A pacer for the speed `speed`, in simulated seconds per wall-clock second.

        begins  whether to restart the sequence of deadlines now
        """
        pacer = self.pacer
        if pacer is None or speed != self._speed:
            self._overruns, self._skipped = self.overruns, self.skipped
            period_s = self._step_s / speed
            self._speed = speed
            self.batch = min(max(round(SHORTEST_SLEEP_S / period_s), 1), LONGEST_BATCH)
            pacer = self.pacer = Pacer(self.batch * period_s, deadline=self._deadline, jitter=self.jitter)
        elif begins:
            pacer.restart()
        return pacer

    @property
    def overruns(self) -> int:
        """Number of deadlines missed by a period or more."""
        return self._overruns + (0 if self.pacer is None else self.pacer.overruns)

    @property
    def skipped(self) -> int:
        """Number of deadlines skipped."""
        return self._skipped + (0 if self.pacer is None else self.pacer.skipped)

    def timing(self) -> dict[str, float | None]:
        """Quantiles of the jitter (s): how much the time between two successive time steps differs from the period.

        A quantile is None if nothing was measured.
        """
        jitter = self.jitter
        return {
            "jitter_p50_s": jitter.quantile_s(0.50),
            "jitter_p99_s": jitter.quantile_s(0.99),
            "jitter_max_s": jitter.largest_s,
        }

    def status(self) -> dict[str, Any]:
        """Counts, quantiles and histogram of the jitter, as plain data."""
        return {
            "overruns": self.overruns,
            "skipped": self.skipped,
            **self.timing(),
            "jitter_histogram": self.jitter.histogram(),
        }

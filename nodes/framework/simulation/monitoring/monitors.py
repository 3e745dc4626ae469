"""Monitors of a simulation server: round trips of its nodes, milestones, real-time factor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nodes.framework.hosting.timing.clock import Durations
from nodes.framework.plan.launch_plan import Milestone

REMEMBERED = 1024  # number of latest states whose send times are kept


class RoundTrips:
    """Times from the publication of a state to the arrival of the command that replies to it.

    seq    sequence number of the latest state; 0 before the first state
    times  histogram of the round-trip times
    """

    def __init__(self) -> None:
        self.seq = 0
        self.times = Durations()
        self._sent: list[tuple[int, int]] = [(0, 0)] * REMEMBERED

    def sent(self, seq: int) -> None:
        """Record that the state with this seq is published now."""
        self.seq = seq
        self._sent[seq % REMEMBERED] = (seq, time.perf_counter_ns())

    def answered(self, seq: int) -> None:
        """Record that the command in reply to the state with this seq has arrived. An unknown seq is ignored."""
        known, sent_ns = self._sent[seq % REMEMBERED]
        if known == seq:
            self.times.add(time.perf_counter_ns() - sent_ns)

    def quantiles(self) -> dict[str, float | None]:
        """Median, 99 % quantile and maximum (s), as entries of the status; None if nothing was measured."""
        return {
            "round_trip_p50_s": self.times.quantile_s(0.50),
            "round_trip_p99_s": self.times.quantile_s(0.99),
            "round_trip_max_s": self.times.largest_s,
        }


class MilestoneWatch:
    """Detects milestones. A milestone is reached when its joint has stayed near its target angle for some time.

    reached  {milestone: simulation time (s) at which it was reached; None if it was not reached}
    """

    def __init__(self, milestones: Sequence[Milestone], joints: Sequence[str]) -> None:
        self._milestones = [
            (m.name, m.after, joints.index(m.joint), m.target_deg, m.tolerance_deg, m.hold_s) for m in milestones
        ]
        self.clear()

    def clear(self) -> None:
        """Set all milestones to "not reached"."""
        self.reached: dict[str, float | None] = {name: None for name, *_ in self._milestones}
        self._since: dict[str, float] = {}
        self.pending = list(self._milestones)

    def to_plain(self) -> dict[str, Any]:
        """As plain data: when each milestone was reached, and since when each joint has been near its target angle."""
        return {"reached": dict(self.reached), "since": dict(self._since)}

    def from_plain(self, plain: Mapping[str, Any]) -> None:
        """Continue from a result of `to_plain`. Milestones that `plain` lacks count as not reached."""
        self.clear()
        self.reached |= {name: time for name, time in plain["reached"].items() if name in self.reached}
        self._since = {name: time for name, time in plain["since"].items() if name in self.reached}
        self.pending = [entry for entry in self.pending if self.reached[entry[0]] is None]

    def update(self, now: float, position: Callable[[int], float]) -> None:
        """Check the milestones at simulation time `now` (s).

        position  function that takes the index of a joint and returns the joint's position (rad)
        """
        for entry in self.pending[:]:
            name, after, joint, target_deg, tolerance_deg, hold_s = entry
            if after and self.reached[after] is None:
                continue
            off_deg = math.remainder(math.degrees(position(joint)) - target_deg, 360.0)
            if abs(off_deg) > tolerance_deg:
                self._since.pop(name, None)
                continue
            since = self._since.setdefault(name, now)
            if now - since >= hold_s - 1e-9:
                self.reached[name] = now
                self.pending.remove(entry)


class RealTimeFactor:
    """Ratios of simulated time and of processor time to wall-clock time, over the periods in which the simulation was
    running.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset the sums of simulated, wall and processor time to zero."""
        self._ran = (0.0, 0.0, 0.0)  # simulated, wall and processor seconds before the present run
        self._began: tuple[float, float, float] | None = None

    def run(self, simulated: float) -> None:
        """Record that simulation time runs from now on. `simulated` is the simulation time, s."""
        if self._began is None:
            self._began = simulated, time.perf_counter(), time.process_time()

    def rest(self, simulated: float) -> None:
        """Record that simulation time is stopped from now on. `simulated` is the simulation time, s."""
        self._ran, self._began = self._until(simulated), None

    def factor(self, simulated: float) -> float:
        """Simulated seconds per wall-clock second; 0 before the simulation ran.

        simulated  simulation time, s
        """
        ran, wall, _ = self._until(simulated)
        return ran / wall if wall > 0.0 else 0.0

    @property
    def processor_share(self) -> float:
        """Processor time of all threads of this process per wall-clock time while the simulation ran; 1 is one full
        core."""
        _, wall, processor = self._until(0.0)
        return processor / wall if wall > 0.0 else 0.0

    def _until(self, simulated: float) -> tuple[float, float, float]:
        ran, wall, processor = self._ran
        if self._began is None:
            return self._ran
        since, at, spent = self._began
        return ran + simulated - since, wall + time.perf_counter() - at, processor + time.process_time() - spent

"""What a simulation server watches: its commander's silence and answers, milestones, and how fast time goes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from nodes.hosting.clock import Durations
from nodes.plan.launch_plan import Milestone

REMEMBERED = 1024  # states whose send time is kept


class Watchdog:
    """Trips when the commands of one node have been silent for `limit_s`, on a clock the caller reads.

    heard_at  when the last one came
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s = limit_s
        self.heard_at = now

    def trips(self, now: float) -> bool:
        """Whether the silence has been too long."""
        return now - self.heard_at > self._limit_s


def too_old(age_s: float, limit_s: float, speed: float) -> str:
    """Why a command that answers a state of this age (simulation time) comes too late, "" when it does not.

    Its node was held up, and works off what it should have said long ago.
    """
    if age_s <= limit_s * max(speed, 1.0):  # the limit is of wall time
        return ""
    return f"answers a state {age_s * 1e3:.0f} ms old; watchdog_ms = {limit_s * 1e3:g} allows no such age"


def fresh_states(limit_s: float | None, every_s: float) -> float:
    """How many states back, `every_s` apart, an answer is never too old."""
    return math.inf if limit_s is None else int(limit_s / every_s) - 1


class RoundTrips:
    """The time from a state to the command that answers it.

    seq    of the latest state, 0 before the first
    times  from sent to answered, as a histogram
    """

    def __init__(self) -> None:
        self.seq = 0
        self.times = Durations()
        self._sent: list[tuple[int, int]] = [(0, 0)] * REMEMBERED

    def sent(self, seq: int) -> None:
        """A state goes out now."""
        self.seq = seq
        self._sent[seq % REMEMBERED] = (seq, time.perf_counter_ns())

    def answered(self, seq: int) -> None:
        """The command that answers this state is here; one that answers none of ours is left out."""
        known, sent_ns = self._sent[seq % REMEMBERED]
        if known == seq:
            self.times.add(time.perf_counter_ns() - sent_ns)


class MilestoneWatch:
    """Notes the simulation time at which each milestone was reached, None until then."""

    def __init__(self, milestones: Sequence[Milestone], joints: Sequence[str]) -> None:
        self._milestones = [
            (m.name, m.after, joints.index(m.joint), m.target_deg, m.tolerance_deg, m.hold_s) for m in milestones
        ]
        self.clear()

    def clear(self) -> None:
        """Forget what was reached."""
        self.reached: dict[str, float | None] = {name: None for name, *_ in self._milestones}
        self._since: dict[str, float] = {}
        self.pending = list(self._milestones)

    def see(self, now: float, position: Callable[[int], float]) -> None:
        """The positions at simulation time `now`, rad, each by its joint's place."""
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
    """Simulated seconds, and those of the processor, per wall second, over the time that the simulation ran."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Count from here."""
        self._ran = (0.0, 0.0, 0.0)  # simulated, wall, processor seconds of this process
        self._began: tuple[float, float, float] | None = None

    def run(self, simulated: float) -> None:
        """Time runs from now on."""
        if self._began is None:
            self._began = simulated, time.perf_counter(), time.process_time()

    def rest(self, simulated: float) -> None:
        """Time stands from now on."""
        self._ran, self._began = self._until(simulated), None

    def factor(self, simulated: float) -> float:
        """Simulated per wall second; 0 before anything ran."""
        ran, wall, _ = self._until(simulated)
        return ran / wall if wall > 0.0 else 0.0

    @property
    def processor_share(self) -> float:
        """Of one core, what this process took while the simulation ran, all its threads together."""
        _, wall, processor = self._until(0.0)
        return processor / wall if wall > 0.0 else 0.0

    def _until(self, simulated: float) -> tuple[float, float, float]:
        ran, wall, processor = self._ran
        if self._began is None:
            return self._ran
        since, at, spent = self._began
        return ran + simulated - since, wall + time.perf_counter() - at, processor + time.process_time() - spent

"""Another node's clock as it is known while round trips come in, and as a whole run's round trips tell it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from nodes.hil.clocks.clock import (
    FEWEST,
    RESOLUTION_S,
    Clock,
    ClockStep,
    Exchange,
    detect_steps,
    estimate_clock,
    stepped,
)
from nodes.messages import Event, Message, PeerClock

MOST = 256  # round trips that an estimate looks at
KEPT = 128  # round trips: a minute at 2 Hz


class ClockTrack:
    """One peer's clock. Times are in seconds; `ours` is the clock of the node that asks.

    clock  the estimate, of times counted from `origin_s`; None while round trips are too few
    steps  how often their clock was put forward or back
    step, before  the latest of these, in times counted from `origin_s`, and the clock until then; None for none
    """

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self.steps = 0
        self.step: ClockStep | None = None
        self.before: Clock | None = None
        self._origin_ns = 0
        self._exchanges: deque[Exchange] = deque(maxlen=KEPT)

    def add(self, reading: PeerClock) -> ClockStep | None:
        """Take a round trip and fill in what is known now; the step of their clock where it shows one."""
        if not self._origin_ns:
            self._origin_ns = reading.asked_ns
        self._exchanges.append(exchange(reading, self._origin_ns))
        steps = detect_steps(list(self._exchanges))
        for step in steps:
            known = estimate([each for each in self._exchanges if each.time <= step.after_s])
            self.step, self.before = step, known or self.clock
            while self._exchanges[0].time < step.before_s:
                self._exchanges.popleft()
        self.steps += len(steps)
        self.clock = estimate(list(self._exchanges))
        if self.clock is None and self.step is not None and self.before is not None:
            self.clock = stepped(self.before, self.step)
        reading.exchanges, reading.steps = len(self._exchanges), self.steps
        if self.clock is not None:
            now = 1e-9 * (reading.heard_ns - self._origin_ns)
            reading.offset_s, reading.drift = self.clock.offset_at(now), self.clock.drift
            reading.uncertainty_s = self.clock.uncertainty_at(now)
        return steps[-1] if steps else None

    def ours(self, theirs_s: float) -> float | None:
        """Our time at a time of theirs; None while it is not known."""
        return None if self.clock is None else self.clock.ours(theirs_s - self.origin_s) + self.origin_s

    def ours_before(self, theirs_s: float) -> float | None:
        """The same for a time before the latest step."""
        return None if self.before is None else self.before.ours(theirs_s - self.origin_s) + self.origin_s

    @property
    def origin_s(self) -> float:
        """Our time that estimates count from."""
        return 1e-9 * self._origin_ns

    def theirs(self, ours_s: float) -> float | None:
        """Their time at a time of ours; None while it is not known."""
        if self.clock is None:
            return None
        return self.clock.theirs(ours_s - self.origin_s) + self.origin_s

    @property
    def latest_offset(self) -> float:
        """Their clock less ours at the latest round trip, s; NaN while nothing is known."""
        return math.nan if self.clock is None else self.clock.offset_at(self._exchanges[-1].t4)

    @property
    def latest_uncertainty(self) -> float:
        """Standard deviation of what the two above say at the latest round trip, s; infinite while nothing is known."""
        return math.inf if self.clock is None else self.clock.uncertainty_at(self._exchanges[-1].t4)


class ClockTracks(dict[str, ClockTrack]):
    """{peer: its clock}, of all peers that are asked."""

    def add(self, reading: PeerClock) -> Iterator[tuple[str, Message]]:
        """Take a round trip; what is to be said of it: ("event", ...) of a step that it shows, ("/clock", reading)."""
        step = self.setdefault(reading.peer, ClockTrack()).add(reading)
        if step is not None:
            yield (
                "event",
                Event(
                    timestamp=reading.timestamp,
                    kind="clock_step",
                    node=reading.peer,
                    new=f"{step.size_s:.9g}",
                    detail=step_text(reading.peer, step),
                ),
            )
        yield "/clock", reading

    @property
    def steps(self) -> int:
        """Of all clocks together."""
        return sum(track.steps for track in self.values())


def exchange(reading: PeerClock, origin_ns: int = 0) -> Exchange:
    """The four times in seconds since `origin_ns` of our clock."""
    times = (reading.asked_ns, reading.received_ns, reading.answered_ns, reading.heard_ns)
    return Exchange(*(1e-9 * (each - origin_ns) for each in times))


def estimate(exchanges: list[Exchange]) -> Clock | None:
    """The clock of round trips without a step among them; None for fewer than three."""
    if len(exchanges) < FEWEST:
        return None
    return estimate_clock(exchanges, -(-len(exchanges) // MOST))


def step_text(peer: str, step: ClockStep) -> str:
    """A step in words."""
    way = "forward" if step.size_s > 0.0 else "back"
    sigma = max(step.sigma_s, RESOLUTION_S)
    return f"the clock of {peer} was put {way} by {abs(step.size_s):.6g} s (\u00b1 {sigma:.2g} s)"

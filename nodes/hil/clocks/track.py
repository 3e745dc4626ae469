"""Estimate of another node's clock, updated with each round trip."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import msgspec

from nodes.framework.messages import Event, Message, PeerClock
from nodes.hil.clocks.estimation import (
    FEWEST,
    RESOLUTION_S,
    Clock,
    ClockStep,
    Exchange,
    detect_steps,
    estimate_clock,
    stepped,
)

MOST = 256  # most round trips used by an estimate
KEPT = 128  # round trips kept: a minute at 2 Hz


class ClockTrack:
    """Estimate of the clock of another node, the peer.

    Arguments named `local_s` are times of the local clock (s), arguments named `peer_s` times of the peer's clock (s).

    clock   current clock model, in times counted from `origin_s`; None while there are too few round trips
    steps   number of jumps of the peer's clock
    step    the latest jump, in times counted from `origin_s`; None if the clock did not jump
    before  clock model before the latest jump; None if the clock did not jump
    """

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self.steps = 0
        self.step: ClockStep | None = None
        self.before: Clock | None = None
        self._origin_ns = 0
        self._exchanges: deque[Exchange] = deque(maxlen=KEPT)

    def add(self, reading: PeerClock) -> ClockStep | None:
        """Add a round trip and update the estimate.

        Returns the jump of the peer's clock that this round trip shows; None if it shows no jump.
        """
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

    def to_local(self, peer_s: float) -> float | None:
        """Local time (s) at the time `peer_s` of the peer's clock, by the present clock model; None while there is no
        model.
        """
        return None if self.clock is None else self.clock.to_local(peer_s - self.origin_s) + self.origin_s

    def to_local_before(self, peer_s: float) -> float | None:
        """Local time (s) at the time `peer_s` of the peer's clock, by the clock model before the latest jump of that
        clock.

        None while there is no such model.
        """
        return None if self.before is None else self.before.to_local(peer_s - self.origin_s) + self.origin_s

    def latest_step(self) -> ClockStep | None:
        """The latest jump of the peer's clock; None if no jump was detected.

        The size of the jump is first estimated from the round trip before it and the round trip after it. It is
        replaced by the difference of the clock models before and after the jump once this difference is more accurate.
        """
        step = self.step
        if step is None or self.before is None or self.clock is None:
            return step
        middle = (step.after_s + step.before_s) / 2.0
        sigma = math.hypot(self.before.uncertainty_at(middle), self.clock.uncertainty_at(middle))
        if sigma >= step.sigma_s:
            return step
        size = self.clock.offset_at(middle) - self.before.offset_at(middle)
        return msgspec.structs.replace(step, size_s=size, sigma_s=sigma)

    @property
    def origin_s(self) -> float:
        """Local time (s) from which `clock`, `step` and `before` count their times."""
        return 1e-9 * self._origin_ns

    def to_peer(self, local_s: float) -> float | None:
        """Time of the peer's clock (s) at the local time `local_s`; None while unknown."""
        if self.clock is None:
            return None
        return self.clock.to_peer(local_s - self.origin_s) + self.origin_s

    @property
    def latest_offset(self) -> float:
        """Peer's minus local clock at the latest round trip (s); NaN while unknown."""
        return math.nan if self.clock is None else self.clock.offset_at(self._exchanges[-1].t4)

    @property
    def latest_uncertainty(self) -> float:
        """Standard deviation of `latest_offset` (s); infinite while unknown."""
        return math.inf if self.clock is None else self.clock.uncertainty_at(self._exchanges[-1].t4)


class ClockTracks(dict[str, ClockTrack]):
    """Estimates of the clocks of all nodes to which round trips are made: {name of the node: its `ClockTrack`}."""

    def add(self, reading: PeerClock) -> Iterator[tuple[str, Message]]:
        """Add a round trip. Yields the (topic, message) pairs to publish.

        The round trip is published on the topic "/clock". If it shows a jump of the peer's clock, an event about the
        jump is published first.
        """
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
        """Number of jumps of all clocks together."""
        return sum(track.steps for track in self.values())


def exchange(reading: PeerClock, origin_ns: int = 0) -> Exchange:
    """The four times of a round trip in s, each by the clock that measured it and counted from `origin_ns` (ns)."""
    times = (reading.asked_ns, reading.received_ns, reading.answered_ns, reading.heard_ns)
    return Exchange(*(1e-9 * (each - origin_ns) for each in times))


def estimate(exchanges: list[Exchange]) -> Clock | None:
    """Clock model from round trips between which the clock did not jump; None for fewer than FEWEST round trips."""
    if len(exchanges) < FEWEST:
        return None
    return estimate_clock(exchanges, -(-len(exchanges) // MOST))


def step_text(peer: str, step: ClockStep) -> str:
    """Text about a jump of a peer's clock, such as "the clock of arm was put forward by 0.5 s"."""
    way = "forward" if step.size_s > 0.0 else "back"
    sigma = max(step.sigma_s, RESOLUTION_S)
    return f"the clock of {peer} was put {way} by {abs(step.size_s):.6g} s (\u00b1 {sigma:.2g} s)"

"""Stamps of another node's clock turned into simulation time: by round trips to both clocks, and by the states' own.

A measured state is stamped by the clock of the node that measured, `state.clock`. Round trips lead from there to our
clock and on to the server's, and there the states say at which of its times they were sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot

import msgspec

from nodes.hil.alignment.live import HISTORY_S, MOST_WAITING
from nodes.hil.clocks.track import ClockTracks
from nodes.messages import JointCommand, PeerClock, RobotState

SERVER = "sim"  # the node that says the states
CROSSING_S = 2e-3  # by which stamps of samples and of commands may come out of order
Stamped = RobotState | JointCommand  # what a robot measured, and the commands that it took


@dataclass(slots=True)
class _Waiting:
    """What has no simulation time yet, and what the server's clock showed at its stamp, where that is known."""

    said: Stamped
    sent: float | None

    @property
    def counts(self) -> bool:
        """Whether it is a measured state."""
        return isinstance(self.said, RobotState)


class LiveAlignment:
    """Gives measured states, and commands that were taken, simulation time while they come, in their order.

    gap_s  states further apart than this are not interpolated between; stamps that jump by more wait for a round trip
    lost   measured states that no simulation time is known of; a command then has that of what came before it
    """

    def __init__(self, gap_s: float) -> None:
        self.tracks = ClockTracks()
        self.lost = 0
        self._gap_s = gap_s
        self._sent: list[float] = []  # s of the server's clock
        self._times: list[float] = []  # s of simulation time
        self._waiting: deque[_Waiting] = deque()
        self._time = 0.0  # s, the latest simulation time that was given
        self._last: dict[str, float] = {}  # {clock: its latest stamp}
        self._doubted: set[str] = set()  # clocks whose stamps jumped, until they are asked

    def predict(self, state: RobotState) -> Iterator[Stamped]:
        """Take a state of the server; what was measured and taken whose simulation time is known now."""
        sent = 1e-9 * state.sent_ns
        if state.sent_ns and (not self._sent or sent > self._sent[-1]):
            self._sent.append(sent)
            self._times.append(state.timestamp)
            if sent - self._sent[0] > 2.0 * HISTORY_S:
                old = bisect_left(self._sent, sent - HISTORY_S)
                del self._sent[:old], self._times[:old]
        if self._waiting:
            yield from self._placed()

    def measure(self, state: Stamped) -> Iterator[Stamped]:
        """Take what was stamped by another clock; all of it whose simulation time is known now."""
        jump = state.timestamp - self._last.get(state.clock, state.timestamp)
        if jump < -CROSSING_S or jump > self._gap_s:
            self._doubted.add(state.clock)
            self._give_up(state)  # stamped before the jump, they cannot be placed by what is learnt after it
        self._last[state.clock] = state.timestamp
        self._waiting.append(_Waiting(state, self._servers_time(state)))
        if len(self._waiting) > MOST_WAITING:
            self.lost += self._waiting.popleft().counts
        yield from self._placed()

    def _give_up(self, after: Stamped) -> None:
        """Drop the states whose time is not known; commands were taken all the same, at the latest now."""
        kept: deque[_Waiting] = deque()
        for each in self._waiting:
            if each.said.clock != after.clock or each.sent is not None:
                kept.append(each)
            elif each.counts:
                self.lost += 1
            else:
                kept.append(_Waiting(msgspec.structs.replace(each.said, timestamp=after.timestamp), None))
        self._waiting = kept

    def hear(self, reading: PeerClock) -> None:
        """A round trip was added to `tracks`: what jumped before it is explained by it."""
        self._doubted.discard(reading.peer)

    def uncertainty(self, clock: str) -> float | None:
        """Standard deviation of the simulation time of stamps of that clock, by the round trips, s; None: not known."""
        theirs, servers = self.tracks.get(clock), self.tracks.get(SERVER)
        if theirs is None or servers is None or theirs.clock is None or servers.clock is None:
            return None
        return hypot(theirs.latest_uncertainty, servers.latest_uncertainty)

    @property
    def waiting(self) -> int:
        """Measured states that have no simulation time yet."""
        return sum(each.counts for each in self._waiting)

    def _placed(self) -> Iterator[Stamped]:
        while self._waiting:
            first = self._waiting[0]
            sent = first.sent = self._servers_time(first.said) if first.sent is None else first.sent
            if sent is None or not self._sent or sent > self._sent[-1]:
                return
            self._waiting.popleft()
            time = self._simulation_time(sent)
            if time is None and first.counts:
                self.lost += 1
                continue
            self._time = self._time if time is None else time
            yield msgspec.structs.replace(first.said, timestamp=self._time, clock="")

    def _servers_time(self, state: Stamped) -> float | None:
        """What the server's clock showed at the instant of a stamp, s; None while it is not known."""
        theirs, servers = self.tracks.get(state.clock), self.tracks.get(SERVER)
        if theirs is None or servers is None or state.clock in self._doubted:
            return None
        ours = theirs.ours(state.timestamp)
        return None if ours is None else servers.theirs(ours)

    def _simulation_time(self, sent: float) -> float | None:
        after = bisect_left(self._sent, sent)
        if self._sent[after] == sent:
            return self._times[after]
        before = after - 1
        if (
            after == 0
            or self._sent[after] - self._sent[before] > self._gap_s
            or self._times[after] < self._times[before]
        ):
            return None
        share = (sent - self._sent[before]) / (self._sent[after] - self._sent[before])
        return self._times[before] + share * (self._times[after] - self._times[before])

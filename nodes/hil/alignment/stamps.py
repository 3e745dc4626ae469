"""Conversion of time stamps made by other clocks to simulation time.

A measured state is stamped by the clock of the node that measured it, `state.clock`. Its stamp is converted in three
stages: to the local clock, by round trips to the measuring node; to the simulation server's clock, by round trips to
the server; and to simulation time, by the states of the server, each of which contains its send time by the server's
clock.

If the spacing between two stamps is unusual, the clock that made them may have jumped. Later messages stamped by this
clock then wait until a round trip shows whether the clock jumped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import hypot, inf

import msgspec
import numpy as np

from nodes.framework.messages import JointCommand, PeerClock, RobotState
from nodes.hil.alignment.irregularities import SETTLING_S, SampleAges
from nodes.hil.alignment.live import HISTORY_S, MOST_WAITING
from nodes.hil.alignment.streams import GAP_FACTOR
from nodes.hil.clocks.estimation import ClockStep
from nodes.hil.clocks.step_location import CROSSING_S, is_unusual, place_step, usual_distance
from nodes.hil.clocks.track import ClockTrack, ClockTracks

SERVER = "sim"  # node that publishes the states
RECENT = 32  # stamps from which the usual spacing is computed
FEWEST_RECENT = 5  # least number of stamps from which the usual spacing is computed
PATIENCE = 4  # round trips after which an unresolved jump is given up
KNOWN_S = 3e-3  # largest standard deviation of a jump's size with which messages are placed
LONGEST_WAIT = 12  # round trips after which messages are placed with any size, and the jump is counted as unsure
UNKNOWN_S = 0.01  # longest interval in which it does not matter when a command acted
SETTLED = 3  # consecutive round trips without a state between them after which none is still in transit
Stamped = RobotState | JointCommand  # measured states, and commands applied by the robot


@dataclass(slots=True)
class _Waiting:
    """A message whose simulation time is not known yet.

    message  measured state or applied command
    sent     reading of the simulation server's clock (s) at the instant of the stamp; None while unknown
    old      whether the message is a measured state that may be older than its stamp, because it follows a pause
    """

    message: Stamped
    sent: float | None
    old: bool = False

    @property
    def counts(self) -> bool:
        """Whether the message is a measured state; False for a command."""
        return isinstance(self.message, RobotState)


@dataclass(slots=True)
class _SuspectedJump:
    """An unusual spacing between two stamps of a clock, which may be due to a jump of the clock.

    excess  spacing minus the usual spacing (s)
    until   time by this clock (s). Only a round trip whose request reaches the node with this clock after this time can
            show whether the clock jumped
    """

    excess: float
    until: float
    round_trips: int = 0  # number of round trips after `until` that did not show whether the clock jumped


@dataclass(slots=True)
class _Stamps:
    """Stamps (s) that one clock gave to measured states, and what is known about jumps of this clock.

    last       the latest stamp
    recent     recent stamps, from which the usual spacing is computed
    suspected  unusual spacing between two stamps, while it is unknown whether the clock jumped there; otherwise None
    steps      number of clock jumps detected from round trips of request and reply to the node with this clock
    step       the latest clock jump, while messages stamped before it may still arrive; otherwise None
    since      number of round trips since this jump was detected
    checked    value of `last` at the latest round trip, to tell whether a stamp has arrived since then
    ages       bound of the ages of the measured states
    """

    last: float | None = None
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    suspected: _SuspectedJump | None = None
    steps: int = 0
    step: ClockStep | None = None
    since: int = 0
    checked: float | None = None
    ages: SampleAges = field(default_factory=SampleAges)


class LiveAlignment:
    """Converts the stamps of measured states and applied commands to simulation time as the messages arrive, in order.

    A command whose simulation time cannot be determined gets the simulation time of the message before it.

    gap_s   largest time between states over which to interpolate (s). If two stamps are farther apart, messages wait
            for a round trip
    speed   planned speed of the simulation, in simulated seconds per second
    lost    number of measured states that were dropped because their simulation time cannot be determined
    old     number of measured states that were dropped because they follow a pause of the stamps, and may be as old as
            the pause
    commands_unknown  number of commands whose simulation time is unknown by more than UNKNOWN_S
    unsure  number of clock jumps that cannot be located among the stamps, plus number of unusual spacings for which it
            remains unknown whether the clock jumped
    """

    def __init__(self, gap_s: float, speed: float = 1.0) -> None:
        self.tracks = ClockTracks()
        self.lost = self.old = self.unsure = 0
        self._gap_s, self._speed = gap_s, speed
        self._sent: list[float] = []  # send times of states by the server's clock, s
        self._times: list[float] = []  # their simulation times, s
        self._waiting: deque[_Waiting] = deque()
        self._run = 0  # index of the first state after the latest reset of simulation time
        self._time = 0.0  # latest simulation time assigned, s
        self._last_sample = inf  # simulation time of the latest measured state, s
        self._pauses: deque[tuple[float, float]] = deque(maxlen=RECENT)  # (end, excess length) of gaps, s
        self._unknown = 0  # number of commands since then that got this time because theirs is unknown
        self.commands_unknown = 0
        self._stamps: dict[str, _Stamps] = {}  # by clock

    def predict(self, state: RobotState) -> Iterator[Stamped]:
        """Add a state of the simulation server. Yields the waiting messages whose simulation time is now known."""
        sent = 1e-9 * state.sent_ns
        if state.sent_ns and (not self._sent or sent > self._sent[-1]):
            if self._times and state.timestamp < self._times[-1]:
                self._run = len(self._times)
            self._sent.append(sent)
            self._times.append(state.timestamp)
            if sent - self._sent[0] > 2.0 * HISTORY_S:
                old = bisect_left(self._sent, sent - HISTORY_S)
                del self._sent[:old], self._times[:old]
                self._run = max(self._run - old, 0)
        if self._waiting:
            yield from self._placed()

    def measure(self, state: Stamped) -> Iterator[Stamped]:
        """Add a message stamped by another clock. Yields all messages whose simulation time is now known."""
        stamps, is_old = self._stamps.setdefault(state.clock, _Stamps()), False
        if isinstance(state, RobotState):
            self._look_for_a_jump(stamps, state.timestamp)
            is_old = stamps.ages.is_old(state.timestamp)
        elif stamps.suspected is None and stamps.last is not None and abs(state.timestamp - stamps.last) > self._gap_s:
            stamps.suspected = _SuspectedJump(state.timestamp - stamps.last, max(state.timestamp, stamps.last))
        self._waiting.append(_Waiting(state, self._servers_time(state), is_old))
        if len(self._waiting) > MOST_WAITING:
            self.lost += self._waiting.popleft().counts
        yield from self._placed()

    def _look_for_a_jump(self, stamps: _Stamps, stamp: float) -> None:
        """Record that the clock may have jumped if the spacing between this stamp and the previous one is unusual."""
        before, stamps.last = stamps.last, stamp
        if before is not None:
            distance, recent = stamp - before, stamps.recent
            usual = usual_distance(np.array(recent)) if len(recent) >= FEWEST_RECENT else None
            jumps = distance < -CROSSING_S or distance > self._gap_s
            if jumps or (usual is not None and is_unusual(distance, usual)):
                excess, until = distance - (usual or 0.0), max(before, stamp)
                if stamps.suspected is not None:
                    excess = min(excess, stamps.suspected.excess, key=abs)
                    until = max(until, stamps.suspected.until)
                stamps.suspected = _SuspectedJump(excess, until)
        if stamps.suspected is None:
            stamps.recent.append(stamp)

    def add_round_trip(self, reading: PeerClock) -> None:
        """Use a new round trip to decide whether a clock jumped before this round trip.

        reading  result of the round trip, which the caller has already added to `tracks`
        """
        stamps, track = self._stamps.get(reading.peer), self.tracks.get(reading.peer)
        if stamps is None or track is None:
            return
        if track.steps > stamps.steps:
            stamps.steps, stamps.step, stamps.since = track.steps, track.step, 0
            stamps.suspected = stamps.suspected or _SuspectedJump(inf, -inf)
            stamps.suspected.round_trips, stamps.checked = 0, stamps.last
            return
        if stamps.step is not None:
            stamps.since += 1
            step = track.latest_step() or stamps.step
            is_known = step.sigma_s <= KNOWN_S
            if not self._has_come(stamps, track, step) or not (is_known or stamps.since >= LONGEST_WAIT):
                return
            stamps.step = stamps.suspected = None
            self.unsure += not is_known
            self._set_right(reading.peer, track, step)
        elif stamps.suspected is not None and 1e-9 * reading.received_ns > stamps.suspected.until:
            stamps.suspected.round_trips += 1
            is_decided = reading.round_trip_s + 2.0 * track.latest_uncertainty < abs(stamps.suspected.excess)
            if not is_decided and stamps.suspected.round_trips < PATIENCE:
                return
            self.unsure += not is_decided
            stamps.suspected = None
        else:
            return
        waiting = [
            each.message.timestamp for each in self._waiting if each.counts and each.message.clock == reading.peer
        ]
        stamps.recent.extend(waiting)

    def _has_come(self, stamps: _Stamps, track: ClockTrack, step: ClockStep) -> bool:
        """Whether all messages stamped before the clock jump `step` have arrived.

        This is assumed once a message stamped after the jump has arrived, or once several round trips have passed
        without a new message.
        """
        if stamps.last is None or stamps.suspected is None:
            return True
        local = [each for each in (track.to_local(stamps.last), track.to_local_before(stamps.last)) if each is not None]
        if local and min(local) > step.before_s + track.origin_s:
            return True
        stamps.suspected.round_trips = stamps.suspected.round_trips + 1 if stamps.last == stamps.checked else 0
        stamps.checked = stamps.last
        return stamps.suspected.round_trips >= SETTLED - 1

    def _set_right(self, clock: str, track: ClockTrack, step: ClockStep) -> None:
        """Convert the stamps of a clock's waiting messages to the server's clock after the clock jumped.

        Stamps made before the jump `step` are converted with the clock model of that time, later stamps with the
        present clock model. A measured state is dropped if it is unknown whether it was stamped before the jump.
        """
        mine = [each for each in self._waiting if each.message.clock == clock and each.sent is None]
        states = [each.message.timestamp for each in mine if each.counts]
        known = [each for each in self._stamps[clock].recent if each not in states]
        self._stamps[clock].recent.clear()
        x = np.array(known + states)
        ways = [(track.to_local_before(each), track.to_local(each)) for each in x.tolist()]
        before, after = np.array([[-inf if local is None else local for local in way] for way in ways]).reshape(-1, 2).T
        window = step.after_s + track.origin_s, step.before_s + track.origin_s
        place = place_step(x, before, after, window, step.size_s, CROSSING_S + step.sigma_s)
        self.unsure += not place.is_certain or place.last < len(known)
        begin = x[place.first - 1] if place.first else -inf  # stamps between which the jump lies, by the clock before
        end = x[place.last] - step.size_s if place.last < len(x) else inf
        number = len(known)
        for each in mine:
            stamp = each.message.timestamp
            if each.counts:
                is_before, is_after = number < place.first, number >= place.last
                if place.is_certain and number == place.last:
                    each.old = False  # the jump, not a pause, is before it
                number += 1
            else:
                off = (
                    max(begin - stamp, stamp - end, 0.0),
                    max(begin + step.size_s - stamp, stamp - step.size_s - end, 0.0),
                )
                is_before = number <= place.first and (number < place.first or off[0] <= off[1])
                is_after = number >= place.last and not is_before
            if is_before:
                local = track.to_local_before(stamp)
                each.sent = None if local is None else self._on_server(local)
            elif is_after:
                each.sent = self._servers_time(each.message)
            if each.sent is None:
                self._give_up(each)

    def _give_up(self, each: _Waiting) -> None:
        """Drop a measured state whose simulation time cannot be determined.

        A command is not dropped: it gets the simulation time of the message before it.
        """
        self.lost += each.counts
        if each.counts:
            self._waiting.remove(each)
        else:
            each.sent = -inf

    def uncertainty(self, clock: str) -> float | None:
        """Standard deviation (s) of the simulation times computed from the stamps of `clock`; None while unknown.

        The standard deviation follows from the round trips to the node with this clock and to the simulation server.
        """
        peer, servers = self.tracks.get(clock), self.tracks.get(SERVER)
        if peer is None or servers is None or peer.clock is None or servers.clock is None:
            return None
        return hypot(peer.latest_uncertainty, servers.latest_uncertainty)

    def _note_pause(self, clock: str, time: float) -> None:
        """Record the gap before a measured state with the simulation time `time` (s), if there is a gap."""
        last, self._last_sample = self._last_sample, time
        usual = self._stamps[clock].ages.usual_s
        if usual > 0.0 and time - last > GAP_FACTOR * usual:
            self._pauses.append((time, time - last - usual))

    def irregular_s(self, time: float) -> float:
        """Irregularity (s) of the measurement in the SETTLING_S before the simulation time `time` (s).

        It is the time by which the simulation fell behind the server's clock, plus the excess length of the gaps
        between measured states.
        """
        paused = sum(length for end, length in self._pauses if time - SETTLING_S < end <= time)
        return self._behind_s(time) + paused

    def _behind_s(self, time: float) -> float:
        first, count = self._run + 1, len(self._sent)  # the simulation waits for its start at the first state
        if count - first < 2 or time <= self._times[first]:
            return 0.0
        after = min(max(bisect_left(self._times, time, first), first + 1), count - 1)
        since = max(self._sent[after] - SETTLING_S, self._sent[first])
        begin = max(bisect_left(self._sent, since, first), first + 1)
        width, rise = self._sent[begin] - self._sent[begin - 1], self._times[begin] - self._times[begin - 1]
        passed = self._times[after] - (self._times[begin] - rise * (self._sent[begin] - since) / width)
        return max(self._speed * (self._sent[after] - since) - passed, 0.0)

    @property
    def waiting(self) -> int:
        """Number of measured states that have no simulation time yet."""
        return sum(each.counts for each in self._waiting)

    def _placed(self) -> Iterator[Stamped]:
        while self._waiting:
            first = self._waiting[0]
            sent = first.sent = self._servers_time(first.message) if first.sent is None else first.sent
            if sent is None or not self._sent or sent > self._sent[-1]:
                return
            self._waiting.popleft()
            time = self._simulation_time(sent)
            if first.counts and time is not None:
                self._note_pause(first.message.clock, time)
            if first.counts and (time is None or first.old):
                self.lost += time is None
                self.old += time is not None
                continue
            if time is None:
                self._unknown += 1
            else:
                if self._unknown and time - self._time > UNKNOWN_S:
                    self.commands_unknown += self._unknown
                self._time, self._unknown = time, 0
            yield msgspec.structs.replace(first.message, timestamp=self._time, clock="")

    def _on_server(self, local: float) -> float | None:
        servers = self.tracks.get(SERVER)
        return None if servers is None else servers.to_peer(local)

    def _servers_time(self, state: Stamped) -> float | None:
        """Reading of the simulation server's clock (s) at the instant of a message's stamp; None while unknown."""
        peer, stamps = self.tracks.get(state.clock), self._stamps.get(state.clock)
        if peer is None or (stamps is not None and stamps.suspected is not None):
            return None
        local = peer.to_local(state.timestamp)
        return None if local is None else self._on_server(local)

    def _simulation_time(self, sent: float) -> float | None:
        if sent == -inf:
            return None
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

"""Simulation times of recorded messages that a robot's own clock stamped, computed from the recorded round trips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.hil.alignment.irregularities import standstill
from nodes.hil.alignment.stamps import RECENT, SERVER
from nodes.hil.alignment.streams import GAP_FACTOR, Floats, StreamError
from nodes.hil.clocks.estimation import Clock, ClockStep, Exchange, detect_steps, stepped
from nodes.hil.clocks.step_location import CROSSING_S, is_unusual, place_step, usual_distance
from nodes.hil.clocks.track import estimate

CLOCK_TOPIC = "clock"
OVERLAP_S = 0.05  # largest apparent decrease of time at a jump of the clock

Columns = Mapping[str, NDArray[Any]]


class ClockNote(msgspec.Struct, frozen=True, kw_only=True):
    """Estimate of the clock that stamped a stream, from all round trips of the recording; times in s.

    of             name of the node whose clock this is
    offset_s       offset of this clock from the clock of the node that made the round trips, in the middle of the
                   exchanges used
    drift          rate of change of the offset (s per s)
    drift_sigma    standard deviation of `drift`
    uncertainty_s  standard deviation of the simulation times computed from the stamps, median over the samples
    bound_s        largest possible error of the offset, however the travel time is split between the two directions
    unplaced       number of samples that were left out because their simulation time is unknown
    unsure         number of clock jumps whose position among the stamps is unknown
    """

    of: str
    offset_s: float
    drift: float
    drift_sigma: float
    uncertainty_s: float
    bound_s: float
    round_trips: int
    steps: list[ClockStep]
    unplaced: int
    unsure: int = 0

    @property
    def text(self) -> str:
        """The clock and its estimate as one line."""
        unsure = f" ({self.unsure} of them at an instant that its stamps do not show)" if self.unsure else ""
        way = "ahead" if self.offset_s >= 0.0 else "behind"
        steps = f", jumped {len(self.steps)} times" if len(self.steps) > 1 else ", jumped once" if self.steps else ""
        return (
            f"stamps are of the clock of {self.of}: {abs(self.offset_s):.6g} s {way}, "
            f"drift {1e6 * self.drift:+.3g} ± {1e6 * self.drift_sigma:.2g} ppm"
            f"{steps}{unsure}; simulation time known to {1e3 * self.uncertainty_s:.2g} ms "
            f"from {self.round_trips} round trips"
        )


class RecordedClock:
    """Clock of a node (the peer) over a whole recording, with one clock model for each section between two clock jumps.

    Local times are those of the node that made the round trips to the peer. Times are in s, counted from the local
    time `origin_ns`.
    """

    def __init__(self, rows: Columns, peer: str, origin_ns: int) -> None:
        chosen = rows["peer"] == peer
        names = ("asked_ns", "received_ns", "answered_ns", "heard_ns")
        times = np.stack([rows[name][chosen] - origin_ns for name in names], axis=1)
        exchanges = [Exchange(*row) for row in (1e-9 * times).tolist()]
        self.steps = detect_steps(exchanges)
        self.round_trips = len(exchanges)
        self.last_s = exchanges[-1].time
        starts = [-np.inf, *(step.before_s for step in self.steps)]
        ends = [*(step.after_s for step in self.steps), np.inf]
        found = [
            estimate([each for each in exchanges if start <= each.time <= end])
            for start, end in zip(starts, ends, strict=True)
        ]
        self._starts = starts
        self.clocks: list[Clock] = _filled(found, self.steps)
        if not self.clocks:
            raise StreamError(f"{len(exchanges)} round trips to the clock of {peer!r} are too few; record at least 3")

    def to_peer(self, local: Floats) -> tuple[Floats, Floats]:
        """Return (readings of the peer's clock, their standard deviations) at the local times `local`; (n,) each, in s.

        Each time is converted by the clock model of its section.
        """
        index = np.searchsorted(self._starts[1:], local, side="right")
        peer, sigma = np.empty_like(local), np.empty_like(local)
        for number, clock in enumerate(self.clocks):
            here = index == number
            peer[here] = local[here] + clock.offset_s + clock.drift * (local[here] - clock.since)
            sigma[here] = _uncertainty(clock, local[here])
        return peer, sigma


def _filled(found: Sequence[Clock | None], steps: Sequence[ClockStep]) -> list[Clock]:
    """Clock models of all sections between clock jumps.

    A section with too few round trips gets the model of a neighbouring section, shifted by the jump between them.

    found  clock model of each section; None for a section with too few round trips
    steps  the jumps between the sections
    """
    clocks = list(found)
    for index, step in enumerate(steps):
        before = clocks[index]
        if clocks[index + 1] is None and before is not None:
            clocks[index + 1] = stepped(before, step)
    for index in range(len(steps) - 1, -1, -1):
        after = clocks[index + 1]
        if clocks[index] is None and after is not None:
            clocks[index] = stepped(after, msgspec.structs.replace(steps[index], size_s=-steps[index].size_s))
    return [clock for clock in clocks if clock is not None]


def _uncertainty(clock: Clock, local: Floats) -> Floats:
    return np.hypot(clock.sigma_s, clock.drift_sigma * (local - clock.since))


@dataclass(frozen=True)
class Placement:
    """Simulation times of a topic's n messages, computed from the stamps of another clock.

    time          (n,) simulation times (s), NaN where unknown
    sigma_s       (n,) standard deviations of these times (s) due to the clocks, NaN where unknown
    behind_s      (n,) times (s) by which the simulation fell behind real time shortly before each message, NaN where
                  unknown
    note          estimate of the clock
    """

    time: Floats
    sigma_s: Floats
    behind_s: Floats
    note: ClockNote


def simulation_time(recording: Mapping[str, Columns], topic: str, what: str) -> tuple[Floats, ClockNote] | None:
    """Simulation times (n,) of a topic's messages, NaN where unknown, and the clock that stamped them.

    what  name of the topic in error messages
    Returns None for a topic stamped in simulation time. Raises StreamError if the recording lacks the round trips or
    states that the conversion requires.
    """
    placed = place(recording, topic, what)
    return None if placed is None else (placed.time, placed.note)


def place(recording: Mapping[str, Columns], topic: str, what: str) -> Placement | None:
    """Simulation times of a topic's messages, with their uncertainties.

    Arguments and errors are those of `simulation_time`. Returns None for a topic stamped in simulation time.
    """
    columns = recording[topic]
    stamped = set(columns["clock"].tolist()) if "clock" in columns else {""}
    if stamped == {""}:
        return None
    if len(stamped) > 1:
        raise StreamError(
            f"{what} is stamped by more than one clock: {', '.join(repr(each) for each in sorted(stamped))}; "
            "record a run in which only one clock stamps this topic"
        )
    (of,) = stamped
    states = _states(recording, topic, what)
    rows = _round_trips(recording, of, what)
    origin_ns = int(rows["asked_ns"][0])
    peer, servers = RecordedClock(rows, of, origin_ns), RecordedClock(rows, SERVER, origin_ns)
    stamps = np.asarray(columns["timestamp"], dtype=float) - 1e-9 * origin_ns
    measured = _measured(recording, topic, of)
    if measured is None:
        sides, places = _sides(stamps, peer, None)
        unknown_from = _late_jump(stamps, sides, peer)
    else:  # commands arrive unevenly: the evenly spaced measured states locate the jumps of the clock
        samples = measured - 1e-9 * origin_ns
        sides_of_samples, places_of_samples = _sides(samples, peer, None)
        sides, places = _sides(stamps, peer, places_of_samples)
        unknown_from = _late_jump(samples, sides_of_samples, peer)
    sides[(sides == len(peer.steps)) & (stamps > unknown_from)] = -1
    sent, time = 1e-9 * (states["sent_ns"] - origin_ns), np.asarray(states["timestamp"], dtype=float)
    found, sigma, known = np.full(len(stamps), np.nan), np.full(len(stamps), np.nan), np.zeros(len(stamps), dtype=bool)
    for number, clock in enumerate(peer.clocks):
        here = sides == number
        local = (stamps[here] - clock.offset_s + clock.drift * clock.since) / (1.0 + clock.drift)
        on_server, servers_sigma = servers.to_peer(local)
        found[here], known[here] = _between(on_server, sent, time)
        sigma[here] = np.hypot(_uncertainty(clock, local), servers_sigma)
    found[~known] = np.nan
    _leave_out_overlaps(found)
    known = np.isfinite(found)
    if not known.any():
        raise StreamError(
            f"{what}: all stamps, made by the clock of node {of!r}, lie outside the time span of the recorded states; "
            "record this topic and the topic 'state' during the same time"
        )
    behind = np.full(len(stamps), np.nan)
    behind[known] = time_behind(found[known], sent, time)
    latest = peer.clocks[-1]
    note = ClockNote(
        of=of,
        offset_s=latest.offset_s,
        drift=latest.drift,
        drift_sigma=latest.drift_sigma,
        uncertainty_s=float(np.median(sigma[known])),
        bound_s=latest.bound_s,
        round_trips=peer.round_trips,
        steps=peer.steps,
        unplaced=int((~known).sum()),
        unsure=sum(not place.is_certain for place in places),
    )
    return Placement(found, sigma, behind, note)


def time_behind(at: Floats, sent: Floats, time: Floats, speed: float = 1.0) -> Floats:
    """Time (n,) in s by which the simulation fell behind real time shortly before the simulation times `at` (n,).

    It is computed from the states after the last reset, by `irregularities.standstill`.

    sent, time  send times and simulation times of the server's states, (m,) each, in s
    speed       planned speed, in simulated seconds per second
    """
    falls = np.flatnonzero(np.diff(time) < 0.0)
    start = int(falls[-1]) + 1 if len(falls) else 0
    sent, time = sent[start:], time[start:]
    order = np.r_[True, np.diff(np.maximum.accumulate(sent)) > 0.0] if len(sent) else np.zeros(0, dtype=bool)
    sent, time = sent[order], time[order]
    return standstill(at, sent, time, speed)


@dataclass(frozen=True)
class _StepPlace:
    """Interval from `start_s` to `end_s`, in local time (s), in which a clock jump lies according to the stamps.

    is_certain  whether the stamps show between which two messages the jump lies
    """

    start_s: float
    end_s: float
    is_certain: bool


def _sides(
    stamps: Floats, clock: RecordedClock, known: Sequence[_StepPlace] | None
) -> tuple[NDArray[np.int_], list[_StepPlace]]:
    """Return (number of clock jumps before each stamp (n,), -1 where unknown; positions of the jumps).

    stamps  stamps (s) in the order of publication
    known   positions of the same jumps, found from other stamps of this clock; None if no other stamps were searched
    """
    sides, places, start = np.zeros(len(stamps), dtype=int), [], 0
    for number, step in enumerate(clock.steps):
        here = stamps[start:]
        before, after = (
            (here - each.offset_s + each.drift * each.since) / (1.0 + each.drift)
            for each in clock.clocks[number : number + 2]
        )
        located = None if known is None else known[number]
        window = (step.after_s, step.before_s) if located is None else (located.start_s, located.end_s)
        place = place_step(here, before, after, window, step.size_s, CROSSING_S + step.sigma_s)
        first, last = start + place.first, start + place.last
        sides[first:last] = -1
        sides[last:] = number + 1
        start_s = before[place.first - 1] if place.first else step.after_s
        end_s = after[place.last] if place.last < len(here) else step.before_s
        places.append(_StepPlace(float(start_s), float(max(start_s, end_s)), place.is_certain))
        start = last
    return sides, places


def _late_jump(stamps: Floats, sides: NDArray[np.int_], clock: RecordedClock) -> float:
    """Stamp (s) after which the clock is unknown; infinite if the clock is known to the end.

    After the last round trip, an unusual spacing of the stamps may be a jump of the clock or a pause of the messages.
    No round trip follows that could show which of the two it is.

    stamps  (n,) stamps of messages by this clock (s), in the order of publication
    sides   (n,) number of clock jumps before each stamp; -1 where unknown
    """
    late = np.flatnonzero((sides == len(clock.steps)) & (stamps > clock.clocks[-1].to_peer(clock.last_s)))
    if len(late) and late[0] > 0:
        usual = usual_distance(stamps[max(late[0] - RECENT, 0) : late[0] + 1])
        distances = np.diff(stamps[late[0] - 1 :])
        for index, each in enumerate(distances.tolist(), start=int(late[0])):
            if is_unusual(each, usual):
                return float(stamps[index - 1])
    return np.inf


def _measured(recording: Mapping[str, Columns], topic: str, of: str) -> Floats | None:
    """Stamps (s) of the measured states of the robot to which `topic` belongs.

    None if there are no measured states, if `topic` itself is the topic of measured states, or if the measured states
    were not stamped by the clock of node `of`.
    """
    beside = f"{topic.rpartition('/')[0]}/measured_state"
    if beside == topic or beside not in recording or "clock" not in recording[beside]:
        return None
    columns = recording[beside]
    if set(columns["clock"].tolist()) != {of}:
        return None
    return np.asarray(columns["timestamp"], dtype=float)


def _states(recording: Mapping[str, Columns], topic: str, what: str) -> Columns:
    state = f"{topic.rpartition('/')[0]}/state"
    if state not in recording or not (recording[state]["sent_ns"] > 0).any():
        raise StreamError(
            f"{what}: the stamps are not simulation times, and the recording lacks the states that convert them; "
            f"record a realtime run with the topic {state!r}"
        )
    return recording[state]


def _round_trips(recording: Mapping[str, Columns], of: str, what: str) -> Columns:
    """Recorded round trips of a node that measured both the clock of node `of` and the simulation server's clock.

    If several nodes measured both clocks, the node with the most round trips is used.

    what  name of the topic that needs these round trips, for the error message
    """
    rows: Columns = recording[CLOCK_TOPIC] if CLOCK_TOPIC in recording else {"asker": np.array([])}
    best: NDArray[Any] = np.array([], dtype=bool)
    for asker in sorted(set(rows["asker"].tolist())):
        mine = rows["asker"] == asker
        if {of, SERVER} <= set(rows["peer"][mine].tolist()) and mine.sum() > best.sum():
            best = mine
    if not best.any():
        raise StreamError(
            f"{what} is stamped by the clock of node {of!r}, but no round trips to this clock are recorded; "
            "run nodes/hil_compare.py or nodes/clock_watch.py in the launch, and record the topic 'clock'"
        )
    return {name: column[best] for name, column in rows.items()}


def _between(at: Floats, sent: Floats, time: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Convert times of the simulation server's clock to simulation times.

    at    times of the server's clock (n,) in s
    sent  time (s) of the server's clock at which the server sent each state
    time  simulation time (s) of each state
    Returns (simulation times (n,) in s; whether each of them is known (n,)). A simulation time is unknown before the
    first and after the last state, in gaps, and where the simulation was reset.
    """
    order = np.r_[True, np.diff(np.maximum.accumulate(sent)) > 0.0]
    sent, time = sent[order], time[order]
    after = np.clip(np.searchsorted(sent, at), 1, len(sent) - 1)
    width, rise = sent[after] - sent[after - 1], time[after] - time[after - 1]
    known = (at >= sent[0]) & (at <= sent[-1]) & (rise >= 0.0)
    known &= width <= max(GAP_FACTOR * float(np.median(np.diff(sent))), 2.0 * OVERLAP_S)
    return time[after - 1] + rise * (at - sent[after - 1]) / width, known


def _leave_out_overlaps(time: Floats) -> None:
    """Set each time to NaN, in place, if it is not later than the latest kept time.

    A time that is earlier by OVERLAP_S or more begins another run and is kept.
    """
    latest = -np.inf
    for index, each in enumerate(time):
        if not np.isfinite(each):
            continue
        if latest - OVERLAP_S < each <= latest:
            time[index] = np.nan
        else:
            latest = each

"""The simulation time of what a recording holds with stamps of another clock, from the round trips recorded with it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.hil.alignment.stamps import SERVER
from nodes.hil.alignment.streams import GAP_FACTOR, Floats, StreamError
from nodes.hil.clocks.clock import Clock, ClockStep, Exchange, detect_steps
from nodes.hil.clocks.track import estimate

CLOCK_TOPIC = "clock"
OVERLAP_S = 0.05  # by which stamps on both sides of a step may seem to fall back

Columns = Mapping[str, NDArray[Any]]


class ClockNote(msgspec.Struct, frozen=True, kw_only=True):
    """The clock that stamped a stream, by all round trips of the recording; s.

    offset_s       ahead of the clock of the node that asked, in the middle of what was used
    drift          s per s, and its standard deviation
    uncertainty_s  standard deviation of the simulation time that stamps were given, median over the samples
    bound_s        no asymmetry of the ways puts the offset off by more
    unplaced       samples that no simulation time is known of, left out
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

    @property
    def text(self) -> str:
        """What it says in one line."""
        way = "ahead" if self.offset_s >= 0.0 else "behind"
        steps = f", stepped {len(self.steps)} times" if len(self.steps) > 1 else ", stepped once" if self.steps else ""
        return (
            f"stamps are of the clock of {self.of}: {abs(self.offset_s):.6g} s {way}, "
            f"drift {1e6 * self.drift:+.3g} ± {1e6 * self.drift_sigma:.2g} ppm"
            f"{steps}; simulation time known to {1e3 * self.uncertainty_s:.2g} ms from {self.round_trips} round trips"
        )


class RecordedClock:
    """A peer's clock over a whole recording, cut where it was stepped. Times in s since `origin_ns` of our clock."""

    def __init__(self, rows: Columns, peer: str, origin_ns: int) -> None:
        chosen = rows["peer"] == peer
        names = ("asked_ns", "received_ns", "answered_ns", "heard_ns")
        times = np.stack([rows[name][chosen] - origin_ns for name in names], axis=1)
        exchanges = [Exchange(*row) for row in (1e-9 * times).tolist()]
        self.steps = detect_steps(exchanges)
        self.round_trips = len(exchanges)
        edges = [-np.inf, *(step.before_s for step in self.steps), np.inf]
        found = [(a, estimate([each for each in exchanges if a <= each.time < b])) for a, b in pairwise(edges)]
        self._starts = [start for start, clock in found if clock is not None]
        self.clocks: list[Clock] = [clock for _, clock in found if clock is not None]
        if not self.clocks:
            raise StreamError(
                f"{len(exchanges)} round trips to the clock of {peer!r} are too few; at least 3 are needed"
            )

    def near(self, ours: Floats) -> tuple[Floats, Floats]:
        """Their time at times of ours and its standard deviation, by the stretch between two steps that each is in."""
        index = np.searchsorted(self._starts[1:], ours, side="right")
        theirs, sigma = np.empty_like(ours), np.empty_like(ours)
        for number, clock in enumerate(self.clocks):
            here = index == number
            theirs[here] = ours[here] + clock.offset_s + clock.drift * (ours[here] - clock.since)
            sigma[here] = _uncertainty(clock, ours[here])
        return theirs, sigma


def _uncertainty(clock: Clock, ours: Floats) -> Floats:
    return np.hypot(clock.sigma_s, clock.drift_sigma * (ours - clock.since))


def simulation_time(recording: Mapping[str, Columns], topic: str, what: str) -> tuple[Floats, ClockNote] | None:
    """(n,) simulation times of a topic's states, NaN where unknown, and the clock; None where the stamps are that.

    StreamError where the recording does not say what time it was. `what` names it for a person.
    """
    columns = recording[topic]
    stamped = set(columns["clock"].tolist()) if "clock" in columns else {""}
    if stamped == {""}:
        return None
    if len(stamped) > 1:
        raise StreamError(
            f"{what} is stamped by more than one clock: {', '.join(repr(each) for each in sorted(stamped))}"
        )
    (of,) = stamped
    states = _states(recording, topic, what)
    rows = _round_trips(recording, of, what)
    origin_ns = int(rows["asked_ns"][0])
    theirs, servers = RecordedClock(rows, of, origin_ns), RecordedClock(rows, SERVER, origin_ns)
    stamps = columns["timestamp"] - 1e-9 * origin_ns
    heard = np.asarray(columns["log_time"], dtype=float)
    sent, time = 1e-9 * (states["sent_ns"] - origin_ns), np.asarray(states["timestamp"], dtype=float)
    found, sigma, known = np.full(len(stamps), np.nan), np.full(len(stamps), np.nan), np.zeros(len(stamps), dtype=bool)
    for clock in theirs.clocks:  # of what each stretch between two steps says, what is nearest to when it was heard
        ours = (stamps - clock.offset_s + clock.drift * clock.since) / (1.0 + clock.drift)
        on_server, servers_sigma = servers.near(ours)
        said, inside = _between(on_server, sent, time)
        nearer = ~(np.abs(found - heard) <= np.abs(said - heard))
        found[nearer], known[nearer] = said[nearer], inside[nearer]
        sigma[nearer] = np.hypot(_uncertainty(clock, ours), servers_sigma)[nearer]
    found[~known] = np.nan
    _leave_out_overlaps(found)
    known = np.isfinite(found)
    if not known.any():
        raise StreamError(f"{what}: no stamp of the clock of {of!r} falls into the time of the recorded states")
    latest = theirs.clocks[-1]
    note = ClockNote(
        of=of,
        offset_s=latest.offset_s,
        drift=latest.drift,
        drift_sigma=latest.drift_sigma,
        uncertainty_s=float(np.median(sigma[known])),
        bound_s=latest.bound_s,
        round_trips=theirs.round_trips,
        steps=theirs.steps,
        unplaced=int((~known).sum()),
    )
    return found, note


def _states(recording: Mapping[str, Columns], topic: str, what: str) -> Columns:
    state = f"{topic.rpartition('/')[0]}/state"
    if state not in recording or not (recording[state]["sent_ns"] > 0).any():
        raise StreamError(
            f"{what} is stamped by a clock of its own; that takes a recording of a realtime run with {state!r}"
        )
    return recording[state]


def _round_trips(recording: Mapping[str, Columns], of: str, what: str) -> Columns:
    """The rows of topic `clock` of one asker that asked both; of the one that asked most."""
    rows: Columns = recording[CLOCK_TOPIC] if CLOCK_TOPIC in recording else {"asker": np.array([])}
    best: NDArray[Any] = np.array([], dtype=bool)
    for asker in sorted(set(rows["asker"].tolist())):
        mine = rows["asker"] == asker
        if {of, SERVER} <= set(rows["peer"][mine].tolist()) and mine.sum() > best.sum():
            best = mine
    if not best.any():
        raise StreamError(
            f"{what} is stamped by the clock of {of!r}, and no round trips to it are recorded; record it beside "
            "nodes/hil_compare.py or nodes/clock_watch.py"
        )
    return {name: column[best] for name, column in rows.items()}


def _between(at: Floats, sent: Floats, time: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Simulation time when the server's clock showed `at`, and whether that is known.

    It is not outside of the states, in gaps, and where time was put back.
    """
    order = np.r_[True, np.diff(np.maximum.accumulate(sent)) > 0.0]
    sent, time = sent[order], time[order]
    after = np.clip(np.searchsorted(sent, at), 1, len(sent) - 1)
    width, rise = sent[after] - sent[after - 1], time[after] - time[after - 1]
    known = (at >= sent[0]) & (at <= sent[-1]) & (rise >= 0.0)
    known &= width <= max(GAP_FACTOR * float(np.median(np.diff(sent))), 2.0 * OVERLAP_S)
    return time[after - 1] + rise * (at - sent[after - 1]) / width, known


def _leave_out_overlaps(time: Floats) -> None:
    """Set to NaN what falls back a little; what falls back further is of another run."""
    latest = -np.inf
    for index, each in enumerate(time):
        if not np.isfinite(each):
            continue
        if latest - OVERLAP_S < each <= latest:
            time[index] = np.nan
        else:
            latest = each

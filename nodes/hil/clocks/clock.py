"""Offset and drift of another host's clock from round trips, with their uncertainty, and steps of that clock.

As NTP does: a request leaves at t1 and arrives at t2, the answer leaves at t3 and arrives at t4; t1 and t4 are of our
clock, t2 and t3 of theirs. The offset (theirs less ours) lies within half the time on the way of
((t2 - t1) + (t3 - t4)) / 2, whatever the two ways were, so the exchanges that were quickest know it best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from nodes.hil.alignment.streams import Floats

WINDOW = 8  # exchanges of which only the quickest counts, as in NTP's clock filter
FEWEST = 3  # quickest exchanges for an offset and a drift
RESOLUTION_S = 1e-6  # of the stamps; no uncertainty is below
USUAL_DRIFT = 2e-4  # s per s, standard deviation of clocks that nothing is known of yet
SLOPES = 101  # drifts that are looked at
MAX_DRIFT = 5e-4  # of a clock that is not broken


class Exchange(msgspec.Struct, frozen=True):
    """One round trip, s: sent and received here (t1, t4), received and sent there (t2, t3)."""

    t1: float
    t2: float
    t3: float
    t4: float

    @property
    def offset(self) -> float:
        """Their clock less ours, as if both ways took equally long."""
        return ((self.t2 - self.t1) + (self.t3 - self.t4)) / 2.0

    @property
    def way(self) -> float:
        """Time on the way, there and back; the offset is off by at most half of it."""
        return (self.t4 - self.t1) - (self.t3 - self.t2)

    @property
    def time(self) -> float:
        """Middle of the exchange, our clock."""
        return (self.t1 + self.t4) / 2.0


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """Their clock was put forward (size > 0) or back between two of our times; s."""

    after_s: float
    before_s: float
    size_s: float
    sigma_s: float


@dataclass(frozen=True)
class Clock:
    """Their clock since its last step: theirs = ours + offset + drift (ours - since).

    offset_s, drift          at `since`; drift in s per s
    sigma_s, drift_sigma     standard deviations over all offsets and drifts that no exchange rules out
    bound_s                  no asymmetry of the ways can put the offset off by more: what all exchanges leave possible
    steps                    where it was put forward or back before, in order
    exchanges                that were used, after filtering
    """

    since: float
    offset_s: float
    drift: float
    sigma_s: float
    drift_sigma: float
    bound_s: float
    steps: tuple[ClockStep, ...]
    exchanges: int

    def offset_at(self, ours: float) -> float:
        """Their clock less ours at a time of ours, s."""
        return self.offset_s + self.drift * (ours - self.since)

    def theirs(self, ours: float) -> float:
        """Their time at a time of ours."""
        return ours + self.offset_at(ours)

    def ours(self, theirs: float) -> float:
        """Our time at a time of theirs."""
        return (theirs - self.offset_s + self.drift * self.since) / (1.0 + self.drift)

    def uncertainty_at(self, ours: float) -> float:
        """Standard deviation of `offset_at`, s, whatever the ways' asymmetry."""
        return float(np.hypot(self.sigma_s, self.drift_sigma * (ours - self.since)))


def estimate_clock(exchanges: Sequence[Exchange], window: int = WINDOW) -> Clock:
    """The clock of the other host from round trips in order. ValueError for too few, or impossible ones.

    Of each `window` exchanges the quickest counts, and every offset and drift that none of them rules out. Where two
    neighbouring exchanges contradict each other, however their ways were shared out, the clock was stepped, and only
    what came after the last step is used.
    """
    for index, each in enumerate(exchanges):
        if each.way < -RESOLUTION_S or each.t4 < each.t1:
            raise ValueError(f"exchange {index} took {each.way:g} s on its way; stamps of one clock must not fall")
    steps = detect_steps(exchanges)
    start = steps[-1].before_s if steps else float("-inf")
    recent = [each for each in exchanges if each.time >= start]
    quick = quickest(recent, window)
    if len(quick) < FEWEST:
        raise ValueError(f"{len(recent)} exchanges since the last step; an offset and a drift take {FEWEST * window}")
    since, offset, drift, sigma, drift_sigma, bound = _posterior(quick)
    return Clock(
        since=since,
        offset_s=offset,
        drift=drift,
        sigma_s=sigma,
        drift_sigma=drift_sigma,
        bound_s=bound,
        steps=tuple(steps),
        exchanges=len(quick),
    )


def quickest(exchanges: Sequence[Exchange], window: int = WINDOW) -> list[Exchange]:
    """The exchange with the shortest way of each whole `window`, in order."""
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1")
    whole = range(0, len(exchanges) - window + 1, window)
    return [min(exchanges[i : i + window], key=lambda each: each.way) for i in whole]


def _posterior(exchanges: Sequence[Exchange]) -> tuple[float, float, float, float, float, float]:
    """(since, offset, drift, sigma, drift_sigma, bound) of all offsets and drifts that no exchange rules out.

    Each exchange allows the offsets within half its way around what it says, all equally: so the density over offset
    and drift is even where all allow it, but for what is known of drifts in general. `since` is where the two do not
    depend on each other, `bound` how far the farthest possible offset is then.
    """
    time, said, half = np.array([[each.time, each.offset, each.way / 2.0 + RESOLUTION_S] for each in exchanges]).T
    since, middle = float(time.mean()), float(said.mean())
    t, low, high = time - since, said - half - middle, said + half - middle
    slopes = np.linspace(*_possible_drifts(t, low, high), SLOPES)
    lowest = (low - np.outer(slopes, t)).max(axis=1)
    width = (high - np.outer(slopes, t)).min(axis=1) - lowest
    if not (width > 0.0).any():  # a clock whose drift changes: what is ruled out least
        best = [int(width.argmax())]
        slopes, lowest, width = slopes[best], lowest[best] + width[best], RESOLUTION_S - width[best]
    possible = width > 0.0
    slopes, lowest, width = slopes[possible], lowest[possible], width[possible]
    weight = width * np.exp(-0.5 * (slopes / USUAL_DRIFT) ** 2)
    weight /= weight.sum()
    centre = lowest + width / 2.0
    drift, offset = float(weight @ slopes), float(weight @ centre)
    drift_var = float(weight @ (slopes - drift) ** 2 + (slopes[-1] - slopes[0]) ** 2 / SLOPES**2)
    moved = -float(weight @ ((slopes - drift) * (centre - offset))) / drift_var if drift_var > 0.0 else 0.0
    along = centre + slopes * moved
    best_offset = float(weight @ along)
    var = float(weight @ ((along - best_offset) ** 2 + width**2 / 12.0))
    ends = along + np.array([[-0.5], [0.5]]) * width - best_offset
    return since + moved, middle + best_offset, drift, var**0.5, drift_var**0.5, float(np.abs(ends).max())


def _possible_drifts(t: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """The least and the largest slope of a line above all `low` and below all `high`, within what clocks do."""
    apart = t[None, :] - t[:, None]
    later = apart > 0.0
    most = (high[None, :] - low[:, None])[later] / apart[later]
    least = (low[None, :] - high[:, None])[later] / apart[later]
    usual = 5.0 * USUAL_DRIFT
    first = max(float(least.max(initial=-usual)), -usual)
    last = min(float(most.min(initial=usual)), usual)
    return (first, last) if first <= last else ((first + last) / 2.0, (first + last) / 2.0)


def detect_steps(exchanges: Sequence[Exchange], window: int = WINDOW, max_drift: float = MAX_DRIFT) -> list[ClockStep]:
    """Where the other clock was put forward or back: exchanges whose possible offsets do not meet.

    An offset lies within half the way around what an exchange says, and drifts by at most `max_drift` s per s between
    two. Each exchange is set beside all those since the last step: a slow one between two quick ones agrees with both,
    and is of neither side then. The size is the difference of the quickest `window` on both sides, so a step below the
    jitter of the ways stays unseen: it could have been the way.
    """
    if len(exchanges) < 2:
        return []
    time, offset, half = np.array([[each.time, each.offset, each.way / 2.0] for each in exchanges]).T
    edges, start = [], 0  # (last before, first after)
    for index in range(1, len(exchanges)):
        near = slice(start, index)
        most = half[index] + half[near] + max_drift * np.abs(time[index] - time[near]) + RESOLUTION_S
        against = np.flatnonzero(np.abs(offset[index] - offset[near]) > most)
        if len(against):
            edges.append((start + int(against[-1]), index))
            start = index
    found = []
    for place, (last, first) in enumerate(edges):
        begin = edges[place - 1][1] if place else 0
        end = edges[place + 1][0] + 1 if place + 1 < len(edges) else len(exchanges)
        a = min(exchanges[max(begin, last + 1 - window) : last + 1], key=lambda each: each.way)
        b = min(exchanges[first : min(end, first + window)], key=lambda each: each.way)
        sigma = float(np.hypot(a.way, b.way) / np.sqrt(12.0))  # anywhere within half the way, both
        step = ClockStep(
            after_s=exchanges[last].time,
            before_s=exchanges[first].time,
            size_s=b.offset - a.offset,
            sigma_s=sigma,
        )
        found.append(step)
    return found


def stepped(clock: Clock, step: ClockStep) -> Clock:
    """A clock that is known before a step, or after it, on the other side, where round trips are too few to know it.

    A step from the later to the earlier side has the opposite size.
    """
    sigma = float(np.hypot(clock.sigma_s, step.sigma_s))
    bound = clock.bound_s + np.sqrt(12.0) * step.sigma_s
    return replace(clock, offset_s=clock.offset_s + step.size_s, sigma_s=sigma, bound_s=float(bound))

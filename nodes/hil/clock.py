"""Offset and drift of another host's clock from round trips, with their uncertainty, and steps of that clock.

As NTP does: a request leaves at t1 and arrives at t2, the answer leaves at t3 and arrives at t4; t1 and t4 are of our
clock, t2 and t3 of theirs. The offset (theirs less ours) lies within half the time on the way of
((t2 - t1) + (t3 - t4)) / 2, whatever the two ways were, so the exchanges that were quickest know it best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from nodes.hil.streams import Floats

WINDOW = 8  # exchanges of which only the quickest counts, as in NTP's clock filter
FEWEST = 3  # quickest exchanges for an offset and a drift
RESOLUTION_S = 1e-6  # of the stamps; no uncertainty is below
USUAL_DRIFT = 2e-4  # s per s, standard deviation of clocks that nothing is known of yet
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
    sigma_s, drift_sigma     standard deviations, from the scatter of the quickest exchanges
    bound_s                  no asymmetry of the ways can put the offset off by more: half the quickest time on the way
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
        """Standard deviation of `offset_at`, s, with the bound of an asymmetry beside it."""
        scatter = float(np.hypot(self.sigma_s, self.drift_sigma * (ours - self.since)))
        return float(np.hypot(scatter, self.bound_s / np.sqrt(3.0)))  # within the bound nothing is likelier


def estimate_clock(exchanges: Sequence[Exchange], window: int = WINDOW) -> Clock:
    """The clock of the other host from round trips in order. ValueError for too few, or impossible ones.

    Of each `window` exchanges the quickest counts; a line through their offsets gives offset and drift. Where two
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
    time = np.array([each.time for each in quick])
    offset = np.array([each.offset for each in quick])
    ways = np.array([each.way for each in quick])
    since = float(time.mean())
    (drift, middle), covariance = _line(time - since, offset, ways)
    return Clock(
        since=since,
        offset_s=middle,
        drift=drift,
        sigma_s=float(np.sqrt(covariance[1, 1])),
        drift_sigma=float(np.sqrt(covariance[0, 0])),
        bound_s=float(ways.min()) / 2.0,
        steps=tuple(steps),
        exchanges=len(quick),
    )


def quickest(exchanges: Sequence[Exchange], window: int = WINDOW) -> list[Exchange]:
    """The exchange with the shortest way of each whole `window`, in order."""
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1")
    whole = range(0, len(exchanges) - window + 1, window)
    return [min(exchanges[i : i + window], key=lambda each: each.way) for i in whole]


def _line(x: Floats, y: Floats, ways: Floats) -> tuple[tuple[float, float], Floats]:
    """Slope and middle of a line, weighted by how little longer than the shortest each way was; their covariance.

    That clocks drift little counts as one more measurement: it steadies the slope of the first seconds.
    """
    excess = ways - ways.min()
    scale = max(float(np.median(excess)), RESOLUTION_S)
    weight = 1.0 / (1.0 + (excess / scale) ** 2)
    A = np.stack([x, np.ones_like(x)], axis=1)
    normal = A.T @ (weight[:, None] * A)
    noise = (scale / 2.0) ** 2  # of one offset
    normal[0, 0] += noise / USUAL_DRIFT**2
    slope, middle = np.linalg.solve(normal, A.T @ (weight * y))
    left = y - A @ np.array([slope, middle])
    spread = float((weight * left * left).sum() / weight.sum()) * len(x) / max(1, len(x) - 2)
    spread = max(spread, RESOLUTION_S**2)
    inverse = np.linalg.inv(normal)
    scatter = spread * (A.T @ (weight[:, None] ** 2 * A))
    scatter[0, 0] += noise**2 / USUAL_DRIFT**2
    return (float(slope), float(middle)), inverse @ scatter @ inverse


def detect_steps(exchanges: Sequence[Exchange], window: int = WINDOW, max_drift: float = MAX_DRIFT) -> list[ClockStep]:
    """Where the other clock was put forward or back: neighbouring exchanges whose possible offsets do not meet.

    An offset lies within half the way around what an exchange says, and drifts by at most `max_drift` s per s between
    two. The size is the difference of the quickest `window` on both sides, so a step below the jitter of the ways stays
    unseen: it could have been the way.
    """
    edges = []
    for index, (a, b) in enumerate(pairwise(exchanges)):
        most = (a.way + b.way) / 2.0 + max_drift * abs(b.time - a.time) + RESOLUTION_S
        if abs(b.offset - a.offset) > most:
            edges.append(index + 1)
    found = []
    for place, edge in enumerate(edges):
        first = edges[place - 1] if place else 0
        last = edges[place + 1] if place + 1 < len(edges) else len(exchanges)
        a = min(exchanges[max(first, edge - window) : edge], key=lambda each: each.way)
        b = min(exchanges[edge : min(last, edge + window)], key=lambda each: each.way)
        sigma = float(np.hypot(a.way, b.way) / np.sqrt(12.0))  # anywhere within half the way, both
        step = ClockStep(
            after_s=exchanges[edge - 1].time,
            before_s=exchanges[edge].time,
            size_s=b.offset - a.offset,
            sigma_s=sigma,
        )
        found.append(step)
    return found

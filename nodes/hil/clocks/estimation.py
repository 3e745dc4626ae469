"""Estimates offset and drift of another host's clock from round trips, with uncertainties, and detects clock jumps.

As in NTP, a request leaves at t1 and arrives at t2, and the reply leaves at t3 and arrives at t4. t1 and t4 are times
of the local clock, t2 and t3 of the remote clock. The offset (remote minus local) differs from ((t2 - t1) + (t3 - t4))
/ 2 by at most half the travel time, however the travel time is split between the two directions. The quickest exchanges
therefore determine the offset best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from nodes.hil.alignment.streams import Floats

WINDOW = 8  # exchanges of which only the quickest is used, as in NTP's clock filter
FEWEST = 3  # least number of quickest exchanges for an offset and a drift
RESOLUTION_S = 1e-6  # resolution of the stamps, the least uncertainty
USUAL_DRIFT = 2e-4  # s per s, prior standard deviation of a clock's drift
SLOPES = 101  # number of drifts evaluated
MAX_DRIFT = 5e-4  # s per s, largest drift of a working clock


class Exchange(msgspec.Struct, frozen=True):
    """Times of one round trip (s): request sent (t1) and reply received (t4) by the local clock; request received (t2)
    and reply sent (t3) by the remote clock."""

    t1: float
    t2: float
    t3: float
    t4: float

    @property
    def offset(self) -> float:
        """Remote minus local clock (s), assuming that both directions took equally long."""
        return ((self.t2 - self.t1) + (self.t3 - self.t4)) / 2.0

    @property
    def way(self) -> float:
        """Travel time of request plus reply (s). The error of `offset` is at most half of this time."""
        return (self.t4 - self.t1) - (self.t3 - self.t2)

    @property
    def time(self) -> float:
        """Local time (s) halfway between sending the request and receiving the reply."""
        return (self.t1 + self.t4) / 2.0


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """A jump of the remote clock between the local times `after_s` and `before_s` (s).

    size_s   change of the remote clock (s); positive if it was put forward
    sigma_s  standard deviation of `size_s` (s)
    """

    after_s: float
    before_s: float
    size_s: float
    sigma_s: float


@dataclass(frozen=True)
class Clock:
    """Model of the remote clock since its last jump: remote = local + offset_s + drift (local - since), times in s.

    offset_s, drift       offset (s) at the local time `since`; drift (s per s)
    sigma_s, drift_sigma  standard deviations of `offset_s` and `drift`. They are taken over the set of all pairs
                          (offset, drift) that no exchange rules out
    bound_s               largest possible error of the offset, however the travel time is split between the two
                          directions
    steps                 earlier jumps of the clock, in order
    exchanges             number of exchanges used, after filtering
    """

    since: float
    offset_s: float
    drift: float
    sigma_s: float
    drift_sigma: float
    bound_s: float
    steps: tuple[ClockStep, ...]
    exchanges: int

    def offset_at(self, local: float) -> float:
        """Remote minus local clock at a local time (s)."""
        return self.offset_s + self.drift * (local - self.since)

    def to_peer(self, local: float) -> float:
        """Remote time at a local time (s)."""
        return local + self.offset_at(local)

    def to_local(self, peer: float) -> float:
        """Local time at a remote time (s)."""
        return (peer - self.offset_s + self.drift * self.since) / (1.0 + self.drift)

    def uncertainty_at(self, local: float) -> float:
        """Standard deviation (s) of `offset_at`, over all possible splits of the travel time between the two
        directions.
        """
        return float(np.hypot(self.sigma_s, self.drift_sigma * (local - self.since)))


def estimate_clock(exchanges: Sequence[Exchange], window: int = WINDOW) -> Clock:
    """Model of the remote clock from round trips in order of time.

    Of every `window` consecutive exchanges, only the quickest is used. The result is the mean over all offsets and
    drifts that agree with these exchanges. If no split of the travel times makes two exchanges consistent, the clock
    jumped between them. Only exchanges after the last jump are used.

    Raises ValueError for too few round trips, or for round trips whose times decrease.
    """
    for index, each in enumerate(exchanges):
        if each.way < -RESOLUTION_S or each.t4 < each.t1:
            raise ValueError(
                f"round trip {index} has a travel time of {each.way:g} s, because the times of a clock decrease; "
                "give times that increase"
            )
    steps = detect_steps(exchanges)
    start = steps[-1].before_s if steps else float("-inf")
    recent = [each for each in exchanges if each.time >= start]
    quick = quickest(recent, window)
    if len(quick) < FEWEST:
        raise ValueError(
            f"there were only {len(recent)} round trips since the clock's last jump; make at least {FEWEST * window} "
            "to estimate offset and drift"
        )
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
    """The exchange with the shortest travel time in each group of `window` consecutive exchanges, in order.

    An incomplete last group is left out.
    """
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1")
    whole = range(0, len(exchanges) - window + 1, window)
    return [min(exchanges[i : i + window], key=lambda each: each.way) for i in whole]


def _posterior(exchanges: Sequence[Exchange]) -> tuple[float, float, float, float, float, float]:
    """Return (since, offset, drift, sigma, drift_sigma, bound): mean and spread of the possible offsets and drifts.

    An exchange determines the clock offset with an error of at most half its travel time, and all offsets in this
    interval are equally likely. A pair of offset and drift is possible if no exchange excludes the pair. The joint
    density of possible pairs is proportional to the prior density of the drift; the density of all other pairs is zero.

    since               local time (s) at which the errors of offset and drift are uncorrelated
    offset, drift       mean of the possible offsets (s) at the time `since`, and of the possible drifts (s per s)
    sigma, drift_sigma  standard deviations of `offset` and `drift`
    bound               largest distance of a possible offset from `offset` at the time `since` (s)
    """
    time, offset, half = np.array([[each.time, each.offset, each.way / 2.0 + RESOLUTION_S] for each in exchanges]).T
    since, middle = float(time.mean()), float(offset.mean())
    t, low, high = time - since, offset - half - middle, offset + half - middle
    slopes = np.linspace(*_possible_drifts(t, low, high), SLOPES)
    lowest = (low - np.outer(slopes, t)).max(axis=1)
    width = (high - np.outer(slopes, t)).min(axis=1) - lowest
    # no drift fits all exchanges, as the drift changes: take the one that violates them least
    if not (width > 0.0).any():
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
    """Return (least, largest) slope of a line that lies above all `low` and below all `high` at the times `t`.

    Both slopes are limited to the usual range of drifts.
    """
    apart = t[None, :] - t[:, None]
    later = apart > 0.0
    most = (high[None, :] - low[:, None])[later] / apart[later]
    least = (low[None, :] - high[:, None])[later] / apart[later]
    usual = 5.0 * USUAL_DRIFT
    first = max(float(least.max(initial=-usual)), -usual)
    last = min(float(most.min(initial=usual)), usual)
    return (first, last) if first <= last else ((first + last) / 2.0, (first + last) / 2.0)


def detect_steps(exchanges: Sequence[Exchange], window: int = WINDOW, max_drift: float = MAX_DRIFT) -> list[ClockStep]:
    """Detect the jumps of the remote clock, which lie between exchanges whose possible offsets do not overlap.

    The true offset differs from the offset that an exchange shows by at most half of the exchange's travel time.
    Between two exchanges the true offset changes by at most `max_drift` s per s. Each exchange is compared with all
    exchanges since the last jump. A slow exchange that agrees with the exchanges before and after a jump therefore does
    not hide the jump.

    The size of a jump is the offset of the quickest of `window` exchanges after the jump, minus the offset of the
    quickest of `window` exchanges before it. A jump smaller than the variation of the travel times is not
    detected, because the travel times could explain it.
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
        sigma = float(np.hypot(a.way, b.way) / np.sqrt(12.0))  # uniform within half the travel time, for both
        step = ClockStep(
            after_s=exchanges[last].time,
            before_s=exchanges[first].time,
            size_s=b.offset - a.offset,
            sigma_s=sigma,
        )
        found.append(step)
    return found


def stepped(clock: Clock, step: ClockStep) -> Clock:
    """Model of the clock after the jump `step`, computed from the model before the jump.

    This model is used if there are too few round trips before or after the jump. To get the model before the jump from
    the model after it, pass the jump with the opposite size.
    """
    sigma = float(np.hypot(clock.sigma_s, step.sigma_s))
    bound = clock.bound_s + np.sqrt(12.0) * step.sigma_s
    return replace(clock, offset_s=clock.offset_s + step.size_s, sigma_s=sigma, bound_s=float(bound))

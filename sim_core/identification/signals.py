"""Recorded signals on a grid of equal time steps: zero-phase filter, derivatives, and the parts with motion.

A recording is filtered as a whole, before parts of it are cut out: a filter needs the signal on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
ORDER = 4  # of the Butterworth filter, run forwards and backwards
GAP_STEPS, GAP_S = 10, 0.1  # a recording is split at pauses longer than both
LEAST_SAMPLES = 50  # of a part between two gaps that is used
RESTS = 0.05  # a joint stands still below this share of its root-mean-square speed
CALM_HZ = 2.0  # cutoff of the positions by which a joint is seen to move
CALM_S = 0.25  # pauses that are shorter count as motion
TWITCH = 0.01  # share of a joint's range; along a shorter way, such as where a brake lets go, it stands still
FIRST = (0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280)  # coefficients of the derivatives of order 8
SECOND = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)
FOURTH = 4  # order of the differences that show noise
ROUNDING = 1e-12  # of positions, as a share of the largest one
LEAST_MOVING_S = 2.0  # of a recording to which a model is fitted


@dataclass(frozen=True)
class Recorded:
    """Positions and efforts of n_q joints at n instants.

    time    (n,) s; need not be even
    q       (n, n_q) positions, rad or m; NaN where unknown
    effort  (n, n_q) efforts, N m or N, or another unit that is proportional to it; NaN where unknown
    ripple  (n, n_q) changes of the efforts with each step of the commands, if these come as seldom as the samples: an
            effort differs from its mean by an unknown share of this, from -1/2 to 1/2; None if there are no such steps
    """

    time: Array
    q: Array
    effort: Array
    ripple: Array | None = None

    def of(self, columns: Sequence[int]) -> Recorded:
        """The joints with these indices, in this order."""
        ripple = None if self.ripple is None else self.ripple[:, columns]
        return Recorded(self.time, self.q[:, columns], self.effort[:, columns], ripple)


@dataclass(frozen=True)
class Sampled:
    """Part of a recording without gaps, on a grid of equal time steps.

    rate_hz  samples per second
    time     (n,) s
    q        (n, n_q) positions as recorded
    effort   (n, n_q) efforts as recorded; NaN where unknown
    ripple   (n, n_q), see `Recorded`
    """

    rate_hz: float
    time: Array
    q: Array
    effort: Array
    ripple: Array | None = None

    @cached_property
    def moving(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(n,) whether any joint moves. Shorter pauses than CALM_S, such as those at a reversal, count as motion.

        A motion between two pauses in which each joint travels less than TWITCH of its range counts as a pause.
        """
        q, v, _ = motion_of(self, CALM_HZ)
        rms = np.sqrt(np.mean(v**2, axis=0))
        fast = np.abs(v) > RESTS * np.maximum(rms, 1e-6)
        width = max(1, int(CALM_S * self.rate_hz))
        # full: "same" is as long as the window if that is longer
        around = np.convolve(fast.any(axis=1), np.ones(2 * width + 1))[width : width + len(fast)] > 0
        travelled = np.cumsum(np.where(fast, np.abs(v), 0.0), axis=0) / self.rate_hz
        edges = np.flatnonzero(np.diff(np.r_[False, around, False])).reshape(-1, 2)
        for begin, end in edges.tolist():
            if (travelled[end - 1] - travelled[begin] < TWITCH * np.ptp(q, axis=0)).all():
                around[begin:end] = False
        return np.asarray(around)


def sampled(recorded: Recorded) -> list[Sampled]:
    """The parts of a recording between its gaps, interpolated to the recording's median time step."""
    time = np.asarray(recorded.time, dtype=float)
    known = np.isfinite(time) & np.isfinite(recorded.q).all(axis=1)
    latest = np.maximum.accumulate(np.where(known, time, -np.inf))
    known[1:] &= time[1:] > latest[:-1]  # repeated times and steps backwards
    time, q, effort = time[known], recorded.q[known], recorded.effort[known]
    ripple = None if recorded.ripple is None else recorded.ripple[known]
    if len(time) < LEAST_SAMPLES:
        return []
    steps = np.diff(time)
    h = float(np.median(steps))
    begins = [0, *(np.flatnonzero(steps > max(GAP_STEPS * h, GAP_S)) + 1).tolist(), len(time)]
    parts = []
    for begin, end in pairwise(begins):
        t = time[begin:end]
        if len(t) < LEAST_SAMPLES:
            continue
        grid = t[0] + h * np.arange(int((t[-1] - t[0]) / h) + 1)
        steps_there = None if ripple is None else _at(grid, t, ripple[begin:end])
        parts.append(Sampled(1.0 / h, grid, _at(grid, t, q[begin:end]), _at(grid, t, effort[begin:end]), steps_there))
    return parts


def moving_s(parts: Iterable[Sampled]) -> float:
    """Time, s, in which any joint moves."""
    return sum(float(part.moving.sum()) / part.rate_hz for part in parts)


def too_little_motion(moving: float) -> str:
    """Sentence that refuses a recording whose joints move for `moving` seconds."""
    return f"the joints move for {moving:.2g} s; a fit needs at least {LEAST_MOVING_S:g} s of motion"


def _at(grid: Array, time: Array, values: Array) -> Array:
    return np.stack([np.interp(grid, time, column) for column in values.T], axis=1)


def low_pass(values: Array, cutoff_hz: float, rate_hz: float) -> Array:
    """Zero-phase low-pass filter of `values` (n, ...) along the first axis; unchanged if the cutoff is too high."""
    from scipy.signal import sosfiltfilt  # slow to load, seldom needed

    if cutoff_hz >= 0.45 * rate_hz:
        return values
    sections = _sections(cutoff_hz / rate_hz)
    return np.asarray(sosfiltfilt(sections, values, axis=0, padlen=min(len(values) - 1, 30)))


@cache
def _sections(cutoff: float) -> Array:
    """Second-order sections of the filter; `cutoff` is a share of the sampling rate."""
    from scipy.signal import butter  # slow to load, seldom needed

    return np.asarray(butter(ORDER, cutoff, fs=1.0, output="sos"))


def motion_of(part: Sampled, cutoff_hz: float) -> tuple[Array, Array, Array]:
    """(q, v, a), (n, n_q) each: filtered positions and their derivatives.

    The central differences are of order 8. Those of order 2 make accelerations at a tenth of the sampling rate 13 % too
    small, and with them every mass too large.
    """
    q = low_pass(part.q, cutoff_hz, part.rate_hz)
    return q, _difference(q, FIRST, part.rate_hz), _difference(q, SECOND, part.rate_hz**2)


def noise_of(part: Sampled, cutoffs_hz: Array) -> Array:
    """Variances (2, n_q) of velocities and accelerations by `motion_of` that come from white noise of the positions.

    The noise is that of the fourth differences of the positions, in which a slow motion has nearly no part.

    cutoffs_hz  (n_q,) of the filter of each joint
    """
    rounding = ROUNDING * np.abs(part.q).max(axis=0)
    noise = np.mean(np.diff(part.q, FOURTH, axis=0) ** 2, axis=0) / comb(2 * FOURTH, FOURTH) + rounding**2
    w, passed = 2.0 * np.pi * cutoffs_hz, np.minimum(2.0 * cutoffs_hz / part.rate_hz, 1.0)
    return np.asarray(noise * passed * np.stack([w**2 / 3.0, w**4 / 5.0]))


def _difference(q: Array, coefficients: tuple[float, ...], per_step: float) -> Array:
    """Central differences (n, n_q) with `coefficients` of q[k], q[k + 1] and so on.

    The coefficients of samples before are the same if that of q[k] is not 0, and otherwise the negative ones. Beyond
    both ends, the samples are those of a point reflection.
    """
    reach, even = len(coefficients) - 1, 1.0 if coefficients[0] else -1.0
    padded = np.pad(q, ((reach, reach), (0, 0)), mode="reflect", reflect_type="odd")
    middle = slice(reach, reach + len(q))
    found = coefficients[0] * padded[middle]
    for k, coefficient in enumerate(coefficients[1:], 1):
        later, before = padded[reach + k : reach + k + len(q)], padded[reach - k : reach - k + len(q)]
        found += coefficient * (later + even * before)
    return np.asarray(found * per_step)

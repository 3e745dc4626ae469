"""Two streams of joint states over one time: read, resampled without inventing anything across gaps, and paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

GAP_FACTOR = 3.5  # a pause of more than this many usual periods is a gap: two lost samples in a row are not yet one
FEW = 4  # samples in a row that a cubic spline needs; fewer are joined by lines

Floats = NDArray[np.float64]


class StreamError(ValueError):
    """Streams that cannot be compared; the only argument is one line for a person."""


@dataclass(frozen=True)
class Gap:
    """A pause of a stream: nothing is known between `start_s` and `end_s`, seconds of its stamps."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class Stream:
    """What a state topic said, sample by sample.

    time      (n,) s, strictly rising
    names     (k,) joints
    position  (n, k) rad or m; `velocity` (n, k) and `effort` (n, k; rad/s or m/s, N m or N) are None where not said
    notes     what was left out on reading, one line each
    """

    time: Floats
    names: tuple[str, ...]
    position: Floats
    velocity: Floats | None = None
    effort: Floats | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def period_s(self) -> float:
        """The usual time between two samples, s."""
        return float(np.median(np.diff(self.time)))

    def column(self, name: str) -> int:
        """Index of a joint."""
        return self.names.index(name)

    def only(self, names: Sequence[str]) -> Stream:
        """The same of these joints alone, in this order."""
        columns = [self.names.index(name) for name in names]
        velocity, effort = (None if each is None else each[:, columns] for each in (self.velocity, self.effort))
        return Stream(self.time, tuple(names), self.position[:, columns], velocity, effort, self.notes)

    def since(self, start_s: float) -> Stream:
        """The same from a stamp on; StreamError where fewer than two samples are left."""
        if start_s <= self.time[0]:
            return self
        first = int(np.searchsorted(self.time, start_s))
        if len(self.time) - first < 2:
            raise StreamError(f"stamps end at {self.time[-1]:g} s; nothing is left after settle_s = {start_s:g} s")
        velocity, effort = (None if each is None else each[first:] for each in (self.velocity, self.effort))
        note = f"the first {start_s:g} s are left out (settle_s)"
        return Stream(self.time[first:], self.names, self.position[first:], velocity, effort, (*self.notes, note))


def stream_of(columns: Mapping[str, NDArray[Any]], what: str) -> Stream:
    """The stream of a recorded state topic. StreamError for one with fewer than two samples, or changing joints.

    Where stamps fall back (the simulation was reset) only what came after the last fall is taken, and samples that
    repeat a stamp are left out; `notes` says so.
    """
    time = np.asarray(columns["timestamp"], dtype=float)
    name, position = columns["name"], columns["position"]
    if len(time) < 2 or name.ndim != 2 or position.ndim != 2 or (name != name[0]).any():
        found = f"{len(time)} samples" if len(time) < 2 else "joints that change on the way"
        raise StreamError(f"{what} has {found}; at least two states of the same joints are needed")
    notes = []
    falls = np.flatnonzero(np.diff(time) < 0.0)
    start = int(falls[-1]) + 1 if len(falls) else 0
    if start:
        notes.append(f"{what}: time fell back at {time[start - 1]:g} s; the {start} samples before are left out")
    keep = np.arange(start, len(time))[np.r_[True, np.diff(time[start:]) > 0.0]]
    if repeats := len(time) - start - len(keep):
        notes.append(f"{what}: {repeats} samples repeat a stamp and are left out")
    if len(keep) < 2:
        raise StreamError(f"{what} has {len(keep)} samples with stamps of their own; at least two are needed")

    def rates(key: str) -> Floats | None:
        values = columns.get(key)
        fits = values is not None and values.ndim == 2 and values.shape == position.shape
        return np.asarray(values, dtype=float)[keep] if fits else None

    names = tuple(str(each) for each in name[0])
    return Stream(
        time[keep], names, np.asarray(position, dtype=float)[keep], rates("velocity"), rates("effort"), tuple(notes)
    )


def gaps(time: Floats, factor: float = GAP_FACTOR) -> list[Gap]:
    """The pauses of more than `factor` usual periods."""
    steps = np.diff(time)
    found = np.flatnonzero(steps > factor * np.median(steps))
    return [Gap(float(time[i]), float(time[i + 1])) for i in found]


def segments(time: Floats, factor: float = GAP_FACTOR) -> list[slice]:
    """The stretches without a gap, in order."""
    steps = np.diff(time)
    cuts = np.flatnonzero(steps > factor * np.median(steps)) + 1
    edges = [0, *cuts.tolist(), len(time)]
    return [slice(a, b) for a, b in pairwise(edges)]


class Resampled:
    """Values (n, k) as functions of time: cubic between samples, NaN outside and inside gaps."""

    def __init__(self, time: Floats, values: Floats) -> None:
        from scipy.interpolate import CubicSpline

        self._width = values.shape[1]
        self._pieces: list[tuple[float, float, Any]] = []
        for part in segments(time):
            t, y = time[part], values[part]
            if len(t) >= FEW and np.isfinite(y).all():
                self._pieces.append((t[0], t[-1], CubicSpline(t, y)))
            else:
                self._pieces.append((t[0], t[-1], _Lines(t, y)))

    def __call__(self, at: Floats) -> Floats:
        """(len(at), k) values at these times."""
        found = np.full((len(at), self._width), np.nan)
        for first, last, curve in self._pieces:
            inside = (at >= first) & (at <= last)
            if inside.any():
                found[inside] = curve(at[inside])
        return found


def at_times(at: Floats, time: Floats, values: Floats) -> Floats:
    """Values (n, k) at other times, along straight lines; held beyond the ends."""
    return np.stack([np.interp(at, time, column) for column in values.T], axis=1)


class _Lines:
    def __init__(self, time: Floats, values: Floats) -> None:
        self._time, self._values = time, values

    def __call__(self, at: Floats) -> Floats:
        return at_times(at, self._time, self._values)


@dataclass(frozen=True)
class Pairs:
    """Measured and predicted positions (n, k) at the same instants, the delay taken out.

    time  (n,) s, the measurement's stamps; their spacing is the slower stream's
    """

    time: Floats
    measured: Floats
    predicted: Floats

    @property
    def residual(self) -> Floats:
        """Measured less predicted (n, k), rad or m."""
        return self.measured - self.predicted


class Pairing:
    """Pairs two streams of the same joints at any assumed delay, at the instants of the slower one.

    Sign: a positive delay means that the measurement shows later what the prediction showed.
    """

    def __init__(self, measured: Stream, predicted: Stream) -> None:
        self._measured, self._predicted = measured, predicted
        self._at_measured = measured.period_s >= predicted.period_s
        fast = predicted if self._at_measured else measured
        self._fast = Resampled(fast.time, fast.position)
        if measured.time[0] >= predicted.time[-1] or predicted.time[0] >= measured.time[-1]:
            spans = [f"{stream.time[0]:g} .. {stream.time[-1]:g} s" for stream in (measured, predicted)]
            raise StreamError(f"the streams share no time: measured has stamps {spans[0]}, predicted {spans[1]}")

    def __call__(self, delay_s: float, every: int = 1) -> Pairs:
        """The pairs at this delay, each `every`-th instant; instants that one of the two does not know are left out."""
        if self._at_measured:
            time, measured = self._measured.time[::every], self._measured.position[::every]
            predicted = self._fast(time - delay_s)
        else:
            predicted = self._predicted.position[::every]
            time = self._predicted.time[::every] + delay_s
            measured = self._fast(time)
        known = np.isfinite(measured).all(axis=1) & np.isfinite(predicted).all(axis=1)
        return Pairs(time[known], measured[known], predicted[known])

    @property
    def instants(self) -> int:
        """Samples of the slower stream."""
        return len(self._measured.time if self._at_measured else self._predicted.time)

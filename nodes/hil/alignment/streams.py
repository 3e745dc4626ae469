"""Streams of joint states: reading, resampling without interpolation across gaps, and pairing of two streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

GAP_FACTOR = 3.5  # pause in usual periods from which on it is a gap; two lost samples in a row are none
FEW = 4  # least number of samples for a cubic spline; fewer are joined by lines

Floats = NDArray[np.float64]


class StreamError(ValueError):
    """Raised for streams that cannot be compared, with a one-line message for the user."""


@dataclass(frozen=True)
class Gap:
    """A gap of a stream: no samples between the stamps `start_s` and `end_s` (s)."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class Stream:
    """Samples of a topic with joint states: n samples of k joints.

    time      (n,) stamps in s, strictly increasing
    names     names of the k joints
    position  (n, k) rad or m
    velocity  (n, k) rad/s or m/s; None if not published
    effort    (n, k) N m or N; None if not published
    notes     one line about each kind of data that was left out on reading
    """

    time: Floats
    names: tuple[str, ...]
    position: Floats
    velocity: Floats | None = None
    effort: Floats | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def period_s(self) -> float:
        """Median time between two samples (s)."""
        return float(np.median(np.diff(self.time)))

    def column(self, name: str) -> int:
        """Column index of a joint."""
        return self.names.index(name)

    def only(self, names: Sequence[str]) -> Stream:
        """The stream with these joints only, in this order."""
        columns = [self.names.index(name) for name in names]
        velocity, effort = (None if each is None else each[:, columns] for each in (self.velocity, self.effort))
        return Stream(self.time, tuple(names), self.position[:, columns], velocity, effort, self.notes)

    def since(self, start_s: float) -> Stream:
        """The samples with stamps of at least `start_s` (s).

        Raises StreamError if fewer than two samples are left.
        """
        if start_s <= self.time[0]:
            return self
        first = int(np.searchsorted(self.time, start_s))
        if len(self.time) - first < 2:
            raise StreamError(
                f"the stamps end at {self.time[-1]:g} s, so nothing is left after settle_s = {start_s:g} s; "
                "lower settle_s or record a longer run"
            )
        velocity, effort = (None if each is None else each[first:] for each in (self.velocity, self.effort))
        note = f"the first {start_s:g} s are left out (settle_s)"
        return Stream(self.time[first:], self.names, self.position[first:], velocity, effort, (*self.notes, note))

    def within(self, start_s: float, end_s: float) -> Stream | None:
        """The samples with stamps from `start_s` to `end_s` (s); None if fewer than two are left."""
        first, after = np.searchsorted(self.time, [start_s, end_s + 1e-9]).tolist()
        if after - first < 2:
            return None
        part = slice(first, after)
        velocity, effort = (None if each is None else each[part] for each in (self.velocity, self.effort))
        return Stream(self.time[part], self.names, self.position[part], velocity, effort, self.notes)


def stream_of(columns: Mapping[str, NDArray[Any]], what: str) -> Stream:
    """Stream of a recorded topic with joint states.

    If the simulation was reset, only samples after the last reset are used. Samples that repeat a stamp are left out.
    The attribute `notes` of the stream says how many samples were left out.

    what  name of the topic in error messages
    Raises StreamError for fewer than two samples, or if the joints change.
    """
    time = np.asarray(columns["timestamp"], dtype=float)
    name, position = columns["name"], columns["position"]
    if len(time) < 2 or name.ndim != 2 or position.ndim != 2 or (name != name[0]).any():
        found = f"{len(time)} samples" if len(time) < 2 else "joints that change during the recording"
        raise StreamError(f"{what} has {found}; at least two states of the same joints are needed")
    notes = []
    falls = np.flatnonzero(np.diff(time) < 0.0)
    start = int(falls[-1]) + 1 if len(falls) else 0
    if start:
        notes.append(
            f"{what}: simulation time was reset at {time[start - 1]:g} s; the {start} samples before the reset "
            "are left out"
        )
    keep = np.arange(start, len(time))[np.r_[True, np.diff(time[start:]) > 0.0]]
    if repeats := len(time) - start - len(keep):
        notes.append(f"{what}: {repeats} samples repeat the stamp of another sample and are left out")
    if len(keep) < 2:
        raise StreamError(
            f"{what} has {len(keep)} samples with increasing time stamps; at least 2 are needed, so record a longer run"
        )

    def rates(key: str) -> Floats | None:
        values = columns.get(key)
        fits = values is not None and values.ndim == 2 and values.shape == position.shape
        return np.asarray(values, dtype=float)[keep] if fits else None

    names = tuple(str(each) for each in name[0])
    return Stream(
        time[keep], names, np.asarray(position, dtype=float)[keep], rates("velocity"), rates("effort"), tuple(notes)
    )


def gaps(time: Floats, factor: float = GAP_FACTOR) -> list[Gap]:
    """Gaps of a stream: pauses between two stamps that are longer than `factor` median periods."""
    steps = np.diff(time)
    found = np.flatnonzero(steps > factor * np.median(steps))
    return [Gap(float(time[i]), float(time[i + 1])) for i in found]


def segments(time: Floats, factor: float = GAP_FACTOR) -> list[slice]:
    """Slices of the sections without a gap, in order."""
    steps = np.diff(time)
    cuts = np.flatnonzero(steps > factor * np.median(steps)) + 1
    edges = [0, *cuts.tolist(), len(time)]
    return [slice(a, b) for a, b in pairwise(edges)]


class Resampled:
    """Values (n, k) of a stream, interpolated between samples by cubics; NaN inside gaps and outside the stream."""

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
        """Values (len(at), k) at the times `at` (s); NaN inside gaps and outside the stream."""
        found = np.full((len(at), self._width), np.nan)
        for first, last, curve in self._pieces:
            inside = (at >= first) & (at <= last)
            if inside.any():
                found[inside] = curve(at[inside])
        return found


def at_times(at: Floats, time: Floats, values: Floats) -> Floats:
    """Values (len(at), k) at the times `at`, by linear interpolation of `values` (n, k) given at the times `time` (n,).

    The values are constant before the first and after the last of these times.
    """
    return np.stack([np.interp(at, time, column) for column in values.T], axis=1)


def aligned(measured: Stream, predicted: Stream, delay_s: float = 0.0) -> tuple[Stream, Stream] | None:
    """Return (part of the measurement that the prediction covers, the prediction at its stamps).

    None if the prediction covers fewer than two stamps. The efforts of a sample are those of the latest sample before.

    delay_s  delay of the measurement (s)
    """
    time = predicted.time
    covered = measured.within(float(time[0]) + delay_s, float(time[-1]) + delay_s)
    if covered is None:
        return None
    at = covered.time - delay_s
    step = np.searchsorted(time, at - 0.5 * predicted.period_s).clip(0, len(time) - 1)
    position = at_times(at, time, predicted.position)
    velocity = None if predicted.velocity is None else at_times(at, time, predicted.velocity)
    effort = None if predicted.effort is None else predicted.effort[step]
    return covered, Stream(covered.time, predicted.names, position, velocity, effort)


class _Lines:
    def __init__(self, time: Floats, values: Floats) -> None:
        self._time, self._values = time, values

    def __call__(self, at: Floats) -> Floats:
        return at_times(at, self._time, self._values)


@dataclass(frozen=True)
class Pairs:
    """Measured and predicted positions (n, k), aligned for an assumed delay.

    time  (n,) instants (s) by the stamps of the measurement, with the spacing of the stream with the lower rate
    """

    time: Floats
    measured: Floats
    predicted: Floats

    @property
    def residual(self) -> Floats:
        """Measured minus predicted positions (n, k) in rad or m."""
        return self.measured - self.predicted


class Pairing:
    """Pairs two streams of the same joints, for any assumed delay, at the instants of the stream with the lower rate.

    A positive delay means that the measurement lags behind the prediction.
    """

    def __init__(self, measured: Stream, predicted: Stream) -> None:
        self._measured, self._predicted = measured, predicted
        self._at_measured = measured.period_s >= predicted.period_s
        fast = predicted if self._at_measured else measured
        self._fast = Resampled(fast.time, fast.position)
        if measured.time[0] >= predicted.time[-1] or predicted.time[0] >= measured.time[-1]:
            spans = [f"{stream.time[0]:g} .. {stream.time[-1]:g} s" for stream in (measured, predicted)]
            raise StreamError(
                f"the streams do not overlap in time: the measured one has stamps {spans[0]}, the predicted one "
                f"{spans[1]}; compare recordings of the same time span"
            )

    def __call__(self, delay_s: float, every: int = 1) -> Pairs:
        """Aligned positions if the measurement lags by `delay_s` (s).

        every  number n; only every n-th instant of the stream with the lower rate is used
        Instants at which one of the streams has no value are left out.
        """
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
        """Number of samples of the stream with the lower rate."""
        return len(self._measured.time if self._at_measured else self._predicted.time)

"""Time series: tables for live data, which forget old rows, and whole arrays for a recording."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CAPACITY = 20_000  # rows of a live topic that are kept at least: 20 s at 1 kHz
FIRST_ROWS = 1024


class Table:
    """Rows of live numbers; at least the latest `capacity` rows are kept."""

    def __init__(self, labels: Sequence[str], capacity: int = CAPACITY) -> None:
        self.labels = tuple(labels)
        self._capacity = capacity
        self._largest = capacity + capacity // 4  # rows for which there is memory; when they are full, the oldest go
        self.places = {label: place for place, label in enumerate(self.labels)}
        self.total = 0  # rows ever added
        self._count = 0
        self._data = np.zeros((len(self.labels) + 1, FIRST_ROWS))  # times, then a row per field

    def extend(self, times: Sequence[float], rows: Any) -> None:
        """Add rows (n, labels) with their times (s). Of more rows than the capacity, only the latest are added."""
        if len(times) > self._capacity:
            self.total += len(times) - self._capacity
            self._count = 0  # rows from before those that are left out
        times, rows = times[-self._capacity :], rows[-self._capacity :]
        new = len(times)
        if self._count + new > self._data.shape[1]:
            self._make_room(new)
        part = slice(self._count, self._count + new)
        self._data[0, part] = times
        self._data[1:, part] = np.asarray(rows, dtype=np.float64).T
        self._count += new
        self.total += new

    @property
    def times(self) -> Floats:
        """Times of the rows, s."""
        return self._data[0, : self._count]

    @property
    def values(self) -> Floats:
        """Values of the rows, shape (n, labels)."""
        return self._data[1:, : self._count].T

    def column(self, label: str) -> Floats:
        """Values of one field."""
        return self._data[1 + self.places[label], : self._count]

    def _make_room(self, new: int) -> None:
        """Grow the table as far as there may be memory; when it is full, keep the latest rows."""
        size = self._data.shape[1]
        while size < min(self._largest, self._count + new):
            size = min(2 * size, self._largest)
        if size > self._data.shape[1]:
            grown = np.zeros((len(self._data), size))
            grown[:, : self._count] = self._data[:, : self._count]
            self._data = grown
        if self._count + new > self._data.shape[1]:
            kept = min(self._count, self._capacity, self._data.shape[1] - new)
            for row in self._data:  # one by one, without a copy of the whole table
                row[:kept] = row[self._count - kept : self._count].copy()
            self._count = kept


class Whole(NamedTuple):
    """Rows of numbers as read from a recording: times (n,), s, and values (n, m)."""

    times: Floats
    values: Floats


Series = Table | Whole


class Drawn(NamedTuple):
    """The polylines that one message describes: the name and the points (k, 3), m, of each polyline."""

    names: tuple[str, ...]
    lines: tuple[Floats, ...]


class Track:
    """Polylines that the messages of a run describe, such as deformed beams and planned paths.

    The messages are in the order of their times. At least the latest `capacity` messages are kept.
    """

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._times: list[float] = []
        self._drawn: list[Drawn] = []

    def append(self, time: float, names: Sequence[str], counts: Sequence[int], points: Sequence[float]) -> None:
        """Add the polylines of one message.

        time    time of the message, s
        names   name of each polyline
        counts  number of points of each polyline
        points  coordinates of all points in one list, m
        """
        if len(self._times) >= 2 * self._capacity:
            del self._times[: self._capacity], self._drawn[: self._capacity]
        flat = np.asarray(points, dtype=np.float64).reshape(-1, 3)
        self._times.append(time)
        self._drawn.append(Drawn(tuple(names), tuple(np.split(flat, np.cumsum(counts)[:-1]) if counts else ())))

    def at(self, time: float, first: bool = False) -> Drawn | None:
        """Polylines of the last message at or before `time`, s; None if there is no such message.

        first  whether to return the polylines of the first message, instead of None, for a time before this message
        """
        place = bisect_right(self._times, time) - 1
        if not self._times or (place < 0 and not first):
            return None
        return self._drawn[max(0, place)]

    @property
    def last(self) -> Drawn | None:
        """Polylines of the latest message; None if there are no messages."""
        return self._drawn[-1] if self._drawn else None

    def begin_anew(self, time: float) -> None:
        """After a reset of the simulation to `time`, s, remove the messages from before the reset.

        The last message with a time after `time` is removed, and so are all messages that arrived before it.
        """
        later = max((place for place, each in enumerate(self._times) if each > time), default=-1)
        del self._times[: later + 1], self._drawn[: later + 1]

    def cloud(self, until: float, most: int) -> Floats:
        """Points (k, 3), m, of the polylines of at most `most` messages up to the time `until`, s.

        The messages are chosen at regular intervals from all messages up to this time.
        """
        end = bisect_right(self._times, until)
        picked = np.unique(np.linspace(0, end - 1, most).astype(int)).tolist() if end else list[int]()
        found = [points for place in picked for points in self._drawn[place].lines]
        return np.concatenate(found) if found else np.zeros((0, 3))


def interrupted(times: Floats, values: Floats, holes: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """`times` and `values` with a row of NaN in the middle of each gap, so that no line is drawn across the gap.

    Without gaps, these are the given arrays, otherwise copies.

    holes  (start, end) of each gap without messages, s
    """
    if not holes:
        return times, values
    middles = [(start + end) / 2.0 for start, end in holes]
    places = np.searchsorted(times, middles)
    return np.insert(times, places, middles), np.insert(values, places, np.nan, axis=0)


def row_at(times: Floats, time: float) -> int | None:
    """Index of the last row at or before `time`; 0 for a time before the first row, None if there are no rows."""
    if len(times) == 0:
        return None
    return max(0, int(np.searchsorted(times, time, side="right")) - 1)


def decimated(times: Floats, values: Floats, most: int) -> tuple[Floats, Floats]:
    """(times, values) of about `most` points, which are drawn as the same line as the whole series.

    The series is divided into sections of consecutive points, and the points with the smallest and the largest value of
    each section are kept. If a section contains NaN, a NaN is kept, so that the line has a gap there.
    """
    stretch = -(-2 * len(times) // most)
    if stretch <= 2:
        return times, values
    whole = len(times) // stretch
    blocks = values[: whole * stretch].reshape(whole, stretch)
    first = np.argmin(blocks, axis=1)
    last = np.argmax(blocks, axis=1)
    order = np.sort(np.stack([first, last], axis=1), axis=1) + np.arange(whole)[:, None] * stretch
    kept = np.concatenate([order.ravel(), np.arange(whole * stretch, len(times))])
    return times[kept], values[kept]


def sampled(
    columns: Sequence[tuple[Floats, Floats] | None], start: float, end: float, bins: int
) -> tuple[Floats, list[Floats]]:
    """(times, values of each column at these times) that draw the same lines as the columns between two times, s.

    Each of `bins` intervals has two times. Of a column with more values in an interval, the smallest and the largest
    are there in their order; where it has none, its line is interpolated. Columns with few values at common times are
    returned as they are.
    """
    parts = []
    for column in columns:
        times, values = column if column is not None else (np.zeros(0), np.zeros(0))
        first, last = np.searchsorted(times, start), np.searchsorted(times, end, side="right")
        parts.append((times[first:last], values[first:last]))
    longest = max((times for times, _ in parts), key=len, default=np.zeros(0))
    if len(longest) <= 2 * bins and all(np.array_equal(times, longest) for times, _ in parts):
        return longest.copy(), [values.copy() for _, values in parts]
    edges = np.linspace(start, end, bins + 1)
    width = edges[1] - edges[0]
    x = np.stack([edges[:-1] + 0.25 * width, edges[:-1] + 0.75 * width], axis=1).ravel()
    return x, [_binned(times, values, edges, x) for times, values in parts]


def _binned(times: Floats, values: Floats, edges: Floats, x: Floats) -> Floats:
    if not len(times):
        return np.full(len(x), math.nan)
    found = np.interp(x, times, values, left=math.nan, right=math.nan)
    starts = np.searchsorted(times, edges[:-1])
    counts = np.diff(np.append(starts, len(times)))
    bins = np.flatnonzero(counts)
    low, high = (each.reduceat(values, starts[bins]) for each in (np.minimum, np.maximum))
    first, last = values[starts[bins]], values[starts[bins] + counts[bins] - 1]
    is_full = counts[bins] > 1
    full, single = bins[is_full], bins[~is_full]
    found[2 * full] = np.where(first <= last, low, high)[is_full]
    found[2 * full + 1] = np.where(first <= last, high, low)[is_full]
    late = times[starts[single]] > 0.5 * (edges[single] + edges[single + 1])
    found[2 * single + late] = values[starts[single]]
    return found

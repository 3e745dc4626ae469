"""Time series of one field: a ring buffer for live data, whole arrays for a recording."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Ring:
    """The latest `capacity` rows of a signal. Each row is stored twice, so that reading returns a view, not a copy."""

    def __init__(self, labels: Sequence[str], capacity: int) -> None:
        self.labels = tuple(labels)
        self._capacity = capacity
        self._count = 0
        self._times = np.zeros(2 * capacity)
        self._values = np.zeros((2 * capacity, len(self.labels)))

    def append(self, time: float, row: Sequence[float]) -> None:
        """Add one row with its time, s."""
        place = self._count % self._capacity
        for index in (place, place + self._capacity):
            self._times[index] = time
            self._values[index] = row
        self._count += 1

    def clear(self) -> None:
        """Remove all rows."""
        self._count = 0

    def _span(self) -> slice:
        if self._count <= self._capacity:
            return slice(0, self._count)
        start = self._count % self._capacity
        return slice(start, start + self._capacity)

    @property
    def times(self) -> Floats:
        """Times of the rows, s, increasing; shape (n,)."""
        return self._times[self._span()]

    @property
    def values(self) -> Floats:
        """Values of the rows, shape (n, labels)."""
        return self._values[self._span()]


class Whole:
    """A complete signal, as read from a recording."""

    def __init__(self, labels: Sequence[str], times: Floats, values: Floats) -> None:
        self.labels = tuple(labels)
        self.times = times
        self.values = values


Series = Ring | Whole


class Drawn(NamedTuple):
    """The polylines of one message: their names, and the points (k, 3) of each, m."""

    names: tuple[str, ...]
    lines: tuple[Floats, ...]


class Track:
    """The latest messages with polylines, at least `capacity` of them, by time."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._times: list[float] = []
        self._drawn: list[Drawn] = []

    def append(self, time: float, names: Sequence[str], counts: Sequence[int], points: Sequence[float]) -> None:
        """Add the polylines of a message at a time, s: their names, their numbers of points, and all coordinates in one
        list, m."""
        if len(self._times) >= 2 * self._capacity:
            del self._times[: self._capacity], self._drawn[: self._capacity]
        flat = np.asarray(points, dtype=np.float64).reshape(-1, 3)
        self._times.append(time)
        self._drawn.append(Drawn(tuple(names), tuple(np.split(flat, np.cumsum(counts)[:-1]) if counts else ())))

    def at(self, time: float, first: bool = False) -> Drawn | None:
        """Polylines of the last message at or before `time`, s.

        For a time before the first message, None, or with `first` the polylines of the first message.
        """
        place = bisect_right(self._times, time) - 1
        if not self._times or (place < 0 and not first):
            return None
        return self._drawn[max(0, place)]

    @property
    def last(self) -> Drawn | None:
        """Polylines of the latest message, None without any."""
        return self._drawn[-1] if self._drawn else None

    def clear(self) -> None:
        """Remove all messages."""
        self._times.clear()
        self._drawn.clear()

    def cloud(self, until: float, most: int) -> Floats:
        """Points (k, 3), m, of at most `most` messages spread evenly up to the time `until`, s."""
        end = bisect_right(self._times, until)
        picked = np.unique(np.linspace(0, end - 1, most).astype(int)).tolist() if end else list[int]()
        found = [points for place in picked for points in self._drawn[place].lines]
        return np.concatenate(found) if found else np.zeros((0, 3))


def interrupted(times: Floats, values: Floats, holes: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """The times and values with a row of NaN in the middle of each hole (start, end), s, so that no line crosses it."""
    middles = [(start + end) / 2.0 for start, end in holes]
    places = np.searchsorted(times, middles)
    return np.insert(times, places, middles), np.insert(values, places, np.nan, axis=0)


def row_at(times: Floats, time: float) -> int | None:
    """Index of the last row at or before `time`, 0 for a time before the first row; None for an empty array."""
    if len(times) == 0:
        return None
    return max(0, int(np.searchsorted(times, time, side="right")) - 1)


def decimated(times: Floats, values: Floats, most: int) -> tuple[Floats, Floats]:
    """At most about `most` points that draw the same line: the smallest and the largest value of each section, in
    order.

    A section that contains NaN keeps it, as a gap.
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

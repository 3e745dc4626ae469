"""What is plotted: times and values by field, growing in a ring while live, whole from a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Ring:
    """The latest `capacity` rows of a signal. Each row is kept twice, so that reading is a view, never a
    copy."""

    def __init__(self, labels: Sequence[str], capacity: int = 30_000) -> None:
        self.labels = tuple(labels)
        self._capacity = capacity
        self._count = 0
        self._times = np.zeros(2 * capacity)
        self._values = np.zeros((2 * capacity, len(self.labels)))

    def append(self, time: float, row: Sequence[float]) -> None:
        """Add one row; time in seconds."""
        place = self._count % self._capacity
        for index in (place, place + self._capacity):
            self._times[index] = time
            self._values[index] = row
        self._count += 1

    def clear(self) -> None:
        """Forget everything."""
        self._count = 0

    def _span(self) -> slice:
        if self._count <= self._capacity:
            return slice(0, self._count)
        start = self._count % self._capacity
        return slice(start, start + self._capacity)

    @property
    def times(self) -> Floats:
        """(n,) seconds, rising."""
        return self._times[self._span()]

    @property
    def values(self) -> Floats:
        """(n, labels)."""
        return self._values[self._span()]


class Whole:
    """A signal that does not grow any more."""

    def __init__(self, labels: Sequence[str], times: Floats, values: Floats) -> None:
        self.labels = tuple(labels)
        self.times = times
        self.values = values


Series = Ring | Whole


def row_at(times: Floats, time: float) -> int | None:
    """The index of the last row at or before `time`, the first row for a time before it; None when empty."""
    if len(times) == 0:
        return None
    return max(0, int(np.searchsorted(times, time, side="right")) - 1)


def decimated(times: Floats, values: Floats, most: int) -> tuple[Floats, Floats]:
    """At most about `most` points that draw the same line: smallest and largest value of each stretch, in
    order.

    NaN in a stretch stays in it, as a gap.
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

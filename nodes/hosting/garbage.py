"""Garbage collection at times that a loop chooses, between its iterations."""

from __future__ import annotations

import gc
import io
import math
import time
from collections.abc import Iterator
from weakref import WeakSet

FIRST = 2_000  # new objects since the last collection from which on one is due
MOST = 50_000  # new objects from which on collection no longer waits for spare time
OLDER, OLDEST = 10, 100  # every 10th collection includes generation 1, every 100th generation 2, as in Python
FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)  # that keep what is written until a flush

_frozen_files = WeakSet[io.IOBase]()  # which `gc.get_objects` does not list


def buffered_files() -> Iterator[io.IOBase]:
    """The files of this process that keep what is written until a flush. Some may be closed or detached.

    In a process that is a copy of another one, these are the files that it has opened itself, if all objects were
    frozen (`gc.freeze`) before the copy was made.
    """
    yield from list(_frozen_files)
    yield from _collectable_files()


def _collectable_files() -> list[io.IOBase]:
    # not isinstance: an object may pretend to another class, and would then be asked
    return [each for each in gc.get_objects() if issubclass(type(each), FILES)]


class Collector:
    """Garbage collection at times that a loop chooses: the loop checks `due` in each iteration and calls `collect`.

    Objects that exist when the Collector is created are frozen, so that no later collection visits them. If objects
    were frozen before, all remain frozen after `close`, because Python unfreezes all objects or none.

    longest_s    duration of the longest collection so far (s)
    collections  number of collections so far
    """

    def __init__(self) -> None:
        gc.collect()
        self._unfreezes = gc.get_freeze_count() == 0
        if not self._unfreezes:
            _frozen_files.update(_collectable_files())
        gc.freeze()
        gc.disable()
        self.longest_s = 0.0
        self.collections = 0
        self._cost_s = [0.0, 0.0, 0.0]  # duration of the latest collection of each generation

    @property
    def due(self) -> bool:
        """Whether enough new objects exist for a collection."""
        return gc.get_count()[0] > FIRST

    def collect(self, left_s: float = math.inf) -> bool:
        """Run the garbage collector, unless this would take more than half of the time `left_s`.

        left_s  time until the loop's next deadline (s)
        Returns whether the collector ran. It always runs if very many objects are new.
        """
        number = self.collections + 1
        generation = 2 if number % OLDEST == 0 else 1 if number % OLDER == 0 else 0
        if 2.0 * self._cost_s[generation] > left_s and gc.get_count()[0] < MOST:
            return False
        began = time.perf_counter()
        gc.collect(generation)
        self._cost_s[generation] = time.perf_counter() - began
        self.longest_s = max(self.longest_s, self._cost_s[generation])
        self.collections = number
        return True

    def close(self) -> None:
        """Return to Python's automatic garbage collection."""
        gc.enable()
        if self._unfreezes:
            gc.unfreeze()

"""Garbage collection between two turns of a loop instead of in the midst of one."""

from __future__ import annotations

import gc
import math
import time

FIRST = 2_000  # objects made and still there since the last collection: worth one, when there is time
MOST = 50_000  # then it is made, time or not
OLDER, OLDEST = 10, 100  # one collection in so many looks at older objects too, as Python does


class Collector:
    """Takes the collector out of Python's hands; the owner of a loop asks `due` each turn, and then collects.

    What was made before is frozen: no collection walks it. `longest_s` of the collections so far.
    """

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        self.longest_s = 0.0
        self.collections = 0
        self._cost_s = [0.0, 0.0, 0.0]  # of the latest one of each generation

    @property
    def due(self) -> bool:
        """Whether there is something to collect."""
        return gc.get_count()[0] > FIRST

    def collect(self, left_s: float = math.inf) -> bool:
        """Collect, unless that would take more than the half of the time that is left and can wait; whether it did."""
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
        """Give the collector back."""
        gc.enable()
        gc.unfreeze()

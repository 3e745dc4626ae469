"""Clock of an emulated robot's computer as a function of simulation time, from the states that it receives."""

from __future__ import annotations

import math
from collections import deque

SHORT_S = 0.1  # longest time between two states over which simulation time is taken to pass evenly
KEPT = 1000  # states of which the quickest determines the offset of the two clocks
SETTLED_S = 0.2  # simulation time after which the offset changes by at most SLEW
SLEW = 5e-4  # largest rate of change of the offset, s per s


class HostTime:
    """Relation of this computer's clock to simulation time, s, estimated from the states that the computer receives.

    Each state has the server's clock at its sending. The quickest of many states determines how far this computer's
    clock is ahead of the server's, including the travel time.

    knows  whether the time between the last two states is known: no state was lost, and the time is short
    """

    def __init__(self) -> None:
        # send time, simulation time and novelty of the latest state
        self._sent_s, self._sent_at, self._is_new = 0.0, 0.0, False
        self._seq, self.knows = 0, True
        self._rate = 1.0  # seconds of the server's clock per simulated second, between the last two states
        self._seen: deque[float] = deque(maxlen=KEPT)
        self._ahead, self._ahead_at = math.nan, 0.0  # offset in use, and the simulation time since which it is

    def hear(self, sent_s: float, at: float, seq: int) -> None:
        """Add the server's state number `seq` for simulation time `at`, s, sent at `sent_s` by the server's clock."""
        passed, took = at - self._sent_at, sent_s - self._sent_s
        near = passed > 0.0 and 0.0 < took < SHORT_S
        self.knows = not self._seq or (near and seq == self._seq + 1)
        self._rate = took / passed if near else 1.0
        self._sent_s, self._sent_at, self._seq, self._is_new = sent_s, at, seq, True

    def see(self, host_s: float) -> None:
        """Add a reading of this computer's clock, s, taken when the latest state had arrived."""
        if not self._is_new:
            return
        self._is_new = False
        self._seen.append(host_s - self._sent_s)
        found, now = min(self._seen), self._sent_at
        if math.isnan(self._ahead) or now < SETTLED_S:
            self._ahead = found
        else:
            most = SLEW * max(now - self._ahead_at, 0.0)
            self._ahead += min(max(found - self._ahead, -most), most)
        self._ahead_at = now

    def at(self, time: float) -> float:
        """This computer's clock, s, at a simulation time near the latest one."""
        ahead = 0.0 if math.isnan(self._ahead) else self._ahead
        rate = self._rate if time < self._sent_at else 1.0
        return self._sent_s + ahead + rate * (time - self._sent_at)

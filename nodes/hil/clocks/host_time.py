"""Estimates the clock of the computer that emulates a robot, as a function of simulation time, from received states."""

from __future__ import annotations

import math
from collections import deque

SHORT_S = 0.1  # longest time between two states over which simulation time is taken to pass evenly
KEPT = 1000  # states of which the quickest determines the offset of the two clocks
SETTLED_S = 0.2  # simulation time after which the offset changes by at most SLEW
SLEW = 5e-4  # largest rate of change of the offset, s per s


class HostTime:
    """Clock of this computer as a function of simulation time, estimated from the states that the computer receives.

    Each state contains the time at which the simulation server sent it, by the server's clock. The state with the
    shortest delay determines by how much this computer's clock is ahead of the server's clock; this difference includes
    the travel time of the state.

    is_time_known  whether the latest two states are consecutive and close in time, so that the simulation time between
                   them is known
    """

    def __init__(self) -> None:
        # send time, simulation time and novelty of the latest state
        self._sent_s, self._sent_at, self._is_new = 0.0, 0.0, False
        self._seq, self.is_time_known = 0, True
        self._rate = 1.0  # seconds of the server's clock per simulated second, between the last two states
        self._differences: deque[float] = deque(maxlen=KEPT)
        self._ahead, self._ahead_at = math.nan, 0.0  # offset in use, and the simulation time at which it was set

    def add_state(self, sent_s: float, at: float, seq: int) -> None:
        """Add a state of the simulation server.

        sent_s  time at which the server sent the state, by the server's clock (s)
        at      simulation time of the state (s)
        seq     sequence number of the state
        """
        passed, elapsed = at - self._sent_at, sent_s - self._sent_s
        is_short = passed > 0.0 and 0.0 < elapsed < SHORT_S
        self.is_time_known = not self._seq or (is_short and seq == self._seq + 1)
        self._rate = elapsed / passed if is_short else 1.0
        self._sent_s, self._sent_at, self._seq, self._is_new = sent_s, at, seq, True

    def add_arrival(self, host_s: float) -> None:
        """Add a reading of this computer's clock (s), taken when the latest state had arrived."""
        if not self._is_new:
            return
        self._is_new = False
        self._differences.append(host_s - self._sent_s)
        found, now = min(self._differences), self._sent_at
        if math.isnan(self._ahead) or now < SETTLED_S:
            self._ahead = found
        else:
            most = SLEW * max(now - self._ahead_at, 0.0)
            self._ahead += min(max(found - self._ahead, -most), most)
        self._ahead_at = now

    def at(self, time: float) -> float:
        """Reading of this computer's clock (s) at a simulation time near that of the latest state."""
        ahead = 0.0 if math.isnan(self._ahead) else self._ahead
        rate = self._rate if time < self._sent_at else 1.0
        return self._sent_s + ahead + rate * (time - self._sent_at)

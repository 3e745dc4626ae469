"""What the clock of an emulated robot's computer shows at a simulation time, by the states that it hears."""

from __future__ import annotations

import math
from collections import deque

SHORT_S = 0.1  # between two states: simulation time is taken to have passed evenly meanwhile
KEPT = 1000  # states of which the quickest tells how far two clocks are apart
SETTLED_S = 0.2  # of simulation time, from which on the stamps go evenly:
SLEW = 5e-4  # s per s by which the distance of the clocks may change then


class HostTime:
    """Simulation time as it passes on another computer than the server's, seconds.

    A state says when it was sent, by the server's clock; the quickest of many tells how far our computer's clock is
    ahead of that, the time on the way included.

    knows  whether the time between the last two states is known: none was lost, and they are not far apart
    """

    def __init__(self) -> None:
        self._sent_s, self._sent_at, self._is_new = 0.0, 0.0, False  # of the latest state
        self._seq, self.knows = 0, True
        self._rate = 1.0  # s of the server's clock in one of simulation time, between the last two states
        self._seen: deque[float] = deque(maxlen=KEPT)
        self._ahead, self._ahead_at = math.nan, 0.0  # what is reckoned with, and since which simulation time

    def hear(self, sent_s: float, at: float, seq: int) -> None:
        """A state of simulation time `at` was sent at `sent_s`, the server's state number `seq`."""
        passed, took = at - self._sent_at, sent_s - self._sent_s
        near = passed > 0.0 and 0.0 < took < SHORT_S
        self.knows = not self._seq or (near and seq == self._seq + 1)
        self._rate = took / passed if near else 1.0
        self._sent_s, self._sent_at, self._seq, self._is_new = sent_s, at, seq, True

    def see(self, host_s: float) -> None:
        """Our computer's clock shows this now, after the latest state came."""
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
        """Our computer's time at a simulation time of about now."""
        ahead = 0.0 if math.isnan(self._ahead) else self._ahead
        rate = self._rate if time < self._sent_at else 1.0
        return self._sent_s + ahead + rate * (time - self._sent_at)

"""Irregularities of a measurement in real time, and by how much simulation times may be wrong because of them.

A sample that follows a pause of its stamps may have been taken at any time of the pause, because a driver that did not
run stamps old data when it runs again. While the simulation stands still, a real robot moves on. While the samples
pause, the robot may not have received the commands that its driver reports as applied.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from nodes.hil.alignment.streams import GAP_FACTOR, Floats
from nodes.hil.clocks.step_location import CROSSING_S, UNUSUAL, UNUSUAL_S

RECENT = 32  # spacings from which the usual spacing is computed
FEWEST_RECENT = 5  # least number of spacings from which the usual spacing is computed
BURST = 0.1  # spacing, relative to the usual one, below which samples were published together
SETTLING_S = 0.5  # time in which a servo settles after a pause or a standstill
STARVED_S = 0.1 * SETTLING_S  # irregularity in this time; if it is larger at most instants, no excess is certain
STARVED = "the simulation fell behind the clock, or the measurement paused, at most of the compared instants"


class SampleAges:
    """Estimates from the stamps alone how old each sample may be. The age is the time from measurement to stamp.

    The first sample after a pause may be as old as the excess length of the pause, which is the pause minus the usual
    spacing. If a burst of samples follows, the bound decreases with each sample by about the usual spacing.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._spacings: deque[float] = deque(maxlen=RECENT)
        self._age_s = 0.0
        self.usual_s = 0.0  # usual spacing of the stamps; 0 while unknown

    def is_old(self, stamp: float) -> bool:
        """Add the stamp (s) of the next sample. Returns whether the sample may be older than usual by more than the
        stamps usually vary.
        """
        last, self._last = self._last, stamp
        if last is None:
            return False
        spacing = stamp - last
        if len(self._spacings) < FEWEST_RECENT:
            self._spacings.append(spacing)
            return False
        usual = self.usual_s = sorted(self._spacings)[len(self._spacings) // 2]
        least = max(UNUSUAL_S, UNUSUAL * usual)
        if spacing < -CROSSING_S:  # the clock was put back, or simulation time was reset
            self._age_s = 0.0
        elif spacing - usual > least or (self._age_s > 0.0 and spacing < usual / 2.0):
            self._age_s = max(self._age_s + spacing - usual, 0.0)
        else:
            self._age_s = 0.0
        if spacing > BURST * usual:
            self._spacings.append(spacing)
        return self._age_s > least


class RecentLargest:
    """Running maximum of a quantity over the latest `window_s` seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._kept: deque[tuple[float, float]] = deque()  # (time, value), each value below the one before

    def add(self, time: float, value: float) -> float:
        """Add the value at the time `time` (s), and return the largest recent value."""
        kept = self._kept
        if kept and time < kept[-1][0]:  # simulation time was reset
            kept.clear()
        while kept and kept[-1][1] <= value:
            kept.pop()
        kept.append((time, value))
        while kept[0][0] < time - self._window_s:
            kept.popleft()
        return kept[0][1]


def old_samples(stamps: Floats) -> NDArray[np.bool_]:
    """Whether each sample may be older than usual because it follows a pause of the stamps, (n,) bool.

    stamps  (n,) stamps of one clock (s), in the order of publication
    """
    ages = SampleAges()
    return np.array([ages.is_old(stamp) for stamp in stamps.tolist()], dtype=bool)


def standstill(at: Floats, sent: Floats, time: Floats, speed: float = 1.0) -> Floats:
    """Simulation time (n,) in s by which the simulation fell behind real time in the SETTLING_S before each time `at`.

    Real time is that of the simulation server's clock. The time before the second state does not count, because a
    simulation waits for its start at the first state.

    at    (n,) simulation times (s)
    sent  (m,) times of the simulation server's clock (s) at which it sent its states, increasing
    time  (m,) simulation times of these states (s), not decreasing
    speed  planned speed, in simulated seconds per second; 1 beside a robot with a clock of its own
    """
    if len(sent) < 3:
        return np.zeros(len(at))
    sent, time = sent[1:], time[1:]
    after = np.searchsorted(time, at).clip(0, len(time) - 1)  # the interval that contains the instant counts whole
    since = np.maximum(sent[after] - SETTLING_S, sent[0])
    passed = time[after] - np.interp(since, sent, time)
    found: Floats = np.maximum(speed * (sent[after] - since) - passed, 0.0)
    return found


def paused(time: Floats) -> Floats:
    """Sum (n,) in s of the excess lengths of the recent gaps before each sample of a stream.

    A gap is recent if it ended at the sample or at most SETTLING_S before the sample. The excess length is the gap
    minus the usual spacing. During a gap, a robot may not have applied the commands that were sent to it.

    time  simulation times of the samples (n,) in s, increasing
    """
    if len(time) < 2:
        return np.zeros(len(time))
    steps = np.diff(time)
    usual = float(np.median(steps))
    total = np.cumsum(np.r_[0.0, np.where(steps > GAP_FACTOR * usual, steps - usual, 0.0)])
    before = np.searchsorted(time, time - SETTLING_S)
    found: Floats = total - np.where(before > 0, total[np.maximum(before - 1, 0)], 0.0)
    return found

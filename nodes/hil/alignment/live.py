"""Pairing of measured and predicted states as they arrive, and running sums of their differences."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from nodes.framework.messages import Residual, RobotState
from nodes.hil.alignment.irregularities import SETTLING_S, RecentLargest

HISTORY_S = 10.0  # predicted states are kept this long; an older measurement has no partner
LONGEST_DELAY_S = 1.0  # a measurement that comes later after a restart has no partner
SLOW = 0.01  # rad/s or m/s, RMS: rate below which no delay can be determined
MOST_WAITING = 4096  # most measured states that wait for a predicted one


class LivePairs:
    """Pairs each measured state with the predicted state at the same instant, interpolated between two predicted states
    if necessary, as where states were lost in transmission. Positions between them are interpolated by a cubic
    polynomial that has their velocities too: a straight line would depart from a fast joint by degrees within `gap_s`.

    gap_s             largest time between predicted states over which to interpolate (s)
    delay_s           known delay of the measurement (s)
    paired, unpaired  numbers of measured states with and without a predicted state at their instant
    """

    def __init__(self, gap_s: float, delay_s: float = 0.0) -> None:
        self.paired = self.unpaired = 0
        self._gap_s, self._delay_s = gap_s, delay_s
        self._times: list[float] = []
        self._predicted: list[RobotState] = []
        self._waiting: deque[RobotState] = deque()
        self._latest = -math.inf  # instant of the latest measurement that was compared, s

    def predict(self, state: RobotState) -> Iterator[tuple[Residual, list[float]]]:
        """Add a predicted state.

        Yields (residual, predicted velocities) for each waiting measured state that can now be paired.
        """
        if self._times and state.timestamp <= self._times[-1]:
            if state.timestamp == self._times[-1]:
                return
            self.forget()
        self._times.append(state.timestamp)
        self._predicted.append(state)
        if self._times[-1] - self._times[0] > 2.0 * HISTORY_S:
            old = bisect_left(self._times, self._times[-1] - HISTORY_S)
            del self._times[:old], self._predicted[:old]
        yield from self._pair()

    def measure(self, state: RobotState) -> Iterator[tuple[Residual, list[float]]]:
        """Add a measured state.

        Yields (residual, predicted velocities) for each measured state, this one or an earlier one, that can now be
        paired.
        """
        self._waiting.append(state)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.unpaired += 1
        yield from self._pair()

    def snapshot(self) -> dict[str, Any]:
        """The counts, the waiting measured states, and the predicted states that later measurements may need.

        Measured states arrive in the order of their instants. Predicted states before the instant of the latest
        compared measured state are therefore left out.
        """
        known = self._times[-1] - LONGEST_DELAY_S if self._times else 0.0
        first = max(bisect_left(self._times, max(self._latest - self._delay_s, known)) - 1, 0)
        return {
            "counts": (self.paired, self.unpaired, self._latest),
            "predicted": self._predicted[first:],
            "waiting": self._waiting,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self.paired, self.unpaired, self._latest = state["counts"]
        self._predicted, self._waiting = state["predicted"], state["waiting"]
        self._times = [predicted.timestamp for predicted in self._predicted]

    def forget(self) -> None:
        """Discard all states, because simulation time was reset."""
        self.unpaired += len(self._waiting)
        self._waiting.clear()
        self._latest = -math.inf
        self._times.clear()
        self._predicted.clear()

    @property
    def waiting(self) -> int:
        """Number of measured states that still wait for a predicted state of the same or a later instant."""
        return len(self._waiting)

    def _pair(self) -> Iterator[tuple[Residual, list[float]]]:
        while self._waiting and self._times and self._waiting[0].timestamp - self._delay_s <= self._times[-1]:
            measured = self._waiting.popleft()
            self._latest = measured.timestamp
            found = self._between(measured.timestamp - self._delay_s)
            names = [] if found is None else [name for name in measured.name if name in found[0].name]
            if found is None or not names:
                self.unpaired += 1
                continue
            self.paired += 1
            yield _residual(measured, names, *found)

    def _between(self, time: float) -> tuple[RobotState, RobotState, float] | None:
        """Return (predicted state before `time`, predicted state after it, interpolation weight 0 .. 1).

        Returns None if `time` does not lie between two predicted states, or if these two states are more than `gap_s`
        apart.
        """
        after = bisect_left(self._times, time)
        if self._times[after] == time:
            return self._predicted[after], self._predicted[after], 0.0
        if after == 0 or self._times[after] - self._times[after - 1] > self._gap_s:
            return None
        before = after - 1
        share = (time - self._times[before]) / (self._times[after] - self._times[before])
        return self._predicted[before], self._predicted[after], share


def _residual(
    measured: RobotState, names: list[str], before: RobotState, after: RobotState, share: float
) -> tuple[Residual, list[float]]:
    measured_indices = [measured.name.index(name) for name in names]
    predicted_indices = [before.name.index(name) for name in names]

    def predicted(first: Sequence[float], second: Sequence[float]) -> list[float]:
        return [(1.0 - share) * first[i] + share * second[i] for i in predicted_indices]

    def predicted_positions() -> list[float]:
        """Positions by the cubic polynomial with the positions and velocities of both states (Hermite)."""
        smooth, within = share**2 * (3.0 - 2.0 * share), (after.timestamp - before.timestamp) * share * (1.0 - share)
        return [
            before.position[i]
            + smooth * (after.position[i] - before.position[i])
            + within * ((1.0 - share) * before.velocity[i] - share * after.velocity[i])
            for i in predicted_indices
        ]

    def less(values: Sequence[float], known: list[float]) -> list[float]:
        return [values[i] - value for i, value in zip(measured_indices, known, strict=True)]

    rates = predicted(before.velocity, after.velocity)
    residual = Residual(timestamp=measured.timestamp, name=names, state_seq=measured.seq)
    residual.position = less(measured.position, predicted_positions())
    if measured.velocity:
        residual.velocity = less(measured.velocity, rates)
    if measured.effort and after.effort:
        # efforts are held from the state before
        residual.effort = less(measured.effort, [after.effort[i] for i in predicted_indices])
    return residual, rates


class JointSums:
    """Running sums for one joint, from which its error measures are computed.

    The sums are those of the differences r, measured minus predicted position (rad or m), and of the predicted
    velocities v (rad/s or m/s).

    uncertainties  uncertainty of each error measure. It includes two standard deviations of the stamps' simulation
                   time, and the irregularity of the times (see `add`)
    """

    def __init__(self) -> None:
        self.n = 0
        self.largest = self.largest_certain = 0.0
        self._uncertainty_sum = self._uncertainty_squares = self._sigmas = 0.0
        self._rates = RecentLargest(2.0 * SETTLING_S)
        self._r = self._rr = self._v = self._vv = self._rv = 0.0

    def add(self, r: float, v: float, sigma_s: float = 0.0, time: float = 0.0, irregular_s: float = 0.0) -> None:
        """Add one pair of a measured and a predicted state of the joint, compared at the same instant.

        r            measured minus predicted position (rad or m)
        v            predicted velocity (rad/s or m/s)
        sigma_s      standard deviation of the instant (s)
        time         simulation time of the pair (s)
        irregular_s  longest time (s) before this pair during which the robot may have moved while the model did not, or
                     the reverse. The measured position may therefore be off by irregular_s times the largest recent
                     predicted velocity
        """
        uncertainty = 2.0 * sigma_s * abs(v) + irregular_s * self._rates.add(time, abs(v))
        self.largest_certain = max(self.largest_certain, abs(r) - uncertainty)
        self._uncertainty_sum += uncertainty
        self._uncertainty_squares += uncertainty * uncertainty
        self._sigmas += (sigma_s + irregular_s / 2.0) ** 2
        self.n += 1
        self.largest = max(self.largest, abs(r))
        self._r += r
        self._rr += r * r
        self._v += v
        self._vv += v * v
        self._rv += r * v

    @property
    def bias(self) -> float:
        """Mean of the differences r, measured minus predicted position (rad or m)."""
        return self._r / self.n

    @property
    def uncertainties(self) -> dict[str, float]:
        """Uncertainty of each error measure: "bias", "rms" and "max" in rad or m, "delay" in s."""
        delay = 2.0 * math.sqrt(self._sigmas / self.n)
        largest = self.largest - self.largest_certain
        return {
            "bias": self._uncertainty_sum / self.n,
            "rms": math.sqrt(self._uncertainty_squares / self.n),
            "max": largest,
            "delay": delay,
        }

    @property
    def rms(self) -> float:
        """Root mean square of the differences (rad or m)."""
        return math.sqrt(self._rr / self.n)

    @property
    def delay_s(self) -> float | None:
        """Delay d (s) of the measurement, from a fit of -d v to r.

        r are the measured minus the predicted positions, v the predicted velocities. The delay is positive if the
        measurement lags behind the prediction. None if the joint hardly changes its velocity, or if the fit explains
        less than half of the variance of r.
        """
        n = self.n
        var_r, var_v = self._rr / n - self.bias**2, self._vv / n - (self._v / n) ** 2
        cov = self._rv / n - self.bias * self._v / n
        if var_v <= SLOW**2 or var_r <= 0.0 or cov * cov < 0.5 * var_r * var_v:
            return None
        return -cov / var_v

"""A measured motion between its stamps, the efforts that acted meanwhile, and the band in which they are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats, Stream, at_times, segments
from nodes.hil.identification.model import NoModelError

CUTOFF_HZ = 10.0  # residual and motion are low-passed: differentiated positions are noise above
KEPT_HZ = 100.0  # of the low-passed samples
AT_REST = 0.01  # share of the mean square of the rates below which they do not tell how much time passed
MOST_UNEVEN = 5.0  # times as fast, or as slow, as the stamps say


@dataclass(frozen=True)
class Motion:
    """A measured motion between its stamps: time (n,), q, v, a, effort (n, k), and where stretches are cut.

    v     as measured; `rate` (n, k) by which the positions change between the stamps
    """

    time: Floats
    q: Floats
    v: Floats
    a: Floats
    effort: Floats
    parts: list[slice]
    rate_hz: float
    rate: Floats

    @property
    def independent(self) -> float:
        """How many samples of the band below the cutoff are independent."""
        return len(self.q) * min(1.0, 2.0 * CUTOFF_HZ / self.rate_hz)


@dataclass(frozen=True)
class Applied:
    """Which efforts acted between two samples of the measurement.

    hold_s   how long an effort is held, s: the step of who commands, at most the measurement's own period. A state's
             effort was held over the time that led to it.
    finer    a stream of the same run that says the efforts more often, as those of a slow measurement are samples of
             what may have changed between them
    delay_s  by which the measurement is late against it
    """

    hold_s: float = math.inf
    finer: Stream | None = None
    delay_s: float = 0.0

    def between(self, stream: Stream) -> Callable[[Floats], Floats]:
        """A function of (n + 1,) stamps of `stream`: mean efforts (n, k) between them. NoModelError without any."""
        finer = self.finer
        knows = finer is not None and set(stream.names) <= set(finer.names) and finer.period_s < 0.7 * stream.period_s
        if finer is not None and finer.effort is not None and knows:
            time, columns = finer.time, [finer.column(name) for name in stream.names]
            effort = finer.effort[:, columns]
            work = np.concatenate([np.zeros((1, effort.shape[1])), np.cumsum(effort[1:] * np.diff(time)[:, None], 0)])

            def mean(stamps: Floats) -> Floats:
                return np.diff(at_times(stamps - self.delay_s, time, work), axis=0) / np.diff(stamps)[:, None]

            return mean
        measured = stream.effort
        if measured is None:
            raise NoModelError("the measurement says no efforts, which the model's are set beside")
        late = min(self.hold_s, stream.period_s) / 2.0
        return lambda stamps: at_times((stamps[1:] + stamps[:-1]) / 2.0 + late, stream.time, measured)


def motion_of(measured: Stream, names: tuple[str, ...], applied: Applied) -> Motion:
    """The motion between each two samples, in the model's order of joints. NoModelError says what is missing."""
    missing = [name for name in names if name not in measured.names]
    if missing:
        raise NoModelError(f"the measurement lacks joint {missing[0]!r}, which the model needs")
    stream = measured.only(names)
    if stream.velocity is None:
        raise NoModelError("the measurement says no velocities, from which accelerations are taken")
    mean_effort = applied.between(stream)
    time, q, v, a, effort, rate, parts, start = [], [], [], [], [], [], [], 0
    for part in segments(stream.time):
        steps = np.diff(stream.time[part])[:, None]
        if len(steps) < 32:
            continue
        position, velocity = stream.position[part], stream.velocity[part]
        time.append(stream.time[part][:-1] + steps[:, 0] / 2.0)
        q.append((position[1:] + position[:-1]) / 2.0)
        v.append((velocity[1:] + velocity[:-1]) / 2.0)
        a.append(np.diff(velocity, axis=0) / steps)
        effort.append(mean_effort(stream.time[part]))
        rate.append(np.diff(position, axis=0) / steps)
        parts.append(slice(start, start + len(steps)))
        start += len(steps)
    if not q:
        raise NoModelError("the measurement has no stretch of 33 samples without a gap")
    joined = [np.concatenate(each) for each in (time, q, v, a, effort, rate)]
    return Motion(joined[0], joined[1], joined[2], joined[3], joined[4], parts, 1.0 / stream.period_s, joined[5])


def rms(values: Floats) -> Floats:
    """Of each joint."""
    found: Floats = np.sqrt(np.mean(values * values, axis=0))
    return found


class Band:
    """Low-passes stretch by stretch, forwards and backwards, and thins what is left."""

    def __init__(self, motion: Motion) -> None:
        from scipy import signal

        self._parts = motion.parts
        share = CUTOFF_HZ / (motion.rate_hz / 2.0)
        self._filter = signal.butter(2, share, output="sos") if share < 0.9 else None
        self._every = max(1, int(motion.rate_hz / KEPT_HZ)) if self._filter is not None else 1

    def __call__(self, values: Floats) -> Floats:
        return self.thinned(self.smooth(values))

    def noise(self, values: Floats) -> Floats:
        """RMS (k,) of what is above the band: what is noise there is noise in the band too."""
        return rms(values - self.smooth(values))

    def smooth(self, values: Floats) -> Floats:
        """The values below the cutoff, none left out."""
        from scipy import signal

        if self._filter is None:
            return values
        return np.concatenate([signal.sosfiltfilt(self._filter, values[part], axis=0) for part in self._parts])

    def thinned(self, values: Floats) -> Floats:
        """The samples that are kept."""
        return values[:: self._every]


def passed(motion: Motion, band: Band) -> Floats:
    """How much time passed at the robot in a second of the stamps (n,): 1 where these are right, or it is at rest.

    What the positions change by is what the measured velocities say, times this, in all joints alike.
    """
    change, square = motion.rate * motion.v, motion.v * motion.v
    product, size = (band.smooth(each.sum(axis=1)) for each in (change, square))
    least = AT_REST * float(size.mean())
    moves = size > max(least, 1e-12)
    found: Floats = np.where(moves, product / np.where(moves, size, 1.0), 1.0)
    return np.clip(found, 1.0 / MOST_UNEVEN, MOST_UNEVEN)

"""Measured motion at the midpoints between its stamps, mean efforts between the stamps, and a low-pass filter for
motion and efforts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats, Stream, at_times, segments
from nodes.hil.identification.model import NoModelError

CUTOFF_HZ = 10.0  # cutoff of the low-pass for residual and motion; differentiated positions are noise above
KEPT_HZ = 100.0  # sampling rate after the low-pass
AT_REST = 0.01  # fraction of the rates' mean square below which they do not determine the elapsed time
CHANCE = 1e-6  # probability up to which noise may seem to follow the motion
MOST_UNEVEN = 5.0  # largest ratio between elapsed time and the stamps' time, either way


@dataclass(frozen=True)
class Motion:
    """A measured motion of k joints at the n midpoints between consecutive stamps of the measurement.

    time     (n,) midpoints (s)
    q, v, a  (n, k) positions, velocities and accelerations; v is the mean of the velocities measured at the two stamps
    effort   (n, k) mean efforts between the two stamps
    parts    slices of the n midpoints, one per section without a gap
    rate_hz  sampling rate (Hz)
    rate     (n, k) difference of the positions at the two stamps / time between the stamps (rad/s or m/s)
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
        """Number of samples that count as independent after the low-pass filter."""
        return len(self.q) * min(1.0, 2.0 * CUTOFF_HZ / self.rate_hz)


@dataclass(frozen=True)
class Applied:
    """Determines the efforts that acted between two samples of the measurement.

    hold_s   time (s) for which a commanded effort is constant: the time step of the simulation. The effort in a
             measured sample at time t acted from t - hold_s, or from the previous sample if that is later, until t
    finer    stream of the same run with efforts at a higher rate. This stream replaces the measured efforts if the
             measurement is too slow to contain every effort; None if there is no such stream
    delay_s  delay of the measurement relative to `finer` (s)
    """

    hold_s: float = math.inf
    finer: Stream | None = None
    delay_s: float = 0.0

    def between(self, stream: Stream) -> Callable[[Floats], Floats]:
        """Function from (n + 1,) stamps of `stream` to the mean efforts (n, k) between consecutive stamps.

        Raises NoModelError if the stream has no efforts.
        """
        finer = self.finer
        is_finer = (
            finer is not None and set(stream.names) <= set(finer.names) and finer.period_s < 0.7 * stream.period_s
        )
        if finer is not None and finer.effort is not None and is_finer:
            time, columns = finer.time, [finer.column(name) for name in stream.names]
            effort = finer.effort[:, columns]
            work = np.concatenate([np.zeros((1, effort.shape[1])), np.cumsum(effort[1:] * np.diff(time)[:, None], 0)])

            def mean(stamps: Floats) -> Floats:
                return np.diff(at_times(stamps - self.delay_s, time, work), axis=0) / np.diff(stamps)[:, None]

            return mean
        measured = stream.effort
        if measured is None:
            raise NoModelError(
                "the measurement has no efforts to compare with the model's; record a topic with efforts"
            )
        late = min(self.hold_s, stream.period_s) / 2.0
        return lambda stamps: at_times((stamps[1:] + stamps[:-1]) / 2.0 + late, stream.time, measured)


def motion_of(measured: Stream, names: tuple[str, ...], applied: Applied) -> Motion:
    """Measured motion at the midpoints of consecutive samples, with the joints in the order of `names`.

    Raises NoModelError if joints, velocities or efforts are missing, or if no section without a gap is long enough.
    """
    missing = [name for name in names if name not in measured.names]
    if missing:
        raise NoModelError(
            f"the measurement lacks joint {missing[0]!r} of the model and has {', '.join(measured.names)}; "
            "record all joints of the model"
        )
    stream = measured.only(names)
    if stream.velocity is None:
        raise NoModelError(
            "the measurement has no velocities, from which accelerations are computed; record a topic with velocities"
        )
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
        raise NoModelError("the measurement has fewer than 33 consecutive samples without a gap; record a longer run")
    joined = [np.concatenate(each) for each in (time, q, v, a, effort, rate)]
    return Motion(joined[0], joined[1], joined[2], joined[3], joined[4], parts, 1.0 / stream.period_s, joined[5])


def rms(values: Floats) -> Floats:
    """RMS (k,) of each column of `values` (n, k)."""
    found: Floats = np.sqrt(np.mean(values * values, axis=0))
    return found


def following(values: Floats, motion: Floats, independent: float) -> Floats:
    """Power (k,) of the part of each column of `values` (n, k) that follows the motion.

    This part is the least-squares fit of a column by its joint's `motion`, less the power that the same fit has for
    white noise on average. It is 0 if noise explains the fit with a probability (F test) above CHANCE.

    motion       (k, n, m) quantities of each joint that move with it, such as its position, velocity and acceleration
    independent  number of the n samples that count as independent
    """
    from scipy import stats

    found = np.zeros(values.shape[1])
    for joint, (column, columns) in enumerate(zip(values.T, motion, strict=True)):
        sizes = np.sqrt((columns * columns).sum(axis=0))
        basis = columns[:, sizes > 0.0] / sizes[sizes > 0.0]
        fit, _, rank, _ = np.linalg.lstsq(basis, column, rcond=1e-6)
        fitted = basis @ fit
        left = column - fitted
        free = max(independent - rank, 1.0)
        power, noise = float(fitted @ fitted), rank * float(left @ left) / free
        if stats.f.sf(power / max(noise, 1e-300), rank, free) < CHANCE:
            found[joint] = (power - noise) / len(column)
    return found


class Band:
    """Low-pass filter for a motion, followed by downsampling to about KEPT_HZ.

    The filter runs forwards and backwards over each section without a gap.
    """

    def __init__(self, motion: Motion) -> None:
        from scipy import signal

        self._parts = motion.parts
        share = CUTOFF_HZ / (motion.rate_hz / 2.0)
        self._filter = signal.butter(2, share, output="sos") if share < 0.9 else None
        self._every = max(1, int(motion.rate_hz / KEPT_HZ)) if self._filter is not None else 1

    def __call__(self, values: Floats) -> Floats:
        return self.thinned(self.smooth(values))

    def noise(self, values: Floats) -> Floats:
        """RMS (k,) of the components above the cutoff frequency, as an estimate of the noise below the cutoff
        frequency.
        """
        return rms(values - self.smooth(values))

    def smooth(self, values: Floats) -> Floats:
        """The low-pass filtered values, at all instants of the motion."""
        from scipy import signal

        if self._filter is None:
            return values
        return np.concatenate([signal.sosfiltfilt(self._filter, values[part], axis=0) for part in self._parts])

    def thinned(self, values: Floats) -> Floats:
        """Every m-th of the values, with m chosen such that about KEPT_HZ values per second are left."""
        return values[:: self._every]


def passed(motion: Motion, band: Band) -> Floats:
    """Ratio (n,) of the actual time between two samples to the difference of their stamps; 1 for exact stamps.

    The ratio is estimated by least squares over all joints: it is the factor by which the measured velocities are
    multiplied to fit the velocities computed from positions and stamps. It is set to 1 while the robot is at rest.
    """
    change, square = motion.rate * motion.v, motion.v * motion.v
    product, size = (band.smooth(each.sum(axis=1)) for each in (change, square))
    least = AT_REST * float(size.mean())
    moves = size > max(least, 1e-12)
    found: Floats = np.where(moves, product / np.where(moves, size, 1.0), 1.0)
    return np.clip(found, 1.0 / MOST_UNEVEN, MOST_UNEVEN)

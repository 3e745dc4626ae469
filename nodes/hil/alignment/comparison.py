"""Comparison of measured and predicted positions, joint by joint: bias, RMS, maximum, delay, coherence, dead
encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from nodes.hil.alignment.noise import white_noise
from nodes.hil.alignment.streams import Floats, Gap, Pairing, Pairs, Stream, StreamError, gaps, segments

MAX_DELAY_S = 0.2
LAGS = 41  # delays tried per round; each of the two later rounds covers a smaller range
MOST_PAIRS = 4000  # most pairs used in the search for the delay
MOVES = 1e-4  # rad or m: range within which a joint counts as being at rest
SLOW = 0.01  # rad/s or m/s, RMS: rate below which no delay can be determined
DEAD_FOR_S = 0.25  # least time with a constant position, while the joint was predicted to move, of a dead encoder
DEAD_SAMPLES = 6  # least number of samples in that time
DEAD_MOVE = 0.02  # least predicted motion in that time, as a fraction of the joint's range, beside 3 encoder steps
FEWEST_PAIRS = 16
REGULAR_S = 2e-3  # irregularity up to which an instant is regular
FEWEST_REGULAR = 64  # regular instants from which on only these are used
COHERENCE_WINDOW = 1024


class DeadStretch(msgspec.Struct, frozen=True, kw_only=True):
    """Interval from `start_s` to `end_s` in which the encoder was dead: its reading was constant while the model
    predicted motion.

    value           the constant position (rad or m)
    predicted_move  range of the predicted position in this interval (rad or m)
    """

    start_s: float
    end_s: float
    value: float
    predicted_move: float


class JointComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Error measures of one joint, from its measured and predicted positions: differences in rad or m, delays in s.

    An error measure that cannot be determined is None.

    bias, rms, max   mean, RMS and largest magnitude of measured minus predicted position, after correction of the
                     common delay
    rms_around_bias  RMS with the bias subtracted
    rms_by_stamps    RMS without correction of the delay
    range            range of the predicted position
    relative         rms / range
    delay_s          delay of this joint alone, positive if the measurement lags behind the prediction
    delay_sigma_s    standard deviation of `delay_s`
    noise            standard deviation of the white noise in the measured position
    coherence        mean coherence of the measured and predicted positions over all frequencies, 0 .. 1, weighted by
                     the power of the predicted position
    dead             intervals in which the encoder was dead
    """

    name: str
    bias: float
    rms: float
    max: float
    rms_around_bias: float
    rms_by_stamps: float
    range: float
    relative: float | None
    delay_s: float | None
    delay_sigma_s: float | None
    coherence: float | None
    dead: list[DeadStretch]
    noise: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """Result of comparing a measured with a predicted stream.

    delay_s   common delay that was corrected (s); 0 if no delay is significant
    pairs     measured and predicted positions, aligned in time, of the joints `names`
    unpaired  number of instants of the stream with the lower rate that have no partner, because the other stream had
              ended or has a gap
    left_out  joints that only one of the two streams has
    delay_uncertainty_s  delay (s) that irregular times of the measurement alone may cause (see `compare`)
    pairs_if_delayed  pairs after correction of a common delay that irregular times alone may cause. This delay is not
                      corrected in `pairs`. None if there is no such delay
    """

    names: tuple[str, ...]
    joints: list[JointComparison]
    delay_s: float
    pairs: Pairs
    unpaired: int
    measured_gaps: list[Gap]
    predicted_gaps: list[Gap]
    left_out: list[str]
    delay_uncertainty_s: float = 0.0
    pairs_if_delayed: Pairs | None = None


def no_irregularity(time: Floats) -> Floats:
    """Irregularity (n,) in s of a measurement with regular times: zero at each of the instants `time` (n,)."""
    return np.zeros(len(time))


def compare(
    measured: Stream,
    predicted: Stream,
    max_delay_s: float = MAX_DELAY_S,
    irregular_s: Callable[[Floats], Floats] = no_irregularity,
    straight: Stream | None = None,
    finds_dead: bool = True,
) -> Comparison:
    """Compare two streams, aligned by their stamps and by the delay of largest cross-correlation.

    irregular_s  function from instants (n,) in s to times (n,) in s for which, shortly before each instant, the robot
                 may have moved while the model did not, or the reverse. Delays are determined from regular instants, if
                 there are enough of them; a common delay that irregular times may explain is not corrected
    straight     the measurement without errors of order, sign and unit, from which delays are determined; None: it has
                 no such errors
    finds_dead   whether constant positions count as a dead encoder; not if the predicted states start from measured
                 ones, where friction may hold the robot

    Raises StreamError if the streams have no joint or too few instants in common.
    """
    names = [name for name in predicted.names if name in measured.names]
    if not names:
        raise StreamError(
            f"the streams have no joint in common: the measured one has {list(measured.names)}, the predicted one "
            f"{list(predicted.names)}; compare recordings of the same robot"
        )
    left_out = sorted(set(measured.names) ^ set(predicted.names))
    whole, measured, predicted = measured, measured.only(names), predicted.only(names)
    pairing = Pairing(measured, predicted)
    by_stamps = pairing(0.0)
    if len(by_stamps.time) < FEWEST_PAIRS:
        raise StreamError(
            f"only {len(by_stamps.time)} instants can be paired and at least {FEWEST_PAIRS} are needed; "
            "record a longer run"
        )
    dead = [dead_stretches(by_stamps, index) if finds_dead else [] for index in range(len(names))]
    straight_pairing = pairing if straight is None or straight is whole else Pairing(straight.only(names), predicted)
    regular = RegularPairing(straight_pairing, irregular_s, by_stamps.time)
    delays = _delays(regular, [not stretches for stretches in dead], max_delay_s)
    common, uncertain_delay = _common_delay(regular, delays), None
    if 0.0 < abs(common) <= regular.uncertainty_s:
        common, uncertain_delay = 0.0, pairing(common)
    pairs = pairing(common) if common else by_stamps
    joints = [_joint(name, index, pairs, by_stamps, delays[index], dead[index]) for index, name in enumerate(names)]
    return Comparison(
        names=tuple(names),
        joints=joints,
        delay_s=common,
        pairs=pairs,
        unpaired=pairing.instants - len(by_stamps.time),
        measured_gaps=gaps(measured.time),
        predicted_gaps=gaps(predicted.time),
        left_out=left_out,
        delay_uncertainty_s=regular.uncertainty_s,
        pairs_if_delayed=uncertain_delay,
    )


class RegularPairing:
    """Pairs two streams like `Pairing`, but keeps only the regular instants.

    An instant is regular if its irregularity `irregular_s` (see `compare`) is at most REGULAR_S. If fewer than
    FEWEST_REGULAR instants are regular, all instants are kept.

    time           (n,) instants (s) of the pairs for a delay of 0
    uncertainty_s  mean irregularity (s) of the kept instants
    """

    def __init__(self, pairing: Pairing, irregular_s: Callable[[Floats], Floats], time: Floats) -> None:
        self._pairing, self._irregular_s = pairing, irregular_s
        irregular = irregular_s(time)
        is_regular = irregular <= REGULAR_S
        self._selects = FEWEST_REGULAR <= int(is_regular.sum()) < len(time)
        self.uncertainty_s = float(irregular[is_regular].mean() if self._selects else irregular.mean())
        self.instants = pairing.instants

    def __call__(self, delay_s: float, every: int = 1) -> Pairs:
        pairs = self._pairing(delay_s, every)
        if not self._selects:
            return pairs
        kept = self._irregular_s(pairs.time) <= REGULAR_S
        return Pairs(pairs.time[kept], pairs.measured[kept], pairs.predicted[kept])


def _joint(
    name: str, index: int, pairs: Pairs, by_stamps: Pairs, delay: tuple[float, float] | None, dead: list[DeadStretch]
) -> JointComparison:
    residual, predicted = pairs.residual[:, index], pairs.predicted[:, index]
    rms, span = _rms(residual), float(np.ptp(predicted))
    return JointComparison(
        name=name,
        bias=float(residual.mean()),
        rms=rms,
        max=float(np.abs(residual).max()),
        rms_around_bias=float(residual.std()),
        rms_by_stamps=_rms(by_stamps.residual[:, index]),
        range=span,
        relative=rms / span if span > MOVES else None,
        delay_s=None if delay is None else delay[0],
        delay_sigma_s=None if delay is None else delay[1],
        coherence=coherence(pairs, index),
        dead=dead,
        noise=white_noise(residual),
    )


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values * values)))


# -- delay


def _delays(pairing: RegularPairing, live: Sequence[bool], max_delay_s: float) -> list[tuple[float, float] | None]:
    """Return (delay, its standard deviation) in s for each joint.

    The entry is None for a joint that is at rest or has a dead encoder.

    live         whether the encoder of each joint works
    max_delay_s  largest delay to consider (s)
    """
    every = max(1, pairing.instants // MOST_PAIRS)
    found: list[tuple[float, float] | None] = []
    for index, alive in enumerate(live):
        found.append(delay_of(pairing, index, max_delay_s, every) if alive else None)
    return found


def delay_of(
    pairing: Pairing | RegularPairing, joint: int, max_delay_s: float, every: int = 1
) -> tuple[float, float] | None:
    """Return (delay at which one joint's correlation is largest, standard deviation of this delay), both in s.

    Returns None for a joint that hardly moves. The function searches three ranges of delays, each narrower and
    centred on the best delay so far. The result is the maximum of the parabola through the best delay and its two
    neighbours.

    every  number n; only every n-th instant is used
    """
    centre, reach = 0.0, max_delay_s
    for _ in range(3):
        lags = centre + np.linspace(-reach, reach, LAGS)
        scores = np.array([_correlation(pairing(lag, every), joint) for lag in lags])
        if not np.isfinite(scores).any():
            return None
        best = int(np.nanargmax(scores))
        centre, step = float(lags[best]), float(lags[1] - lags[0])
        reach = 1.5 * step
    delay = centre + step * _top(scores, best)
    pairs = pairing(delay, every)
    rate = np.gradient(pairs.predicted[:, joint], pairs.time)
    if rate.std() < SLOW:
        return None
    left = pairs.residual[:, joint]
    sigma = float(left.std() / (rate.std() * np.sqrt(len(left))))
    return delay, sigma


def _correlation(pairs: Pairs, joint: int) -> float:
    """Correlation coefficient of one joint's measured and predicted positions; NaN if one of them is
    constant.
    """
    if len(pairs.time) < FEWEST_PAIRS:
        return float("nan")
    m, p = pairs.measured[:, joint], pairs.predicted[:, joint]
    m, p = m - m.mean(), p - p.mean()
    if min(np.ptp(m), np.ptp(p)) <= MOVES:
        return float("nan")
    return float(m @ p / np.sqrt((m @ m) * (p @ p)))


def _top(scores: Floats, best: int) -> float:
    """Position of the maximum of the parabola through the best score and its two neighbours.

    The position is relative to the index `best`, as a fraction of the spacing of the scores.
    """
    if not 0 < best < len(scores) - 1 or not np.isfinite(scores[best - 1 : best + 2]).all():
        return 0.0
    left, top, right = scores[best - 1 : best + 2]
    bend = left - 2.0 * top + right
    return float(np.clip(0.5 * (left - right) / bend, -1.0, 1.0)) if bend < 0.0 else 0.0


def _common_delay(pairing: RegularPairing, delays: Sequence[tuple[float, float] | None]) -> float:
    """Median delay of the moving joints (s) if it is significant; otherwise 0.

    A delay is significant if it exceeds three standard deviations and if its correction reduces the standard deviation
    of the differences by at least a fifth.

    delays  (delay, its standard deviation) in s of each joint; None for a joint that does not move
    """
    known = [delay for delay in delays if delay is not None]
    if not known:
        return 0.0
    delay = float(np.median([value for value, _ in known]))
    sigma = float(np.median([sigma for _, sigma in known]))
    if abs(delay) <= 3.0 * sigma:
        return 0.0
    moving = [index for index, value in enumerate(delays) if value is not None]
    before = pairing(0.0).residual[:, moving].std(axis=0)
    after = pairing(delay).residual[:, moving].std(axis=0)
    return delay if float(np.median(after / np.maximum(before, 1e-300))) < 0.8 else 0.0


# -- encoders and coherence


def dead_stretches(pairs: Pairs, joint: int) -> list[DeadStretch]:
    """Intervals in which one joint's measured position is constant although its predicted position moves clearly."""
    m, p, t = pairs.measured[:, joint], pairs.predicted[:, joint], pairs.time
    changes = np.abs(np.diff(m))
    resolution = float(changes[changes > 0.0].min()) if (changes > 0.0).any() else 0.0
    clear = max(DEAD_MOVE * float(np.ptp(p)), 3.0 * resolution, 10.0 * MOVES)
    cuts = [part.start for part in segments(t)]
    edges = sorted({0, *(np.flatnonzero(changes > 0.0) + 1).tolist(), *cuts, len(m)})
    found = []
    for first, after in pairwise(edges):
        last = after - 1
        if t[last] - t[first] < DEAD_FOR_S or after - first < DEAD_SAMPLES:
            continue
        move = float(np.ptp(p[first:after]))
        if move > clear:
            start_s, end_s = float(t[first]), float(t[last])
            found.append(DeadStretch(start_s=start_s, end_s=end_s, value=float(m[first]), predicted_move=move))
    return found


def coherence(pairs: Pairs, joint: int) -> float | None:
    """Mean coherence of a joint's measured and predicted positions, weighted by the power of the predicted position.

    The coherence is computed by Welch's method from the longest section without a gap. The result is None for too few
    samples or a joint at rest.
    """
    from scipy import signal

    longest = max(segments(pairs.time), key=lambda part: part.stop - part.start)
    m, p = pairs.measured[longest, joint], pairs.predicted[longest, joint]
    window = min(COHERENCE_WINDOW, len(m) // 4)
    if window < FEWEST_PAIRS or min(np.ptp(m), np.ptp(p)) <= MOVES:
        return None
    rate = 1.0 / float(np.median(np.diff(pairs.time[longest])))
    _, power = signal.welch(p, rate, nperseg=window)
    with np.errstate(divide="ignore", invalid="ignore"):
        _, found = signal.coherence(m, p, rate, nperseg=window)
    known = np.isfinite(found)
    return float(np.average(found[known], weights=power[known])) if power[known].sum() > 0.0 else None

"""Detection of backlash in the actuators' gears, from the efforts that it keeps from the joints.

After each change of sign of its effort, a joint is free until the drive has crossed the backlash. This missing effort
is computed for many crossing times, and the one that fits a joint's effort residual best is taken. Backlash that takes
longer to cross than the low-pass filter is found in the low-passed residual, together with other model errors.

Crossing a small backlash takes some milliseconds, so the low-passed residual does not show it. The unfiltered residual
is then used, in a window around each change of sign. In this window it is modelled as a linear function of time, plus
the missing effort, plus noise. The noise of efforts and velocities is white. Accelerations are differences of
velocities, so neighbouring residuals are correlated, and the least-squares fit is weighted accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import take_up
from nodes.hil.identification.motion import Band, Motion

CROSSINGS_S = tuple(2e-3 * 1.35**k for k in range(18))  # times to cross the backlash that are tried, 2 ms to 0.33 s
LIKE = 0.4  # largest deviation from 1 of the fitted factor of the missing effort for which backlash is assumed
SHORT_S = tuple(1e-3 * k for k in range(2, 41))  # times to cross a small backlash that are tried
SHORT_LIKE = 0.15  # as LIKE, of a small backlash
SUBSTEPS = 5  # substeps per sample in the model of the crossing of a small backlash
HALF_S = 0.06  # half the length of a window
CLEAR = 30.0  # least doubled log likelihood ratio of backlash against none
LOUD = 5.0  # least size of the missing effort in a window, in standard deviations of the effort's noise
FEWEST = 2  # least number of such windows
SAMPLES = 1.5  # least duration of the crossing in samples, because efforts between two stamps are uncertain


def missing_efforts(
    effort: Floats, time: Floats, parts: Sequence[slice], crossings: Sequence[float] = CROSSINGS_S, substeps: int = 1
) -> Floats:
    """Efforts that the drives transmit to the joints minus measured efforts, (c, n, k), in N m or N.

    The first index is that of the crossing time in `crossings`: the time (s) that a drive takes to cross the backlash.
    While the drive crosses the backlash, as in `imperfections.take_up`, it transmits no effort to the joint, so the
    difference is minus the measured effort. At all other times the difference is 0.

    effort    measured efforts (n, k)
    time      stamps of the efforts (n,) in s
    parts     slices of the samples, one per section without a gap
    substeps  number of substeps per sample, over which the difference is averaged
    """
    play = np.array(crossings)[:, None] * np.ones(effort.shape[1])
    shares = (np.arange(substeps) + 0.5) / substeps - 0.5
    found = np.zeros((len(crossings), *effort.shape))
    for part in parts:
        stamps = time[part]
        steps = np.diff(stamps, prepend=2.0 * stamps[0] - stamps[1])
        index = np.arange(len(stamps))
        at = (index[:, None] + shares).ravel()
        fine = np.stack([np.interp(at, index, each) for each in effort[part].T], axis=1)
        fine = fine.reshape(len(stamps), substeps, -1)
        signs = np.sign(fine)
        keeps_sign = (signs[:, 0] == signs[:, -1]).all(axis=1).tolist()
        place = np.sign(effort[part.start]) * play / 2.0
        for row, (samples, step) in enumerate(zip(fine, steps.tolist(), strict=True)):
            if row and keeps_sign[row] and (signs[row, 0] * place >= play / 2.0).all():
                continue  # every drive is in contact
            for each in samples:
                commanded = np.broadcast_to(each, play.shape)
                place, passed = take_up(place, commanded, 1.0, play, step / substeps)
                found[:, part.start + row] += (passed - commanded) / substeps
    return found


def best_crossing(columns: Floats, residual: Floats) -> int | None:
    """Index of the row of `columns` (c, n) that best fits the effort residual (n,) of a joint.

    A row counts only if the factor by which least squares multiplies it is near 1. The result is None if no row
    counts.
    """
    power = (columns * columns).sum(axis=1)
    fits = np.divide(columns @ residual, power, out=np.zeros_like(power), where=power > 0.0)
    gained = np.where(abs(fits - 1.0) < LIKE, fits * fits * power, 0.0)
    best = int(np.argmax(gained))
    return best if gained[best] > 0.0 else None


@dataclass(frozen=True)
class SmallBacklash:
    """Backlash of one joint that is crossed within a few samples.

    crossing_s  time for which the joint is free after each change of sign of its effort (s)
    sigma_s     standard deviation of `crossing_s` (s)
    missing     (n,) effort that the drive transmits to the joint minus measured effort (N m or N)
    """

    crossing_s: float
    sigma_s: float
    missing: Floats


def small_backlash(motion: Motion, band: Band, residual: Floats, joint: int) -> SmallBacklash | None:
    """Small backlash of a joint; None if the efforts show no backlash.

    band      low-pass filter of the motion
    residual  (n,) unfiltered effort residual of the joint: the model's effort minus the measured effort, N m or N
    joint     index of the joint
    """
    noise = _noise(residual - band.smooth(residual[:, None])[:, 0])
    if noise is None:
        return None
    missing = missing_efforts(motion.effort[:, [joint]], motion.time, motion.parts, SHORT_S, SUBSTEPS)[:, :, 0]
    loud = LOUD * float(np.sqrt(noise[0]))
    windows = [each for each in _windows(motion, joint) if np.abs(missing[-1, each]).max() > loud]
    if len(windows) < FEWEST:
        return None
    scores = np.zeros((len(SHORT_S), 2))  # for each crossing time: m W m, m W r
    for window in windows:
        weighed = _weighing(window.stop - window.start, noise)
        if weighed is None:
            continue
        m = missing[:, window] * (np.abs(missing[:, window]).max(axis=1) > loud)[:, None]
        scores += np.stack([((m @ weighed) * m).sum(axis=1), m @ (weighed @ residual[window])], axis=1)
    power = scores[:, 0]
    share = np.divide(scores[:, 1], power, out=np.zeros_like(power), where=power > 0.0)
    evidence = np.where(
        np.abs(share - 1.0) < SHORT_LIKE, 2.0 * scores[:, 1] - power, 0.0
    )  # only where the factor is near 1
    best = int(np.argmax(evidence))
    if evidence[best] < CLEAR or SHORT_S[best] * motion.rate_hz < SAMPLES:
        return None
    near = evidence > evidence[best] - 1.0
    sigma = max(float(np.ptp(np.array(SHORT_S)[near])) / 2.0, 5e-4)
    return SmallBacklash(SHORT_S[best], sigma, missing[best])


def _noise(high: Floats) -> tuple[float, float] | None:
    """Return the variances (white, rough) of two noises in the residual of a joint's efforts; None if both are 0.

    `white` is the variance of white noise of the measured efforts. `rough` is due to white noise of the velocities:
    accelerations are differences of velocities, so the residual contains differences between successive samples of this
    noise. The variance of the residual is white + 2 rough, and the covariance of successive samples is -rough.

    high  (n,) components of the residual above the cutoff frequency (N m or N)
    """
    centred = high - np.median(high)
    most = 4.0 * 1.4826 * float(np.median(np.abs(centred)))
    kept = np.clip(centred, -most, most)
    var, neighbours = float(kept @ kept) / len(kept), float(kept[1:] @ kept[:-1]) / len(kept)
    rough = min(max(-neighbours, 0.0), 0.5 * var)
    white = var - 2.0 * rough
    return (max(white, 0.02 * var), rough) if var > 0.0 else None


def _windows(motion: Motion, joint: int) -> Iterator[slice]:
    """Slices of the samples around each change of sign of a joint's effort, without overlaps."""
    half = max(int(HALF_S * motion.rate_hz), 4)
    for part in motion.parts:
        effort = motion.effort[part, joint]
        quiet = 0.02 * float(np.sqrt(np.mean(motion.effort[:, joint] ** 2)))
        clear = np.flatnonzero(np.abs(effort) > quiet)
        turns = clear[1:][np.diff(np.sign(effort[clear])) != 0.0]
        end = 0
        for turn in turns.tolist():
            first, last = max(turn - half, end), min(turn + half, len(effort))
            if last - first >= half:
                yield slice(part.start + first, part.start + last)
                end = last


def _weighing(n: int, noise: tuple[float, float]) -> Floats | None:
    """Weight matrix (n, n) for least squares; None if the covariance of the noise is singular.

    It is the inverse covariance of the noise, projected so that a constant and a linear trend have no effect.
    """
    white, rough = noise
    covariance = (white + 2.0 * rough) * np.eye(n) - rough * (np.eye(n, k=1) + np.eye(n, k=-1))
    try:
        inverse = np.linalg.inv(covariance)
        line = np.stack([np.ones(n), np.linspace(-1.0, 1.0, n)], axis=1)
        taken = inverse @ line
        return np.asarray(inverse - taken @ np.linalg.solve(line.T @ taken, taken.T))
    except np.linalg.LinAlgError:
        return None

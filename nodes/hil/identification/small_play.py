"""Detection of backlash that is crossed within a few samples, from the changes of sign of a joint's effort.

Crossing such a backlash takes some milliseconds, so the low-passed residual does not show it. The unfiltered residual
is therefore used, in a window around each change of sign. In this window it is modelled as a linear function of time,
plus the effort that the drive does not transmit to the joint during the crossing, plus noise. The noise of efforts and
velocities is white. Accelerations are differences of velocities, so neighbouring residuals are correlated, and the
least-squares fit is weighted accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import take_up
from nodes.hil.identification.motion import Band, Motion

CROSSINGS_S = tuple(1e-3 * k for k in range(2, 41))  # times to cross the backlash that are tried
SUBSTEPS = 5  # substeps per sample in the model of the crossing
HALF_S = 0.06  # half the length of a window
CLEAR = 30.0  # least doubled log likelihood ratio of backlash against none
LIKE = 0.15  # largest deviation from 1 of the missing effort's fitted factor
LOUD = 5.0  # least size of the missing effort in a window, in standard deviations of the effort's noise
FEWEST = 2  # least number of such windows
SAMPLES = 1.5  # least duration of the crossing in samples, because efforts between two stamps are uncertain


@dataclass(frozen=True)
class SmallPlay:
    """Backlash of one joint.

    crossing_s  time for which the joint is free after each change of sign of its effort (s)
    sigma_s     standard deviation of `crossing_s` (s)
    missing     (n,) effort that the drive transmits to the joint minus measured effort (N m or N)
    evidence    twice the log likelihood ratio of backlash against no backlash
    """

    crossing_s: float
    sigma_s: float
    missing: Floats
    evidence: float


def small_play(motion: Motion, band: Band, residual: Floats, joint: int) -> SmallPlay | None:
    """Backlash of a joint; None if the efforts show no backlash.

    band      low-pass filter of the motion
    residual  (n,) unfiltered effort residual of the joint: the model's effort minus the measured effort, N m or N
    joint     index of the joint
    """
    noise = _noise(residual - band.smooth(residual[:, None])[:, 0])
    if noise is None:
        return None
    missing = _missing(motion, joint)
    loud = LOUD * float(np.sqrt(noise[0]))
    windows = [each for each in _windows(motion, joint) if np.abs(missing[-1, each]).max() > loud]
    if len(windows) < FEWEST:
        return None
    scores = np.zeros((len(CROSSINGS_S), 2))  # for each crossing time: m W m, m W r
    for window in windows:
        weighed = _weighing(window.stop - window.start, noise)
        if weighed is None:
            continue
        m = missing[:, window] * (np.abs(missing[:, window]).max(axis=1) > loud)[:, None]
        scores += np.stack([((m @ weighed) * m).sum(axis=1), m @ (weighed @ residual[window])], axis=1)
    power = scores[:, 0]
    share = np.divide(scores[:, 1], power, out=np.zeros_like(power), where=power > 0.0)
    evidence = np.where(np.abs(share - 1.0) < LIKE, 2.0 * scores[:, 1] - power, 0.0)  # only where the factor is near 1
    best = int(np.argmax(evidence))
    if evidence[best] < CLEAR or CROSSINGS_S[best] * motion.rate_hz < SAMPLES:
        return None
    near = evidence > evidence[best] - 1.0
    sigma = max(float(np.ptp(np.array(CROSSINGS_S)[near])) / 2.0, 5e-4)
    return SmallPlay(CROSSINGS_S[best], sigma, missing[best], float(evidence[best]))


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


def _missing(motion: Motion, joint: int) -> Floats:
    """Effort that the drive transmits to the joint minus measured effort, (c, n) in N m or N.

    The rows are for the c crossing times in CROSSINGS_S. While the drive crosses the backlash, the drive transmits no
    effort to the joint, so the difference is minus the measured effort. At all other times the difference is 0. Each
    entry is the mean of this difference over the time between two samples.
    """
    crossings = np.array(CROSSINGS_S)
    found = np.zeros((len(crossings), len(motion.time)))
    for part in motion.parts:
        time, effort = motion.time[part], motion.effort[part, joint]
        steps = np.diff(time, prepend=2.0 * time[0] - time[1])
        place = np.sign(effort[0]) * crossings / 2.0
        shares = (np.arange(SUBSTEPS) + 0.5) / SUBSTEPS - 0.5
        index = np.arange(len(effort))
        fine = np.interp((index[:, None] + shares).ravel(), index, effort).reshape(-1, SUBSTEPS)
        for row, (commanded, step) in enumerate(zip(fine.tolist(), steps.tolist(), strict=True)):
            if (
                row
                and (commanded[0] > 0.0) == (commanded[-1] > 0.0)
                and np.all(np.sign(commanded[0]) * place >= crossings / 2.0)
            ):
                continue
            for each in commanded:
                place, passed = take_up(place, np.full(len(crossings), each), 1.0, crossings, step / SUBSTEPS)
                found[:, part.start + row] += (passed - each) / SUBSTEPS
    return found

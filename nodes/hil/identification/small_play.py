"""Play in a gear that is crossed in a few samples: what each change of sign of an effort leaves in the efforts.

The low-passed residual hides it, as it lasts some milliseconds. Here each change of sign has a window of its own, in
which the residual is a line in time, the effort that is missing, and noise. Noise is white in the efforts and in the
velocities, whose differences are the accelerations, so that neighbours of the residual are correlated: least squares
are weighted by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import take_up
from nodes.hil.identification.motion import Band, Motion

CROSSINGS_S = tuple(1e-3 * k for k in range(2, 41))  # times to cross the play that are tried
SUBSTEPS = 5  # of a sample, in which the drive crosses the play
HALF_S = 0.06  # of a window
CLEAR = 30.0  # twice the logarithm of the likelihood ratio from which play is better than none
LIKE = 0.15  # the effort that is missing is all of it: its share is 1 within this
LOUD = 5.0  # standard deviations of the effort's own noise that the missing effort must reach in a window
FEWEST = 2  # such windows
SAMPLES = 1.5  # that the crossing must last: within fewer, the efforts between two stamps are only guessed


@dataclass(frozen=True)
class SmallPlay:
    """Seconds in which a joint is free after each change of sign, its standard deviation, and (n,) missing efforts.

    evidence  twice the logarithm of the likelihood ratio against none
    """

    crossing_s: float
    sigma_s: float
    missing: Floats
    evidence: float


def small_play(motion: Motion, band: Band, residual: Floats, joint: int) -> SmallPlay | None:
    """The play of a joint that the residual (n,) of its efforts shows, at all stamps; None where it shows none."""
    noise = _noise(residual - band.smooth(residual[:, None])[:, 0])
    if noise is None:
        return None
    missing = _missing(motion, joint)
    loud = LOUD * float(np.sqrt(noise[0]))
    windows = [each for each in _windows(motion, joint) if np.abs(missing[-1, each]).max() > loud]
    if len(windows) < FEWEST:
        return None
    scores = np.zeros((len(CROSSINGS_S), 2))  # of each crossing: m W m, m W r
    for window in windows:
        weighed = _weighing(window.stop - window.start, noise)
        if weighed is None:
            continue
        m = missing[:, window] * (np.abs(missing[:, window]).max(axis=1) > loud)[:, None]
        scores += np.stack([((m @ weighed) * m).sum(axis=1), m @ (weighed @ residual[window])], axis=1)
    power = scores[:, 0]
    share = np.divide(scores[:, 1], power, out=np.zeros_like(power), where=power > 0.0)
    evidence = np.where(np.abs(share - 1.0) < LIKE, 2.0 * scores[:, 1] - power, 0.0)  # all of it is missing
    best = int(np.argmax(evidence))
    if evidence[best] < CLEAR or CROSSINGS_S[best] * motion.rate_hz < SAMPLES:
        return None
    near = evidence > evidence[best] - 1.0
    sigma = max(float(np.ptp(np.array(CROSSINGS_S)[near])) / 2.0, 5e-4)
    return SmallPlay(CROSSINGS_S[best], sigma, missing[best], float(evidence[best]))


def _noise(high: Floats) -> tuple[float, float] | None:
    """Variances of the noise of a residual that is white, and of that whose differences are in it; None for none."""
    centred = high - np.median(high)
    most = 4.0 * 1.4826 * float(np.median(np.abs(centred)))
    kept = np.clip(centred, -most, most)
    var, neighbours = float(kept @ kept) / len(kept), float(kept[1:] @ kept[:-1]) / len(kept)
    rough = min(max(-neighbours, 0.0), 0.5 * var)
    white = var - 2.0 * rough
    return (max(white, 0.02 * var), rough) if var > 0.0 else None


def _windows(motion: Motion, joint: int) -> Iterator[slice]:
    """Samples around each change of sign of a joint's effort, without overlaps."""
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
    """(n, n) inverse covariance of the noise, with a line in time taken out."""
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
    """What is passed on less what was measured (c, n), mean over each sample, for each of CROSSINGS_S."""
    crossings = np.array(CROSSINGS_S)
    found = np.zeros((len(crossings), len(motion.time)))
    for part in motion.parts:
        time, effort = motion.time[part], motion.effort[part, joint]
        steps = np.diff(time, prepend=2.0 * time[0] - time[1])
        place = np.sign(effort[0]) * crossings / 2.0
        shares = (np.arange(SUBSTEPS) + 0.5) / SUBSTEPS - 0.5
        index = np.arange(len(effort))
        fine = np.interp((index[:, None] + shares).ravel(), index, effort).reshape(-1, SUBSTEPS)
        for row, (told, step) in enumerate(zip(fine.tolist(), steps.tolist(), strict=True)):
            if row and (told[0] > 0.0) == (told[-1] > 0.0) and np.all(np.sign(told[0]) * place >= crossings / 2.0):
                continue
            for each in told:
                place, passed = take_up(place, np.full(len(crossings), each), 1.0, crossings, step / SUBSTEPS)
                found[:, part.start + row] += (passed - each) / SUBSTEPS
    return found

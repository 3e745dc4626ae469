"""Regression of recorded efforts: one linear equation per joint and instant, summed up per joint and block of time.

The unknowns z are the base parameters and, per joint, the coefficients of its friction columns. A row of joint j is
y = [Y_b | C_j] [beta; f_j]. It is kept twice: as recorded, for predictions, and filtered like the positions, for fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.calibration import Reference
from sim_core.identification.friction import CALIBRATION, COLUMNS, friction_columns, speed_scales
from sim_core.identification.regressor import LinearEfforts
from sim_core.identification.signals import Sampled, low_pass, motion_of, noise_of

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
N_FRICTION = len(COLUMNS)
EDGE_PERIODS, LARGEST_EDGE = 1.0, 0.03  # length of the ends that are left out: periods of the cutoff; share of a part
LEFT_OUT, HELD_OUT = -2, -1  # in place of the number of a block
MOST_POSES = 30  # at which the inertia that a joint moves is evaluated
OVERSAMPLING, LEAST_HZ = 5.0, 50.0  # samples per period of the highest cutoff, and least rate of the rows


@dataclass(frozen=True)
class Rows:
    """Rows of all joints at n instants.

    raw, filtered    (n, n_q, n_b + n_f): base regressor and friction columns, as they are and filtered
    y, y_filtered    (n, n_q) efforts, NaN where unknown
    block            (n,) number of the block of time, LEFT_OUT or HELD_OUT
    time, q, v, a    (n,) and (n, n_q)
    rate_hz          samples per second
    speed_scales     (n_q,), see `friction_columns`
    ripple           (n, n_q), see `Recorded`; 0 where there is none
    noise            (2, n_q) variances that noise of the positions has in the velocities and accelerations
    inertia          (n_q,) inertia that each joint moves by the model before, kg m2 or kg
    driven           (n_q,) whether a joint's recorded effort is not 0 throughout
    """

    raw: Array
    filtered: Array
    y: Array
    y_filtered: Array
    block: Array
    time: Array
    q: Array
    v: Array
    a: Array
    rate_hz: float
    speed_scales: Array
    ripple: Array
    noise: Array
    inertia: Array
    driven: Mask


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each block and joint: A'A (n_blocks, n_q, k, k), A'y, y'y and the number of rows."""

    AA: Array
    Ay: Array
    yy: Array
    count: Array

    def errors(self, z: Array, joints: list[int]) -> Array:
        """Sum of squared errors (n_blocks, n_j) of joints, for their unknowns z (n_blocks, n_j, k), block by block."""
        predicted = np.sum((self.AA[:-1, joints] @ z[:, :, :, None])[:, :, :, 0] * z, axis=2)
        return np.asarray(self.yy[:-1, joints] - 2.0 * np.sum(self.Ay[:-1, joints] * z, axis=2) + predicted)


@dataclass(frozen=True)
class Split:
    """Division of the instants with motion: the last `holdout` of each recording, and blocks before them."""

    holdout: float = 0.3
    blocks: int = 10


def rows_of(
    regressor: LinearEfforts,
    base: BaseParameters,
    recordings: Sequence[Sequence[Sampled]],
    cutoffs_hz: Array,
    split: Split,
    pi: Array,
    reference: Reference | None = None,
) -> Rows:
    """Rows of several recordings, each a sequence of parts without gaps.

    cutoffs_hz  (n_q,) per joint: the whole motion in the joint's row, and then the row, are filtered at this cutoff
    pi          parameters that give the load of the gears
    reference   model about which errors of the measurement are fitted, if any are
    """
    highest = float(cutoffs_hz.max())
    if reference is not None:
        recordings = [[reference.corrected(part) for part in recording] for recording in recordings]
    parts = [part for recording in recordings for part in recording]
    steps = [max(1, int(part.rate_hz / max(OVERSAMPLING * highest, LEAST_HZ))) for part in parts]
    thinned = iter(steps)
    lowest = float(cutoffs_hz.min())
    moving = [[_usable(part, lowest)[:: next(thinned)] for part in recording] for recording in recordings]
    block = np.concatenate([number for each in moving for number in _blocks(each, split)])
    motions = [{cutoff: motion_of(part, float(cutoff)) for cutoff in np.unique(cutoffs_hz)} for part in parts]
    scales = speed_scales(np.concatenate([motion[highest][1] for motion in motions]))
    found = [
        _rows_of_part(regressor, base, part, motion, step, cutoffs_hz, scales, pi, reference)
        for part, motion, step in zip(parts, motions, steps, strict=True)
    ]
    raw, filtered, y, smooth, time, q, v, a = (np.concatenate(each) for each in zip(*found, strict=True))
    ripple = np.concatenate(
        [
            (np.zeros_like(part.q) if part.ripple is None else part.ripple)[::step]
            for part, step in zip(parts, steps, strict=True)
        ]
    )
    noise = np.average(
        [noise_of(part, cutoffs_hz) for part in parts], axis=0, weights=[len(part.time) for part in parts]
    )
    driven = np.any([np.nan_to_num(part.effort).any(axis=0) for part in parts], axis=0)
    rate_hz, inertia = parts[0].rate_hz / steps[0], _moved(regressor, base, q[:: max(1, len(q) // MOST_POSES)], pi)
    return Rows(raw, filtered, y, smooth, block, time, q, v, a, rate_hz, scales, ripple, noise, inertia, driven)


def _moved(regressor: LinearEfforts, base: BaseParameters, q: Array, pi: Array) -> Array:
    """Mean diagonal (n_q,) of the mass matrix over positions q (n, n_q), by the parameters pi."""
    still, beta = np.zeros_like(q), base.B @ pi
    weight = regressor.efforts(q, still, still, base.columns, beta)
    found = [
        (regressor.efforts(q, still, still + unit, base.columns, beta) - weight)[:, j].mean()
        for j, unit in enumerate(np.eye(q.shape[1]))
    ]
    return np.array(found)


def _rows_of_part(
    regressor: LinearEfforts,
    base: BaseParameters,
    part: Sampled,
    motion: Mapping[float, tuple[Array, Array, Array]],
    step: int,
    cutoffs_hz: Array,
    scales: Array,
    pi: Array,
    reference: Reference | None,
) -> tuple[Array, ...]:
    """Raw and filtered rows, raw and filtered efforts, times, and the motion at the highest cutoff."""
    made = []
    for whole in motion.values():  # ascending: the last motion is that of the highest cutoff
        q, v, a = (x[::step] for x in whole)
        Y = regressor(q, v, a, base.columns)
        friction = friction_columns(v, a, Y @ (base.B @ pi), scales)
        zeros, errors = np.zeros((*q.shape, 0)), np.zeros((*q.shape, len(CALIBRATION)))
        if reference is not None:
            found = reference.columns(regressor, base, whole, scales, part.rate_hz)
            zeros, errors = (columns[::step] for columns in found)
        made.append(np.concatenate([Y, zeros, friction, errors], axis=2))
    raw = made[-1]
    for cutoff, each in zip(motion, made[:-1], strict=False):
        raw[:, cutoffs_hz == cutoff] = each[:, cutoffs_hz == cutoff]
    filtered, smooth = _filtered(raw, part, cutoffs_hz, step)
    y = part.effort[::step]
    if reference is not None:
        y, smooth = y + reference.shift(raw), smooth + reference.shift(filtered)
    return raw, filtered, y, smooth, part.time[::step], q, v, a


def _filtered(raw: Array, part: Sampled, cutoffs_hz: Array, step: int) -> tuple[Array, Array]:
    """(rows (n, n_q, k), efforts (n, n_q)) after the same filter."""
    A, y, some = np.zeros_like(raw), np.empty(raw.shape[:2]), raw.any(axis=0)
    for cutoff in np.unique(cutoffs_hz):
        joints = cutoffs_hz == cutoff
        rows = some & joints[:, None]
        A[:, rows] = low_pass(raw[:, rows], float(cutoff), part.rate_hz / step)
        y[:, joints] = _filtered_efforts(part.effort[:, joints], float(cutoff), part.rate_hz)[::step]
    return A, y


def _filtered_efforts(y: Array, cutoff_hz: float, rate_hz: float) -> Array:
    known, whole, at = np.isfinite(y), y.copy(), np.arange(len(y))
    for j in np.flatnonzero(~known.all(axis=0)):
        some = known[:, j]
        whole[:, j] = np.interp(at, at[some], y[some, j]) if some.any() else 0.0
    return np.where(known, low_pass(whole, cutoff_hz, rate_hz), np.nan)


def _usable(part: Sampled, cutoff_hz: float) -> Mask:
    """(n,) whether any joint moves, without both ends of the part, where the filter does not know the acceleration."""
    edge = int(min(EDGE_PERIODS / cutoff_hz, LARGEST_EDGE * len(part.time) / part.rate_hz) * part.rate_hz)
    usable = part.moving.copy()
    usable[:edge] = usable[len(usable) - edge :] = False
    return usable


def _blocks(moving: Sequence[Mask], split: Split) -> list[Array]:
    """Block numbers of each part of one recording."""
    whole = np.concatenate(moving)
    places = np.flatnonzero(whole)
    fitted = len(places) - int(split.holdout * len(places))
    number = np.full(len(whole), LEFT_OUT)
    number[places[fitted:]] = HELD_OUT
    number[places[:fitted]] = np.arange(fitted) * split.blocks // max(fitted, 1)
    return np.split(number, np.cumsum([len(part) for part in moving])[:-1])


def sums_of(A: Array, y: Array, block: Array, blocks: int) -> Sums:
    """Sums of the rows A (n, n_q, k), y (n, n_q) over each block 0 to `blocks` - 1, and last over the held-out rows."""
    _, n_q, k = A.shape
    AA, Ay = np.zeros((blocks + 1, n_q, k, k)), np.zeros((blocks + 1, n_q, k))
    yy, count = np.zeros((blocks + 1, n_q)), np.zeros((blocks + 1, n_q))
    parts = [block == number for number in (*range(blocks), HELD_OUT)]
    for j in range(n_q):
        some, known = np.flatnonzero(A[:, j].any(axis=0)), np.isfinite(y[:, j])  # a joint carries some links only
        columns = A[:, j, some]
        for place, part in enumerate(parts):
            at = np.flatnonzero(part & known)
            rows, right = columns[at], y[at, j]
            AA[place, j][np.ix_(some, some)], Ay[place, j][some] = rows.T @ rows, rows.T @ right
            yy[place, j], count[place, j] = right @ right, len(right)
    return Sums(AA, Ay, yy, count)

"""Choices of a fit by blocked cross-validation: cutoff, joints that are fitted together, further friction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sim_core.identification.design import Rows, sums_of
from sim_core.identification.friction import CALIBRATION, COLUMNS, NAMED, WRITTEN
from sim_core.identification.intervals import factor_with_sd
from sim_core.identification.regression import Mask, Prior, Regression, gain, is_gain
from sim_core.identification.regressor import LinearEfforts

Array = np.ndarray[Any, np.dtype[np.float64]]
TO_CHECK = "check its unit and motor constant, and the masses of the model"
FIRST_WEIGHT = 1.0  # of the prior, before the choice by cross-validation
APART_GAIN = 0.05  # least relative gain of all other joints for which a joint is fitted apart
AGREES = 1e-3  # mean squared error over variance, below which a joint's efforts contradict nothing and miss nothing
EXPLAINED = 0.6  # mean squared error over variance, above which a joint's efforts are not explained at all
ZERO = 1e-9  # of the largest effort of all joints; less is rounding
MISTAKEN = 8.0  # between efforts and the model's, from which on a unit is wrong: 1 kgf m is 9.8 N m, 1 lbf in 0.11 N m
SHOWS = 0.5  # squared error with the model's efforts over that without, below which the model shows in them
SMALL = 0.01  # of the largest effort of the model
FACTOR = 4.0  # between the sizes of gravity in a joint and in the median joint, for which it is fitted apart
CUTOFF_LOSS = 0.01  # relative mean squared error per joint that a lower cutoff may cost
FRICTION_GAIN, FRICTION_T = 0.03, 3.0  # relative gain and its t-value, from which on an extra friction column is used


def free_unknowns(
    regression: Regression, joints: list[int], inertia: bool, extra: Iterable[tuple[int, int]], errors: frozenset[str]
) -> Mask:
    """(n_x,) which unknowns are fitted, errors of the measurement of the joints included."""
    driven = [j for j in joints if regression.driven[j]]
    more = [(j, COLUMNS.index(name)) for j in driven for name in CALIBRATION if name in errors]
    return regression.free(joints, inertia, [*extra, *more], zeros="zero" in errors)


def regression_of(prior: Prior, rows: Rows, blocks: int) -> Regression:
    fitted = sums_of(rows.filtered, rows.y_filtered, rows.block, blocks)
    raw = sums_of(rows.raw, rows.y, rows.block, blocks)
    return Regression(prior, fitted, raw, 1.0 / variances_of(rows, prior), rows.driven)


def variances_of(rows: Rows, prior: Prior) -> Array:
    """Variances (n_q,) of the efforts in the part that is fitted, see `spread_of`."""
    fitted = rows.block >= 0
    return spread_of(rows.y[fitted], rows.raw[fitted], prior)


def spread_of(y: Array, raw: Array, prior: Prior) -> Array:
    """Variances (n_q,) of efforts y (n, n_q); 1 for a joint without efforts.

    For a joint without motor, whose effort is 0, the sum of the variances of the terms that cancel in the model.
    """
    found = np.ones(y.shape[1])
    for j, efforts in enumerate(y.T):
        known = np.isfinite(efforts)
        variance = float(np.var(efforts[known])) if known.any() else 1.0
        if not variance:
            variance = float(np.var(raw[known, j, : len(prior.beta)] * prior.beta, axis=0).sum())
        found[j] = variance or 1.0
    return found


def is_without_motor(rows: Rows, joint: int) -> bool:
    """Whether the joint's recorded effort is 0 wherever it is known. Its row, fitted alone, has no scale."""
    return not rows.driven[joint]


def is_zero(rows: Rows, joint: int) -> bool:
    """Whether the joint's effort is 0, but for rounding, wherever it is known."""
    sizes = np.abs(np.nan_to_num(rows.y)).max(axis=0)
    return bool(sizes[joint] <= ZERO * sizes.max())


def reweighted(regression: Regression, joints: list[int], errors: frozenset[str]) -> Regression:
    """The regression with the reciprocal variances of the residuals of a first fit as weights."""
    error = regression.validated(joints, FIRST_WEIGHT, free_unknowns(regression, joints, True, (), errors)).mean(axis=0)
    weights = regression.weights.copy()
    weights[joints] = 1.0 / error[joints]
    return Regression(regression.prior, regression.fitted, regression.raw, weights, regression.driven)


def lowest_within_chance(errors: Array) -> int:
    """First candidate whose mean error exceeds the least by at most CUTOFF_LOSS, and by chance only.

    errors  (candidates, blocks, joints) logarithms of mean squared errors
    """
    whole = errors.sum(axis=2)
    excess = whole - whole[np.argmin(whole.mean(axis=1))]
    chance = np.std(excess, axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return int(np.flatnonzero(excess.mean(axis=1) <= np.minimum(chance, CUTOFF_LOSS * errors.shape[2]))[0])


def unexplained_joints(rows: Rows, regression: Regression, joints: list[int]) -> dict[int, str]:
    """{joint: reason} of joints whose efforts not even parameters of their own explain."""
    found, variance = {}, variances_of(rows, regression.prior)
    for j in joints:
        if is_without_motor(rows, j):
            continue
        if is_zero(rows, j):
            found[j] = "its effort is zero wherever it was recorded, so nothing can be learned from it"
            continue
        share = regression.validated([j], FIRST_WEIGHT, regression.free([j]))[:, j].mean() / variance[j]
        if share > EXPLAINED:
            found[j] = (
                "gravity, inertia and friction do not explain its efforts: of their variance, "
                f"{100.0 * share:.0f} % remain in blocks that were not fitted"
            )
    return found


def joints_of_another_size(
    regressor: LinearEfforts, rows: Rows, regression: Regression, joints: list[int]
) -> dict[int, str]:
    """{joint: reason} of joints in whose efforts the model's gravity has another size than in the others'.

    The factor of the model's gravity is fitted beside inertia and friction. A joint is named if its interval is below
    the median of all joints over FACTOR; and if its efforts are those of `mistaken_size`. There is no upper limit: a
    load at light links is many times their gravity.
    """
    at = rows.block >= 0
    n_b = regression.n_b - regression.prior.n_zero
    beta = regression.prior.beta[:n_b]
    still = np.zeros_like(rows.q[at])
    gravity = regressor(rows.q[at], still, still, regression.prior.base.columns[:n_b]) @ beta
    largest = float((rows.raw[at, :, :n_b] @ beta).std(axis=0).max())
    factors: dict[int, tuple[float, float]] = {}
    found = {}
    for j in joints:
        weight, y = gravity[:, j], rows.y[at, j]
        known = np.isfinite(y)
        if np.abs(weight).max() <= 1e-9 * max(np.abs(gravity).max(), 1e-300) or is_without_motor(rows, j):
            continue
        inertia = rows.raw[at, j, :n_b] @ beta - weight
        friction = rows.raw[at, j, regression.n_b : regression.n_b + COLUMNS.index("load")]
        rest = rows.raw[at, j, regression.n_b :][
            :, [COLUMNS.index(name) for name in ("viscous", "coulomb", "armature")]
        ]
        if (size := mistaken_size((weight + inertia)[known], rest[known], y[known], largest)) is not None:
            found[j] = f"its efforts are {size:.2g} times those of the model; {TO_CHECK}"
            continue
        factors[j] = factor_with_sd(np.column_stack([weight, inertia, friction])[known], y[known])
    median = float(np.median([factor for factor, _ in factors.values()])) if len(factors) > 2 else 0.0
    for j, (factor, sd) in factors.items():
        if median > 0.0 and factor + 2.0 * sd < median / FACTOR:
            found[j] = (
                f"its efforts contain {factor:.2g} times the gravity of the model, those of the other joints about "
                f"{median:.2g} times; check its unit and motor constant"
            )
    return found


def mistaken_size(model: Array, rest: Array, effort: Array, largest: float) -> float | None:
    """Factor of the model's efforts (n,) in recorded ones (n,) if no real robot has it; None for any other.

    It is surely beyond MISTAKEN, and the model shows in the efforts beside the rest (n, k), which is friction and rotor
    inertia; or it is surely below the reciprocal, although the model predicts larger efforts than were recorded.

    largest  standard deviation of the model's largest effort; one far below it, as about a vertical axis, may be wrong
    """
    both = np.column_stack([model, rest])
    factor, sd = factor_with_sd(both, effort)
    size = abs(factor)
    if size + 2.0 * sd < 1.0 / MISTAKEN and model.std() > effort.std():
        return factor
    if not size - 2.0 * sd > MISTAKEN or model.std() < SMALL * largest:
        return None
    with_model, without = (
        np.sum((effort - each @ np.linalg.lstsq(each, effort, rcond=None)[0]) ** 2) for each in (both, rest)
    )
    return factor if with_model < SHOWS * without else None


def without_contradictions(
    rows: Rows, regression: Regression, joints: list[int], errors: frozenset[str]
) -> tuple[list[int], dict[int, str]]:
    """(joints to fit together, {joint: reason} of the others).

    A joint is fitted apart if all other joints are predicted better without it, beyond chance. No joint is, if the
    model explains all efforts: errors of the filter alone are no contradiction.
    """
    apart: dict[int, str] = {}
    scaled, variances = regression.weights.copy(), variances_of(rows, regression.prior)
    for j in (j for j in joints if not is_without_motor(rows, j)):
        scaled[j] = (
            1.0 / regression.validated([j], FIRST_WEIGHT, free_unknowns(regression, [j], True, (), errors))[:, j].mean()
        )
    regression = Regression(regression.prior, regression.fitted, regression.raw, scaled, regression.driven)
    while len(joints) > 2:
        with_all = regression.validated(joints, FIRST_WEIGHT, free_unknowns(regression, joints, True, (), errors))
        if (with_all.mean(axis=0) < AGREES * variances)[joints].all():
            break
        best, share = -1, APART_GAIN
        for j in joints:
            others = [k for k in joints if k != j]
            without = regression.validated(others, FIRST_WEIGHT, free_unknowns(regression, others, True, (), errors))
            before, after = (each[:, others] @ scaled[others] for each in (with_all, without))
            if is_gain(before, after, least=share, t=FRICTION_T):
                best, share = j, gain(before, after)[0]
        if best < 0:
            break
        joints = [k for k in joints if k != best]
        apart[best] = (
            f"its efforts contradict those of the other joints, whose mean squared error is {100.0 * share:.0f} % "
            "smaller without it; check its unit and motor constant"
        )
    return joints, apart


def further_friction(
    rows: Rows, regression: Regression, joints: list[int], weight: float, inertia: bool, errors: frozenset[str]
) -> dict[tuple[int, int], float]:
    """{(joint, column): relative gain} of further friction that improves the prediction of its joint beyond chance.

    A joint without motor has no gear, whose friction grows with the load.
    """
    variances = variances_of(rows, regression.prior)
    extra: dict[tuple[int, int], float] = {}
    now = regression.validated(joints, weight, free_unknowns(regression, joints, inertia, (), errors))
    for j in joints:
        if now[:, j].mean() < AGREES * variances[j]:
            continue
        for name in WRITTEN if is_without_motor(rows, j) else (*WRITTEN, *NAMED):
            column = COLUMNS.index(name)
            free = free_unknowns(regression, joints, inertia, [*extra, (j, column)], errors)
            then = regression.validated(joints, weight, free)
            share, t = gain(now[:, j], then[:, j])
            # a few blocks with large errors hide how clear a gain is in all blocks; their logarithms do not
            logarithms = gain(np.log(now[:, j]), np.log(then[:, j]))[1]
            if share >= FRICTION_GAIN and max(t, logarithms) >= FRICTION_T:
                extra[j, column] = share
                now = then
    return extra

"""Result of a fit, and its judgement by the part of the motion that was not fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.design import HELD_OUT, Rows
from sim_core.identification.estimates import Estimate, Refusal
from sim_core.identification.intervals import factor_with_sd
from sim_core.identification.regression import GAIN_T, LEAST_GAIN, Prior, gain
from sim_core.identification.selection import AGREES, spread_of

Array = np.ndarray[Any, np.dtype[np.float64]]
BLOCKS = 8  # of the held-out part, for paired tests
CHANCE = 0.05  # of calling any joint better or worse that is not
REVERSED = 0.5  # share of the model's efforts with opposite sign in recorded ones, from which on a sensor is reversed
BETTER, WORSE, NO_CHANGE = "better", "worse", "no certain change"
NOT_CERTAIN = "not certain"


@dataclass(frozen=True)
class JointScore:
    """Errors on the held-out part: rms of measured minus predicted effort over the standard deviation of the measured.

    For a joint without motor, over that of the terms that cancel in the model before.

    before    of the model as it was
    friction  of the model as it was, with fitted friction
    after     of the corrected model
    free      of the fit without the condition that inertias are consistent
    change    BETTER, WORSE or NO_CHANGE from before to after, beyond chance among all joints; "" if it is not fitted
    """

    before: float
    friction: float
    after: float
    free: float
    change: str = ""


@dataclass(frozen=True)
class Prediction:
    """Efforts of the joints at n instants, (n, n_q) each, and whether an instant was held out, moving or neither."""

    time: Array
    measured: Array
    before: Array
    friction: Array
    after: Array
    block: Array


@dataclass(frozen=True)
class FitResult:
    """Result of `fit`.

    joints, links    names of the measured joints and of the links
    fitted           joints whose efforts determine the common inertias
    apart            {joint: reason}: joints whose efforts have parameters of their own
    refused          {joint: reason}: joints whose efforts are not explained by their motion
    outcome          "better", "not better" or "not certain": error of the corrected model on the held-out part
    reason           one line about the outcome
    inertias_fitted  whether the inertias were changed; otherwise only friction was
    cutoffs_hz       (n_q,) of the filter
    prior_weight     weight of the prior of the inertias
    extra            {(joint, column): relative gain} of further friction that improves the prediction. Only the columns
                     of `friction.WRITTEN` are part of the corrected model
    pi_before, pi    (n_pi,) inertial parameters of the model before and of the corrected one, consistent
    friction_before  (n_q, n_f) coefficients of `friction.COLUMNS`
    friction         the same after the fit
    speed_scales     (n_q,), which set the speeds of the smooth Coulomb and Stribeck friction
    scores           {joint: JointScore}
    estimates        of the combinations that the motion determines, with intervals
    refusals         what cannot be known from this recording
    base             the base parameters
    prediction       efforts for plots
    """

    joints: tuple[str, ...]
    links: tuple[str, ...]
    fitted: tuple[str, ...]
    apart: Mapping[str, str]
    refused: Mapping[str, str]
    outcome: str
    reason: str
    inertias_fitted: bool
    cutoffs_hz: Array
    prior_weight: float
    extra: Mapping[tuple[str, str], float]
    pi_before: Array
    pi: Array
    friction_before: Array
    friction: Array
    speed_scales: Array
    scores: Mapping[str, JointScore]
    estimates: tuple[Estimate, ...]
    refusals: tuple[Refusal, ...]
    base: BaseParameters
    prediction: Prediction
    rate_hz: float


def held_out_errors(rows: Rows, z: Array, prior: Prior) -> Array:
    """Rms error over standard deviation (n_q,) of the efforts in the held-out part."""
    at = rows.block == HELD_OUT
    y = rows.y[at]
    error = y - np.einsum("njk,jk->nj", rows.raw[at], z)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt(np.nanmean(error**2, axis=0) / spread_of(y, rows.raw[at], prior)))


def outcome_of(
    rows: Rows, z: Mapping[str, Array], joints: list[int], prior: Prior, names: Sequence[str]
) -> tuple[str, str, dict[int, str]]:
    """("better", "not better" or "not certain", reason, {joint: change}), from the held-out part in blocks.

    A joint counts by the share of its variance that is not predicted, at most 1, so that none hides another one. The
    model is not better if any joint is predicted worse than before beyond chance, or worse than by its mean.
    """
    from scipy.special import stdtrit  # slow to load, seldom needed

    blocks = {name: _block_errors(rows, z[name], joints, prior) for name in ("before", "after")}
    whole = {name: held_out_errors(rows, z[name], prior)[joints] for name in ("before", "after")}
    surely = float(stdtrit(BLOCKS - 1, 1.0 - CHANCE / len(joints)))
    found = {j: _change(blocks["before"][:, k], blocks["after"][:, k], surely) for k, j in enumerate(joints)}
    text = (
        f"error on the held-out part {pooled(whole['after']):.3g} of the efforts' standard deviation, "
        f"before {pooled(whole['before']):.3g}"
    ) + (", where a joint counts at most 1" if max(whole["before"].max(), whole["after"].max()) > 1.0 else "")
    faults = [
        f"{names[j]} is predicted worse than before, {whole['after'][k]:.3g} after {whole['before'][k]:.3g}"
        for k, j in enumerate(joints)
        if found[j] == WORSE
    ]
    faults += [
        f"{names[j]} is predicted worse than by its mean, {whole['after'][k]:.3g}"
        for k, j in enumerate(joints)
        if whole["after"][k] > 1.0 and found[j] != WORSE
    ]
    if faults:
        return "not better", "; ".join([text, *faults]), found
    before, after = (_known_mean(np.minimum(each, 1.0), 1) for each in blocks.values())
    share, t = gain(before[np.isfinite(before)], after[np.isfinite(after)])
    if share <= 0.0:
        return "not better", text, found
    if t >= GAIN_T:
        return BETTER, text, found
    return NOT_CERTAIN, text, {j: unsure(change) for j, change in found.items()}


def pooled(errors: Array) -> float:
    """Root mean square of the joints' errors over standard deviation, where a joint counts at most 1."""
    return float(np.sqrt(np.minimum(errors**2, 1.0).mean()))


def opposed_joints(rows: Rows, z: Array, joints: Sequence[int]) -> list[int]:
    """Those of some joints whose held-out efforts contain a small part of those by z (n_q, k), of opposite sign.

    A reversed sensor shows all of them. A small part of opposite sign comes from wrong positions or links.
    """
    found, at = [], rows.block == HELD_OUT
    for j in joints:
        known = at & np.isfinite(rows.y[:, j])
        model = rows.raw[known, j] @ z[j]
        if known.any() and model.any():
            factor, sd = factor_with_sd(model[:, None], rows.y[known, j])
            if -REVERSED < factor < -2.0 * sd:
                found.append(j)
    return found


def unsure(change: str) -> str:
    """The change of a joint in a model that is not certainly better: no joint of it is, either."""
    return NO_CHANGE if change == BETTER else change


def _block_errors(rows: Rows, z: Array, joints: list[int], prior: Prior) -> Array:
    """Mean squared errors (BLOCKS, joints) over variance of the held-out efforts; NaN for a block without efforts."""
    at = np.flatnonzero(rows.block == HELD_OUT)
    y, A = rows.y[at], rows.raw[at]
    squares = ((y - np.einsum("njk,jk->nj", A, z)) ** 2 / spread_of(y, A, prior))[:, joints]
    return np.stack([_known_mean(part, 0) for part in np.array_split(squares, BLOCKS)])


def _known_mean(values: Array, axis: int) -> Array:
    """Mean of the values that are no NaN, without a warning; NaN if there is none."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)


def _change(before: Array, after: Array, surely: float) -> str:
    """BETTER, WORSE or NO_CHANGE, from errors in the same blocks; `surely` is the t-value of a certain change."""
    both = np.isfinite(before) & np.isfinite(after)
    if both.sum() < 2:
        return NO_CHANGE
    t = gain(before[both], after[both])[1]
    more = float(after[both].mean() - before[both].mean())
    if t <= -surely and more > max(AGREES, LEAST_GAIN * float(before[both].mean())):
        return WORSE
    return BETTER if t >= surely else NO_CHANGE

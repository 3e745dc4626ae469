"""Result of a fit, and its judgement by the part of the motion that was not fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.design import HELD_OUT, Rows
from sim_core.identification.estimates import Estimate, Refusal
from sim_core.identification.regression import GAIN_T, Prior, gain
from sim_core.identification.selection import spread_of

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class JointScore:
    """Errors on the held-out part: rms of measured minus predicted effort over the standard deviation of the measured.

    For a joint without motor, over that of the terms that cancel in the model before.

    before    of the model as it was
    friction  of the model as it was, with fitted friction
    after     of the corrected model
    free      of the fit without the condition that inertias are consistent
    """

    before: float
    friction: float
    after: float
    free: float


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


def outcome_of(rows: Rows, z: Mapping[str, Array], joints: list[int], prior: Prior) -> tuple[str, str]:
    """("better", "not better" or "not certain", reason), from the held-out part in blocks."""
    at = np.flatnonzero(rows.block == HELD_OUT)
    y, A = rows.y[at], rows.raw[at]
    scale = spread_of(y, A, prior)
    errors = {name: (y - np.einsum("njk,jk->nj", A, z[name])) ** 2 / scale for name in ("before", "after")}
    per_block = {
        name: np.array([np.nanmean(part[:, joints]) for part in np.array_split(each, 8)])
        for name, each in errors.items()
    }
    share, t = gain(per_block["before"], per_block["after"])
    rms = {name: float(np.sqrt(np.mean(each))) for name, each in per_block.items()}
    text = (
        f"error on the held-out part {rms['after']:.3g} of the efforts' standard deviation, before {rms['before']:.3g}"
    )
    if share <= 0.0:
        return "not better", text
    return ("better" if t >= GAIN_T else "not certain"), text

"""Output-error fit by multiple shooting: unknowns of the model and the starts of all segments together.

The sum of squared differences between predicted and measured positions is reduced by Gauss-Newton steps with the
damping of Levenberg and Marquardt. Each segment has a start of its own, which is eliminated from the step: residuals
and derivatives are projected onto what the start cannot explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.intervals import correlated_sum
from sim_core.identification.output_error.shots import Shots
from sim_core.identification.output_error.simulation import Forward
from sim_core.identification.output_error.unknowns import NOT_NEGATIVE, Mask

Array = np.ndarray[Any, np.dtype[np.float64]]
MOST_STEPS = 25  # of Gauss-Newton
NEARLY = 0.05  # relative decrease of the cost at which joints get weights of their own
SETTLED = 0.1  # decrease of the cost, in variances of a residual, at which the search ends
DAMPING, MOST_DAMPING = 1e-8, 1e4  # relative to the diagonal of the normal equations
LEAST_ERROR = 1e-7  # rad or m: smallest standard deviation of a position
BACKLASHES = (0.005, 0.01, 0.02, 0.04)  # rad or m, that are tried
LEAST_GAIN = 0.02  # relative decrease of the cost for which a backlash is a start of the search
NEARBY = (-1.5, -1.0, -0.5, 0.5, 1.0, 1.5)  # time steps, by which a found backlash is changed: its error has kinks
LEAST_BACKLASH = 0.005
MOST_SCANNED = 12  # segments
START_STEPS, STARTED = 6, 1e-3  # for the starts alone, and relative decrease at which they are found


@dataclass(frozen=True)
class Prior:
    """Gaussian prior of the unknowns: mean (n_x,) and precision (n_x, n_x)."""

    mean: Array
    precision: Array


@dataclass(frozen=True)
class Solution:
    """Unknowns of least squared error.

    x           (n_x,)
    covariance  (n_free, n_free) of the free unknowns, for residuals as they are and with the prior's share
    dof         degrees of freedom of the residuals
    """

    x: Array
    covariance: Array
    dof: float


@dataclass
class _Linear:
    """Projected residuals and derivatives of all segments of a recording, (S, m, n_q) and (S, m, n_q, n_free).

    The starts of least error after a change dx of the unknowns are start + offset - gain dx.
    """

    residual: Array
    J: Array
    offset: Array
    gain: Array


def starts_of(forward: Forward, shots: Shots, x: Array) -> tuple[Array, Array]:
    """(starts (S, 2 n_q) of least error of fixed unknowns x, remaining errors (S, m, n_q))."""
    none, start = np.zeros(forward.unknowns.size, dtype=bool), shots.start
    weights = np.ones(shots.measured.shape[2])
    best, error = start, forward.positions(shots, x, start) - shots.measured
    for _ in range(START_STEPS):
        found = _linear(forward, shots, x, best, none, weights)
        trial = best + found.offset
        changed = forward.positions(shots, x, trial) - shots.measured
        before, after = (float(np.sum(each**2)) for each in (error, changed))
        if not after < before:
            break
        best, error = trial, changed
        if after > (1.0 - STARTED) * before:
            break
    return best, error


def solve(forward: Forward, recordings: Sequence[Shots], x: Array, free: Mask, prior: Prior) -> Array:
    """The unknowns x of least error from x on, where only the `free` ones change."""
    starts = [starts_of(forward, shots, x)[0] for shots in recordings]
    weights, damping, is_common = np.ones(len(forward.scales)), DAMPING, True
    for _ in range(MOST_STEPS):
        linear = [_linear(forward, *pair, free, weights) for pair in _pairs(recordings, x, starts)]
        variances = _variances(linear)
        # a joint that fits badly at first would be left aside by a weight of its own
        weights = 1.0 / (np.full_like(variances, variances.mean()) if is_common else variances)
        x, starts, decrease, damping = _improved(
            forward, recordings, linear, weights, (x, starts), free, prior, damping
        )
        if is_common:
            is_common = decrease > NEARLY
        elif decrease * sum(each.residual.size for each in linear) < SETTLED:
            break
    return x


def solution_at(forward: Forward, recordings: Sequence[Shots], x: Array, free: Mask, prior: Prior) -> Solution:
    """The unknowns x with their covariance, which is linearized there.

    Derivatives by a backlash of 0 are 0; those at LEAST_BACKLASH stand for them.
    """
    place, seen = forward.unknowns.place("backlash"), x.copy()
    seen[place] = np.where(free[place], np.maximum(x[place], LEAST_BACKLASH), x[place])
    starts = [starts_of(forward, shots, x)[0] for shots in recordings]
    weights = np.ones(len(forward.scales))
    linear = [_linear(forward, *pair, free, weights) for pair in _pairs(recordings, x, starts)]
    if (seen != x).any():
        found = [_linear(forward, *pair, free, weights) for pair in _pairs(recordings, seen, starts)]
        none = (free & (seen != x))[free]
        for each, other in zip(linear, found, strict=True):
            each.J[..., none] = other.J[..., none]
    return Solution(x, *_covariance(linear, 1.0 / _variances(linear), prior, free))


def with_backlash(
    forward: Forward, recordings: Sequence[Shots], x: Array, free: Mask, prior: Prior, joints: Sequence[int]
) -> Array:
    """x with the backlash of least error in each of the joints, which a search by slopes cannot find.

    Of BACKLASHES in a joint without backlash, otherwise of those NEARBY.

    The error is that after a step of Gauss and Newton of the other unknowns, in some of the segments.
    """
    some = [
        shots.only(np.unique(np.linspace(0, len(shots.first) - 1, MOST_SCANNED).astype(int))) for shots in recordings
    ]
    pairs = _pairs(some, x, [starts_of(forward, shots, x)[0] for shots in some])
    weights = 1.0 / _variances([_linear(forward, *pair, free, np.ones(len(forward.scales))) for pair in pairs])
    found = x
    for joint in joints:
        costs, present = {}, float(found[forward.unknowns.place("backlash")][joint])
        reach = recordings[0].drive.take_up * recordings[0].drive.step_s
        tried = [max(present + k * reach, 0.0) for k in NEARBY] if present else BACKLASHES
        for play in (present, *tried):
            trial = found.copy()
            trial[forward.unknowns.place("backlash").start + joint] = play
            linear = [_linear(forward, shots, trial, start, free, weights) for shots, _, start in pairs]
            costs[play] = _least_cost(linear, weights, trial, free, prior)
        best = min(tried, key=lambda play: costs[play])
        if costs[best] < (1.0 if present else 1.0 - LEAST_GAIN) * costs[present]:
            found = found.copy()
            found[forward.unknowns.place("backlash").start + joint] = best
    return found


def _least_cost(linear: Sequence[_Linear], weights: Array, x: Array, free: Mask, prior: Prior) -> float:
    """Cost after the best step of the free unknowns, by the linearization."""
    H, g = _equations(linear, weights)
    P, off = prior.precision[np.ix_(free, free)], (prior.mean - x)[free]
    total = sum(float(np.sum(weights * each.residual**2)) for each in linear) + float(off @ P @ off)
    g = g + P @ off
    return total - float(g @ np.linalg.solve(H + P, g))


def _pairs(recordings: Sequence[Shots], x: Array, starts: Sequence[Array]) -> list[tuple[Shots, Array, Array]]:
    return [(shots, x, start) for shots, start in zip(recordings, starts, strict=True)]


def _linear(forward: Forward, shots: Shots, x: Array, start: Array, free: Mask, weights: Array) -> _Linear:
    positions, J, Jx = forward.linearized(shots, x, start, free)
    S, m, n_q = positions.shape
    root = np.sqrt(weights)[:, None]
    residual = ((shots.measured - positions)[..., None] * root).reshape(S, m * n_q, 1)
    J, Jx = (J * root).reshape(S, m * n_q, -1), (Jx * root).reshape(S, m * n_q, -1)
    Q, R = np.linalg.qr(Jx)
    both = np.concatenate([residual, J], axis=2)
    inner = Q.transpose(0, 2, 1) @ both
    both = (both - Q @ inner).reshape(S, m, n_q, -1) / root
    change = np.linalg.solve(R, inner)
    return _Linear(both[..., 0], both[..., 1:], change[..., 0], change[..., 1:])


def _variances(linear: Sequence[_Linear]) -> Array:
    """Variances (n_q,) of the positions' errors."""
    count = sum(each.residual[..., 0].size - 2 * each.residual.shape[2] * len(each.residual) for each in linear)
    total = sum(np.sum(each.residual**2, axis=(0, 1)) for each in linear)
    return np.asarray(np.maximum(np.asarray(total) / max(count, 1), LEAST_ERROR**2))


def _improved(
    forward: Forward,
    recordings: Sequence[Shots],
    linear: Sequence[_Linear],
    weights: Array,
    state: tuple[Array, list[Array]],
    free: Mask,
    prior: Prior,
    damping: float,
) -> tuple[Array, list[Array], float, float]:
    """(unknowns, starts, relative decrease of the cost, damping) after a step that reduces the cost."""
    x, starts = state
    H, g = _equations(linear, weights)
    P = prior.precision[np.ix_(free, free)]
    H, g = H + P, g + P @ (prior.mean - x)[free]
    cost = _cost(forward, recordings, x, starts, weights, prior)
    signed = forward.unknowns.mask({group: range(len(weights)) for group in NOT_NEGATIVE})
    moves = ~((signed & (x <= 0.0))[free] & (g < 0.0))
    while damping < MOST_DAMPING:
        damped, trial = (H + damping * np.diag(np.diag(H)))[np.ix_(moves, moves)], x.copy()
        trial[np.flatnonzero(free)[moves]] += np.linalg.solve(damped, g[moves])
        trial = np.where(signed, np.maximum(trial, 0.0), trial)
        change = (trial - x)[free]
        moved = [start + each.offset - each.gain @ change for start, each in zip(starts, linear, strict=True)]
        after = _cost(forward, recordings, trial, moved, weights, prior)
        if after < cost:
            return trial, moved, 1.0 - after / cost, max(damping / 10.0, DAMPING)
        damping *= 10.0
    return x, starts, 0.0, DAMPING


def _equations(linear: Sequence[_Linear], weights: Array) -> tuple[Array, Array]:
    size = linear[0].J.shape[-1]
    H, g = np.zeros((size, size)), np.zeros(size)
    for each in linear:
        J = each.J.reshape(-1, each.J.shape[-1])
        scaled = J * np.tile(weights, len(J) // len(weights))[:, None]
        H, g = H + scaled.T @ J, g + scaled.T @ each.residual.ravel()
    return H, g


def _cost(
    forward: Forward, recordings: Sequence[Shots], x: Array, starts: Sequence[Array], weights: Array, prior: Prior
) -> float:
    off = x - prior.mean
    total = float(off @ prior.precision @ off)
    try:
        with np.errstate(all="ignore"):
            for shots, start in zip(recordings, starts, strict=True):
                total += float(np.sum(weights * (forward.positions(shots, x, start) - shots.measured) ** 2))
    except np.linalg.LinAlgError:  # a mass matrix of impossible inertias
        return np.inf
    return total if np.isfinite(total) else np.inf


def _covariance(linear: Sequence[_Linear], weights: Array, prior: Prior, free: Mask) -> tuple[Array, float]:
    """(covariance, degrees of freedom) for residuals with an autoregressive model per joint.

    Residuals are smaller than errors, because starts and unknowns took up a part of them.
    """
    P = prior.precision[np.ix_(free, free)]
    H, _ = _equations(linear, weights)
    inverse = np.linalg.inv(H + P)
    middle, effective, total = np.zeros_like(H), 0.0, 0.0
    for j, w in enumerate(weights):
        rows = np.concatenate([each.J[:, :, j].reshape(-1, len(H)) for each in linear])
        residual = np.concatenate([each.residual[:, :, j].ravel() for each in linear])
        summed, number = correlated_sum(rows, residual)
        middle += w**2 * summed
        effective += number
        total += w * float(residual @ residual)
    count = sum(each.residual.size for each in linear)
    by_starts = sum(2 * each.residual.shape[2] * len(each.residual) for each in linear)
    enlarged = count / max(count - by_starts, 0.1 * count)
    taken = float(np.trace(inverse @ middle))
    enlarged *= total / max(total - taken, 0.1 * total)
    share = 1.0 - by_starts / count
    return inverse @ (enlarged * middle + P) @ inverse, max(effective * share - len(H), 3.0)

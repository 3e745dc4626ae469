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
from sim_core.identification.rounding import rounded_sum

Array = np.ndarray[Any, np.dtype[np.float64]]
MOST_STEPS = 25  # of Gauss-Newton
NEARLY = 0.05  # relative decrease of the cost at which joints get weights of their own
SETTLED = 0.1  # decrease of the cost, in variances of a residual, at which the search ends
DAMPING, MOST_DAMPING = 1e-8, 1e4  # relative to the diagonal of the normal equations
SHORTER = 0.1  # of the step of a start, if its segment got worse by it
LEAST_ERROR = 1e-7  # rad or m: smallest standard deviation of a position
MOST_AT_ONCE = 160  # segments, for many backlashes together
START_STEPS, STARTED = 6, 1e-2  # for the starts alone, and relative decrease at which they are found


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


@dataclass(frozen=True)
class Found:
    """Unknowns x (n_x,) of least error, starts of the segments of each recording, variances (n_q,) of the errors."""

    x: Array
    starts: list[Array]
    variances: Array


@dataclass
class _Linear:
    """Projected residuals and derivatives of all segments of a recording, (S, m, n_q) and (S, m, n_q, n_free).

    positions  (S, m, n_q) as predicted
    The starts of least error after a change dx of the unknowns are start + offset - gain dx.
    """

    residual: Array
    J: Array
    offset: Array
    gain: Array
    positions: Array

    def only(self, some: slice) -> _Linear:
        """Some of the segments."""
        return _Linear(self.residual[some], self.J[some], self.offset[some], self.gain[some], self.positions[some])


def starts_of(forward: Forward, shots: Shots, x: Array) -> tuple[Array, Array]:
    """(starts (S, 2 n_q) of least error of fixed unknowns x, remaining errors (S, m, n_q))."""
    none, start = np.zeros(forward.unknowns.size, dtype=bool), shots.start
    weights = np.ones(shots.measured.shape[2])
    best, error = start, _positions(forward, shots, x, start) - shots.measured
    for _ in range(START_STEPS):
        found = _linear(forward, shots, x, best, none, weights)
        trial = best + found.offset
        changed = _positions(forward, shots, x, trial) - shots.measured
        before, after = (float(np.sum(each**2)) for each in (error, changed))
        if not after < before:
            break
        best, error = trial, changed
        if after > (1.0 - STARTED) * before:
            break
    return best, error


def solve(
    forward: Forward,
    recordings: Sequence[Shots],
    x: Array,
    free: Mask,
    prior: Prior,
    starts: Sequence[Array] | None = None,
) -> Found:
    """The unknowns of least error from x on, where only the `free` ones change.

    starts  of the segments, near those of least error; None: the filtered ones
    """
    weights, damping, is_common = np.ones(len(forward.scales)), DAMPING, starts is None
    begun = [starts_of(forward, shots, x)[0] for shots in recordings] if starts is None else list(starts)
    for _ in range(MOST_STEPS):
        linear = [_linear(forward, *pair, free, weights) for pair in _pairs(recordings, x, begun)]
        variances = _variances(linear)
        # a joint that fits badly at first would be left aside by a weight of its own
        weights = 1.0 / (np.full_like(variances, variances.mean()) if is_common else variances)
        x, begun, decrease, damping = _improved(forward, recordings, linear, weights, (x, begun), free, prior, damping)
        if is_common:
            is_common = decrease > NEARLY
        elif decrease * sum(each.residual.size for each in linear) < SETTLED:
            break
    return Found(x, begun, variances)


def solution_at(forward: Forward, recordings: Sequence[Shots], found: Found, free: Mask, prior: Prior) -> Solution:
    """The unknowns found, with their covariance, which is linearized there."""
    weights = np.ones(len(forward.scales))
    linear = [_linear(forward, *pair, free, weights) for pair in _pairs(recordings, found.x, found.starts)]
    roundings = [shots.rounding for shots in recordings]
    return Solution(found.x, *_covariance(linear, roundings, 1.0 / _variances(linear), prior, free))


def steps_nearby(
    forward: Forward, recordings: Sequence[Shots], found: Found, free: Mask, prior: Prior, plays: Array
) -> tuple[Array, Array]:
    """(costs (T,), changes (T, n_free) of the free unknowns) with other backlashes (T, n_q), by the linearization.

    A cost is that after a step of Gauss and Newton of the free unknowns and of the starts, with the variances of what
    was found; differences of costs are those of -2 log likelihood.
    """
    weights = 1.0 / found.variances
    P, off = prior.precision[np.ix_(free, free)], (prior.mean - found.x)[free]
    by_trial: list[list[_Linear]] = [[] for _ in plays]
    for shots, start in zip(recordings, found.starts, strict=True):
        n = len(shots.first)
        at_once = max(1, MOST_AT_ONCE // n)
        for begin in range(0, len(plays), at_once):
            some = plays[begin : begin + at_once]
            copies = np.tile(np.arange(n), len(some))
            linear = _linear(
                forward, shots.only(copies), found.x, start[copies], free, weights, np.repeat(some, n, axis=0)
            )
            for k in range(len(some)):
                by_trial[begin + k].append(linear.only(slice(k * n, (k + 1) * n)))
    costs, changes = [], []
    for each in by_trial:
        H, g = _equations(each, weights)
        g = g + P @ off
        change = np.linalg.solve(H + P, g)
        total = sum(float(np.sum(weights * part.residual**2)) for part in each) + float(off @ P @ off)
        costs.append(total - float(g @ change))
        changes.append(change)
    return np.array(costs), np.array(changes)


def _pairs(recordings: Sequence[Shots], x: Array, starts: Sequence[Array]) -> list[tuple[Shots, Array, Array]]:
    return [(shots, x, start) for shots, start in zip(recordings, starts, strict=True)]


def _linear(
    forward: Forward,
    shots: Shots,
    x: Array,
    start: Array,
    free: Mask,
    weights: Array,
    play: Array | None = None,
) -> _Linear:
    positions, J, Jx = forward.linearized(shots, x, start, free, play)
    S, m, n_q = positions.shape
    root = np.sqrt(weights)[:, None]
    residual = ((shots.measured - positions)[..., None] * root).reshape(S, m * n_q, 1)
    J, Jx = (J * root).reshape(S, m * n_q, -1), (Jx * root).reshape(S, m * n_q, -1)
    Q, R = np.linalg.qr(Jx)
    both = np.concatenate([residual, J], axis=2)
    inner = Q.transpose(0, 2, 1) @ both
    both = (both - Q @ inner).reshape(S, m, n_q, -1) / root
    change = np.linalg.solve(R, inner)
    return _Linear(both[..., 0], both[..., 1:], change[..., 0], change[..., 1:], positions)


def _variances(linear: Sequence[_Linear]) -> Array:
    """Variances (n_q,) of the positions' errors."""
    count = sum(each.residual[..., 0].size - 2 * len(each.residual) for each in linear)
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
    by_segment = _costs(forward, recordings, x, starts, weights)
    cost, shares = _total(by_segment, x, prior), [np.ones((len(start), 1)) for start in starts]
    signed = forward.unknowns.mask({group: range(len(weights)) for group in NOT_NEGATIVE})
    room = np.where(signed, x, np.inf)[free]
    while damping < MOST_DAMPING:
        change, trial = _bounded_step(H + damping * np.diag(np.diag(H)), g, room), x.copy()
        trial[free] = np.where(signed[free], np.maximum(x[free] + change, 0.0), x[free] + change)
        moved = [
            start + share * (each.offset - each.gain @ change)
            for start, share, each in zip(starts, shares, linear, strict=True)
        ]
        then = _costs(forward, recordings, trial, moved, weights)
        after = _total(then, trial, prior)
        if after < cost:
            return trial, moved, 1.0 - after / cost, max(damping / 10.0, DAMPING)
        # a segment at a limit of its actuators is not linear there; its start moves less
        worse = [~(new < old)[:, None] for new, old in zip(then, by_segment, strict=True)]
        shares = [np.where(each, SHORTER * share, share) for each, share in zip(worse, shares, strict=True)]
        damping *= 10.0
    return x, starts, 0.0, DAMPING


def _bounded_step(H: Array, g: Array, room: Array) -> Array:
    """The step that solves H step = g, without going down by more than `room`; the others follow what is bounded."""
    step, stays = np.zeros(len(g)), (room <= 0.0) & (g < 0.0)
    while True:
        moves = ~stays
        step[moves] = np.linalg.solve(H[np.ix_(moves, moves)], g[moves] - H[np.ix_(moves, stays)] @ step[stays])
        beyond = moves & (step < -room)
        if not beyond.any():
            return step
        step[beyond], stays = -room[beyond], stays | beyond


def _equations(linear: Sequence[_Linear], weights: Array) -> tuple[Array, Array]:
    size = linear[0].J.shape[-1]
    H, g = np.zeros((size, size)), np.zeros(size)
    for each in linear:
        J = each.J.reshape(-1, each.J.shape[-1])
        scaled = J * np.tile(weights, len(J) // len(weights))[:, None]
        H, g = H + scaled.T @ J, g + scaled.T @ each.residual.ravel()
    return H, g


def _costs(
    forward: Forward, recordings: Sequence[Shots], x: Array, starts: Sequence[Array], weights: Array
) -> list[Array]:
    """Weighted squared errors (S,) of the segments of each recording."""
    with np.errstate(all="ignore"):
        return [
            np.sum(weights * (_positions(forward, shots, x, start) - shots.measured) ** 2, axis=(1, 2))
            for shots, start in zip(recordings, starts, strict=True)
        ]


def _total(costs: Sequence[Array], x: Array, prior: Prior) -> float:
    """Cost of all segments and of the prior; infinite if a segment's is not finite."""
    off = x - prior.mean
    total = float(off @ prior.precision @ off) + sum(float(each.sum()) for each in costs)
    return total if np.isfinite(total) else np.inf


def _positions(forward: Forward, shots: Shots, x: Array, start: Array) -> Array:
    """Positions (S, m, n_q) that the model predicts; NaN if it cannot move, by impossible inertias or open loops."""
    try:
        return forward.positions(shots, x, start)
    except np.linalg.LinAlgError:
        return np.full_like(shots.measured, np.nan)


def _covariance(
    linear: Sequence[_Linear], roundings: Sequence[Array], weights: Array, prior: Prior, free: Mask
) -> tuple[Array, float]:
    """(covariance, degrees of freedom) for residuals that are rounding errors and an autoregressive rest per joint.

    Residuals are smaller than errors, because starts and unknowns took up a part of them.

    roundings  (n_q,) of each recording, see `Shots`
    """
    P = prior.precision[np.ix_(free, free)]
    H, _ = _equations(linear, weights)
    inverse: Array = np.asarray(np.linalg.inv(H + P), dtype=np.float64)
    joints = [_OfJoint.of(linear, roundings, j, w) for j, w in enumerate(weights)]
    total, taken = sum(each.squares for each in joints), float(np.trace(inverse @ sum(each.summed for each in joints)))
    count = sum(each.residual.size for each in linear)
    by_starts = sum(2 * each.residual.shape[2] * len(each.residual) for each in linear)
    enlarged = count / max(count - by_starts, 0.1 * count) * total / max(total - taken, 0.1 * total)
    middle = sum(each.middle(enlarged) for each in joints)
    effective = (1.0 - by_starts / count) * sum(each.effective for each in joints)
    return inverse @ (middle + P) @ inverse, max(effective - len(H), 3.0)


@dataclass(frozen=True)
class _OfJoint:
    """Sums over the weighted residuals of a joint.

    squares    sum of squares, of which `by_rounding` are expected to be rounding errors
    summed     J' Sigma J (n_free, n_free) of residuals as they are
    rounded    J' Sigma J (n_free, n_free) of rounding errors
    effective  number of independent residuals
    """

    squares: float
    by_rounding: float
    summed: Array
    rounded: Array
    effective: float

    @staticmethod
    def of(linear: Sequence[_Linear], roundings: Sequence[Array], joint: int, weight: float) -> _OfJoint:
        rows = [weight * each.J[:, :, joint].reshape(-1, each.J.shape[-1]) for each in linear]
        residual = np.concatenate([each.residual[:, :, joint].ravel() for each in linear])
        summed, effective = correlated_sum(np.concatenate(rows), residual)
        rounded, by_rounding = np.zeros_like(summed), 0.0
        for each, part, rounding in zip(linear, rows, roundings, strict=True):
            if step := float(rounding[joint]):
                rounded += rounded_sum(part, each.positions[:, :, joint].ravel(), step)
                by_rounding += weight * len(part) * step**2 / 12.0
        return _OfJoint(weight * float(residual @ residual), by_rounding, summed, rounded, effective)

    def middle(self, enlarged: float) -> Array:
        """J' Sigma J of errors, whose squares are `enlarged` times those of the residuals."""
        rest = max(enlarged * self.squares - self.by_rounding, 0.0) / max(self.squares, 1e-300)
        return self.rounded + rest * self.summed

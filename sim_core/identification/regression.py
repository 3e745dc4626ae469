"""Least squares with a prior: base parameters and friction from the sums of a regression, and blocked cross-validation.

The unknowns x are the base parameters beta (n_b,) and, joint by joint, the coefficients of the friction columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.calibration import PLAUSIBLE
from sim_core.identification.design import N_FRICTION, Sums
from sim_core.identification.friction import ALWAYS, CALIBRATION, COLUMNS, NOT_NEGATIVE, WITHOUT_MOTOR
from sim_core.identification.inertial_parameters import metric

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
RIDGE = 1e-9  # relative, keeps the equations of columns without motion solvable
GAIN_T, LEAST_GAIN = 2.0, 0.01  # least t-value and least relative gain of a better model, over blocks


@dataclass(frozen=True)
class Prior:
    """Prior of the inertial parameters: mean pi (n_pi,), consistent, and covariance per unit of weight.

    The covariance is the inverse of `metric`: with weight 1, a standard deviation is a change by the whole value. The
    last `n_zero` parameters are zeros of encoders, whose covariance does not depend on the weight.
    """

    pi: Array
    covariance: Array
    base: BaseParameters
    n_zero: int = 0

    @classmethod
    def of(cls, pi: Array, base: BaseParameters) -> Prior:
        """Prior with the mean pi of consistent parameters, ten per link, and 0 for the zeros that `base` also has."""
        n_zero = base.B.shape[1] - len(pi)
        covariance = PLAUSIBLE["zero"] ** 2 * np.eye(len(pi) + n_zero)
        for at in range(0, len(pi), 10):
            covariance[at : at + 10, at : at + 10] = np.linalg.inv(metric(pi[at : at + 10]))
        return cls(np.concatenate([pi, np.zeros(n_zero)]), covariance, base, n_zero)

    @property
    def beta(self) -> Array:
        """Mean (n_b,) of the base parameters."""
        return np.asarray(self.base.B @ self.pi)

    @property
    def base_covariance(self) -> Array:
        """Covariance (n_b, n_b) of the base parameters per unit of weight."""
        return np.asarray(self.base.B @ self.covariance @ self.base.B.T)

    def parameters(self, beta: Array) -> Array:
        """The most probable parameters pi (n_pi,) with the base parameters beta (n_b,)."""
        return self.pi + self.covariance @ self.base.B.T @ np.linalg.solve(self.base_covariance, beta - self.beta)


class Regression:
    """Fits of the joints' rows.

    prior    of the inertial parameters
    fitted   sums of the filtered rows, of which the parameters are fitted
    raw      sums of the rows as recorded, by which a fit is judged
    weights  (n_q,) of the rows: reciprocal variances of their errors
    driven   (n_q,) joints whose recorded effort is not 0 throughout
    """

    def __init__(self, prior: Prior, fitted: Sums, raw: Sums, weights: Array, driven: Mask) -> None:
        self.prior, self.fitted, self.raw, self.weights, self.driven = prior, fitted, raw, weights, driven
        self.n_b, self.n_q = len(prior.beta), fitted.AA.shape[1]
        self.size = self.n_b + self.n_q * N_FRICTION
        self._equations: dict[tuple[tuple[int, ...], int | None], tuple[Array, Array]] = {}
        self.signed = np.concatenate(
            [np.zeros(self.n_b, dtype=bool), np.tile([name in NOT_NEGATIVE for name in COLUMNS], self.n_q)]
        )
        n_i = self.n_b - prior.n_zero
        self._precision = np.linalg.inv(prior.base_covariance[:n_i, :n_i])
        self._loose = np.zeros(self.size)  # precision of errors of the measurement
        self._loose[n_i : self.n_b] = PLAUSIBLE["zero"] ** -2
        for name in CALIBRATION:
            self._loose[self.n_b + COLUMNS.index(name) :: N_FRICTION] = PLAUSIBLE[name] ** -2

    @cached_property
    def _whole(self) -> tuple[Array, Array]:
        """Sums (n_q, k, k) and (n_q, k) of the filtered rows over all blocks that are not held out."""
        return self.fitted.AA[:-1].sum(axis=0), self.fitted.Ay[:-1].sum(axis=0)

    @property
    def blocks(self) -> range:
        """Numbers of the blocks that are not held out."""
        return range(len(self.raw.count) - 1)

    def friction_slice(self, joint: int) -> slice:
        """Places in x of the friction coefficients of a joint."""
        begin = self.n_b + joint * N_FRICTION
        return slice(begin, begin + N_FRICTION)

    def free(
        self, joints: Iterable[int], inertia: bool = True, extra: Iterable[tuple[int, int]] = (), zeros: bool = False
    ) -> Mask:
        """(n_x,) which unknowns are fitted: base parameters, usual friction, and `extra` pairs (joint, column)."""
        mask = np.zeros(self.size, dtype=bool)
        n_i = self.n_b - self.prior.n_zero
        mask[:n_i], mask[n_i : self.n_b] = inertia, zeros
        for joint in joints:
            begin = self.friction_slice(joint).start
            mask[begin : begin + len(ALWAYS if self.driven[joint] else WITHOUT_MOTOR)] = True
        for joint, column in extra:
            mask[self.friction_slice(joint).start + column] = True
        return mask

    def equations(self, joints: Sequence[int], without: int | None = None) -> tuple[Array, Array]:
        """(H (n_x, n_x), g (n_x,)) of the normal equations H x = g of the joints' rows, without one of the blocks."""
        key = tuple(joints), without
        if key not in self._equations:
            self._equations[key] = self._summed(joints, without)
        return self._equations[key]

    def _summed(self, joints: Sequence[int], without: int | None) -> tuple[Array, Array]:
        n_b, H, g = self.n_b, np.zeros((self.size, self.size)), np.zeros(self.size)
        for j in joints:
            f, w = self.friction_slice(j), self.weights[j]
            AA, Ay = self._whole[0][j], self._whole[1][j]
            if without is not None:
                AA, Ay = AA - self.fitted.AA[without, j], Ay - self.fitted.Ay[without, j]
            H[:n_b, :n_b] += w * AA[:n_b, :n_b]
            H[:n_b, f] = w * AA[:n_b, n_b:]
            H[f, :n_b], H[f, f] = H[:n_b, f].T, w * AA[n_b:, n_b:]
            g[:n_b] += w * Ay[:n_b]
            g[f] = w * Ay[n_b:]
        return H, g

    def with_prior(self, H: Array, weight: float) -> Array:
        """H with the prior's precision times `weight` added to the base parameters, and a small ridge."""
        K = H.copy()
        n_i = len(self._precision)
        K[:n_i, :n_i] += weight * self._precision
        K[np.diag_indices(self.size)] += self._looseness(H)
        return K

    def _looseness(self, H: Array) -> Array:
        """Precision (n_x,) of the errors of the measurement, and a small ridge."""
        diagonal = np.diag(H)
        return np.asarray(self._loose + RIDGE * diagonal + RIDGE**2 * max(float(diagonal.max()), 1e-300))

    def solve(
        self, joints: Sequence[int], weight: float, free: Mask, start: Array | None = None, without: int | None = None
    ) -> Array:
        """x (n_x,) with the least squared error; unknowns that are not free keep their values in `start`.

        Friction that would drive its joint, such as negative viscous friction, is set to 0.
        start  by default the prior's mean without friction
        """
        return np.asarray(self._solved([self.equations(joints, without)], weight, free, start)[0])

    def _solved(
        self, equations: Sequence[tuple[Array, Array]], weight: float, free: Mask, start: Array | None
    ) -> Array:
        """x (m, n_x), see `solve`, of m sets of normal equations (H, g)."""
        x = np.concatenate([self.prior.beta, np.zeros(self.size - self.n_b)]) if start is None else start.copy()
        x[: self.n_b] = np.where(free[: self.n_b], self.prior.beta, x[: self.n_b])
        at, n_i = np.flatnonzero(free), len(self._precision)
        base, away = at[at < n_i], x - self._origin(x)
        K, right = np.empty((len(equations), len(at), len(at))), np.empty((len(equations), len(at)))
        for k, (H, g) in enumerate(equations):
            rows, loose = H[at], self._looseness(H)[at]
            K[k], right[k] = rows[:, at], g[at] - rows @ x - loose * away[at]
            K[k][np.diag_indices(len(at))] += loose
        K[:, : len(base), : len(base)] += weight * self._precision[np.ix_(base, base)]
        right[:, : len(base)] -= weight * self._precision[base] @ away[:n_i]
        zero = np.zeros(right.shape, dtype=bool)
        while True:
            fixed = np.where(zero, -x[at], 0.0)
            rest = np.where(zero, fixed, right - (K @ fixed[:, :, None])[:, :, 0])
            equal = np.where(zero[:, :, None] | zero[:, None, :], np.eye(len(at)), K)
            change = np.linalg.solve(equal, rest[:, :, None])[:, :, 0]
            driving = ~zero & self.signed[at] & (x[at] + change < 0.0)
            if not driving.any():
                break
            zero |= driving
        found = np.tile(x, (len(equations), 1))
        found[:, at] = np.where(zero, 0.0, x[at] + change)
        return found

    def _origin(self, x: Array) -> Array:
        """x (n_x,) with the base parameters at the mean of the prior."""
        return np.concatenate([self.prior.beta, x[self.n_b :]])

    def rows(self, x: Array) -> Array:
        """Unknowns z (n_q, n_b + n_f) of each joint's rows."""
        friction = x[self.n_b :].reshape(self.n_q, N_FRICTION)
        return np.concatenate([np.tile(x[: self.n_b], (self.n_q, 1)), friction], axis=1)

    def validated(self, joints: Sequence[int], weight: float, free: Mask, start: Array | None = None) -> Array:
        """Mean squared error (n_blocks, n_q) of each block, as recorded, by a fit of the other blocks.

        NaN for other joints.
        """
        equations, which = [self.equations(joints, block) for block in self.blocks], list(joints)
        z = np.stack([self.rows(x)[which] for x in self._solved(equations, weight, free, start)])
        found = np.full((len(equations), self.n_q), np.nan)
        found[:, which] = np.maximum(self.raw.errors(z, which), 0.0) / np.maximum(self.raw.count[:-1, which], 1.0)
        return found


def gain(before: Array, after: Array) -> tuple[float, float]:
    """(relative decrease of the mean error, its t-value) from errors (n_blocks,) of the same blocks by two models."""
    difference = before - after
    spread = float(np.std(difference, ddof=1)) / np.sqrt(len(difference))
    mean, scale = float(difference.mean()), float(before.mean())
    return mean / scale if scale > 0.0 else 0.0, mean / spread if spread > 0.0 else 0.0


def is_gain(before: Array, after: Array, least: float = LEAST_GAIN, t: float = GAIN_T) -> bool:
    """Whether the second model has a smaller error than the first, beyond chance and by a share of at least `least`.

    t  least t-value of the gain
    """
    share, found = gain(before, after)
    return bool(share >= least and found >= t)

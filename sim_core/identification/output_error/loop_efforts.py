"""Efforts, mass matrices and derivatives of many states at once, of a mechanism with closed loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.output_error.inertial_efforts import STEP, InertialEfforts

Array = np.ndarray[Any, np.dtype[np.float64]]


class LoopEfforts:
    """Inverse dynamics tau = N' Y_b beta - springs of the independent joints, as that of `InertialEfforts`.

    The arrays q, v, a, tau are those of the n_q independent joints. Raises LinAlgError for positions that no closed
    loop has.
    """

    def __init__(self, regressor: LoopRegressor, base: BaseParameters) -> None:
        self.n_q, self.n_b = len(regressor.joints), len(base.columns)
        self._regressor, self._tree = regressor, InertialEfforts(regressor.tree, base)

    def __call__(self, beta: Array, q: Array, v: Array, a: Array) -> Array:
        """Efforts (n, n_q) for q, v, a (n, n_q)."""
        whole, N = self._motion(q, v, a)
        return self._regressor.projected(self._tree(beta, *whole), N) + self._regressor.spring_efforts(q)

    def rows(self, q: Array, v: Array, a: Array) -> Array:
        """Base regressor (n, n_q, n_b)."""
        whole, N = self._motion(q, v, a)
        return self._regressor.projected(self._tree.rows(*whole), N)

    def mass_and_bias(self, beta: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """(mass matrices M (n, n_q, n_q), bias efforts f (n, n_q)) of tau = M a + f."""
        whole, N = self._motion(q, v, np.zeros_like(q))
        motion = [np.repeat(each[:, None], self.n_q + 1, axis=1) for each in whole]
        motion[2][:, 1:] += self._regressor.directions(N)
        tau = self._efforts(beta, motion, np.repeat(N[:, None], self.n_q + 1, axis=1))
        return (tau[:, 1:] - tau[:, :1]).transpose(0, 2, 1), tau[:, 0] + self._regressor.spring_efforts(q)

    def derivatives(self, beta: Array, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
        """Derivatives of the efforts by q and by v, (n, n_q, n_q) each.

        Only a change of a joint in loops changes what the other joints there do.
        """
        loops, n, n_q = self._regressor.loops, len(q), self.n_q
        units, count = STEP * np.eye(n_q)[loops], 1 + 2 * len(loops)
        states = [np.repeat(each[:, None], count, axis=1) for each in (q, v, a)]
        states[0][:, 1 : 1 + len(loops)] += units
        states[1][:, 1 + len(loops) :] += units
        flat = [each.reshape(-1, n_q) for each in states]
        found, N_found = self._motion(*flat)
        springs = self._regressor.spring_efforts(flat[0]).reshape(n, count, n_q)
        motion = [np.repeat(each.reshape(n, count, -1)[:, :1], 2 * n_q + 1, axis=1) for each in found]
        N_found = N_found.reshape(n, count, *N_found.shape[1:])
        N = np.repeat(N_found[:, :1], 2 * n_q + 1, axis=1)
        moved = STEP * self._regressor.directions(np.zeros_like(N_found[:, 0]))[0]
        motion[0][:, 1 : n_q + 1] += moved
        motion[1][:, n_q + 1 :] += moved
        of_loops = np.concatenate([1 + loops, 1 + n_q + loops])
        for into, each in zip(motion, found, strict=True):
            into[:, of_loops] = each.reshape(n, count, -1)[:, 1:]
        N[:, of_loops] = N_found[:, 1:]
        tau = self._efforts(beta, motion, N)
        tau[:, of_loops] += springs[:, 1:] - springs[:, :1]
        change = (tau[:, 1:] - tau[:, :1]).transpose(0, 2, 1) / STEP
        return change[:, :, :n_q], change[:, :, n_q:]

    def _motion(self, q: Array, v: Array, a: Array) -> tuple[tuple[Array, Array, Array], Array]:
        try:
            return self._regressor.motion(q, v, a)
        except InvalidRequest as error:  # far from any closed loop, as a trial of wrong unknowns moves
            raise np.linalg.LinAlgError(str(error)) from None

    def _efforts(self, beta: Array, motion: list[Array], N: Array) -> Array:
        """Efforts (n, k, n_q) without springs for motions (n, k, all joints) and N (n, k, n_d, n_l)."""
        flat = [each.reshape(-1, each.shape[2]) for each in motion]
        tau = self._regressor.projected(self._tree(beta, *flat), N.reshape(-1, *N.shape[2:]))
        return tau.reshape(*motion[0].shape[:2], self.n_q)

"""Efforts, mass matrices and derivatives of many states at once, from a regressor and base parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.regressor import LANES, Regressor

Array = np.ndarray[Any, np.dtype[np.float64]]
STEP = 1e-6  # rad, m, rad/s or m/s, of forward differences


class InertialEfforts:
    """Inverse dynamics tau = Y_b(q, v, a) beta of a rigid tree for any base parameters beta, vectorized over states.

    n_q, n_b  number of joints and of base parameters
    """

    def __init__(self, regressor: Regressor, base: BaseParameters) -> None:
        self.n_q, self.n_b = len(regressor.joints), len(base.columns)
        self._regressor, self._columns = regressor, base.columns
        self._Y = np.zeros((len(regressor.parameters), self.n_q, LANES))
        self._motion = np.zeros((3, 0, self.n_q, LANES))
        self._calls: list[Any] = []
        n_q = self.n_q
        self._units = np.concatenate([np.zeros((1, n_q)), np.eye(n_q)])
        zero = np.zeros((n_q, n_q))
        self._dq = np.concatenate([zero[:1], STEP * np.eye(n_q), zero])
        self._dv = np.concatenate([zero[:1], zero, STEP * np.eye(n_q)])

    def __call__(self, beta: Array, q: Array, v: Array, a: Array) -> Array:
        """Efforts (n, n_q) for q, v, a (n, n_q)."""
        n_chunks = self._fill(q, v, a)
        pi, Y = np.zeros(len(self._Y)), self._Y.reshape(len(self._Y), -1)
        pi[self._columns] = beta
        tau = np.empty((n_chunks, Y.shape[1]))
        for k in range(n_chunks):
            self._calls[k]()
            np.dot(pi, Y, out=tau[k])
        return self._unfold(tau.reshape(n_chunks, self.n_q, LANES), len(q))

    def rows(self, q: Array, v: Array, a: Array) -> Array:
        """Base regressor Y_b (n, n_q, n_b)."""
        n_chunks = self._fill(q, v, a)
        Y = np.empty((n_chunks, self.n_b, self.n_q, LANES))
        for k in range(n_chunks):
            self._calls[k]()
            Y[k] = self._Y[self._columns]
        return np.ascontiguousarray(Y.transpose(0, 3, 2, 1).reshape(-1, self.n_q, self.n_b)[: len(q)])

    def mass_and_bias(self, beta: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """(mass matrices M (n, n_q, n_q), bias efforts f (n, n_q)) of tau = M a + f."""
        n, n_q = q.shape
        shape = n, n_q + 1, n_q
        motion = q[:, None], v[:, None], self._units
        q, v, a = (np.broadcast_to(each, shape).reshape(-1, n_q) for each in motion)
        tau = self(beta, q, v, a).reshape(shape)
        return (tau[:, 1:] - tau[:, :1]).transpose(0, 2, 1), tau[:, 0]

    def derivatives(self, beta: Array, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
        """Derivatives of the efforts by q and by v, (n, n_q, n_q) each."""
        n, n_q = q.shape
        shape = n, 2 * n_q + 1, n_q
        motion = q[:, None] + self._dq, v[:, None] + self._dv, a[:, None]
        q, v, a = (np.broadcast_to(each, shape).reshape(-1, n_q) for each in motion)
        tau = self(beta, q, v, a).reshape(shape)
        change = (tau[:, 1:] - tau[:, :1]).transpose(0, 2, 1) / STEP
        return change[:, :, :n_q], change[:, :, n_q:]

    def _fill(self, q: Array, v: Array, a: Array) -> int:
        n_chunks = -(-len(q) // LANES)
        if n_chunks > len(self._calls):
            self._motion = np.zeros((3, n_chunks, self.n_q, LANES))
            chunks = self._motion.transpose(1, 0, 2, 3)
            self._calls = [self._regressor.bind_lanes(q_k, v_k, a_k, self._Y) for q_k, v_k, a_k in chunks]
        padded = np.empty((n_chunks * LANES, self.n_q))
        for into, each in zip(self._motion, (q, v, a), strict=True):
            padded[: len(q)], padded[len(q) :] = each, each[-1]
            into[:n_chunks] = padded.reshape(n_chunks, LANES, self.n_q).transpose(0, 2, 1)
        return n_chunks

    def _unfold(self, tau: Array, count: int) -> Array:
        return np.ascontiguousarray(tau.transpose(0, 2, 1).reshape(-1, self.n_q)[:count])

"""Errors of the measurement as linear columns of a regression: zeros of encoders, motor constants, late efforts.

The columns are derivatives of the efforts by a model, which is that before the fit or that of an earlier fit:

zero   -d(effort)/dq_k of all joints: the position of joint k is measured too large by this angle, rad or m
gain   effort of the joint: its measured effort is too large by this share
delay  -d(effort)/dt: the measured effort is late by this time, s
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.friction import FRICTION, friction_columns
from sim_core.identification.regressor import LinearEfforts

Array = np.ndarray[Any, np.dtype[np.float64]]
ERRORS = ("zero", "gain", "delay")
ZERO_STEP = 1e-5  # rad or m, for central differences over positions
PLAUSIBLE = {"zero": 0.1, "gain": 0.2, "delay": 0.02}  # standard deviations of the prior: rad or m, 1, s


@dataclass(frozen=True)
class Reference:
    """Model about which errors of the measurement are linear: base parameters (n_b,) and friction (n_q, n_f).

    errors  which of ERRORS are fitted
    """

    beta: Array
    friction: Array
    errors: frozenset[str]

    def columns(
        self,
        regressor: LinearEfforts,
        base: BaseParameters,
        motion: tuple[Array, Array, Array],
        scales: Array,
        rate_hz: float,
    ) -> tuple[Array, Array]:
        """(zeros (n, n_q, n_zero), [gain, delay] (n, n_q, 2)) along a motion on a grid of `rate_hz`."""

        def efforts(q: Array, v: Array, a: Array) -> Array:
            inertial = regressor.efforts(q, v, a, base.columns, self.beta)
            friction = friction_columns(v, a, inertial, scales)
            return np.asarray(inertial + np.einsum("njk,jk->nj", friction, self.friction[:, : len(FRICTION)]))

        tau = efforts(*motion)
        delay = -np.gradient(tau, 1.0 / rate_hz, axis=0) if "delay" in self.errors else np.zeros_like(tau)
        gain = tau if "gain" in self.errors else np.zeros_like(tau)
        return self._zeros(efforts, motion), np.stack([gain, delay], axis=-1)

    def _zeros(self, efforts: Callable[..., Array], motion: tuple[Array, Array, Array]) -> Array:
        q, v, a = motion
        n_q = q.shape[1]
        if "zero" not in self.errors:
            return np.zeros((len(q), n_q, 0))
        found = np.empty((len(q), n_q, n_q))
        for k in range(n_q):
            step = ZERO_STEP * np.eye(n_q)[k]
            found[:, :, k] = -(efforts(q + step, v, a) - efforts(q - step, v, a)) / (2.0 * ZERO_STEP)
        return found


def with_zeros(base: BaseParameters, joints: tuple[str, ...]) -> BaseParameters:
    """The base parameters with the zeros of the encoders of `joints` as further ones."""
    n_b, n_pi = base.B.shape
    extended = np.zeros((n_b + len(joints), n_pi + len(joints)))
    extended[:n_b, :n_pi] = base.B
    extended[n_b:, n_pi:] = np.eye(len(joints))
    columns = np.concatenate([base.columns, n_pi + np.arange(len(joints))])
    names = (*base.parameters, *(f"{joint}/zero" for joint in joints))
    return replace(base, columns=columns, B=extended, parameters=names)

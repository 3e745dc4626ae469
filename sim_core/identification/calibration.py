"""Errors of the measurement as linear columns of a regression: zeros of encoders, motor constants, late efforts.

The columns are derivatives of the efforts by a model, which is that before the fit or that of an earlier fit:

zero   -d(effort)/dq_k of all joints: the position of joint k is measured too large by this angle, rad or m
gain   effort of the joint: its measured effort is too large by this share
delay  -d(effort)/dt: the measured effort is late by this time, s

They are linear for small errors only: a delay of 15 ms looks like a smaller motor constant, too. Therefore the
recording is corrected by the errors of the earlier fit, and the derivatives times these are added to its efforts again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.friction import CALIBRATION, COLUMNS, FRICTION, friction_columns
from sim_core.identification.regressor import LinearEfforts
from sim_core.identification.signals import Sampled

Array = np.ndarray[Any, np.dtype[np.float64]]
Springs = Callable[[Array], Array] | None
ERRORS = ("zero", "gain", "delay")
ZERO_STEP = 1e-5  # rad or m, for central differences over positions
PLAUSIBLE = {"zero": 0.1, "gain": 0.2, "delay": 0.02}  # standard deviations of the prior: rad or m, 1, s


@dataclass(frozen=True)
class Reference:
    """Model about which errors of the measurement are linear: base parameters (n_b,) and friction (n_q, n_f).

    errors   which of ERRORS are fitted
    zero     (n_zero,) errors of the earlier fit
    gain     (n_q,)
    delay    (n_q,)
    springs  efforts (n, n_q) that hold springs at positions (n, n_q); a recording's efforts are without them, although
             a sensor shows them; None if there are no springs
    """

    beta: Array
    friction: Array
    errors: frozenset[str]
    zero: Array
    gain: Array
    delay: Array
    springs: Springs = None

    @classmethod
    def of(cls, x: Array, n_b: int, n_q: int, errors: frozenset[str], springs: Springs = None) -> Reference:
        """The reference with the unknowns x: n_b base parameters, zeros if these are fitted, and friction columns."""
        n_zero = n_q if "zero" in errors else 0
        friction = x[n_b + n_zero :].reshape(n_q, len(COLUMNS))
        gain, delay = (friction[:, COLUMNS.index(name)] for name in CALIBRATION)
        return cls(x[:n_b], friction, errors, x[n_b : n_b + n_zero], gain, delay, springs)

    def corrected(self, part: Sampled) -> Sampled:
        """A recording without the errors of the earlier fit."""
        q = part.q - self.zero if len(self.zero) else part.q
        shown = part.effort if self.springs is None else part.effort + self.springs(part.q)
        effort = shown / (1.0 + self.gain)
        for j in np.flatnonzero(self.delay):
            effort[:, j] = np.interp(part.time + self.delay[j], part.time, effort[:, j])
        if self.springs is not None:
            effort -= self.springs(q)
        return replace(part, q=q, effort=effort)

    def shift(self, rows: Array) -> Array:
        """(n, n_q) the columns of the errors in rows (n, n_q, k), times the errors of the earlier fit."""
        found = np.stack([self.gain, self.delay], axis=1)
        begin = len(self.beta)
        of_zero = rows[:, :, begin : begin + len(self.zero)] @ self.zero
        return np.asarray(of_zero + np.einsum("njk,jk->nj", rows[:, :, -len(CALIBRATION) :], found))

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
            tau = inertial + np.einsum("njk,jk->nj", friction, self.friction[:, : len(FRICTION)])
            return np.asarray(tau if self.springs is None else tau + self.springs(q))

        tau = efforts(*motion)
        delay = -np.gradient(tau, 1.0 / rate_hz, axis=0) if "delay" in self.errors else np.zeros_like(tau)
        gain = tau / (1.0 + self.gain) if "gain" in self.errors else np.zeros_like(tau)
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

"""Simulation of all segments at once, with the derivatives of the positions by the unknowns and by the starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.identification.output_error.actuation import Actuation
from sim_core.identification.output_error.inertial_efforts import InertialEfforts
from sim_core.identification.output_error.loop_efforts import LoopEfforts
from sim_core.identification.output_error.shots import Shots
from sim_core.identification.output_error.unknowns import ACTUATION, FRICTION, Mask, Unknowns

Array = np.ndarray[Any, np.dtype[np.float64]]


class Forward:
    """Forward model M a + f + friction = efforts of the actuators.

    A step evaluates the acceleration once, at the middle of the step: q + h/2 v, and the velocity extrapolated with the
    acceleration of the step before. Friction there is linear in the acceleration, so that strong friction of a light
    link is stable. This is of second order, as the actuators' efforts are constant within a step.

    scales  (n_q,) speeds of the smooth Coulomb friction, rad/s or m/s
    """

    def __init__(self, efforts: InertialEfforts | LoopEfforts, unknowns: Unknowns, scales: Array) -> None:
        self.efforts, self.unknowns, self.scales = efforts, unknowns, scales

    def positions(self, shots: Shots, x: Array, start: Array) -> Array:
        """Measured positions (S, m, n_q) that the model predicts from `start` (S, 2 n_q)."""
        return self._run(shots, x, start, None)[0]

    def linearized(
        self, shots: Shots, x: Array, start: Array, free: Mask, play: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """(positions, derivatives (S, m, n_q, n_free) by the free unknowns, and (S, m, n_q, 2 n_q) by the start).

        play  (S, n_q) backlashes of each segment in place of those in x
        """
        positions, J = self._run(shots, x, start, free, play)
        n_free = int(free.sum())
        return positions, J[..., :n_free], J[..., n_free:]

    def _run(
        self, shots: Shots, x: Array, start: Array, free: Mask | None, play: Array | None = None
    ) -> tuple[Array, Array]:
        n_q, h, zero = len(self.scales), shots.drive.step_s, x[self.unknowns.place("zero")]
        q, v = start[:, :n_q] - zero, start[:, n_q:].copy()
        S, m = len(q), shots.steps // shots.every + 1
        out = np.empty((S, m, n_q))
        sensitivity = None if free is None else _Sensitivity(self, x, free, S)
        J = np.empty((0,)) if sensitivity is None else np.empty((S, m, n_q, sensitivity.columns))
        actuation, model = Actuation(shots, self.unknowns, x, play), _Model(self, x)
        a = np.zeros_like(v)
        for step in range(shots.steps + 1):
            if step % shots.every == 0:
                out[:, step // shots.every] = q + zero
                if sensitivity is not None:
                    J[:, step // shots.every] = sensitivity.of_measured
            if step == shots.steps:
                break
            told = actuation.efforts(q, v)
            middle = q + 0.5 * h * v, v + 0.5 * h * a
            M, a = model.acceleration(*middle, told[0], a, h)
            if sensitivity is not None:
                sensitivity.step(*middle, a, M, actuation.derivatives(*told[1:]), h)
            q, v = q + h * (v + 0.5 * h * a), v + h * a
        return out, J


class _Model:
    """The forward model with the unknowns x."""

    def __init__(self, forward: Forward, x: Array) -> None:
        self._efforts, self._scales = forward.efforts, forward.scales
        self._beta = x[forward.unknowns.place("inertia")]
        self._viscous, self._coulomb, self._offset, armature = (x[forward.unknowns.place(name)] for name in FRICTION)
        self._rotors = np.diag(armature)

    def acceleration(self, q: Array, v: Array, effort: Array, before: Array, h: float) -> tuple[Array, Array]:
        """(mass matrices with rotors (S, n_q, n_q), accelerations (S, n_q)).

        before  accelerations (S, n_q) with which v was extrapolated by h/2
        """
        M, f = self._efforts.mass_and_bias(self._beta, q, v)
        M += self._rotors
        smooth = np.tanh(v / self._scales)
        friction = self._viscous * v + self._coulomb * smooth + self._offset
        slope = 0.5 * h * (self._viscous + self._coulomb * (1.0 - smooth**2) / self._scales)
        implicit, joint = M.copy(), np.arange(v.shape[1])
        implicit[:, joint, joint] += slope
        right = effort - f - friction + slope * before
        return M, np.asarray(np.linalg.solve(implicit, right[..., None])[..., 0])


class _Sensitivity:
    """Derivatives of q and v (S, n_q, columns) by the free unknowns, and by the measured start."""

    def __init__(self, forward: Forward, x: Array, free: Mask, n_shots: int) -> None:
        self._forward, self._free = forward, np.flatnonzero(free)
        unknowns, n_q = forward.unknowns, len(forward.scales)
        self._beta = x[unknowns.place("inertia")]
        self._viscous, self._coulomb = (x[unknowns.place(name)] for name in ("viscous", "coulomb"))
        self._n_free = len(self._free)
        self.columns = self._n_free + 2 * n_q
        self._dq, self._dv = np.zeros((2, n_shots, n_q, self.columns))
        self._zero = np.zeros((n_q, self.columns))
        joint = np.arange(n_q)
        zero = unknowns.place("zero").start
        self._zero[:, : self._n_free] = self._free == zero + joint[:, None]
        self._dq[:, joint, self._n_free + joint] = 1.0
        self._dv[:, joint, self._n_free + n_q + joint] = 1.0
        self._dq -= self._zero
        self._has_inertia = bool(free[: unknowns.n_b].any())
        self._whole = np.zeros((n_shots, n_q, unknowns.size))
        self._begin = {name: unknowns.place(name).start + joint for name in (*FRICTION, *ACTUATION)}
        self._joint = joint

    @property
    def of_measured(self) -> Array:
        """Derivatives of the measured positions."""
        return self._dq + self._zero

    def step(self, q: Array, v: Array, a: Array, M: Array, actuation: tuple[Array, Array, Array], h: float) -> None:
        """Advance by a time step of second order; q, v and M are those of its middle.

        actuation  derivatives of the actuators' efforts, which are constant in the step, see `Actuation.derivatives`
        """
        smooth, joint = np.tanh(v / self._forward.scales), self._joint
        by_q, by_v = self._forward.efforts.derivatives(self._beta, q, v, a)
        by_v[:, joint, joint] += self._viscous + self._coulomb * (1.0 - smooth**2) / self._forward.scales
        right = actuation[0][..., None] * self._dq + actuation[1][..., None] * self._dv
        right[..., : self._n_free] += self._explicit(q, v, a, smooth, actuation[2])
        dq, dv = self._dq, self._dv
        right -= by_q @ (dq + 0.5 * h * dv) + by_v @ dv
        da = np.linalg.solve(M + 0.5 * h * by_v, right)
        self._dq = dq + h * dv + 0.5 * h * h * da
        self._dv = dv + h * da

    def _explicit(self, q: Array, v: Array, a: Array, smooth: Array, actuation: Array) -> Array:
        """Derivatives (S, n_q, n_free) of the efforts by the unknowns at the same state."""
        whole, joint = self._whole, self._joint
        if self._has_inertia:
            whole[..., : self._forward.unknowns.n_b] = -self._forward.efforts.rows(q, v, a)
        for name, values in zip(FRICTION, (-v, -smooth, np.full_like(v, -1.0), -a), strict=True):
            whole[:, joint, self._begin[name]] = values
        for k, name in enumerate(ACTUATION):
            whole[:, joint, self._begin[name]] = actuation[..., k]
        return whole[..., self._free]

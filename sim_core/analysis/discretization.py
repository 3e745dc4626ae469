"""Exact derivatives of one step of a simulation, by the chain rule over the stages of the stepper."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from sim_core.analysis.stages import Feedback, StageDerivatives
from sim_core.analysis.turning import ended, moved, moved_acceleration, started, turnings_of, within_step
from sim_core.derivatives import Derivatives
from sim_core.errors import InvalidRequest
from sim_core.integrators.steppers import Stepper, stepper_named
from sim_core.simulation import Simulation
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.registry import stabilizer_named
from sim_core.stabilization.stabilizers import Baumgarte, SampledFuzzy, Stabilizer
from sim_core.state import State
from sim_core.system import System

Array = np.ndarray
STEPPERS = ("rk4", "dopri5", "semi_implicit", "implicit_midpoint")


class Step(NamedTuple):
    """One step x+ (2 n_q,) of x = (q, v), and its derivatives (2 n_q, 2 n_q) by x and (2 n_q, n_u) by the inputs u.

    The rotation coordinates of spherical and free joints in x+ are those of the rotation within the step. Their
    derivatives are those of deviations from the orientation after the step, by deviations from that before it: a
    rotation vector in the child's axes, and its rate.
    """

    x: Array
    by_x: Array
    by_u: Array


def step_derivatives(
    system: System, state: State, step_s: float, stepper: str | Stepper, stabilizer: str | Stabilizer
) -> Step:
    """The step of size step_s (s) from a state, and its derivatives.

    The inputs are held over the step, as a server holds them. Raises InvalidRequest for a stepper, a stabilizer or a
    robot whose step has no derivative here, with the names of those that have one.
    """
    stepper, stabilizer, feedback = _differentiable(system, step_s, stepper, stabilizer)
    sim = Simulation(system, step_s=step_s, stepper=stepper, stabilizer=stabilizer)
    sim.restore(dataclasses.replace(state, guards=np.zeros(0), ledger=np.zeros(0)))
    sim.step()
    after = sim.snapshot()
    if not _is_explicit(system, stepper):
        return _Chain(system, state, step_s, feedback).step(stepper, after)
    p = state.p.copy()
    if state.constraint_mode >= 0:
        first = len(p) - len(system.mechanism.switched)
        p[first:] = system.default_parameters(state.constraint_mode)[first:]
    stages = StageDerivatives(system, step_s, stepper, feedback, p)
    stages.start[:], stages.u[:] = np.concatenate([state.q, state.v]), state.u
    stages(state.tick)
    return Step(np.concatenate([after.q, after.v]), stages.by_x, stages.by_u)


def bound_step_derivatives(
    system: System, step_s: float, stepper: str | Stepper = "rk4", stabilizer: str | Stabilizer = "sampled_fuzzy"
) -> StageDerivatives:
    """The derivatives of a step of an explicit stepper, on arrays that the caller sets before each call.

    step_s  step size, s
    Raises InvalidRequest as `step_derivatives` does, for the implicit midpoint rule, and for a robot with spherical or
    free joints.
    """
    stepper, _, feedback = _differentiable(system, step_s, stepper, stabilizer)
    if not _is_explicit(system, stepper):
        raise InvalidRequest(
            f"a step of {system.mechanism.name!r} with {stepper.name!r} has no bound derivatives: they are those of "
            "explicit steppers, for robots without spherical and free joints; use step_derivatives"
        )
    return StageDerivatives(system, step_s, stepper, feedback, system.default_parameters())


def _is_explicit(system: System, stepper: Stepper) -> bool:
    return stepper.name != "implicit_midpoint" and not system.mechanism.oriented_joints


def _differentiable(
    system: System, step_s: float, stepper: str | Stepper, stabilizer: str | Stabilizer
) -> tuple[Stepper, Stabilizer, Feedback]:
    """Stepper, stabilizer and the linear model of the stabilizer, or InvalidRequest if a step has no derivative."""
    stepper = stepper_named(stepper) if isinstance(stepper, str) else stepper
    stabilizer = stabilizer_named(stabilizer) if isinstance(stabilizer, str) else stabilizer
    if stepper.name not in STEPPERS:
        raise InvalidRequest(
            f"stepper {stepper.name!r} keeps a memory or chooses its steps, so that a step has no derivative by the "
            f"state alone; linearize with {', '.join(STEPPERS)}"
        )
    return stepper, stabilizer, _feedback(system, stepper, stabilizer, step_s)


def _feedback(system: System, stepper: Stepper, stabilizer: Stabilizer, h: float) -> Feedback:
    if not system.max_rows or stabilizer.name == "none":
        return Feedback(0.0, 0.0, True)
    if isinstance(stabilizer, Baumgarte):
        return Feedback(*stabilizer.linear_gains(h), False)
    if isinstance(stabilizer, SampledFuzzy) and stabilizer.sets == FuzzySets():
        rho, c, slope = stabilizer.gains(h, stepper, system.mechanism.characteristic_length)[1:4]
        k1 = (1.0 - rho) ** 2
        k2 = 2.0 * (1.0 - rho) - c * k1
        # Ku (Kp Phi + Kd Phidot) of the law `sampled_fuzzy`, whose surface is the plane x + y about its centre
        return Feedback(k1 / (slope * h * h), k2 / (slope * h), True)
    raise InvalidRequest(
        f"stabilizer {stabilizer.name!r} has no linear model in a robot with constraints; linearize with none, "
        "baumgarte or sampled_fuzzy with triangular sets and the product"
    )


class _Chain:
    """Derivatives of the stages of one step, by the state at its start and by the inputs."""

    def __init__(self, system: System, state: State, h: float, feedback: Feedback) -> None:
        self.system, self.state, self.h, self.feedback = system, state, h, feedback
        self.n, self.n_u, self.turnings = system.n_q, system.n_u, turnings_of(system)
        self.begin = started(self.turnings, state.v)
        self.t0 = state.tick * h
        self.mode = state.constraint_mode if state.constraint_mode >= 0 else None
        Phi, Phidot = system.residual(self.t0, state.q, state.v, state.p, self.mode, state.u)
        self.U = self._law(Phi, Phidot)
        first = self._at(self.t0, state.q, state.v)
        self.U_x = self._law_by_x(first) if feedback.sampled else np.zeros((system.max_rows, 2 * self.n))

    def _law(self, Phi: Array, Phidot: Array) -> Array:
        U = self.feedback.velocity * Phidot
        U[: len(Phi)] += self.feedback.position * Phi
        return U

    def _law_by_x(self, at: Derivatives) -> Array:
        of_q, of_v = self.feedback.velocity * at.rate_q, self.feedback.velocity * at.rate_v
        of_q[: len(at.Phi_q)] += self.feedback.position * at.Phi_q
        return np.hstack([of_q, of_v])

    def _at(self, t: float, q: Array, v: Array) -> Derivatives:
        U = self.U
        if not self.feedback.sampled:
            U = self._law(*self.system.residual(t, q, v, self.state.p, self.mode, self.state.u))
        return self.system.derivatives(t, q, v, self.state.u, self.state.p, U, self.mode)

    def acceleration(self, t: float, q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """(a, derivative by q and v at the stage (n, 2 n), by the start through U (n, 2 n), by u (n, n_u))."""
        at = self._at(t, q, v)
        by_x, by_start = np.hstack([at.a_q, at.a_v]), np.zeros((self.n, 2 * self.n))
        if self.feedback.sampled:
            by_start = at.a_U @ self.U_x
        else:
            by_x = by_x + at.a_U @ self._law_by_x(at)
        if self.turnings:
            by_start = by_start + by_x @ moved(self.turnings, q, v) - moved_acceleration(self.turnings, q, v, at.a)
        return at.a, by_x, by_start, at.a_u

    def step(self, stepper: Stepper, after: State) -> Step:
        """The step with its derivatives; `after` is the state after it."""
        q, v = within_step(self.turnings, self.state, after)
        if stepper.name == "semi_implicit":
            by_x, by_u = self._semi_implicit()
        elif stepper.name == "implicit_midpoint":
            by_x, by_u = self._midpoint((v - self.state.v) / self.h)
        else:
            assert stepper.tableau is not None
            by_x, by_u = self._explicit(*stepper.tableau.arrays())
        by_x = by_x + moved(self.turnings, q, v)
        of_x, of_u = (ended(self.turnings, q, v, after.v, by) for by in (by_x, by_u))
        return Step(np.concatenate([q, after.v]), of_x, of_u)

    def _semi_implicit(self) -> tuple[Array, Array]:
        h, n = self.h, self.n
        _, by_x, by_start, by_u = self.acceleration(self.t0, self.state.q, self.state.v)
        v_x = self.begin[n:] + h * (by_x @ self.begin + by_start)
        q_x = self.begin[:n] + h * v_x
        return np.vstack([q_x, v_x]), np.vstack([h * h * by_u, h * by_u])

    def _midpoint(self, a: Array) -> tuple[Array, Array]:
        """By the implicit function theorem at the stage q + h v / 2 + h^2 a / 4, v + h a / 2."""
        h, n = self.h, self.n
        q, v = self.state.q + 0.5 * h * self.state.v + 0.25 * h * h * a, self.state.v + 0.5 * h * a
        _, by_x, by_start, by_u = self.acceleration(self.t0 + 0.5 * h, q, v)
        of_q, of_v = by_x[:, :n], by_x[:, n:]
        left = np.eye(n) - 0.25 * h * h * of_q - 0.5 * h * of_v
        a_x = np.linalg.solve(left, np.hstack([of_q, 0.5 * h * of_q + of_v]) @ self.begin + by_start)
        a_u = np.linalg.solve(left, by_u)
        v_x = self.begin[n:] + h * a_x
        q_x = self.begin[:n] + h * self.begin[n:] + 0.5 * h * h * a_x
        return np.vstack([q_x, v_x]), np.vstack([0.5 * h * h * a_u, h * a_u])

    def _explicit(self, A: Array, b: Array, c: Array) -> tuple[Array, Array]:
        n, n_u, h = self.n, self.n_u, self.h
        start = np.concatenate([self.state.q, self.state.v])
        rates, by_x, by_u = list[Array](), list[Array](), list[Array]()
        for i in range(len(b)):
            x = start + h * sum((A[i, j] * rates[j] for j in range(i)), np.zeros(2 * n))
            x_x = self.begin + h * sum((A[i, j] * by_x[j] for j in range(i)), np.zeros((2 * n, 2 * n)))
            x_u = h * sum((A[i, j] * by_u[j] for j in range(i)), np.zeros((2 * n, n_u)))
            a, of_x, of_start, of_u = self.acceleration(self.t0 + c[i] * h, x[:n], x[n:])
            rates.append(np.concatenate([x[n:], a]))
            by_x.append(np.vstack([x_x[n:], of_x @ x_x + of_start]))
            by_u.append(np.vstack([x_u[n:], of_x @ x_u + of_u]))
        total_x = self.begin + h * sum(b[i] * by_x[i] for i in range(len(b)))
        return total_x, h * sum((b[i] * by_u[i] for i in range(len(b))), np.zeros((2 * n, n_u)))

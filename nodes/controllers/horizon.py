"""Plans and references over the horizon of a predictive controller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodes.controllers.tracking import Targets, Vector
from sim_core.analysis.discretization import bound_step_derivatives
from sim_core.analysis.optimal_control import OptimalControl
from sim_core.inverse import DrivenDynamics
from sim_core.system import System

LONGEST_STEP_S = 5e-3  # of the prediction over the delay


@dataclass(frozen=True)
class EffortPlan:
    """Efforts (N, n_u) over stages of step_s (s) from the time `start` on, and states (N + 1, 2 n_q) between them.

    ready  time from which the plan is in use, s
    """

    start: float
    ready: float
    step_s: float
    x: Vector
    u: Vector

    def effort_at(self, time: float) -> Vector:
        """Efforts (n_u,) at a time (s); after the end those of the last stage."""
        stage = math.floor((time - self.start) / self.step_s + 1e-6)
        return np.asarray(self.u[min(max(stage, 0), len(self.u) - 1)])

    def state_at(self, time: float) -> Vector:
        """Planned state (2 n_q,) at a time (s), interpolated between the stages."""
        stages: Vector = np.array([(time - self.start) / self.step_s])
        return np.asarray(self._states(stages)[0])

    def _states(self, stages: Vector) -> Vector:
        """States (m, 2 n_q) at places (m,) counted in stages from the start."""
        place = np.clip(stages, 0.0, len(self.u))
        before = np.minimum(place.astype(int), len(self.u) - 1)
        part = (place - before)[:, None]
        return np.asarray((1.0 - part) * self.x[before] + part * self.x[before + 1])

    def shift_into(self, control: OptimalControl, start: float) -> None:
        """Set the states and efforts of `control`, whose first stage begins at `start`, from this plan."""
        N = len(self.u)
        shift = (start - self.start) / self.step_s
        middle = np.floor(np.arange(N) + 0.5 + shift).astype(int)
        control.u[:] = self.u[np.clip(middle, 0, N - 1)]
        control.x[:] = self._states(shift + np.arange(N + 1, dtype=np.float64))


class Predictor:
    """Prediction of the state over the delay `lead_s` (s) of a loop."""

    def __init__(self, system: System, lead_s: float) -> None:
        self._count = math.ceil(lead_s / LONGEST_STEP_S - 1e-9)
        self._step_s = lead_s / max(1, self._count)
        self._step = bound_step_derivatives(system, self._step_s, "rk4", "none") if self._count else None

    def __call__(self, x: Vector, now: float, plan: EffortPlan, following: EffortPlan | None) -> Vector:
        """State after the delay from the state x (2 n_q,) at the time `now` (s), under the efforts of the plans.

        following  plan that replaces `plan` at its start; None for none
        """
        if self._step is None:
            return x
        step, found = self._step, x
        for k in range(self._count):
            middle = now + (k + 0.5) * self._step_s
            used = plan if following is None or middle < following.start else following
            step.start[:], step.u[:] = found, used.effort_at(middle)
            step()
            found = step.x.copy()
        return found


class HorizonReference:
    """Writes the reference of the stages into the arrays of an optimal control problem.

    The positions are those of the waypoints or, without waypoints, of the topic `reference`. The efforts are those that
    hold the robot at rest at the states of the present guess.
    """

    def __init__(self, problem: Any, control: OptimalControl) -> None:
        self._problem, self._control = problem, control
        self._inverse = DrivenDynamics(problem.system)
        self._indices = problem.model.indices

    def update(self, start: float, targets: Targets) -> None:
        """Set the reference of a horizon that begins at the time `start` (s).

        targets  latest references of the topic `reference`
        """
        control, problem = self._control, self._problem
        stages = np.arange(1, control.horizon + 1, dtype=np.float64)
        times: Vector = start + control.step_s * stages
        if len(problem.waypoints):
            control.position[:], control.velocity[:] = minimum_jerk_rows(problem.waypoints, times)
        else:
            for k, time in enumerate(times):
                control.position[k], control.velocity[k], _ = targets.at(time)
        if len(problem.point_waypoints):
            control.place[:], _ = minimum_jerk_rows(problem.point_waypoints, times)
        if problem.turning.any():
            away = control.x[-1, : control.n] - control.position[-1]
            control.position += problem.turning * math.tau * np.round(away / math.tau)
        for k in range(control.horizon):
            control.effort[k] = self._holding(control.x[k])

    def rest_at(self, x: Vector) -> None:
        """Set the guess of the problem to rest at the positions of a state x (2 n_q,)."""
        control = self._control
        control.x[:] = x
        control.x[1:, control.n :] = 0.0
        control.u[:] = np.clip(self._holding(x), -control.limits.effort, control.limits.effort)

    def _holding(self, x: Vector) -> Vector:
        """Efforts (n_u,) that hold the driven joints at rest at the positions of a state."""
        effort = np.zeros(self._control.n_u)
        self._inverse.q[:] = x[: self._control.n]
        self._inverse()
        effort[self._problem.driven] = self._inverse.tau[self._indices]
        return effort


def minimum_jerk_rows(rows: Vector, times: Vector) -> tuple[Vector, Vector]:
    """(values, rates) at the times (n,), of minimum-jerk moves between rows (time, values), at rest in each row."""
    if len(rows) == 1:
        values = np.tile(rows[0, 1:], (len(times), 1))
        return values, np.zeros_like(values)
    k = np.clip(np.searchsorted(rows[:, 0], times, side="right"), 1, len(rows) - 1)
    span, way = rows[k, 0] - rows[k - 1, 0], rows[k, 1:] - rows[k - 1, 1:]
    s = np.clip((times - rows[k - 1, 0]) / span, 0.0, 1.0)
    share = s**3 * (10.0 + s * (-15.0 + 6.0 * s))
    rate = 30.0 * s**2 * (1.0 - s) ** 2 / span
    return rows[k - 1, 1:] + share[:, None] * way, rate[:, None] * way


def rows_of(rows: Sequence[Sequence[float]], width: int, what: str, content: str) -> Vector:
    """Rows (n, width), each with a time that is later than that of the row before.

    Raises ValueError with a one-line message for other rows.

    what, content  name of a row, and its numbers, for the message
    """
    for k, row in enumerate(rows, start=1):
        if len(row) != width or not all(map(math.isfinite, row)):
            raise ValueError(f"{what} {k} is {list(row)}; it must have {content}, all finite")
        if k > 1 and row[0] <= rows[k - 2][0]:
            raise ValueError(f"{what} {k} is at {row[0]:g} s; it must be later than the one before it")
    return np.array([list(row) for row in rows], dtype=float).reshape(-1, width)

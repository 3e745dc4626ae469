"""Optimal control over a receding horizon by Gauss-Newton steps, for predictive controllers.

Direct multiple shooting with one quadratic program per step: the real-time iteration [DiehlBockSchloeder2005].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from sim_core.analysis.discretization import bound_step_derivatives
from sim_core.errors import InvalidRequest
from sim_core.system import System

Array = np.ndarray
SLACK_COST = 1e3  # per m of a sphere's violation: above the multipliers of the constraint, so that the penalty is exact
SLACK_CURVATURE = 1e3  # per m^2
LARGEST_MOVE = 1.0  # rad or m, largest change of a position in one iteration; the whole iteration is shortened to it
QP_OPTIONS: dict[str, Any] = {"error_on_fail": False, "piqp": {"compute_timings": False}}


@dataclass(frozen=True)
class Costs:
    """Weights of the squared deviations from the reference, at each of the N stages.

    position, velocity  (n_q,) weights
    effort              (n_u,) weights of the deviations from the reference's efforts
    point               weight of the distance of the followed point from its reference, 1/m^2
    terminal            factor of the weights of the last stage
    """

    position: Array
    velocity: Array
    effort: Array
    point: float = 0.0
    terminal: float = 1.0


@dataclass(frozen=True)
class Limits:
    """Limits of efforts and positions, and spheres that the followed point stays out of.

    effort        (n_u,) largest absolute efforts; inf for none
    lower, upper  (n_q,) positions; infinite for none
    velocity      (n_q,) largest absolute velocities; inf for none
    spheres       (m, 4) centre x, y, z and radius, m
    """

    effort: Array
    lower: Array
    upper: Array
    velocity: Array
    spheres: Array = field(default_factory=lambda: np.zeros((0, 4)))


class OptimalControl:
    """Efforts u (N, n_u) and states x (N + 1, 2 n_q) that minimize the costs, at steps of `step_s`.

    minimize   sum of w |x_k - x*_k|^2 / 2 over k = 1 .. N, and of w |u_k - u*_k|^2 / 2 over k = 0 .. N - 1
    subject to x_(k+1) = f(x_k, u_k), a step of the classical Runge-Kutta method, and to the limits

    `iterate` makes one Gauss-Newton step from the arrays `x` and `u`, which the caller may set. The spheres are
    soft constraints, with one slack per stage: a state inside a sphere leaves it instead of having no solution. Where
    no efforts can keep the limits of positions and velocities, a step leaves these out, and `keeps_limits` is false.

    system   tree without constraints
    horizon  number N of stages
    step_s   duration of a stage, s
    point    name of the point output that is followed and kept out of the spheres; "" for none

    The reference is in the arrays `position`, `velocity` (N, n_q) of the stages 1 .. N, `effort` (N, n_u) and `place`
    (N, 3), m. Raises InvalidRequest for a system whose steps have no derivative.
    """

    def __init__(
        self, system: System, horizon: int, step_s: float, costs: Costs, limits: Limits, point: str = ""
    ) -> None:
        if system.max_rows:
            raise InvalidRequest(
                f"{system.mechanism.name!r} has constraints; predictive control takes trees in joint coordinates"
            )
        self.horizon, self.step_s, self.costs, self.limits = horizon, step_s, costs, limits
        n, n_u, N = system.n_q, system.n_u, horizon
        self.n, self.n_u = n, n_u
        self._step = bound_step_derivatives(system, step_s, "rk4", "none")
        self._point = _Point(system, point) if point else None
        self.x, self.u = np.zeros((N + 1, 2 * n)), np.zeros((N, n_u))
        self.position, self.velocity = np.zeros((N, n)), np.zeros((N, n))
        self.effort, self.place = np.zeros((N, n_u)), np.zeros((N, 3))
        scale = np.ones((N, 1))
        scale[-1] = costs.terminal
        self._w_q, self._w_v, self._w_p = scale * costs.position, scale * costs.velocity, scale * costs.point
        self._qp = _StageProgram(N, n, n_u, len(limits.spheres))
        self.keeps_limits = True  # whether the latest iteration does
        self.change = np.inf  # largest change of x and u in the latest iteration

    def iterate(self, start: Array) -> bool:
        """One Gauss-Newton step for the start `start` (2 n_q,). Returns whether the quadratic program was solved.

        If it was not, `x` and `u` are as before.
        """
        deviation = start - self.x[0]
        self._linearize(deviation)
        self._add_costs()
        self._bound(start)
        if self._point is not None:
            self._follow_point()
        self.keeps_limits = self._qp.solve()
        if not self.keeps_limits:
            self._release()
            if not self._qp.solve():
                return False
        du, dx = self._qp.du, self._qp.dx
        share = min(1.0, LARGEST_MOVE / max(float(np.abs(dx[:, : self.n]).max()), 1e-300))
        self.u += share * du
        self.x[0] = start
        self.x[1:] += share * dx
        self.change = float(max(np.abs(du).max(), np.abs(dx).max()))
        return True

    def roll_out(self, start: Array) -> None:
        """Set `x` to the motion from `start` under the efforts `u`."""
        self.x[0] = start
        step = self._step
        for k in range(self.horizon):
            step.start[:], step.u[:] = self.x[k], self.u[k]
            step()
            self.x[k + 1] = step.x

    def _linearize(self, deviation: Array) -> None:
        """(x, u) -> rows A dx_k + B du_k - dx_(k+1) = x_(k+1) - f of the quadratic program."""
        qp, step = self._qp, self._step
        for k in range(self.horizon):
            step.start[:], step.u[:] = self.x[k], self.u[k]
            step()
            qp.A[k], qp.B[k], qp.gap[k] = step.by_x, step.by_u, step.x
        np.subtract(self.x[1:], qp.gap, out=qp.gap)
        qp.gap[0] -= qp.A[0] @ deviation

    def _add_costs(self) -> None:
        qp, n = self._qp, self.n
        qp.H_q[:] = 0.0
        qp.H_q[:, range(n), range(n)] = self._w_q
        qp.H_v[:], qp.H_u[:] = self._w_v, self.costs.effort
        qp.g_q[:] = self._w_q * (self.x[1:, :n] - self.position)
        qp.g_v[:] = self._w_v * (self.x[1:, n:] - self.velocity)
        qp.g_u[:] = self.costs.effort * (self.u - self.effort)

    def _bound(self, start: Array) -> None:
        """Bounds of du, dq and dv. A joint that starts beyond its limits may stay there, and be fast for one stage."""
        qp, limits, q, v = self._qp, self.limits, self.x[1:, : self.n], self.x[1:, self.n :]
        qp.u_low[:], qp.u_high[:] = -limits.effort - self.u, limits.effort - self.u
        qp.q_low[:] = np.minimum(limits.lower, start[: self.n]) - q
        qp.q_high[:] = np.maximum(limits.upper, start[: self.n]) - q
        qp.v_low[:], qp.v_high[:] = -limits.velocity - v, limits.velocity - v
        fastest = np.maximum(limits.velocity, np.abs(start[self.n :]))
        qp.v_low[0], qp.v_high[0] = -fastest - v[0], fastest - v[0]

    def _release(self) -> None:
        """Remove the bounds of dq and dv."""
        qp = self._qp
        for low, high in ((qp.q_low, qp.q_high), (qp.v_low, qp.v_high)):
            low[:], high[:] = -np.inf, np.inf

    def _follow_point(self) -> None:
        assert self._point is not None
        qp, spheres = self._qp, self.limits.spheres
        places, by_q = self._point(self.x[1:])
        weighted = self._w_p[:, :, None] * by_q
        qp.H_q += by_q.transpose(0, 2, 1) @ weighted
        qp.g_q += np.einsum("kiq,ki->kq", weighted, places - self.place)
        if len(spheres):
            ways = places[:, None, :] - spheres[:, :3]
            distances = np.linalg.norm(ways, axis=2)
            qp.D[:] = (ways / distances[:, :, None]) @ by_q
            qp.d_low[:] = spheres[:, 3] - distances


class _Point:
    """Position (m) of a point output and its derivative by q, at the states of the stages."""

    def __init__(self, system: System, name: str) -> None:
        names = [f"{name}_{axis}" for axis in "xyz"]
        if not set(names) <= set(system.output_names):
            points = sorted({one[:-2] for one in system.output_names if one.endswith("_x")})
            raise InvalidRequest(
                f"robot {system.mechanism.name!r} has no point {name!r}; its points are {', '.join(points) or 'none'}"
            )
        n, n_u, n_j, n_o = system.n_q, system.n_u, len(system.joint_names), len(system.output_names)
        self._rows = [system.output_names.index(one) for one in names]
        self._q, self._v = np.zeros(n), np.zeros(n)
        inputs = [np.zeros(1), self._q, self._v, np.zeros(n_u), system.default_parameters()]
        self._values, by = np.zeros(n_o), [np.zeros((m, size)) for size in (n_j, n_j, n_o) for m in (n, n, n_u)]
        self._by_q = by[6]
        self._evaluate = system.bind("outputs", inputs, [self._values])
        self._differentiate = system.derivative_kernels.bind("outputs", inputs, by)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        n = len(self._q)
        places, by_q = np.zeros((len(x), 3)), np.zeros((len(x), 3, n))
        for k, row in enumerate(x):
            self._q[:], self._v[:] = row[:n], row[n:]
            self._evaluate()
            self._differentiate()
            places[k], by_q[k] = self._values[self._rows], self._by_q[:, self._rows].T
        return places, by_q


class _StageProgram:
    """Sparse quadratic program over the stages, with the variables (du_k, dq_k+1, dv_k+1, slack_k+1) of each.

    The attributes are the data of the stages, with the stage as first axis:

    A, B, gap       A dx_k + B du_k - dx_(k+1) = gap; A of the first stage is not used, as gap has its product
    H_q, H_v, H_u   Hessian: a matrix, and two diagonals; g_q, g_v, g_u: gradient
    u_low, u_high, q_low, q_high, v_low, v_high  bounds
    D, d_low        D dq_(k+1) + slack_(k+1) >= d_low, one row for each sphere
    du, dx          solution
    """

    def __init__(self, N: int, n: int, n_u: int, n_spheres: int) -> None:
        def zeros(*size: int) -> Array:
            return np.zeros((N, *size))

        self.A, self.B, self.gap = zeros(2 * n, 2 * n), zeros(2 * n, n_u), zeros(2 * n)
        self.H_q, self.H_v, self.H_u = zeros(n, n), zeros(n), zeros(n_u)
        self.g_q, self.g_v, self.g_u = zeros(n), zeros(n), zeros(n_u)
        self.D, self.d_low = zeros(n_spheres, n), zeros(n_spheres)
        self.u_low, self.u_high, self.q_low, self.q_high = zeros(n_u), zeros(n_u), zeros(n), zeros(n)
        self.v_low, self.v_high = zeros(n), zeros(n)
        self.du, self.dx = zeros(n_u), zeros(2 * n)
        slack = int(n_spheres > 0)
        width, height = n_u + 2 * n + slack, 2 * n + n_spheres
        columns = np.arange(N * width).reshape(N, width)
        rows = np.arange(N * height).reshape(N, height)
        u, q, v, s = np.split(columns, np.cumsum([n_u, n, n]), axis=1)
        x, steps, out = columns[:, n_u : n_u + 2 * n], rows[:, : 2 * n], rows[:, 2 * n :]
        self._H = _Pattern([(q, q), (v, None), (u, None), (s, None)], N * width, N * width)
        self._A = _Pattern(
            [(steps[1:], x[:-1]), (steps, u), (steps, x, "diagonal"), (out, q), (out, s)], N * height, N * width
        )
        self._places, self._out = (u, q, v, s), (steps, out)
        self._connect()
        self._minus, self._ones = -np.ones(steps.shape), np.ones((N, n_spheres, slack))

    def _connect(self) -> None:
        """Make the solver, and bind its inputs and outputs to arrays."""
        self._solver = ca.conic("stages", "piqp", {"h": self._H.sparsity, "a": self._A.sparsity}, QP_OPTIONS)
        buffer: Any
        buffer, self._run = self._solver.buffer()
        self._buffer = buffer
        self._given = {name: np.zeros(max(1, self._solver.nnz_in(name))) for name in self._solver.name_in()}
        self._found = {name: np.zeros(max(1, self._solver.nnz_out(name))) for name in self._solver.name_out()}
        for k, array in enumerate(self._given.values()):
            buffer.set_arg(k, array.data)
        for k, array in enumerate(self._found.values()):
            buffer.set_res(k, array.data)
        self._given["lbx"][:], self._given["ubx"][:] = -np.inf, np.inf
        self._given["uba"][:] = np.inf

    def solve(self) -> bool:
        """Solve the program. Returns whether there is a solution, which is then in du and dx."""
        given, (u, q, v, s), (steps, out) = self._given, self._places, self._out
        self._H.fill(given["h"], [self.H_q, self.H_v, self.H_u, np.full(s.shape, SLACK_CURVATURE)])
        self._A.fill(given["a"], [self.A[1:], self.B, self._minus, self.D, self._ones])
        given["g"][u], given["g"][q], given["g"][v], given["g"][s] = self.g_u, self.g_q, self.g_v, SLACK_COST
        given["lbx"][u], given["ubx"][u] = self.u_low, self.u_high
        given["lbx"][q], given["ubx"][q], given["lbx"][s] = self.q_low, self.q_high, 0.0
        given["lbx"][v], given["ubx"][v] = self.v_low, self.v_high
        given["lba"][steps], given["uba"][steps], given["lba"][out] = self.gap, self.gap, self.d_low
        self._run()
        solution = self._found["x"]
        if not self._buffer.stats()["success"] or not np.isfinite(solution).all():
            return False
        self.du[:], self.dx[:] = solution[u], solution[np.concatenate([q, v], axis=1)]
        return True


class _Pattern:
    """Sparsity of a matrix made of blocks per stage, and the places of the blocks in its column-compressed numbers.

    blocks  (rows, columns) of dense blocks, with the stage as first axis; (indices, None) and (rows, columns,
            "diagonal") of diagonal blocks
    """

    def __init__(self, blocks: Sequence[tuple[Any, ...]], n_rows: int, n_columns: int) -> None:
        found = [_entries(*block) for block in blocks]
        rows = np.concatenate([row.ravel() for row, _ in found])
        columns = np.concatenate([column.ravel() for _, column in found])
        self.sparsity = ca.Sparsity.triplet(n_rows, n_columns, rows.tolist(), columns.tolist())
        place = np.empty(len(rows), dtype=int)
        place[np.lexsort((rows, columns))] = np.arange(len(rows))
        ends = np.cumsum([row.size for row, _ in found])[:-1]
        self._places = [part.reshape(row.shape) for part, (row, _) in zip(np.split(place, ends), found, strict=True)]

    def fill(self, numbers: Array, blocks: Sequence[Array]) -> None:
        """Write the blocks, in the order of the constructor, into the numbers of the matrix."""
        for place, block in zip(self._places, blocks, strict=True):
            numbers[place] = block


def _entries(rows: Array, columns: Array | None, kind: str = "") -> tuple[Array, Array]:
    if columns is None:
        return rows, rows
    if kind:
        return rows, columns
    shape = len(rows), rows.shape[1], columns.shape[1]
    return np.broadcast_to(rows[:, :, None], shape), np.broadcast_to(columns[:, None, :], shape)

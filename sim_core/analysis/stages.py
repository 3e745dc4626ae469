"""Derivatives of one step of an explicit stepper, by the chain rule over its stages, as a compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim_core.integrators.steppers import Stepper
from sim_core.kernels.bound import pointer_table
from sim_core.kernels.compiled import call_kernel, inner, loop
from sim_core.kernels.stepping import BoundLoop
from sim_core.system import System

Array = np.ndarray


class Feedback(NamedTuple):
    """Linear stabilization U = position Phi + velocity Phidot; `sampled` if it is constant over a step."""

    position: float
    velocity: float
    sampled: bool


class _Kernels(NamedTuple):
    """Addresses of kernels with their tables of inputs and outputs, and the arrays that these hold.

    calls      (3, 3) addresses (kernel, inputs, outputs) of derivatives, rows and residual
    t, q, v    inputs at a stage; U (n_r,) stabilization, a (n,) accelerations, X (n + n_r, n_columns) their derivatives
    Phi_q to gamma_u  results of the kernel `rows`, transposed; Phi, Phidot those of `residual`
    """

    calls: Array
    t: Array
    q: Array
    v: Array
    U: Array
    a: Array
    X: Array
    Phi_q: Array
    rate_q: Array
    rate_v: Array
    f_u: Array
    gamma_u: Array
    Phi: Array
    Phidot: Array


class _Work(NamedTuple):
    """Arrays of the chain rule over s stages.

    rates (s, 2 n), by_x (s, 2 n, 2 n), by_u (s, 2 n, n_u)  rates of x = (q, v) at the stages, by x and u at the start
    x_x (2 n, 2 n), x_u (2 n, n_u)  derivatives of the present stage's x
    of_x (n, 2 n), of_u (n, n_u)    derivatives of the present stage's accelerations by the stage's x and by u
    U_x (n_r, 2 n)                  derivative of the stabilization by x, at the start or at the stage
    """

    rates: Array
    by_x: Array
    by_u: Array
    x_x: Array
    x_u: Array
    of_x: Array
    of_u: Array
    U_x: Array


@inner
def _stabilize(k, w, position, velocity):  # type: ignore[no-untyped-def]
    """U and its derivative U_x at the inputs t, q, v, for which the kernel `rows` has run."""
    n, n_h = k.q.size, k.Phi.size
    call_kernel(k.calls[2, 0], k.calls[2, 1], k.calls[2, 2])
    for r in range(k.U.size):
        k.U[r] = velocity * k.Phidot[r] + (position * k.Phi[r] if r < n_h else 0.0)
        for j in range(n):
            w.U_x[r, j] = velocity * k.rate_q[j, r] + (position * k.Phi_q[j, r] if r < n_h else 0.0)
            w.U_x[r, n + j] = velocity * k.rate_v[j, r]


@inner
def _accelerate(k, w):  # type: ignore[no-untyped-def]
    """a, and its derivatives of_x and of_u with U held, at the inputs t, q, v."""
    n, n_u, n_r = k.q.size, w.x_u.shape[1], k.U.size
    call_kernel(k.calls[0, 0], k.calls[0, 1], k.calls[0, 2])
    for i in range(n):
        for j in range(2 * n):
            w.of_x[i, j] = k.X[i, j]
        for m in range(n_u):
            total = 0.0
            for j in range(n):
                total += k.X[i, 2 * n + j] * k.f_u[m, j]
            for r in range(n_r):
                total -= k.X[i, 3 * n + r] * k.gamma_u[m, r]
            w.of_u[i, m] = total


@inner
def _add_feedback(k, w, target):  # type: ignore[no-untyped-def]
    """Add da/dU U_x to a matrix (n, 2 n)."""
    n = k.q.size
    for i in range(n):
        for r in range(k.U.size):
            for j in range(2 * n):
                target[i, j] += k.X[i, 3 * n + r] * w.U_x[r, j]


@inner
def _stage(k, w, i, sampled):  # type: ignore[no-untyped-def]
    """Rates of stage i, and their derivatives by x and u at the start."""
    n, n_u = k.q.size, w.x_u.shape[1]
    for j in range(n):
        w.rates[i, j], w.rates[i, n + j] = k.v[j], k.a[j]
        for m in range(2 * n):
            w.by_x[i, j, m] = w.x_x[n + j, m]
            total = 0.0
            if i == 0:
                total = w.of_x[j, m]
            w.by_x[i, n + j, m] = total
        for m in range(n_u):
            w.by_u[i, j, m] = w.x_u[n + j, m]
            w.by_u[i, n + j, m] = w.of_u[j, m]
        if i > 0:
            for r in range(2 * n):
                for m in range(2 * n):
                    w.by_x[i, n + j, m] += w.of_x[j, r] * w.x_x[r, m]
                for m in range(n_u):
                    w.by_u[i, n + j, m] += w.of_x[j, r] * w.x_u[r, m]
    if sampled:
        _add_feedback(k, w, w.by_x[i, n:])


@inner
def _combine(w, weights, count, h, start, x, x_x, x_u):  # type: ignore[no-untyped-def]
    """x = start + h sum of weights rates over the first `count` stages, and its derivatives."""
    for j in range(x.size):
        x[j] = start[j]
        for m in range(x_x.shape[1]):
            x_x[j, m] = 1.0 if j == m else 0.0
        for m in range(x_u.shape[1]):
            x_u[j, m] = 0.0
        for i in range(count):
            weight = h * weights[i]
            if weight != 0.0:
                x[j] += weight * w.rates[i, j]
                for m in range(x_x.shape[1]):
                    x_x[j, m] += weight * w.by_x[i, j, m]
                for m in range(x_u.shape[1]):
                    x_u[j, m] += weight * w.by_u[i, j, m]


@loop
def _step(n_steps, h, tick, k, w, scheme, options, start, x, by_x, by_u):  # type: ignore[no-untyped-def]
    """The step x of size h from `start`, at the time tick h, and its derivatives by_x and by_u.

    scheme   Butcher tableau A, b, c
    options  position and velocity gain of the stabilization; 1 if it is sampled, otherwise 0; 1 for the semi-implicit
             step, otherwise 0
    """
    n, n_r, sampled = k.q.size, k.U.size, options[2] != 0.0
    A, b, c = scheme
    for i in range(b.size):
        _combine(w, A[i], i, h, start, x, w.x_x, w.x_u)
        k.t[0] = tick * h + c[i] * h
        for j in range(n):
            k.q[j], k.v[j] = x[j], x[n + j]
        call_kernel(k.calls[1, 0], k.calls[1, 1], k.calls[1, 2])
        if n_r > 0 and (i == 0 or not sampled):
            _stabilize(k, w, options[0], options[1])
        _accelerate(k, w)
        if n_r > 0 and not sampled:
            _add_feedback(k, w, w.of_x)
        _stage(k, w, i, n_r > 0 and sampled)
    _combine(w, b, b.size, h, start, x, by_x, by_u)
    if options[3] != 0.0:  # q moves with the velocity at the end of the step
        for j in range(n):
            x[j] = start[j] + h * x[n + j]
            for m in range(2 * n):
                by_x[j, m] = h * by_x[n + j, m] + (1.0 if j == m else 0.0)
            for m in range(by_u.shape[1]):
                by_u[j, m] = h * by_u[n + j, m]
    return 0, n_steps, -1


class StageDerivatives:
    """One step x (2 n_q,) of x = (q, v), and its derivatives by_x (2 n_q, 2 n_q) and by_u (2 n_q, n_u).

    A call computes them from the arrays `start` (2 n_q,), u (n_u,) and p (n_p,), which the caller sets, at the time of
    a tick. The results are overwritten by the next call.
    """

    def __init__(self, system: System, step_s: float, stepper: Stepper, feedback: Feedback, p: Array) -> None:
        n, n_u, n_r, n_h = system.n_q, system.n_u, system.max_rows, system.constraint_modes[0].n_holonomic
        kernels = system.derivative_kernels
        self.start, self.u, self.p = np.zeros(2 * n), np.zeros(n_u), p.copy()
        self.x, self.by_x, self.by_u = np.zeros(2 * n), np.zeros((2 * n, 2 * n)), np.zeros((2 * n, n_u))
        t, q, v, U = np.zeros(1), np.zeros(n), np.zeros(n), np.zeros(n_r)
        a, lam, X = np.zeros(n), np.zeros(n_r), np.zeros((n + n_r, kernels.n_columns))
        shapes = ((n, n_h), (n, n_r), (n, n_r), (n_u, n_r), (n_u, n), (n_u, n_r))
        Phi_q, rate_q, rate_v, rate_u, f_u, gamma_u = rows = [np.zeros(shape) for shape in shapes]
        Phi, Phidot = np.zeros(n_h), np.zeros(n_r)
        usual = [t, q, v, self.u, self.p]
        tables = [pointer_table(arrays) for arrays in ([*usual, U], [a, lam, X], usual, rows, usual, [Phi, Phidot])]
        addresses = kernels.addresses["derivatives"], kernels.addresses["rows"], system.addresses["residual"]
        places = [table.ctypes.data for table in tables]
        calls = np.array([[address, *places[2 * k : 2 * k + 2]] for k, address in enumerate(addresses)])
        self._keep = system, tables, rate_u, lam
        arrays = _Kernels(calls, t, q, v, U, a, X, Phi_q, rate_q, rate_v, f_u, gamma_u, Phi, Phidot)
        is_explicit = stepper.tableau is not None
        scheme = (
            stepper.tableau.arrays() if stepper.tableau is not None else (np.zeros((1, 1)), np.ones(1), np.zeros(1))
        )
        s = len(scheme[1])
        sizes = ((s, 2 * n), (s, 2 * n, 2 * n), (s, 2 * n, n_u), (2 * n, 2 * n), (2 * n, n_u), (n, 2 * n))
        work = _Work(*[np.zeros(size) for size in (*sizes, (n, n_u), (n_r, 2 * n))])
        options = np.array([feedback.position, feedback.velocity, float(feedback.sampled), float(not is_explicit)])
        given = arrays, work, scheme, options, self.start, self.x, self.by_x, self.by_u
        self._loop = BoundLoop(_step, step_s, given)
        with self._loop.loading("the derivatives of steps"):
            self._loop.load()

    def __call__(self, tick: int = 0) -> None:
        """Compute x, by_x and by_u of the step that begins at a tick."""
        self._loop(1, tick)

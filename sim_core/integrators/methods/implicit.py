"""Implicit Runge-Kutta methods with a fixed step, one loop for all tableaus. [HairerWanner1996, ch. IV.8]

The unknowns are the stage accelerations K alone, since q' = v. With the matrix A and the nodes c of a Butcher tableau,

    V_i = v + h sum_j A_ij K_j,   Q_i = q + h c_i v + h^2 sum_j (A A)_ij K_j,   K_i = a(t + c_i h, Q_i, V_i)

A tableau divides its stages into groups. The stages of a group are solved together by Newton's method with the matrix
I - h^2 (A A) x a_q - h A x a_v, where A A is a matrix product and x is the Kronecker product. The tangents a_q = da/dq
and a_v = da/dv are finite differences of the acceleration in the middle of a step; they take 2 n + 1 evaluations. If a
stabilizer acts at every stage, its effect is included in the acceleration. The tangents are reused until convergence is
slow.

Stepper's memory: [1 if a_q and a_v are valid, the step size h with which a_q and a_v were computed, 1 if K is valid,
then K (s, n) of the last step, a_q, a_v (n, n)].
"""

from __future__ import annotations

from sim_core.integrators.linear import factorize, solve_factorized
from sim_core.integrators.step import accelerate, begin_step, end_step, measure, remember
from sim_core.integrators.workspace import DONE, DVDT, EVENT, NOT_CONVERGED, Q0, TIME, V0, Q, V
from sim_core.kernels.compiled import inner, loop

HAS_TANGENT, STEP, HAS_STAGES, KEPT = range(4)
MOST_ITERATIONS, SLOW = 12, 4
# a correction that stops shrinking below this is due to rounding of the acceleration
ROUNDING = 1e-8
DIFFERENCE = 2.0**-26


# Functions without kernel calls take single arrays instead of `m`: each block of `m` passed on costs compile time.


@inner
def drift(state, scalars, time, h):  # type: ignore[no-untyped-def]
    """Set t, q, v to the state at the start of the step, advanced by h at constant velocity."""
    scalars[TIME] = time + h
    for i in range(state.shape[1]):
        state[Q, i], state[V, i] = state[Q0, i] + h * state[V0, i], state[V0, i]


@inner
def take_tangent(m, calls, law, time, h, base):  # type: ignore[no-untyped-def]
    """Store the tangents a_q = da/dq, a_v = da/dv in the middle of the step in the stepper's memory.

    The tangents are computed by one-sided differences of the acceleration a.

    time  time at the start of the step, s
    base  scratch array, at least (n_q,)
    """
    state, memory = m.state, m.stepper
    n = state.shape[1]
    place = memory.size - 2 * n * n
    for column in range(-1, 2 * n):
        drift(state, m.scalars, time, h / 2)
        level, k = (Q, column) if column < n else (V, column - n)
        before = state[level, k]
        if column >= 0:
            state[level, k] = before + DIFFERENCE * max(1.0, abs(before))
        width = state[level, k] - before
        accelerate(m, calls, law, h)
        for i in range(n):
            if column < 0:
                base[i] = state[DVDT, i]
            else:
                memory[place + level * n * n + i * n + k] = (state[DVDT, i] - base[i]) / width
    memory[HAS_TANGENT], memory[STEP] = 1.0, h


@inner
def factorize_newton(memory, n, h, rows, lu, pivots, factored):  # type: ignore[no-untyped-def]
    """Factorize the matrix of Newton's method into `lu` and `pivots`; returns False if the matrix is singular.

    All groups of stages have the same matrix.

    rows      coefficients of the method, as in `advance_implicit`
    factored  array to which h and the tangents are written, so that `is_factored` can compare them later
    """
    s = rows.shape[1]
    size = lu.shape[0] // n
    first, place = s - size, memory.size - 2 * n * n
    for i in range(size):
        for j in range(size):
            w_v, w_q = h * rows[first + i, first + j], h * h * rows[s + first + i, first + j]
            for k in range(n):
                for c in range(n):
                    value = 1.0 if i == j and k == c else 0.0
                    value -= w_q * memory[place + k * n + c] + w_v * memory[place + n * n + k * n + c]
                    lu[i * n + k, j * n + c] = value
    factored[0] = h
    for k in range(2 * n * n):
        factored[1 + k] = memory[place + k]
    return factorize(lu, pivots)


@inner
def is_factored(memory, h, factored):  # type: ignore[no-untyped-def]
    """Whether the LU factors belong to the step size h and to the tangents that are in the stepper's memory.

    The factors are out of date after a step of another size, or after `restore` has replaced the memory.
    """
    place = memory.size - factored.size + 1
    same = factored[0] == h
    for k in range(factored.size - 1):
        same = same and factored[1 + k] == memory[place + k]
    return same


@inner
def place_stage(state, stages, h, rows, i):  # type: ignore[no-untyped-def]
    """Set q and v to those of stage i, computed from the accelerations K of all stages."""
    s = stages.shape[1]
    for k in range(state.shape[1]):
        q, v = 0.0, 0.0
        for j in range(s):
            v += rows[i, j] * stages[1, j, k]
            q += rows[s + i, j] * stages[1, j, k]
        state[Q, k] = state[Q0, k] + h * (rows[3 * s + 2, i] * state[V0, k] + h * q)
        state[V, k] = state[V0, k] + h * v


@inner
def correct(state, stages, h, first, size, right):  # type: ignore[no-untyped-def]
    """Add Newton's correction `right` to the accelerations K of the stages first, ..., first + size - 1.

    Returns h times the largest |correction|, divided by max(1, largest |v|); -1 if the correction is not finite.
    """
    n, scale, change = state.shape[1], 1.0, 0.0
    for k in range(n):
        scale = max(scale, abs(state[V0, k]))
    for i in range(size):
        for k in range(n):
            stages[1, first + i, k] += right[i * n + k]
            change = max(change, h * abs(right[i * n + k]) / scale)
            if not abs(right[i * n + k]) < 1e300:
                return -1.0
    return change


@inner
def extrapolate(stages, memory, rows):  # type: ignore[no-untyped-def]
    """Set the first guess of all stage accelerations K by extrapolating the stage polynomial of the last step."""
    s, n = stages.shape[1], stages.shape[2]
    for i in range(s):
        for k in range(n):
            value = 0.0
            for j in range(s):
                value += rows[2 * s + i, j] * memory[KEPT + j * n + k]
            stages[1, i, k] = value


@inner
def finish(state, stages, memory, h, rows):  # type: ignore[no-untyped-def]
    """Set q and v to those at the end of the step, and store the stage accelerations K in the stepper's memory."""
    n, s = state.shape[1], stages.shape[1]
    for k in range(n):
        q, v = 0.0, 0.0
        for j in range(s):
            memory[KEPT + j * n + k] = stages[1, j, k]
            v += rows[3 * s, j] * stages[1, j, k]
            q += rows[3 * s + 1, j] * stages[1, j, k]
        state[Q, k] = state[Q0, k] + h * (state[V0, k] + h * q)
        state[V, k] = state[V0, k] + h * v
    memory[HAS_STAGES] = 1.0


@inner
def solve_group(m, calls, law, time, h, rows, first, size, tolerance, lu, pivots, right):  # type: ignore[no-untyped-def]
    """Solve for the accelerations K of the stages first, ..., first + size - 1 by Newton's method.

    Returns the number of iterations; 0 if the iteration does not converge.
    """
    state, stages = m.state, m.stages
    n, s = state.shape[1], stages.shape[1]
    is_explicit = size == 1 and rows[first, first] == 0.0
    before = 0.0
    for iteration in range(MOST_ITERATIONS):
        for i in range(size):
            place_stage(state, stages, h, rows, first + i)
            m.scalars[TIME] = time + rows[3 * s + 2, first + i] * h
            accelerate(m, calls, law, h)
            for k in range(n):
                right[i * n + k] = state[DVDT, k] - stages[1, first + i, k]
        if not is_explicit:
            solve_factorized(lu, pivots, right)
        change = correct(state, stages, h, first, size, right)
        if change < 0.0:
            return 0
        ratio = change / before if iteration > 0 else 1.0
        if is_explicit or change <= tolerance or (ratio < 1.0 and change * ratio / (1.0 - ratio) <= tolerance):
            return iteration + 1
        if iteration > 0 and ratio >= 1.0:
            return iteration + 1 if change <= ROUNDING else 0
        before = change
    return 0


@inner
def implicit_step(m, calls, law, time, h, rows, groups, tolerance, lu, pivots, right, factored):  # type: ignore[no-untyped-def]
    """Advance q, v by one implicit step of size h. Returns DONE or NOT_CONVERGED.

    If Newton's method fails, the step is repeated with new tangents. If the repeated step fails too, it is repeated
    once more, with the acceleration at the start of the step as the first guess at all stages.
    """
    state, stages, memory = m.state, m.stages, m.stepper
    n = state.shape[1]
    for i in range(n):
        state[Q0, i], state[V0, i] = state[Q, i], state[V, i]
    taken = 0
    if memory[HAS_TANGENT] == 0.0 or memory[STEP] != h:
        memory[HAS_TANGENT] = memory[HAS_STAGES] = 0.0
    for attempt in range(3):
        if attempt == 1 or memory[HAS_TANGENT] == 0.0:
            take_tangent(m, calls, law, time, h, right)
        if not is_factored(memory, h, factored) and not factorize_newton(memory, n, h, rows, lu, pivots, factored):
            break
        if attempt < 2 and memory[HAS_STAGES] == 1.0:
            extrapolate(stages, memory, rows)
        else:
            drift(state, m.scalars, time, 0.0)
            accelerate(m, calls, law, h)
            for k in range(n):
                for i in range(stages.shape[1]):
                    stages[1, i, k] = state[DVDT, k]
        first, taken = 0, 1
        for g in range(groups.size):
            if taken > 0:
                iterations = solve_group(m, calls, law, time, h, rows, first, groups[g], tolerance, lu, pivots, right)
                taken = max(taken, iterations) if iterations > 0 else 0
            first += groups[g]
        if taken > 0:
            finish(state, stages, memory, h, rows)
            if taken > SLOW:
                memory[HAS_TANGENT] = 0.0
            return DONE
    drift(state, m.scalars, time, 0.0)
    return NOT_CONVERGED


@loop
def advance_implicit(n_steps, h, tick, m, calls, law, rows, groups, tolerance, lu, pivots, right, factored):  # type: ignore[no-untyped-def]
    """Take n_steps steps from `tick`. Returns (status, steps taken, index of the guard that fired or -1).

    tick           number of the first step
    m, calls, law  arguments that all loops share (see step.py)
    rows           (3 s + 3, s) coefficients of a method with the Butcher tableau A (s, s), b (s,), c (s,). From top to
                   bottom: A; the matrix product A A; the matrix (s, s) that extrapolates the stage accelerations K from
                   step to step; the row b; the row b A; the row c
    groups         number of stages in each group of stages that are solved together
    tolerance      convergence tolerance of Newton's method: change of h K relative to max(1, largest |v|)
    lu, pivots, right, factored  scratch arrays
    """
    for step in range(n_steps):
        m.scalars[TIME] = (tick + step) * h
        remember(m, tick + step)
        begin_step(m, calls, law, h)
        status = implicit_step(
            m, calls, law, (tick + step) * h, h, rows, groups, tolerance, lu, pivots, right, factored
        )
        if status != DONE:
            return status, step, -1
        m.scalars[TIME] = (tick + step + 1) * h
        status, guard = end_step(m, calls, law)
        if status != DONE:
            return status, step + (status == EVENT), guard
    measure(m, calls, law)
    return DONE, n_steps, -1

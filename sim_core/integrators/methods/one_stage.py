"""Implicit methods with one unknown acceleration per step: the midpoint rule and generalized-alpha.

The stage of a step solves q = q* + w_q a, v = v* + w_v a, a = acceleration(t, q, v) for the acceleration a. For systems
with beams, the kernel RELAXED treats the linear forces of the beams implicitly, so that the stiffest vibration does not
slow the iteration down. Newton's method with the tangents a_q = da/dq, a_v = da/dv (see implicit.py) is used for
systems without beams, for stabilizers that act at every stage, and if the iteration with RELAXED fails.

The stepper's memory holds [1 if a_q and a_v are valid, step size of a_q and a_v, 1 if A is valid, then A (n), a_q and
a_v (n, n)]. A is the acceleration a of the last step or, for generalized-alpha, the auxiliary acceleration. The stage
memory holds q* and v*, then a.
"""

from __future__ import annotations

from sim_core.integrators.linear import solve_factorized
from sim_core.integrators.methods.implicit import (
    HAS_STAGES,
    HAS_TANGENT,
    KEPT,
    MOST_ITERATIONS,
    ROUNDING,
    SLOW,
    STEP,
    drift,
    factorize_newton,
    is_factored,
    take_tangent,
)
from sim_core.integrators.step import accelerate, begin_step, end_step, evaluate, measure, remember
from sim_core.integrators.workspace import (
    ACCELERATION,
    CORRECTING_STAGES,
    DONE,
    DVDT,
    EVENT,
    EVERY_STAGE,
    LAW_MODE,
    NOT_CONVERGED,
    PROJECTING,
    Q0,
    RELAXED,
    TIME,
    V0,
    WEIGHT_Q,
    WEIGHT_V,
    Q,
    V,
    X,
)
from sim_core.kernels.compiled import inner, loop


@inner
def correction(state, stages, h, right):  # type: ignore[no-untyped-def]
    """Add Newton's correction `right` (n_q,) to the stage's acceleration a.

    Returns h times the largest |correction|, divided by max(1, largest |v|); -1 if the correction is not finite.
    """
    scale, change = 1.0, 0.0
    for k in range(state.shape[1]):
        scale = max(scale, abs(state[V0, k]))
        stages[1, 0, k] += right[k]
    for k in range(state.shape[1]):
        change = max(change, h * abs(right[k]) / scale)
        if not abs(right[k]) < 1e300:
            return -1.0
    return change


@inner
def iterate(m, calls, law, time, h, rows, tolerance, kernel, lu, pivots, right):  # type: ignore[no-untyped-def]
    """Iterate for the acceleration a of the stage, starting from the value in the stage memory.

    Returns the number of iterations; 0 if the iteration does not converge.
    """
    state, stages, n, before = m.state, m.stages, m.state.shape[1], 0.0
    w_v, w_q = h * rows[0, 0], h * h * rows[1, 0]
    m.scalars[WEIGHT_V], m.scalars[WEIGHT_Q], m.scalars[TIME] = w_v, w_q, time
    for iteration in range(MOST_ITERATIONS):
        for k in range(n):
            a = stages[1, 0, k]
            state[X, k] = a
            state[Q, k], state[V, k] = stages[0, 0, k] + w_q * a, stages[0, 1, k] + w_v * a
        evaluate(m, calls, law, h, kernel)
        for k in range(n):
            right[k] = state[DVDT, k] - stages[1, 0, k]
        if kernel == ACCELERATION:
            solve_factorized(lu, pivots, right)
        change = correction(state, stages, h, right)
        if change < 0.0:
            return 0
        ratio = change / before if iteration > 0 else 1.0
        if change <= tolerance or (ratio < 1.0 and change * ratio / (1.0 - ratio) <= tolerance):
            return iteration + 1
        if iteration > 0 and ratio >= 1.0:
            return iteration + 1 if change <= ROUNDING else 0
        before = change
    return 0


@inner
def solve_stage(m, calls, law, begin, time, h, rows, tolerance, lu, pivots, right, factored):  # type: ignore[no-untyped-def]
    """Solve for the acceleration of the stage at `time` in the step that begins at `begin`.

    Returns DONE or NOT_CONVERGED. The first guess is the array A in the stepper's memory (see the module's docstring)
    or, if A is not valid, the acceleration at the start of the step. If Newton's method fails, new tangents are
    computed, and the iteration is repeated at most twice, from the acceleration at the start of the step.
    """
    memory, stages, n = m.stepper, m.stages, m.state.shape[1]
    at_stages = law[LAW_MODE] == EVERY_STAGE or law[LAW_MODE] == CORRECTING_STAGES
    if memory[HAS_STAGES] == 0.0:
        guess_afresh(m, calls, law, begin, h)
    else:
        for k in range(n):
            stages[1, 0, k] = memory[KEPT + k]
    taken = 0
    if calls[RELAXED, 0] != 0 and not at_stages:
        taken = iterate(m, calls, law, time, h, rows, tolerance, RELAXED, lu, pivots, right)
    if taken > 0:
        if law[LAW_MODE] == PROJECTING:  # projection needs the factor of M alone
            accelerate(m, calls, law, h)
        return DONE
    if memory[STEP] != h:
        memory[HAS_TANGENT] = 0.0
    for attempt in range(3):
        if attempt == 1 or memory[HAS_TANGENT] == 0.0:
            take_tangent(m, calls, law, begin, h, right)
        if not is_factored(memory, h, factored) and not factorize_newton(memory, n, h, rows, lu, pivots, factored):
            break
        if attempt > 0:
            guess_afresh(m, calls, law, begin, h)
        taken = iterate(m, calls, law, time, h, rows, tolerance, ACCELERATION, lu, pivots, right)
        if taken > SLOW:
            memory[HAS_TANGENT] = 0.0
        if taken > 0:
            return DONE
    drift(m.state, m.scalars, begin, 0.0)
    return NOT_CONVERGED


@inner
def guess_afresh(m, calls, law, begin, h):  # type: ignore[no-untyped-def]
    """Set the first guess of the stage's acceleration to the acceleration at the start of the step."""
    drift(m.state, m.scalars, begin, 0.0)
    accelerate(m, calls, law, h)
    for k in range(m.state.shape[1]):
        m.stages[1, 0, k] = m.state[DVDT, k]


@inner
def open_midpoint(state, stages, h):  # type: ignore[no-untyped-def]
    """Set q*, v* of the midpoint rule: q, v in the middle of the step without the contribution of the acceleration."""
    for k in range(state.shape[1]):
        stages[0, 0, k], stages[0, 1, k] = state[Q0, k] + h / 2 * state[V0, k], state[V0, k]


@inner
def close_midpoint(state, stages, memory, h):  # type: ignore[no-untyped-def]
    """Set q, v to those at the end of the midpoint rule's step, and store the acceleration in the stepper's memory."""
    for k in range(state.shape[1]):
        a = stages[1, 0, k]
        memory[KEPT + k] = a
        state[Q, k], state[V, k] = state[Q0, k] + h * (state[V0, k] + h / 2 * a), state[V0, k] + h * a


@inner
def open_alpha(m, calls, law, time, h, rows):  # type: ignore[no-untyped-def]
    """Set q*, v* of generalized-alpha: q, v at the stage without the contribution of the stage's acceleration a.

    q* and v* depend on the auxiliary acceleration A, which the stepper's memory keeps from the last step. Before the
    first step, A is set to the acceleration at the start.
    """
    state, stages, memory = m.state, m.stages, m.stepper
    if memory[HAS_STAGES] == 0.0:
        m.scalars[TIME] = time
        accelerate(m, calls, law, h)
    for k in range(state.shape[1]):
        if memory[HAS_STAGES] == 0.0:
            memory[KEPT + k] = state[DVDT, k]
        A, q, v = memory[KEPT + k], state[Q0, k], state[V0, k]
        stages[0, 0, k] = q + rows[2, 0] * h * (v + h * (0.5 - rows[5, 0] - rows[5, 0] * rows[4, 0]) * A)
        stages[0, 1, k] = v + rows[2, 0] * h * (1.0 - rows[6, 0] - rows[6, 0] * rows[4, 0]) * A


@inner
def close_alpha(state, stages, memory, h, rows):  # type: ignore[no-untyped-def]
    """Set q, v to those at the end of a generalized-alpha step, and store the new auxiliary acceleration A."""
    beta, gamma = rows[5, 0], rows[6, 0]
    for k in range(state.shape[1]):
        A, q, v = memory[KEPT + k], state[Q0, k], state[V0, k]
        ahead = rows[3, 0] * stages[1, 0, k] - rows[4, 0] * A
        state[Q, k] = q + h * v + h * h * ((0.5 - beta) * A + beta * ahead)
        state[V, k] = v + h * ((1.0 - gamma) * A + gamma * ahead)
        memory[KEPT + k] = ahead


@loop
def advance_one_stage(n_steps, h, tick, m, calls, law, rows, tolerance, lu, pivots, right, factored):  # type: ignore[no-untyped-def]
    """Take n_steps steps from `tick`. Returns (status, steps taken, index of the guard that fired or -1).

    The stage solves a = acceleration(t, q, v) with q = q* + w_q a, v = v* + w_v a for the acceleration a.

    tick           number of the first step
    m, calls, law  arguments that all loops share (see step.py)
    rows           (3, 1): w_v / h; w_q / h^2; time from the start of the step to the stage, divided by h. For
                   generalized-alpha (7, 1), with further numbers c_1; c_2; beta; gamma: beta and gamma are those of
                   Newmark's method, and the auxiliary acceleration A becomes c_1 a - c_2 A at the end of a step
    tolerance      convergence tolerance: change of h a (acceleration a times step size h) in an iteration, divided by
                   max(1, largest |v|)
    lu, pivots, right, factored  scratch arrays
    """
    alpha = rows.shape[0] > 3
    for step in range(n_steps):
        time = (tick + step) * h
        m.scalars[TIME] = time
        remember(m, tick + step)
        begin_step(m, calls, law, h)
        for k in range(m.state.shape[1]):
            m.state[Q0, k], m.state[V0, k] = m.state[Q, k], m.state[V, k]
        if alpha:
            open_alpha(m, calls, law, time, h, rows)
        else:
            open_midpoint(m.state, m.stages, h)
        stage = time + rows[2, 0] * h
        status = solve_stage(m, calls, law, time, stage, h, rows, tolerance, lu, pivots, right, factored)
        if status != DONE:
            return status, step, -1
        if alpha:
            close_alpha(m.state, m.stages, m.stepper, h, rows)
        else:
            close_midpoint(m.state, m.stages, m.stepper, h)
        m.stepper[HAS_STAGES] = 1.0
        m.scalars[TIME] = (tick + step + 1) * h
        status, guard = end_step(m, calls, law)
        if status != DONE:
            return status, step + (status == EVENT), guard
    measure(m, calls, law)
    return DONE, n_steps, -1

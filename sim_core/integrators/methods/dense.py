"""Dormand-Prince 5(4) with steps independent of the ticks, as ode45 takes them. [HairerNorsettWanner1993, ch. II.6]

Ticks are the ends of the fixed steps of the simulation. A step of the integrator may span many ticks; q and v at these
ticks come from the step's interpolant of order 4. The stepper's memory holds the last step. An event or a changed input
or parameter clears the memory, and the integration restarts from the state at the tick. The first tick after that is
the end of a step, so that inputs which change at every tick do not add up the errors of interpolants.

Memory: [1 if it holds a step, start of the step, length of the step, length of the next step, five coefficients r0 ...
r4 of the interpolant (2 n each, for q and v), state (q, v) at the end of the step (2 n)].
"""

from __future__ import annotations

import numpy as np

from sim_core.integrators.ledger import book_work, check_energy
from sim_core.integrators.methods.adaptive import GROW, SAFETY, SHRINK, scaled_error
from sim_core.integrators.methods.runge_kutta import explicit_step
from sim_core.integrators.step import (
    begin_step,
    count_turns,
    crossed_guard,
    is_finite,
    measure,
    project,
    remember,
    take_back,
)
from sim_core.integrators.workspace import (
    DIVERGED,
    DONE,
    EVENT,
    LAW_MODE,
    PROJECTING,
    Q0,
    STEP_TOO_SMALL,
    TIME,
    V0,
    Q,
    V,
)
from sim_core.kernels.compiled import inner, loop

HAS_STEP, START, LENGTH, WANTED, COEFFICIENTS = range(5)


@inner
def keep_interpolant(state, stages, memory, h, dense):  # type: ignore[no-untyped-def]
    """Store the coefficients r0 ... r4 of the interpolant over the last step in the stepper's memory.

    y(x) = r0 + x (r1 + (1 - x) (r2 + x (r3 + (1 - x) r4))), with x from 0 to 1 over the step.
    """
    n, last = state.shape[1], dense.size - 1
    for level in range(2):
        for i in range(n):
            start, place = state[Q0 + level, i], COEFFICIENTS + level * n + i
            rise = state[level, i] - start
            bend = h * stages[level, 0, i] - rise
            total = 0.0
            for k in range(dense.size):
                total += dense[k] * stages[level, k, i]
            memory[place] = start
            memory[place + 2 * n] = rise
            memory[place + 4 * n] = bend
            memory[place + 6 * n] = rise - h * stages[level, last, i] - bend
            memory[place + 8 * n] = h * total


@inner
def read_interpolant(state, memory, time):  # type: ignore[no-untyped-def]
    """Set q and v to their values at `time`, which lies within the last step, by the interpolant of this step.

    At the end of the step, the stored state is used instead of the interpolant. The two differ if the state was
    projected onto the constraints after the step.
    """
    n = state.shape[1]
    x = (time - memory[START]) / memory[LENGTH]
    for level in range(2):
        for i in range(n):
            place = COEFFICIENTS + level * n + i
            inside = memory[place + 6 * n] + (1.0 - x) * memory[place + 8 * n]
            inside = memory[place + 2 * n] + (1.0 - x) * (memory[place + 4 * n] + x * inside)
            state[level, i] = memory[place] + x * inside if x < 1.0 else memory[place + 10 * n]


@inner
def own_step(m, calls, law, tick_h, limit, A, b, c, error_weights, dense, rtol, atol):  # type: ignore[no-untyped-def]
    """Take one step that the error control accepts, from the current state, and store it in the stepper's memory.

    limit  time beyond which the step does not extend
    Returns a status (workspace.py).
    """
    n, start = m.state.shape[1], m.scalars[TIME]
    wanted = m.stepper[WANTED] if m.stepper[WANTED] > 0.0 else tick_h
    left = limit - start
    while True:
        h = wanted if wanted <= 0.5 * left else left if wanted >= left else 0.5 * left
        m.scalars[TIME] = start
        begin_step(m, calls, law, h)
        explicit_step(m, calls, law, start, h, A, b, c)
        error = scaled_error(m, h, error_weights, rtol, atol)
        if not error < 1e300:
            return DIVERGED
        factor = GROW if error == 0.0 else min(GROW, max(SHRINK, SAFETY * error**-0.2))
        if error <= 1.0:
            break
        for i in range(n):
            m.state[Q, i], m.state[V, i] = m.state[Q0, i], m.state[V0, i]
        m.scalars[TIME] = start
        take_back(m, calls, law, h)
        wanted = h * min(factor, 1.0)
        if wanted < 1e-12 * tick_h:
            return STEP_TOO_SMALL
    keep_interpolant(m.state, m.stages, m.stepper, h, dense)
    m.scalars[TIME] = start + h
    if law[LAW_MODE] == PROJECTING:
        project(m, calls, law)
    for i in range(n):
        m.stepper[COEFFICIENTS + 10 * n + i] = m.state[Q, i]
        m.stepper[COEFFICIENTS + 11 * n + i] = m.state[V, i]
    m.stepper[HAS_STEP], m.stepper[START] = 1.0, start
    m.stepper[LENGTH], m.stepper[WANTED] = h, max(wanted, h * factor) if h < wanted else h * factor
    return DONE


@inner
def reach(m, calls, law, time, tick_h, A, b, c, error_weights, dense, rtol, atol):  # type: ignore[no-untyped-def]
    """Take steps until one of them reaches `time`, then set q and v to the interpolant at `time`.

    Returns a status (workspace.py).
    """
    n, limit = m.state.shape[1], np.inf
    if m.stepper[HAS_STEP] == 0.0:
        limit = time
    else:
        # the integrator's own state, ahead of the tick
        for i in range(n):
            m.state[Q, i] = m.stepper[COEFFICIENTS + 10 * n + i]
            m.state[V, i] = m.stepper[COEFFICIENTS + 11 * n + i]
        m.scalars[TIME] = m.stepper[START] + m.stepper[LENGTH]
    while m.stepper[HAS_STEP] == 0.0 or m.stepper[LENGTH] < time - m.stepper[START]:
        status = own_step(m, calls, law, tick_h, limit, A, b, c, error_weights, dense, rtol, atol)
        if status != DONE:
            return status
    read_interpolant(m.state, m.stepper, time)
    m.scalars[TIME] = time
    return DONE


@loop
def advance_dense(n_steps, h, tick, m, calls, law, A, b, c, error_weights, dense, rtol, atol):  # type: ignore[no-untyped-def]
    """Integrate over n_steps ticks of length h from `tick`. Returns (status, ticks completed, index of the fired guard
    or -1).

    A tick is the fixed step of the simulation; the steps of the error control are independent of the ticks.

    tick           number of the first tick
    m, calls, law  arguments that all loops share (see integrators/step.py)
    A, b, c, error_weights, dense  Butcher tableau of the method, weights of the embedded error estimate, and weights of
                                   the interpolant
    rtol, atol     relative and absolute tolerances of the error of q and v
    """
    for step in range(n_steps):
        m.scalars[TIME] = (tick + step) * h
        remember(m, tick + step)
        measure(m, calls, law)
        status = reach(m, calls, law, (tick + step + 1) * h, h, A, b, c, error_weights, dense, rtol, atol)
        if status != DONE or not is_finite(m):
            return max(status, DIVERGED), step, -1
        book_work(m, calls)
        check_energy(m, calls)
        count_turns(m, calls)
        guard = crossed_guard(m, calls)
        if guard >= 0:
            measure(m, calls, law)
            return EVENT, step + 1, guard
    measure(m, calls, law)
    return DONE, n_steps, -1

"""Dormand-Prince 5(4) with error control within each tick. [HairerNorsettWanner1993, ch. II.4]

A tick is the fixed step of the simulation. Within a tick, the error control chooses the steps of the integrator; the
last of these steps ends exactly at the end of the tick. The stepper's memory is the size of the next step.
"""

from __future__ import annotations

from sim_core.integrators.ledger import book_work, check_energy
from sim_core.integrators.methods.runge_kutta import explicit_step
from sim_core.integrators.step import (
    begin_step,
    count_turns,
    crossed_guard,
    is_finite,
    measure,
    project,
    rebase,
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

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0


@inner
def scaled_error(m, h, error_weights, rtol, atol):  # type: ignore[no-untyped-def]
    """Root mean square of the embedded error estimates of all entries of q and v, divided by their tolerances.

    The tolerance of an entry y is atol + rtol |y|, with the larger |y| of the two ends of the step. The error control
    accepts a step with a result of at most 1.
    """
    n, total = m.state.shape[1], 0.0
    for i in range(n):
        e_q, e_v = 0.0, 0.0
        for k in range(error_weights.size):
            e_q += h * error_weights[k] * m.stages[0, k, i]
            e_v += h * error_weights[k] * m.stages[1, k, i]
        total += (e_q / (atol + rtol * max(abs(m.state[Q0, i]), abs(m.state[Q, i])))) ** 2
        total += (e_v / (atol + rtol * max(abs(m.state[V0, i]), abs(m.state[V, i])))) ** 2
    return (total / (2 * n)) ** 0.5


@inner
def adaptive_tick(m, calls, law, start, tick_h, A, b, c, error_weights, rtol, atol):  # type: ignore[no-untyped-def]
    """Integrate over one tick of length tick_h from the time `start`. Returns a status (workspace.py).

    m.stepper[0] holds the size that the error control proposes for the next step; 0 before the first step.
    """
    done = 0.0
    wanted = m.stepper[0] if m.stepper[0] > 0.0 else tick_h
    while done < tick_h:
        h, left = wanted, tick_h - done
        last = h >= left
        if last:
            h = left
        elif h > 0.5 * left:
            h = 0.5 * left  # two equal steps: with a tiny last step, a sampled law's gains would be enormous
        cut = h < wanted
        m.scalars[TIME] = start + done
        begin_step(m, calls, law, h)
        explicit_step(m, calls, law, start + done, h, A, b, c)
        error = scaled_error(m, h, error_weights, rtol, atol)
        if not error < 1e300:
            return DIVERGED
        factor = GROW if error == 0.0 else min(GROW, max(SHRINK, SAFETY * error**-0.2))
        if error > 1.0:
            for i in range(m.state.shape[1]):
                m.state[Q, i] = m.state[Q0, i]
                m.state[V, i] = m.state[V0, i]
            m.scalars[TIME] = start + done
            take_back(m, calls, law, h)
            wanted = h * min(factor, 1.0)
            if wanted < 1e-12 * tick_h:
                return STEP_TOO_SMALL
            continue
        m.scalars[TIME] = start + done + h
        if law[LAW_MODE] == PROJECTING:
            project(m, calls, law)
        done = tick_h if last else done + h
        # a step shortened by the tick says little about the next step size
        wanted = max(wanted, h * factor) if cut else h * factor
    m.stepper[0] = wanted
    return DONE


@loop
def advance_adaptive(n_steps, h, tick, m, calls, law, A, b, c, error_weights, rtol, atol):  # type: ignore[no-untyped-def]
    """Integrate over n_steps ticks of length h from `tick`. Returns (status, ticks completed, index of the fired guard
    or -1).

    A tick is the fixed step of the simulation; within a tick, the error control chooses the steps.

    tick           number of the first tick
    m, calls, law  arguments that all loops share (see integrators/step.py)
    A, b, c, error_weights  Butcher tableau of the method, and weights of the embedded error estimate
    rtol, atol     relative and absolute tolerances of the error of q and v
    """
    for step in range(n_steps):
        m.scalars[TIME] = (tick + step) * h
        remember(m, tick + step)
        status = adaptive_tick(m, calls, law, (tick + step) * h, h, A, b, c, error_weights, rtol, atol)
        m.scalars[TIME] = (tick + step + 1) * h
        if status != DONE or not is_finite(m):
            return max(status, DIVERGED), step, -1
        book_work(m, calls)
        rebase(m, calls)
        check_energy(m, calls)
        count_turns(m, calls)
        guard = crossed_guard(m, calls)
        if guard >= 0:
            measure(m, calls, law)
            return EVENT, step + 1, guard
    measure(m, calls, law)
    return DONE, n_steps, -1

"""Adams-Bashforth-Moulton of order 4 with a fixed step. [HairerNorsettWanner1993, ch. III.1]

A step predicts, evaluates and corrects. The corrected state is evaluated at the start of the next step, so that the
derivative includes changes of the stabilizer, inputs or projection at the tick. This makes two evaluations per step.
The first three steps, also after a change of inputs or parameters, are Runge-Kutta steps with four evaluations.

Stepper's memory: [number of past derivatives, their step size, then (v, a) from one, two and three steps ago, 2 n
each].
"""

from __future__ import annotations

from sim_core.integrators.methods.runge_kutta import explicit_step
from sim_core.integrators.step import accelerate, begin_step, end_step, measure, remember
from sim_core.integrators.workspace import DONE, DQDT, DVDT, EVENT, Q0, TIME, V0, Q, V
from sim_core.kernels.compiled import inner, loop

HELD, STEP, PAST = range(3)


@inner
def recall(m, age, i):  # type: ignore[no-untyped-def]
    """(velocity, acceleration) of coordinate i from `age` steps ago (1, 2 or 3)."""
    n = m.state.shape[1]
    place = PAST + 2 * n * (age - 1) + i
    return m.stepper[place], m.stepper[place + n]


@inner
def keep_derivatives(m, h):  # type: ignore[no-untyped-def]
    """Move the stored derivatives back by one step, and store those of this step's first stage as the newest."""
    n = m.state.shape[1]
    for place in range(PAST + 6 * n - 1, PAST + 2 * n - 1, -1):
        m.stepper[place] = m.stepper[place - 2 * n]
    for i in range(n):
        m.stepper[PAST + i] = m.stages[0, 0, i]
        m.stepper[PAST + n + i] = m.stages[1, 0, i]
    m.stepper[HELD] = min(3.0, m.stepper[HELD] + 1.0)
    m.stepper[STEP] = h


@inner
def predict_correct(m, calls, law, time, h):  # type: ignore[no-untyped-def]
    """Advance q, v by h: four-step Adams-Bashforth predictor, then three-step Adams-Moulton corrector.

    The derivatives are evaluated twice: at the start of the step, and at the predicted state.
    """
    n = m.state.shape[1]
    m.scalars[TIME] = time
    accelerate(m, calls, law, h)
    w = h / 24.0
    for i in range(n):
        m.state[Q0, i], m.state[V0, i] = m.state[Q, i], m.state[V, i]
        v, a = m.state[DQDT, i], m.state[DVDT, i]
        m.stages[0, 0, i], m.stages[1, 0, i] = v, a
        v1, a1 = recall(m, 1, i)
        v2, a2 = recall(m, 2, i)
        v3, a3 = recall(m, 3, i)
        m.state[Q, i] += w * (55.0 * v - 59.0 * v1 + 37.0 * v2 - 9.0 * v3)
        m.state[V, i] += w * (55.0 * a - 59.0 * a1 + 37.0 * a2 - 9.0 * a3)
    m.scalars[TIME] = time + h
    accelerate(m, calls, law, h)
    for i in range(n):
        v1, a1 = recall(m, 1, i)
        v2, a2 = recall(m, 2, i)
        dq = 9.0 * m.state[DQDT, i] + 19.0 * m.stages[0, 0, i] - 5.0 * v1 + v2
        dv = 9.0 * m.state[DVDT, i] + 19.0 * m.stages[1, 0, i] - 5.0 * a1 + a2
        m.state[Q, i] = m.state[Q0, i] + w * dq
        m.state[V, i] = m.state[V0, i] + w * dv


@loop
def advance_multistep(n_steps, h, tick, m, calls, law, A, b, c):  # type: ignore[no-untyped-def]
    """Take n_steps steps from `tick`. Returns (status, steps taken, index of the guard that fired or -1).

    tick           number of the first step
    m, calls, law  arguments that all loops share (see integrators/step.py)
    A, b, c        Runge-Kutta tableau of the first three steps
    """
    for step in range(n_steps):
        m.scalars[TIME] = (tick + step) * h
        remember(m, tick + step)
        begin_step(m, calls, law, h)
        if m.stepper[STEP] != h:
            m.stepper[HELD] = 0.0
        if m.stepper[HELD] < 3.0:
            explicit_step(m, calls, law, (tick + step) * h, h, A, b, c)
        else:
            predict_correct(m, calls, law, (tick + step) * h, h)
        keep_derivatives(m, h)
        m.scalars[TIME] = (tick + step + 1) * h
        status, guard = end_step(m, calls, law)
        if status != DONE:
            return status, step + (status == EVENT), guard
    measure(m, calls, law)
    return DONE, n_steps, -1

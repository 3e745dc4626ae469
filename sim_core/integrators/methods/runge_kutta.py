"""Explicit Runge-Kutta methods with a fixed step, one loop for all tableaus."""

from __future__ import annotations

from sim_core.integrators.step import (
    accelerate,
    begin_step,
    end_step,
    is_endangered,
    measure,
    project,
    remember,
    take_back,
)
from sim_core.integrators.workspace import (
    DONE,
    DQDT,
    DVDT,
    EVENT,
    IS_WEAK,
    LAW_MODE,
    PROJECTING,
    Q0,
    SUBSTEPPED,
    TIME,
    V0,
    Q,
    V,
)
from sim_core.kernels.compiled import inlined, inner, loop

SUBSTEPS = 20  # substeps of a step near a change point


@inlined
def explicit_step(m, calls, law, time, h, A, b, c):  # type: ignore[no-untyped-def]
    """Advance y = (q, v) by one step: y_i = y + h sum_j A_ij k_j, y+ = y + h sum_i b_i k_i.

    k_i is the derivative at stage i. [HairerNorsettWanner1993, ch. II.1] Each row of A but the first has an entry.
    """
    n, stages = m.state.shape[1], b.size
    for i in range(n):
        m.state[Q0, i] = m.state[Q, i]
        m.state[V0, i] = m.state[V, i]
    for stage in range(stages):
        q, v = Q0, V0
        for k in range(stage):
            if A[stage, k] != 0.0:
                _add(m, q, v, h * A[stage, k], k)
                q, v = Q, V
        m.scalars[TIME] = time + c[stage] * h
        accelerate(m, calls, law, h)
        for i in range(n):
            m.stages[0, stage, i] = m.state[DQDT, i]
            m.stages[1, stage, i] = m.state[DVDT, i]
    q, v = Q0, V0
    for k in range(stages):
        _add(m, q, v, h * b[k], k)
        q, v = Q, V


@inlined
def _add(m, q, v, h, stage):  # type: ignore[no-untyped-def]
    """Set q and v to the rows q and v of the state plus h times the derivative at a stage.

    The loops are short, so that the compiler vectorizes them.
    """
    for i in range(m.state.shape[1]):
        m.state[Q, i] = m.state[q, i] + h * m.stages[0, stage, i]
    for i in range(m.state.shape[1]):
        m.state[V, i] = m.state[v, i] + h * m.stages[1, stage, i]


@inner
def go_back(m, calls, law, start, h):  # type: ignore[no-untyped-def]
    """Restore t, q, v and the memory of the stabilizer's law to their values at the start of the last step.

    start  time at the start of the step, s
    h      size of the step, s
    """
    for i in range(m.state.shape[1]):
        m.state[Q, i], m.state[V, i] = m.state[Q0, i], m.state[V0, i]
    m.scalars[TIME] = start
    take_back(m, calls, law, h)


@loop
def advance_explicit(n_steps, h, tick, m, calls, law, A, b, c):  # type: ignore[no-untyped-def]
    """Take n_steps steps from `tick`. Returns (status, steps taken, index of the guard that fired or -1).

    A change point is a configuration in which constraint rows lose rank. A step that comes near a change point with
    violated constraints is repeated from its start in SUBSTEPS substeps.

    tick           number of the first step
    m, calls, law  arguments that all loops share (see integrators/step.py)
    A, b, c        Butcher tableau of the method
    """
    for step in range(n_steps):
        m.scalars[TIME] = (tick + step) * h
        remember(m, tick + step)
        part, parts = 0, 1
        while part < parts:
            start, h_part = (tick + step) * h + part * (h / parts), h / parts
            m.scalars[TIME], m.scalars[IS_WEAK] = start, 0.0
            begin_step(m, calls, law, h_part)
            explicit_step(m, calls, law, start, h_part, A, b, c)
            part += 1
            m.scalars[TIME] = (tick + step) * h + part * h_part
            if parts == 1 and is_endangered(m, calls, law, h):
                go_back(m, calls, law, start, h)
                part, parts = 0, SUBSTEPS
                m.scalars[SUBSTEPPED] += SUBSTEPS
            elif part < parts and law[LAW_MODE] == PROJECTING:
                project(m, calls, law)
        m.scalars[TIME] = (tick + step + 1) * h
        status, guard = end_step(m, calls, law)
        if status != DONE:
            return status, step + (status == EVENT), guard
    measure(m, calls, law)
    return DONE, n_steps, -1

"""Explicit Runge-Kutta with a fixed step: all methods share one loop and differ by tableau."""

from __future__ import annotations

from sim_core.integrators.step import accelerate, begin_step, count_turns, crossed_guard, is_finite, measure, project, remember
from sim_core.integrators.workspace import DIVERGED, DONE, EVENT, LAW_MODE, PROJECTING
from sim_core.kernels.compiled import inner, loop


@inner
def explicit_step(w, calls, law, time, h, A, b, c):  # type: ignore[no-untyped-def]
    """q, v at time + h from those at time; y_i = y + h sum_j A_ij k_j, y+ = y + h sum_i b_i k_i. [HairerNorsettWanner1993]"""
    n, stages = w.q.size, b.size
    for i in range(n):
        w.q0[i] = w.q[i]
        w.v0[i] = w.v[i]
    for stage in range(stages):
        for i in range(n):
            q, v = w.q0[i], w.v0[i]
            for k in range(stage):
                if A[stage, k] != 0.0:
                    q += h * A[stage, k] * w.stage_v[k, i]
                    v += h * A[stage, k] * w.stage_a[k, i]
            w.q[i] = q
            w.v[i] = v
            w.stage_v[stage, i] = v
        w.t[0] = time + c[stage] * h
        accelerate(w, calls, law, h)
        for i in range(n):
            w.stage_a[stage, i] = w.a[i]
    for i in range(n):
        q, v = w.q0[i], w.v0[i]
        for k in range(stages):
            q += h * b[k] * w.stage_v[k, i]
            v += h * b[k] * w.stage_a[k, i]
        w.q[i] = q
        w.v[i] = v


@loop
def advance_explicit(n_steps, h, tick, w, calls, law, A, b, c):  # type: ignore[no-untyped-def]
    """Take n_steps from `tick`. Gives status, steps taken, and the guard that fired (-1 for none)."""
    for step in range(n_steps):
        w.t[0] = (tick + step) * h
        remember(w, tick + step)
        begin_step(w, calls, law, h)
        explicit_step(w, calls, law, (tick + step) * h, h, A, b, c)
        w.t[0] = (tick + step + 1) * h
        if law[LAW_MODE] == PROJECTING:
            project(w, calls, law)
        if not is_finite(w):
            return DIVERGED, step, -1
        count_turns(w, calls)
        guard = crossed_guard(w, calls)
        if guard >= 0:
            measure(w, calls, law)
            return EVENT, step + 1, guard
    measure(w, calls, law)
    return DONE, n_steps, -1

"""Semi-implicit (symplectic) Euler: velocities first, positions with the new velocities. Order 1."""

from __future__ import annotations

from sim_core.integrators.step import accelerate, begin_step, count_turns, crossed_guard, is_finite, measure, project, remember
from sim_core.integrators.workspace import DIVERGED, DONE, EVENT, LAW_MODE, PROJECTING
from sim_core.kernels.compiled import loop


@loop
def advance_semi_implicit(n_steps, h, tick, w, calls, law):  # type: ignore[no-untyped-def]
    """Take n_steps from `tick`: v+ = v + h a(q, v), q+ = q + h v+. Gives status, steps taken, guard."""
    for step in range(n_steps):
        w.t[0] = (tick + step) * h
        remember(w, tick + step)
        begin_step(w, calls, law, h)
        accelerate(w, calls, law, h)
        for i in range(w.q.size):
            w.v[i] += h * w.a[i]
            w.q[i] += h * w.v[i]
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

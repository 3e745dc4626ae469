"""Semi-implicit (symplectic) Euler: velocities first, positions with the new velocities. Order 1."""

from __future__ import annotations

from sim_core.integrators.step import accelerate, begin_step, end_step, measure, remember
from sim_core.integrators.workspace import (
    DONE,
    DVDT,
    EVENT,
    TIME,
    Q,
    V,
)
from sim_core.kernels.compiled import loop


@loop
def advance_semi_implicit(n_steps, h, tick, m, calls, law):  # type: ignore[no-untyped-def]
    """Take n_steps steps v+ = v + h a(q, v), q+ = q + h v+ from `tick`.

    Returns (status, steps taken, index of the guard that fired or -1).

    tick           number of the first step
    m, calls, law  arguments that all loops share (see integrators/step.py)
    """
    for step in range(n_steps):
        m.scalars[TIME] = (tick + step) * h
        remember(m, tick + step)
        begin_step(m, calls, law, h)
        accelerate(m, calls, law, h)
        for i in range(m.state.shape[1]):
            m.state[V, i] += h * m.state[DVDT, i]
            m.state[Q, i] += h * m.state[V, i]
        m.scalars[TIME] = (tick + step + 1) * h
        status, guard = end_step(m, calls, law)
        if status != DONE:
            return status, step + (status == EVENT), guard
    measure(m, calls, law)
    return DONE, n_steps, -1

"""What every stepping loop does around its own formula: measure, stabilize, project, watch, remember.

All are compiled into the loops. `calls` and `law` are integer tables, laid out in workspace.py.
"""

from __future__ import annotations

import numpy as np

from sim_core.integrators.workspace import (
    ACCELERATION,
    APPLY,
    EVERY_STAGE,
    GUARDS,
    HISTORY,
    LAW,
    LAW_GAINS,
    LAW_HOLONOMIC,
    LAW_MEMORY,
    LAW_MODE,
    LAW_PHI,
    LAW_PHIDOT,
    LAW_ROWS,
    LAW_U,
    RESIDUAL,
    SAMPLED,
    WRAPPING,
)
from sim_core.kernels.compiled import call_kernel, call_law, inner


@inner
def measure(w, calls, law):  # type: ignore[no-untyped-def]
    """Phi and Phidot of the present state, and the largest 1-norms so far."""
    call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
    position, velocity = 0.0, 0.0
    for row in range(law[LAW_HOLONOMIC]):
        position += abs(w.phi[row])
    for row in range(law[LAW_ROWS]):
        velocity += abs(w.phidot[row])
    w.peaks[0] = max(w.peaks[0], position)
    w.peaks[1] = max(w.peaks[1], velocity)


@inner
def control(w, law, h):  # type: ignore[no-untyped-def]
    """U from Phi and Phidot by the stabilizer's law."""
    call_law(
        law[LAW], law[LAW_PHI], law[LAW_PHIDOT], law[LAW_GAINS], law[LAW_MEMORY], law[LAW_U], h, law[LAW_HOLONOMIC], law[LAW_ROWS]
    )


@inner
def begin_step(w, calls, law, h):  # type: ignore[no-untyped-def]
    """Measure the violation; a sampled law acts here, once, and is held."""
    measure(w, calls, law)
    if law[LAW_MODE] == SAMPLED:
        control(w, law, h)


@inner
def accelerate(w, calls, law, h):  # type: ignore[no-untyped-def]
    """a, lam and factor at the stage's t, q, v; an unsampled law acts at every stage."""
    if law[LAW_MODE] == EVERY_STAGE:
        call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
        control(w, law, h)
    call_kernel(calls[ACCELERATION, 0], calls[ACCELERATION, 1], calls[ACCELERATION, 2])


@inner
def project(w, calls, law):  # type: ignore[no-untyped-def]
    """Put q, then v, back on the constraints in the factor of the step: M x + J' y = 0, J x = -Phi (-Phidot)."""
    for level in range(2):
        call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
        for row in range(law[LAW_ROWS]):
            if level == 1:
                w.r2[row] = -w.phidot[row]
            else:
                w.r2[row] = -w.phi[row] if row < law[LAW_HOLONOMIC] else 0.0
        call_kernel(calls[APPLY, 0], calls[APPLY, 1], calls[APPLY, 2])
        for i in range(w.q.size):
            if level == 0:
                w.q[i] += w.x[i]
            else:
                w.v[i] += w.x[i]


@inner
def count_turns(w, calls):  # type: ignore[no-untyped-def]
    """Whole turns of the joints whose angle an arctangent wraps."""
    if w.angles.size == 0:
        return
    for i in range(w.angles.size):
        w.angles_before[i] = w.angles[i]
    call_kernel(calls[WRAPPING, 0], calls[WRAPPING, 1], calls[WRAPPING, 2])
    for i in range(w.angles.size):
        jump = w.angles[i] - w.angles_before[i]
        if jump > np.pi:
            w.turns[i] -= 1.0
        elif jump < -np.pi:
            w.turns[i] += 1.0


@inner
def crossed_guard(w, calls):  # type: ignore[no-untyped-def]
    """Index of a guard that changed sign over this step in its direction (2 in `guard_directions`: not watched), or -1."""
    if w.guards.size == 0:
        return -1
    found = -1
    call_kernel(calls[GUARDS, 0], calls[GUARDS, 1], calls[GUARDS, 2])
    for i in range(w.guards.size):
        before, now, direction = w.guards_before[i], w.guards[i], w.guard_directions[i]
        rising, falling = before < 0.0 <= now, before > 0.0 >= now
        if found < 0 and direction != 2 and ((rising and direction >= 0) or (falling and direction <= 0)):
            found = i
        w.guards_before[i] = now
    return found


@inner
def remember(w, step):  # type: ignore[no-untyped-def]
    """Keep t, q, v of the step in a ring."""
    row = step % HISTORY
    n = w.q.size
    w.history[row, 0] = w.t[0]
    for i in range(n):
        w.history[row, 1 + i] = w.q[i]
        w.history[row, 1 + n + i] = w.v[i]


@inner
def is_finite(w):  # type: ignore[no-untyped-def]
    """Whether q and v are numbers still."""
    total = 0.0
    for i in range(w.q.size):
        total += w.q[i] * 0.0 + w.v[i] * 0.0
    return total == 0.0

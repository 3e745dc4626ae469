"""Functions that all stepping loops share: measure violations, stabilize, project, check guards, record history.

They are compiled into the loops. Common arguments, laid out in workspace.py:
    m      Memory: the arrays of a simulation, with its state t, q, v
    calls  (11, 3) integers: addresses of the kernels and of their pointer tables
    law    integers: address, mode and arrays of the stabilizer's law
    h      step size, s
"""

from __future__ import annotations

import numpy as np

from sim_core.integrators.ledger import MARKS, TICK, book_work, check_energy
from sim_core.integrators.workspace import (
    ACCELERATION,
    APPLY,
    BEFORE,
    CONDITIONS,
    CORRECTING_STAGES,
    DIRECTION,
    DIVERGED,
    DONE,
    DQDT,
    EVALUATIONS,
    EVENT,
    EVERY_STAGE,
    FRESH_FACTOR,
    GUARDS,
    HISTORY,
    IS_WEAK,
    LAW,
    LAW_GAINS,
    LAW_HOLONOMIC,
    LAW_LEVELS,
    LAW_MEMORY,
    LAW_MODE,
    LAW_PHI,
    LAW_PHIDOT,
    LAW_REMEMBERS,
    LAW_ROWS,
    LAW_SOLVE,
    LAW_U,
    LEAST_NORM,
    LEAST_PIVOT,
    MISSING,
    NOT_WATCHED,
    NOW,
    PEAK_PHI,
    PEAK_PHIDOT,
    PEAK_RESIDUAL,
    PHI,
    PHIDOT,
    POSITION_LEVEL,
    PROJECTING,
    PSEUDO_INVERSE,
    Q_KEPT,
    R2,
    REBASE,
    RESIDUAL,
    SAMPLED,
    SMALL,
    SOLVE_RESIDUAL,
    STOPS_AT_MARKS,
    SUM_PHI,
    SUM_PHIDOT,
    TIME,
    TO_CHECK,
    TURNS,
    V_KEPT,
    VELOCITY_LEVEL,
    WHOLE,
    WRAPPING,
    Q,
    V,
    X,
)
from sim_core.kernels.compiled import call_kernel, call_law, inlined, inner

CHECKED = 16  # steps between two checks of the solve


@inlined
def sum_violations(m, calls, law):  # type: ignore[no-untyped-def]
    """Compute the constraint violations Phi, their rates Phidot and the 1-norms of both in the current state."""
    call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
    position, velocity = 0.0, 0.0
    for row in range(law[LAW_HOLONOMIC]):
        position += abs(m.rows[PHI, row])
    for row in range(law[LAW_ROWS]):
        velocity += abs(m.rows[PHIDOT, row])
    m.scalars[SUM_PHI], m.scalars[SUM_PHIDOT] = position, velocity


@inlined
def measure(m, calls, law):  # type: ignore[no-untyped-def]
    """Compute the violations Phi and rates Phidot in the current state, and update the peaks of their 1-norms."""
    sum_violations(m, calls, law)
    m.scalars[PEAK_PHI] = max(m.scalars[PEAK_PHI], m.scalars[SUM_PHI])
    m.scalars[PEAK_PHIDOT] = max(m.scalars[PEAK_PHIDOT], m.scalars[SUM_PHIDOT])


@inner
def is_endangered(m, calls, law, h):  # type: ignore[no-untyped-def]
    """Whether the present step came near a change point while the constraints were violated.

    At a change point, constraint rows lose rank. Near a change point, the correction of a violation is divided by a
    small pivot, which gives a huge acceleration. The constraints count as violated unless the violations at the last
    call of `measure` and in the current state are both within rounding errors.
    """
    if m.scalars[IS_WEAK] == 0.0:
        return False
    position, velocity = m.scalars[SUM_PHI], m.scalars[SUM_PHIDOT]
    sum_violations(m, calls, law)
    position, velocity = position + m.scalars[SUM_PHI], velocity + m.scalars[SUM_PHIDOT]
    return not (position <= m.scalars[SMALL] and velocity * h <= m.scalars[SMALL])


@inlined
def control(m, law, h):  # type: ignore[no-untyped-def]
    """Compute the stabilization U from the violations Phi and rates Phidot by the stabilizer's law.

    h  time by which the law's memory advances: the step size at the start of a step, 0 at a stage
    """
    call_law(
        law[LAW],
        law[LAW_PHI],
        law[LAW_PHIDOT],
        law[LAW_GAINS],
        law[LAW_MEMORY],
        law[LAW_U],
        h,
        law[LAW_HOLONOMIC],
        law[LAW_ROWS],
    )


@inlined
def begin_step(m, calls, law, h):  # type: ignore[no-untyped-def]
    """Measure the constraint violation at the start of a step; evaluate the stabilizer's law if necessary.

    The law is evaluated if it is sampled or has memory. The stabilization U of a sampled law is constant during the
    step. The memory of a law advances here, once per step.
    """
    measure(m, calls, law)
    if law[LAW_MODE] == SAMPLED or law[LAW_REMEMBERS]:
        control(m, law, h)


@inner
def take_back(m, calls, law, h):  # type: ignore[no-untyped-def]
    """Undo the advance of the memory of the stabilizer's law in a rejected step.

    The state (t, q, v) must already be set back to that at the start of the step.
    """
    if law[LAW_REMEMBERS]:
        call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
        control(m, law, -h)


@inlined
def accelerate(m, calls, law, h):  # type: ignore[no-untyped-def]
    """Compute dq/dt, accelerations a, multipliers lam and the KKT factor at a stage's t, q, v.

    A law that acts at every stage is evaluated here. t, q, v remain unchanged. Each call counts as one evaluation. If
    the stabilizer corrects stages, dq/dt and a are those at the corrected q and v.
    """
    evaluate(m, calls, law, h, ACCELERATION)


@inlined
def evaluate(m, calls, law, h, kernel):  # type: ignore[no-untyped-def]
    """Evaluate a stage, as `accelerate` does, with one of two kernels.

    kernel  index of the kernel: ACCELERATION, which `accelerate` uses, or RELAXED, which improves the guess of the
            accelerations a that is in state[X]
    """
    m.scalars[EVALUATIONS] += 1.0
    if law[LAW_MODE] == EVERY_STAGE:
        call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
        control(m, law, 0.0)
    elif law[LAW_MODE] == CORRECTING_STAGES:
        for i in range(m.state.shape[1]):
            m.state[Q_KEPT, i], m.state[V_KEPT, i] = m.state[Q, i], m.state[V, i]
        project(m, calls, law)
    for i in range(m.state.shape[1]):
        m.state[DQDT, i] = m.state[V, i]
    call_kernel(calls[kernel, 0], calls[kernel, 1], calls[kernel, 2])
    note_weakness(m)
    if m.scalars[TO_CHECK] != 0.0:
        check_solve(m, calls)
    if law[LAW_MODE] == CORRECTING_STAGES:
        for i in range(m.state.shape[1]):
            m.state[Q, i], m.state[V, i] = m.state[Q_KEPT, i], m.state[V_KEPT, i]


@inner
def check_solve(m, calls):  # type: ignore[no-untyped-def]
    """Update the peak of the relative residual of the constraint equations J a = gamma - U with the latest a.

    U is the constraint stabilization.
    """
    call_kernel(calls[SOLVE_RESIDUAL, 0], calls[SOLVE_RESIDUAL, 1], calls[SOLVE_RESIDUAL, 2])
    if m.scalars[WHOLE] > 0.0:
        m.scalars[PEAK_RESIDUAL] = max(m.scalars[PEAK_RESIDUAL], m.scalars[MISSING] / m.scalars[WHOLE])
    m.scalars[TO_CHECK] = 0.0


@inlined
def note_weakness(m):  # type: ignore[no-untyped-def]
    """Set scalars[IS_WEAK] if a pivot of the constraint rows is NaN or below its threshold.

    Such a pivot shows that the rows lose rank or almost do.
    """
    for k in range(m.pivots.size):
        if not abs(m.pivots[k]) * m.rows[LEAST_PIVOT, k] <= 1.0:
            m.scalars[IS_WEAK] = 1.0


@inner
def project(m, calls, law):  # type: ignore[no-untyped-def]
    """Project q, v or both, as the law selects, onto the constraints.

    q becomes q + x with J x = -Phi; v becomes v + x with J x = -Phidot. J is the Jacobian of the constraint rows; Phi
    are the violations and Phidot their rates.

    Of all solutions x, the one with the least norm is used. The law selects whether this is the Euclidean norm or the
    norm in the metric of the mass matrix M. For the metric of M, the law also selects whether the KKT factor of the
    step is used or a new factor. Nonholonomic rows have no Phi; at position level, J x = 0 is used for these rows.
    """
    if law[LAW_ROWS] == 0:
        return
    for level in (POSITION_LEVEL, VELOCITY_LEVEL):
        if law[LAW_LEVELS] & level:
            correct(m, calls, law, level)


@inner
def correct(m, calls, law, level):  # type: ignore[no-untyped-def]
    """Project q or v onto the constraints, see `project`.

    level  POSITION_LEVEL for q, VELOCITY_LEVEL for v
    """
    call_kernel(calls[RESIDUAL, 0], calls[RESIDUAL, 1], calls[RESIDUAL, 2])
    for row in range(law[LAW_ROWS]):
        if level == VELOCITY_LEVEL:
            m.rows[R2, row] = -m.rows[PHIDOT, row]
        else:
            m.rows[R2, row] = -m.rows[PHI, row] if row < law[LAW_HOLONOMIC] else 0.0
    if law[LAW_SOLVE] == PSEUDO_INVERSE:
        call_kernel(calls[LEAST_NORM, 0], calls[LEAST_NORM, 1], calls[LEAST_NORM, 2])
    else:
        if law[LAW_SOLVE] == FRESH_FACTOR:
            call_kernel(calls[ACCELERATION, 0], calls[ACCELERATION, 1], calls[ACCELERATION, 2])
        call_kernel(calls[APPLY, 0], calls[APPLY, 1], calls[APPLY, 2])
    target = Q if level == POSITION_LEVEL else V
    for i in range(m.state.shape[1]):
        m.state[target, i] += m.state[X, i]


@inlined
def rebase(m, calls):  # type: ignore[no-untyped-def]
    """Move the rotations of spherical and free joints from the coordinates q to the quaternions in p."""
    if calls[REBASE, 0] != 0:
        call_kernel(calls[REBASE, 0], calls[REBASE, 1], calls[REBASE, 2])


@inlined
def count_turns(m, calls):  # type: ignore[no-untyped-def]
    """Update the number of revolutions of the joints whose angle is wrapped to [-pi, pi]."""
    if m.angles.shape[1] == 0:
        return
    for i in range(m.angles.shape[1]):
        m.angles[BEFORE, i] = m.angles[NOW, i]
    call_kernel(calls[WRAPPING, 0], calls[WRAPPING, 1], calls[WRAPPING, 2])
    for i in range(m.angles.shape[1]):
        jump = m.angles[NOW, i] - m.angles[BEFORE, i]
        if jump > np.pi:
            m.angles[TURNS, i] -= 1.0
        elif jump < -np.pi:
            m.angles[TURNS, i] += 1.0


@inlined
def crossed_guard(m, calls):  # type: ignore[no-untyped-def]
    """Index of the first guard that fires at the end of this step, or -1.

    If a guard fires, the guard values at the start of the step are kept as well, because the order of the events is
    computed from the values at both ends of the step.
    """
    if m.guards.shape[1] == 0:
        return -1
    call_kernel(calls[GUARDS, 0], calls[GUARDS, 1], calls[GUARDS, 2])
    for i in range(m.guards.shape[1]):
        before, now, direction = m.guards[BEFORE, i], m.guards[NOW, i], m.guards[DIRECTION, i]
        if direction == CONDITIONS:
            if now >= 0.0:
                return i
        elif direction != NOT_WATCHED and (
            (before < 0.0 <= now and direction >= 0) or (before > 0.0 >= now and direction <= 0)
        ):
            return i
    for i in range(m.guards.shape[1]):
        m.guards[BEFORE, i] = m.guards[NOW, i]
    return -1


@inlined
def remember(m, step):  # type: ignore[no-untyped-def]
    """Record t, q, v at the start of step number `step` in the ring buffer `history`.

    At every CHECKED-th step, the function also requests a check of how well the accelerations a satisfy the constraint
    equations J a = gamma - U, in which U is the constraint stabilization.
    """
    m.ledger[TICK] = step
    if step % CHECKED == 0 and m.rows.shape[1] > 0:
        m.scalars[TO_CHECK] = 1.0
    row = step % HISTORY
    n = m.state.shape[1]
    m.history[row, 0] = m.scalars[TIME]
    for i in range(n):
        m.history[row, 1 + i] = m.state[Q, i]
        m.history[row, 1 + n + i] = m.state[V, i]


@inlined
def is_finite(m):  # type: ignore[no-untyped-def]
    """Whether all entries of q and v are finite."""
    failed = 0  # a sum of integers, which may be taken in any order and so by vector instructions
    for i in range(m.state.shape[1]):
        failed += m.state[Q, i] * 0.0 + m.state[V, i] * 0.0 != 0.0
    return failed == 0


@inlined
def end_step(m, calls, law):  # type: ignore[no-untyped-def]
    """Finish a step: update the energy ledger, project, rebase orientations, count revolutions, check guards.

    To rebase an orientation is to move the rotation of the step from the coordinates q into the joint's quaternion.

    Returns (status DONE, DIVERGED or EVENT; index of the first guard that fires or -1). The status is EVENT with the
    index -1 if scalars[STOPS_AT_MARKS] is set and `check_energy` recorded an energy error in this step. The loop then
    stops, while the history still contains the states that show the cause.
    """
    book_work(m, calls)
    if law[LAW_MODE] == PROJECTING:
        project(m, calls, law)
    if not is_finite(m):
        return DIVERGED, -1
    rebase(m, calls)
    marks = m.ledger[MARKS]
    check_energy(m, calls)
    count_turns(m, calls)
    guard = crossed_guard(m, calls)
    if guard >= 0 or (m.scalars[STOPS_AT_MARKS] != 0.0 and m.ledger[MARKS] > marks):
        measure(m, calls, law)
        return EVENT, guard
    return DONE, -1

"""The energy ledger: E - E0 less the work done on the mechanism, and what events and changed parameters took or gave.

The power of efforts, loads and dampers is integrated over each tick by Gauss' rule of two points, on the cubic through
the states at its ends: of order 4, the same for every stepper, and nothing of the motion depends on it. Stabilizers are
not booked: what they do to the energy is an error, as the stepper's is.
"""

from __future__ import annotations

import math

from sim_core.integrators.workspace import (
    ENERGY,
    HISTORY,
    POWER,
    Q_KEPT,
    TIME,
    V_KEPT,
    Q,
    V,
)
from sim_core.kernels.compiled import call_kernel, inner

# entries of Memory.ledger: what kernels write, then sums since the reset, J, then marks: time, departure, scale of each
KINETIC, POTENTIAL, POWER_NOW, TICK, START, START_POTENTIAL, WORK, BOOKED, SCALE, LARGEST, NEXT, MARKS = range(12)
FIRST_MARK, MOST_MARKS = 12, 24
EVERY = 16  # ticks between two weighings
DEPARTED = 0.01  # of the scale: the first mark; each doubling is the next
FIRST_JUDGED = 128  # tick: from rest the scale is small before, and an error of order h is h / t of it
CLEARLY = 0.2  # of the scale: a departure that is judged before that too
NOISE = 1e-9  # of the energies that are subtracted: a departure below it is rounding
GAUSS = 0.5 - 0.5 / math.sqrt(3.0)


@inner
def book_work(m, calls):  # type: ignore[no-untyped-def]
    """The work over the tick that began with the newest row of the history and ends at the present state."""
    if calls[POWER, 0] == 0:
        return
    row = int(m.ledger[TICK]) % HISTORY
    n, h = m.state.shape[1], m.scalars[TIME] - m.history[row, 0]
    for i in range(n):
        m.state[Q_KEPT, i], m.state[V_KEPT, i] = m.state[Q, i], m.state[V, i]
    for point in range(2):
        s = GAUSS if point == 0 else 1.0 - GAUSS
        r = 1.0 - s
        for i in range(n):
            q0, v0 = m.history[row, 1 + i], m.history[row, 1 + n + i]
            q1, v1 = m.state[Q_KEPT, i], m.state[V_KEPT, i]
            m.state[Q, i] = r * r * ((1.0 + 2.0 * s) * q0 + s * h * v0) + s * s * ((3.0 - 2.0 * s) * q1 - r * h * v1)
            m.state[V, i] = 6.0 * s * r * (q1 - q0) / h + r * (1.0 - 3.0 * s) * v0 + s * (3.0 * s - 2.0) * v1
        call_kernel(calls[POWER, 0], calls[POWER, 1], calls[POWER, 2])
        m.ledger[WORK] += 0.5 * h * m.ledger[POWER_NOW]
    for i in range(n):
        m.state[Q, i], m.state[V, i] = m.state[Q_KEPT, i], m.state[V_KEPT, i]


@inner
def weigh(m, calls):  # type: ignore[no-untyped-def]
    """At every sixteenth tick: the departure of the energy, and a mark where it is 1 % of the scale or has doubled."""
    if (int(m.ledger[TICK]) + 1) % EVERY != 0:
        return
    call_kernel(calls[ENERGY, 0], calls[ENERGY, 1], calls[ENERGY, 2])
    book = m.ledger
    swing = abs(book[POTENTIAL] - book[START_POTENTIAL])
    book[SCALE] = max(book[SCALE], book[KINETIC], swing, abs(book[WORK]))
    off = abs(book[KINETIC] + book[POTENTIAL] - book[START] - book[WORK] - book[BOOKED])
    if off <= NOISE * (abs(book[POTENTIAL]) + abs(book[START])):
        return
    part = off / book[SCALE]
    if book[TICK] + 1.0 < FIRST_JUDGED and part < CLEARLY:
        return
    book[LARGEST] = max(book[LARGEST], part)
    if part >= book[NEXT]:
        k = int(book[MARKS])
        if k < MOST_MARKS:
            place = FIRST_MARK + 3 * k
            book[place], book[place + 1], book[place + 2] = m.scalars[TIME], off, book[SCALE]
            book[MARKS] += 1.0
        while book[NEXT] <= part and book[NEXT] < 1e300:
            book[NEXT] *= 2.0

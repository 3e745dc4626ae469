"""Energy balance ("ledger") of a simulation. Its error is E - E(0) - W - (energy changes by events and parameters).

E is the energy, and W is the work of efforts, loads, dampers and prescribed motions. The power of these forces is
integrated over each simulation step ("tick") by the two-point Gauss rule, on the cubic Hermite interpolant of the
states at the ends of the step. This quadrature has order 4 and does not influence the motion. Steppers of order 1 move
positions by the velocity at one end of the step, while the kinetic energy changes by the force times the mean velocity;
for them, the velocity is interpolated linearly. W does not contain the work of stabilizers, which is thus a part of the
error.
"""

from __future__ import annotations

import math

from sim_core.integrators.workspace import (
    ENERGY,
    ENERGY_ROUNDING,
    HISTORY,
    MEAN_VELOCITY,
    POWER,
    Q_WORK,
    TIME,
    TIME_WORK,
    V_WORK,
    Q,
    V,
)
from sim_core.kernels.compiled import call_kernel, inlined

# entries of Memory.ledger: kernel outputs, then sums since the reset, J, then marks: (time, departure, scale) each
KINETIC, POTENTIAL, POWER_NOW, TICK, START, START_POTENTIAL, WORK, BOOKED, SCALE, LARGEST, NEXT, MARKS = range(12)
FIRST_MARK, MOST_MARKS = 12, 24
EVERY = 16  # ticks between two checks of the energy
DEPARTED = 0.01  # departure, as a share of the scale, of the first mark; each doubling makes another
FIRST_JUDGED = 128  # first tick with marks: from rest the scale is small before, and an error of order h is h / t of it
CLEARLY = 0.2  # share of the scale: a departure above it is marked before FIRST_JUDGED too
GREW = 10.0  # growth of the scale since the last mark after which marks begin at DEPARTED again
NOISE = 1e-9  # share of the subtracted energies: a smaller departure is rounding
GAUSS = 0.5 - 0.5 / math.sqrt(3.0)


@inlined
def book_work(m, calls):  # type: ignore[no-untyped-def]
    """Add the work done in the last tick to the ledger.

    The tick begins at the newest state in `m.history` and ends at the current state.

    m      Memory of the simulation
    calls  table of the kernels (Calls)
    """
    if calls[POWER, 0] == 0:
        return
    row = int(m.ledger[TICK]) % HISTORY
    n, begin = m.state.shape[1], m.history[row, 0]
    h = m.scalars[TIME] - begin
    for point in range(2):
        s = GAUSS if point == 0 else 1.0 - GAUSS
        r = 1.0 - s
        # weights of q0, v0, q1, v1 in the cubic, and of q1 - q0, v0, v1 in its derivative
        a, b, c, d = r * r * (1.0 + 2.0 * s), r * r * s * h, s * s * (3.0 - 2.0 * s), -s * s * r * h
        difference, before, after = 6.0 * s * r / h, r * (1.0 - 3.0 * s), s * (3.0 * s - 2.0)
        if m.scalars[MEAN_VELOCITY] != 0.0:
            difference, before, after = 0.0, r, s
        for i in range(n):
            q0, v0 = m.history[row, 1 + i], m.history[row, 1 + n + i]
            q1, v1 = m.state[Q, i], m.state[V, i]
            m.state[Q_WORK, i] = a * q0 + b * v0 + c * q1 + d * v1
            m.state[V_WORK, i] = difference * (q1 - q0) + before * v0 + after * v1
        m.scalars[TIME_WORK] = begin + s * h
        call_kernel(calls[POWER, 0], calls[POWER, 1], calls[POWER, 2])
        m.ledger[WORK] += 0.5 * h * m.ledger[POWER_NOW]


@inlined
def check_energy(m, calls):  # type: ignore[no-untyped-def]
    """Compute the energy error at every 16th tick, and record a large error.

    The energy scale is the largest kinetic energy, change of potential energy, or work so far. A record contains the
    time, the error and the scale. Records are made when the error first exceeds 1 %, 2 %, 4 %, 8 % ... of the scale;
    before tick FIRST_JUDGED, only errors above 20 % are recorded. If the scale has grown to more than GREW times that
    of the last record, the thresholds begin at 1 % again.
    """
    if (int(m.ledger[TICK]) + 1) % EVERY != 0:
        return
    call_kernel(calls[ENERGY, 0], calls[ENERGY, 1], calls[ENERGY, 2])
    book = m.ledger
    swing = abs(book[POTENTIAL] - book[START_POTENTIAL])
    book[SCALE] = max(book[SCALE], book[KINETIC], swing, abs(book[WORK]))
    off = abs(book[KINETIC] + book[POTENTIAL] - book[START] - book[WORK] - book[BOOKED])
    if off <= NOISE * (abs(book[POTENTIAL]) + abs(book[START])) + m.scalars[ENERGY_ROUNDING]:
        return
    part = off / book[SCALE]
    if book[TICK] + 1.0 < FIRST_JUDGED and part < CLEARLY:
        return
    book[LARGEST] = max(book[LARGEST], part)
    marked = min(int(book[MARKS]), MOST_MARKS)
    if marked > 0 and book[SCALE] > GREW * book[FIRST_MARK + 3 * (marked - 1) + 2]:
        book[NEXT] = DEPARTED
    if part >= book[NEXT]:
        k = int(book[MARKS])
        if k < MOST_MARKS:
            place = FIRST_MARK + 3 * k
            book[place], book[place + 1], book[place + 2] = m.scalars[TIME], off, book[SCALE]
            book[MARKS] += 1.0
        while book[NEXT] <= part and book[NEXT] < 1e300:
            book[NEXT] *= 2.0

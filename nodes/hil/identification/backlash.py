"""Model of the part of the measured efforts that does not reach the joints because of backlash in the actuators'
gears.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import take_up

CROSSINGS_S = tuple(2e-3 * 1.35**k for k in range(18))  # times to cross the backlash that are tried, 2 ms to 0.33 s
LIKE = 0.4  # largest deviation from 1 of the fitted factor of the missing effort for which backlash is assumed


def missing(effort: Floats, time: Floats, parts: Sequence[slice]) -> Floats:
    """Efforts that the drives transmit to the joints minus measured efforts, (c, n, k), in N m or N.

    The first index is that of the crossing time in CROSSINGS_S: the time (s) that a drive takes to cross the backlash.

    effort  measured efforts (n, k)
    time    stamps of the efforts (n,) in s
    parts   slices of the samples, one per section without a gap
    After each change of sign of its effort, a joint is free until the drive has crossed the backlash, as in
    `imperfections.take_up`.
    """
    crossings = np.array(CROSSINGS_S)[:, None] * np.ones(effort.shape[1])
    found = np.zeros((len(CROSSINGS_S), *effort.shape))
    for part in parts:
        stamps = time[part]
        steps = np.diff(stamps, prepend=2.0 * stamps[0] - stamps[1])
        place = np.sign(effort[part.start]) * crossings / 2.0
        for index, step in zip(range(part.start, part.stop), steps.tolist(), strict=True):
            commanded = np.broadcast_to(effort[index], crossings.shape)
            place, passed = take_up(place, commanded, 1.0, crossings, step)
            found[:, index] = passed - commanded
    return found


def best_crossing(columns: Floats, residual: Floats) -> int | None:
    """Index of the row of `columns` (c, n) that best fits the effort residual (n,) of a joint.

    A row counts only if the factor by which least squares multiplies it is near 1. The result is None if no row
    counts.
    """
    power = (columns * columns).sum(axis=1)
    fits = np.divide(columns @ residual, power, out=np.zeros_like(power), where=power > 0.0)
    gained = np.where(abs(fits - 1.0) < LIKE, fits * fits * power, 0.0)
    best = int(np.argmax(gained))
    return best if gained[best] > 0.0 else None

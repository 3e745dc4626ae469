"""What play in a gear does to efforts: after each change of sign of its effort a joint is free for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nodes.hil.streams import Floats

TIMES_S = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08)  # for which a joint may be free
SMALL = 0.02  # share of a joint's rms effort within which its sign counts as the one before
CHANGES = 3  # of sign, that it takes to see play
WHOLE = (0.6, 1.5)  # share of the effort that is lost meanwhile: with play it is all of it


def since_change(time: Floats, effort: Floats) -> Floats:
    """(n,) s since the effort (n,) last changed its sign; infinite before the first change."""
    sign = np.where(np.abs(effort) > SMALL * np.sqrt(np.mean(effort * effort)), np.sign(effort), 0.0)
    latest = np.maximum.accumulate(np.where(sign != 0.0, np.arange(len(sign)), 0))
    held = sign[latest]
    changed = np.r_[False, held[1:] * held[:-1] < 0.0]
    at = np.maximum.accumulate(np.where(changed, time, -np.inf))
    found: Floats = time - at
    return found


def play_columns(
    time: Floats, effort: Floats, joints: Sequence[int], residual: Floats, band: Callable[[Floats], Floats]
) -> Iterator[tuple[int, Floats]]:
    """(joint, what of the residual (n, k) a second of freedom after each change of sign makes) of those that fit.

    time (m,), effort (m, k) of all samples; `band` makes (n, k) of them. A fit is one in which about the whole effort
    is lost while the joint is free: the best of `TIMES_S`, each column over its time, so that its amount is that time.
    """
    for joint in joints:
        passed = since_change(time, effort[:, joint])
        if np.count_nonzero(passed == 0.0) < CHANGES:
            continue
        best: tuple[float, float, Floats] | None = None
        for free_s in TIMES_S:
            lost = np.zeros_like(effort)
            lost[:, joint] = -np.where(passed < free_s, effort[:, joint], 0.0)
            column = band(lost)
            c, r = column[:, joint], residual[:, joint]
            power = float(c @ c)
            if power <= 0.0:
                continue
            share, explained = float(c @ r) / power, float(c @ r) ** 2 / power
            if WHOLE[0] <= share <= WHOLE[1] and (best is None or explained > best[0]):
                best = explained, free_s, column
        if best is not None:
            yield joint, best[2] / best[1]

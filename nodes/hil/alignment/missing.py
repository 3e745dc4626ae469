"""Stretches of a run without comparable measured states of the robot."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from statistics import median

from nodes.hil.alignment.streams import Gap

LONGEST_S = 1.0  # longest gap of a busy computer; after a longer one, the robot's driver stood still
RECENT = 32  # spacings from which the usual one is computed
SHOWN = 3  # most gaps named in a text


class MissingStates:
    """Finds gaps in the stream of measured states that are compared with the model's.

    gaps  the gaps of more than LONGEST_S seconds so far
    """

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self._latest = -inf
        self._spacings: deque[float] = deque(maxlen=RECENT)  # of the latest states, without such gaps

    def add(self, time: float) -> None:
        """Add a comparable measured state at the simulation time `time` (s)."""
        passed, self._latest = time - self._latest, max(time, self._latest)
        if LONGEST_S < passed < inf:
            self.gaps.append(Gap(time - passed, time))
        elif 0.0 < passed < inf:
            self._spacings.append(passed)

    def forget(self) -> None:
        """Begin anew after a reset of simulation time. Gaps so far are kept."""
        self._latest = -inf

    def until(self, end: float) -> str:
        """The text of `missing_states` for a run that ends at the simulation time `end` (s)."""
        last = [Gap(self._latest, end)] if LONGEST_S < end - self._latest < inf else []
        return missing_states([*self.gaps, *last], median(self._spacings) if self._spacings else 0.0)


def missing_states(gaps: Sequence[Gap], period_s: float) -> str:
    """Text such as "the robot's states are missing from t = 2.000 s to 3.500 s (about 149 states)".

    The result is "" if no gap is longer than LONGEST_S.

    period_s  usual time between two states (s); 0 if it is unknown
    """
    texts = []
    for gap in gaps:
        if (length_s := gap.end_s - gap.start_s) > LONGEST_S:
            count = f" (about {length_s / period_s - 1.0:.0f} states)" if period_s else ""
            texts.append(f"from t = {gap.start_s:.3f} s to {gap.end_s:.3f} s{count}")
    if not texts:
        return ""
    more = [f"in {len(texts) - SHOWN} more gaps"] if len(texts) > SHOWN else []
    return f"the robot's states are missing {', '.join([*texts[:SHOWN], *more])}"

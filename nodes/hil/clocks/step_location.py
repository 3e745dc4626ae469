"""Location of a clock jump among the stamps of messages, from the order and the spacing of the stamps.

Two round trips that contradict each other give the size of the jump and two times between which it lies. The stamps of
the messages between these times are evenly spaced, except that the jump changes one spacing by its size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats

CROSSING_S = 2e-3  # largest decrease between stamps of samples and of commands that arrive out of order
LIKE = 0.75  # least deviation of a spacing that contains the jump, as a fraction of the jump
# A spacing is unusual if it differs from the usual one by more than UNUSUAL_S and this fraction of it:
UNUSUAL_S = 4e-3
UNUSUAL = 0.4
NEAR = 16  # stamps on either side from which the usual spacing is computed


@dataclass(frozen=True)
class StepLocation:
    """Position of a clock jump in a sequence of messages.

    The messages before number `first` were stamped before the jump, and the messages from number `last` on were stamped
    after it. The messages in between may have been stamped before or after it.
    """

    first: int
    last: int

    @property
    def is_certain(self) -> bool:
        """Whether only one position is possible."""
        return self.first == self.last


def usual_distance(stamps: Floats) -> float:
    """Median spacing of stamps (n,) in s; 0 for fewer than two."""
    return float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0


def is_unusual(distance: float, usual: float) -> bool:
    """Whether a spacing of stamps differs so much from the usual spacing that a clock jump may be the reason."""
    return abs(distance - usual) > max(UNUSUAL_S, UNUSUAL * usual)


def place_step(
    stamps: Floats, before: Floats, after: Floats, window: tuple[float, float], size: float, slack_s: float
) -> StepLocation:
    """Position of a clock jump of `size` s among messages.

    stamps   (n,) stamps of one clock (s), in the order of publication
    before   (n,) local time (s) of each message, computed as if all were stamped before the jump
    after    (n,) local time (s) of each message, computed as if all were stamped after the jump
    window   two local times (s) between which the jump lies
    slack_s  uncertainty of the local times (s)
    """
    n = len(stamps)
    too_late, too_early = before > window[1] + slack_s, after < window[0] - slack_s
    most = int(np.argmax(too_late)) if too_late.any() else n
    least = int(n - np.argmax(too_early[::-1])) if too_early.any() else 0
    if least >= most:
        return StepLocation(most, least)
    usual = usual_distance(stamps[max(least - NEAR, 0) : most + NEAR])
    start = max(least, 1)
    distance = np.diff(stamps[start - 1 : min(most, n - 1) + 1])
    ordered = distance - size > -CROSSING_S
    inside = start + np.flatnonzero(ordered & (((distance - usual) / size > LIKE) | (distance < -CROSSING_S)))
    ends = [0] * (least == 0) + [n] * (most == n)  # all messages may be on one side
    places = inside.tolist() or ends or [least, most]
    return StepLocation(places[0], places[-1])

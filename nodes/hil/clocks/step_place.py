"""Between which two stamps of a clock it was put forward or back: by their order, and by how evenly they follow.

Two round trips that contradict each other tell how far the clock was put and between which two times. The stamps of
what was said meanwhile tell the rest: they rise evenly, but for one place where they change by the size of the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats

CROSSING_S = 2e-3  # by which stamps of samples and of commands may come out of order
LIKE = 0.75  # share of the step by which the distance of two stamps must be unusual to hold it
UNUSUAL_S = 4e-3  # by which the distance of two stamps differs from the usual one, so that a step may lie there,
UNUSUAL = 0.4  # and at least this share of the usual one
NEAR = 16  # stamps on either side, by which the usual distance is known


@dataclass(frozen=True)
class NodeSession:
    """The step lies before the message `first`, or before one of those after it up to `last`.

    is_certain  the stamps tell where; else messages from `first` to `last` (exclusive) are of either side
    """

    first: int
    last: int

    @property
    def is_certain(self) -> bool:
        """Whether one place is left."""
        return self.first == self.last


def usual_distance(stamps: Floats) -> float:
    """Median distance of stamps (n,) that follow each other, s; 0 for fewer than two."""
    return float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0


def is_unusual(distance: float, usual: float) -> bool:
    """Whether a step of the clock may lie between two stamps."""
    return abs(distance - usual) > max(UNUSUAL_S, UNUSUAL * usual)


def place_step(
    stamps: Floats, before: Floats, after: Floats, window: tuple[float, float], size: float, slack_s: float
) -> NodeSession:
    """The messages between which a step of `size` s lies.

    stamps   (n,) s, of one clock, in the order in which they were said
    before   (n,) our time of each, if it was stamped before the step; `after` if it was stamped after it
    window   our times between which the step lies; `slack_s` by which they may be off
    """
    n = len(stamps)
    too_late, too_early = before > window[1] + slack_s, after < window[0] - slack_s
    most = int(np.argmax(too_late)) if too_late.any() else n
    least = int(n - np.argmax(too_early[::-1])) if too_early.any() else 0
    if least >= most:
        return NodeSession(most, least)
    usual = usual_distance(stamps[max(least - NEAR, 0) : most + NEAR])
    start = max(least, 1)
    distance = np.diff(stamps[start - 1 : min(most, n - 1) + 1])
    ordered = distance - size > -CROSSING_S
    inside = start + np.flatnonzero(ordered & (((distance - usual) / size > LIKE) | (distance < -CROSSING_S)))
    ends = [0] * (least == 0) + [n] * (most == n)  # all of them are of one side
    places = inside.tolist() or ends or [least, most]
    return NodeSession(places[0], places[-1])

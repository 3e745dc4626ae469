"""External forces that push bodies, read from the events of a run."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from viewer.data.series import Floats

PUSHED = "push"  # kind of the event that logs a push


class Push(NamedTuple):
    """An external force on a body, and the time for which it acts.

    start, end  first and last time at which the force acts, s
    newton      components of the force (3,), N, in world axes
    point       point of application (3,), m, in the body's frame
    """

    start: float
    end: float
    body: str
    newton: Floats
    point: Floats


class _Logged(msgspec.Struct):
    force: tuple[float, float, float]
    point: tuple[float, float, float]
    duration_s: float


def logged_push(time: float, body: str, new: str) -> Push | None:
    """The push that is described in an event of kind "push"; None if `new` does not have the numbers of a push.

    time  time of the event, s
    body  field `part` of the event
    new   field `new` of the event: force, point and duration as JSON
    """
    try:
        found = msgspec.json.decode(new, type=_Logged)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return Push(time, time + found.duration_s, body, np.array(found.force), np.array(found.point))

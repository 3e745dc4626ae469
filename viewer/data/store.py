"""Events, and fields that are computed from a robot's states, for live runs and recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import Description, Event
from viewer.data.series import Floats

MOST_NUMBERS = 64  # most numbers of a list without names that become fields
STAMPS = ("timestamp", "seq", "sent_ns", "log_time")
DERIVED_TOPIC = "derived"  # topic of a robot with the fields that are computed from its states and its description
SCALARS = ("phi", "phidot", "energy")  # fields of a state that are single numbers
FORCE, HOLD = "force", "hold"  # magnitude of each force, state of each gripper
PLACE, ORIENTATION = "place", "orientation"  # of the free and spherical joints
DERIVED = (FORCE, HOLD, PLACE, ORIENTATION)
FULL = 2.0  # value of the field `hold` for a gripper all of whose parts act


class EventMark(msgspec.Struct, frozen=True):
    """One event: time in s, kind, and one line of detail.

    before  kind of the later event that set the simulation time back, such as "reset"; "" for an event of the present
            run. The time of an event with `before` is not on the time axis of the present run
    """

    time: float
    kind: str
    detail: str = ""
    before: str = ""


def derived_columns(description: Description, columns: Mapping[str, Floats]) -> Iterator[tuple[str, Floats]]:
    """Yield (field, values over time) of the magnitudes of forces and of the states of grippers, such as "force.hand".

    columns  {output: its values over time}; forces and grippers for which outputs are missing are left out
    """

    def values(outputs: Sequence[str]) -> Floats:
        known = outputs and all(name in columns for name in outputs)
        return np.stack([columns[name] for name in outputs], axis=1) if known else np.zeros((0, 0))

    for force in description.forces:
        if len(found := values(force.outputs)) and len(force.axes) == 3 * len(force.outputs):
            yield f"{FORCE}.{force.name}", np.linalg.norm(found @ np.reshape(force.axes, (-1, 3)), axis=1)
    for hold in description.holds:
        if len(found := values(hold.outputs)):
            yield f"{HOLD}.{hold.name}", np.asarray((found > 0.5).sum(axis=1) * (FULL / len(hold.outputs)))


def frame_columns(names: Sequence[str], frames: Floats, known: Sequence[str] = ()) -> Iterator[tuple[str, Floats]]:
    """Yield (field, values over time) of the positions, m, and the quaternions of the free and spherical joints.

    A spherical joint has no position, since its points coincide.

    names   names of the joints
    frames  `RobotState.frames` of k states, (k, 7n)
    known   fields that earlier states had; a free joint has a position also where it is zero
    """
    if not names or frames.ndim != 2 or frames.shape[1] != 7 * len(names):
        return
    parts = frames.reshape(len(frames), len(names), 7)
    for place, name in enumerate(names):
        if f"{PLACE}.{name} x" in known or np.any(parts[:, place, :3] != 0.0):
            yield from ((f"{PLACE}.{name} {axis}", parts[:, place, index]) for index, axis in enumerate("xyz"))
    for place, name in enumerate(names):
        yield from ((f"{ORIENTATION}.{name} q{part}", parts[:, place, 3 + i]) for i, part in enumerate("wxyz"))


def event_text(event: Event) -> str:
    return row_text({name: getattr(event, name) for name in event.__struct_fields__})


def row_text(row: Mapping[str, Any]) -> str:
    """An event, given as {field: value}, as one line of text."""
    if row.get("detail"):
        return str(row["detail"])
    if row.get("key"):
        return f"{row['node']}.{row['key']} = {row['new']} (before: {row['old']})"
    if row.get("source") != row.get("target"):
        return f"{row['part']}: {row['source']} to {row['target']}".strip(": ")
    return str(row.get("node") or "")

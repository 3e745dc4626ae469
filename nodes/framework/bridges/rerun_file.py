"""Writes a recording as a Rerun file (.rrd): curves, the robot's bodies and their poses, lines, and events as a log."""

from __future__ import annotations

import atexit
import os
import re
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import rerun as rr
from numpy.typing import NDArray

from nodes.framework.messages import Description, Shape
from nodes.framework.recording.columns import Columns, labelled
from nodes.framework.recording.new_file import new_file
from nodes.framework.recording.reader import Recording

TIMELINE = "sim_time"
STAMPS = ("log_time", "timestamp", "seq", "sent_ns")  # of a message itself: the timeline has the time
POSES, EVENT = "body_poses", "event"
STALLED_S = 5.0  # in which a file that is written grows
LINE_WIDTH = rr.Radius.ui_points(1.5)
FOOTER, FOOTER_BYTES = b"FOOT", 64  # at the end of a complete file
GREY = "#8a8f98"  # of a shape without a colour


def export_rerun(recording: Recording, path: str | os.PathLike[str]) -> int:
    """Write the recording to the Rerun file `path`, and return the number of curves.

    The timeline `sim_time` is the simulation time. Each curve is an entity, such as
    "rotary_pendulum/state/position/arm". The bodies are entities below "world".
    """
    with new_file(path, _is_closed) as part:
        return _write(recording, part)


def _write(recording: Recording, path: Path) -> int:
    stream = rr.RecordingStream("armswing", recording_id=recording.path.name, send_properties=False)
    stream.save(os.fspath(path))
    curves = 0
    for topic, fields in recording.items():
        leaf = topic.rpartition("/")[2]
        if not recording.has_known_type(topic):
            curves += _send_curves(stream, topic, fields)
        elif leaf == POSES and recording.description is not None:
            _send_poses(stream, recording.description, fields)
        elif {"name", "count", "points"} <= set(fields):
            _send_lines(stream, topic, fields)
        elif leaf == EVENT:
            _send_events(stream, topic, fields)
        elif topic == "status":
            for node in np.unique(fields["node"]):
                curves += _send_curves(stream, f"{topic}/{node}", _rows(fields, fields["node"] == node))
        elif leaf != "description":
            curves += _send_curves(stream, topic, fields)
    if recording.description is not None:
        _send_shapes(stream, recording.description)
    _flush(stream, path)
    stream.disconnect()
    return curves


def _flush(stream: rr.RecordingStream, path: Path) -> None:
    """Wait until all data are in the file. Raises OSError if the file stops growing before.

    Without a time limit, Rerun may wait for ever where the file could not be written, here and at the program's end.
    """
    size = -1
    while True:
        began = monotonic()
        try:
            stream.flush(timeout_sec=STALLED_S)
            return
        except RuntimeError as error:
            if monotonic() - began < STALLED_S:  # an error that Rerun reports
                raise
            before, size = size, path.stat().st_size if path.exists() else 0
            if size <= before:
                atexit.unregister(rr.rerun_shutdown)  # waits for the file, as the stream's end does
                stream.__class__ = _Abandoned
                raise OSError("Rerun writes nothing more to this file; is its disk full?") from error


class _Abandoned(rr.RecordingStream):  # type: ignore[misc]
    """A stream that is not ended, because its file cannot be written."""

    def __del__(self) -> None:
        pass


def _is_closed(path: Path) -> bool:
    """Whether a Rerun file is complete: a complete file ends with a footer."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - FOOTER_BYTES))
        return FOOTER in file.read()


def _rows(fields: Columns, chosen: NDArray[np.bool_]) -> Columns:
    found = Columns({name: values[chosen] for name, values in fields.items()})
    found.present = {name: has[chosen] for name, has in fields.present.items()}
    return found


def _times(fields: Columns) -> list[Any]:
    return [rr.TimeColumn(TIMELINE, duration=fields["log_time"])]


def _send_curves(stream: rr.RecordingStream, topic: str, fields: Columns) -> int:
    """Send each column of numbers as a curve, and return the number of curves.

    "position[arm]" becomes the entity "position/arm".
    """
    sent = 0
    for heading, values in labelled(fields):
        if heading not in STAMPS and values.dtype.kind in "fib":
            entity = _entity(topic, *filter(None, re.split(r"[\[\].]", heading)))
            has = fields.present.get(heading.partition("[")[0], slice(None))
            scalars = rr.Scalars.columns(scalars=values[has].astype(np.float64))
            time = rr.TimeColumn(TIMELINE, duration=fields["log_time"][has])
            rr.send_columns(entity, indexes=[time], columns=scalars, recording=stream)
            sent += 1
    return sent


def _send_poses(stream: rr.RecordingStream, description: Description, fields: Columns) -> None:
    for place, body in enumerate(description.bodies):
        translation = fields["p"][:, 3 * place : 3 * place + 3]
        quaternion = fields["quaternion"][:, 4 * place : 4 * place + 4]
        columns = rr.Transform3D.columns(translation=translation, quaternion=_xyzw(quaternion))
        rr.send_columns(_body(description, body.name), indexes=_times(fields), columns=columns, recording=stream)


def _send_shapes(stream: rr.RecordingStream, description: Description) -> None:
    """Send the upward axis, and the shapes of the ground and the bodies. This data does not depend on time."""
    up = int(np.argmax(np.abs(description.gravity)))
    views = (rr.ViewCoordinates.RIGHT_HAND_X_UP, rr.ViewCoordinates.RIGHT_HAND_Y_UP, rr.ViewCoordinates.RIGHT_HAND_Z_UP)
    stream.log("world", views[up], static=True)
    parts = [(_entity("world", description.robot, "ground"), description.ground)]
    parts += [(_body(description, body.name), body.shapes) for body in description.bodies]
    for entity, shapes in parts:
        for number, shape in enumerate(shapes):
            stream.log(f"{entity}/{shape.kind}_{number}", _drawn(shape), static=True)


def _drawn(shape: Shape) -> Any:
    color = shape.color or GREY
    pose = {
        "centers": [shape.position],
        "quaternions": [rr.Quaternion(xyzw=[*shape.quaternion[1:], shape.quaternion[0]])],
    }
    colors = [[int(color[k : k + 2], 16) for k in (1, 3, 5)]]
    if shape.kind == "box":
        return rr.Boxes3D(sizes=[shape.size], colors=colors, fill_mode="solid", **pose)
    if shape.kind == "sphere":
        return rr.Ellipsoids3D(radii=[shape.size[0]], colors=colors, fill_mode="solid", **pose)
    if shape.kind == "cylinder":
        radius, length = shape.size
        return rr.Cylinders3D(radii=[radius], lengths=[length], colors=colors, fill_mode="solid", **pose)
    points = np.asarray(shape.points).reshape(-1, 3) @ _rotation(shape.quaternion).T + np.asarray(shape.position)
    if shape.kind == "mesh":
        triangles = np.asarray(shape.faces).reshape(-1, 3)
        return rr.Mesh3D(vertex_positions=points, triangle_indices=triangles, albedo_factor=colors[0])
    return rr.LineStrips3D([points], colors=colors, radii=LINE_WIDTH)


def _send_lines(stream: rr.RecordingStream, topic: str, fields: Columns) -> None:
    robot, _, leaf = topic.rpartition("/")
    for time, counts, points in zip(fields["log_time"], fields["count"], fields["points"], strict=True):
        strips = np.split(np.asarray(points, dtype=np.float64).reshape(-1, 3), np.cumsum(counts)[:-1].astype(int))
        stream.set_time(TIMELINE, duration=float(time))
        stream.log(_entity("world", robot, leaf), rr.LineStrips3D(strips, radii=LINE_WIDTH))
    stream.reset_time()


def _send_events(stream: rr.RecordingStream, topic: str, fields: Columns) -> None:
    rows = zip(*(fields[name] for name in ("kind", "node", "key", "new", "part", "detail")), strict=True)
    texts = [" ".join(str(each) for each in row if each) for row in rows]
    columns = rr.TextLog.columns(text=texts)
    rr.send_columns(_entity(topic), indexes=_times(fields), columns=columns, recording=stream)


def _body(description: Description, name: str) -> str:
    return _entity("world", description.robot, name)


def _entity(*parts: str) -> str:
    """Path of a Rerun entity. Slashes in the parts separate levels; other special characters are escaped."""
    return str(rr.new_entity_path([piece for part in parts for piece in part.split("/") if piece]))


def _xyzw(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.roll(quaternion, -1, axis=1)


def _rotation(quaternion: list[float]) -> NDArray[np.float64]:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )

"""The signals of one robot that the viewer shows: description, time series and poses.

The signals are filled from live messages or from a recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nodes.messages import (
    BodyPoses,
    Description,
    Event,
    GripperDescription,
    JointReference,
    Message,
    PlotValues,
    Polylines,
    RobotState,
)
from nodes.recording.integrity.holes import LOST
from nodes.recording.reader import Recording
from viewer.data.boundaries import is_set_back
from viewer.data.pushes import PUSHED, Push, logged_push
from viewer.data.series import Floats, Ring, Series, Track, Whole, interrupted, row_at

VECTORS = ("position", "velocity", "effort")
MEASURED = "measured_body_poses"  # topic with the poses of the measured robot
DIVERGED = "diverged"  # kind of the event that a diverged simulation publishes
DERIVED = ("force", "hold")  # fields computed from outputs: magnitude of each force, state of each gripper
# Velocities above OUT_OF_ALL times the USUAL quantile belong to the divergence rather than to the motion.
USUAL, OUT_OF_ALL = 0.9, 10.0
PATH = "path"  # field of a message, points (3n,), that is drawn over the picture as the topic `overlay` is
FULL = 2.0  # value of the field `hold` for a gripper all of whose parts act
SCALARS = ("phi", "phidot", "energy")
PLACE, ORIENTATION = "place", "orientation"  # fields of the free and spherical joints
ROUNDING_S = 1e-9  # s; the times of holes are whole nanoseconds, those of states are not
LATEST = 4096  # rows of a live series that are kept; the plots of the window have more, in `LiveStore`


class Signals:
    """All signals of one robot: the first robot whose messages arrive.

    series       {field: its time series}, for fields such as "position", "phi", "outputs" and "reference"; the labels
                 of a series are names of joints or outputs, and parts of free and spherical joints, such as "base qw"
    poses        one row per instant: positions (3n,), m, and then quaternions (4n,) of the n bodies; None before the
                 first poses
    measured     poses of the real robot from measurements, with rows as in `poses`; None before the first such poses
    lines        polylines that are parts of the robot, such as elastic beams
    overlay      polylines that nodes publish to be drawn over the picture, such as planned paths
    changes      (time in s, kind) of each change of the set of active constraints, such as grip and release
    pushes       external forces on bodies, in the order of their starts
    units        {(topic, name): unit} of the values that nodes plot
    description  description of the robot; None until it is received
    seq          sequence number of the latest live state; 0 before the first
    violated     whether any state so far had a constraint violation other than exactly zero
    holes        (start, end) of each gap in a recording, s
    diverged_at  time of the event that reported a divergence of the simulation, s; None if there is no such event
    sane_until   if the simulation diverged, time of the last state whose velocities are not extremely large, s, see
                 `diverge`; otherwise infinite
    """

    def __init__(self) -> None:
        self.robot = ""
        self.description: Description | None = None
        self.series: dict[str, Series] = {}
        self.units: dict[tuple[str, str], str] = {}
        self.poses: Series | None = None
        self.measured: Series | None = None
        self.lines, self.overlay = Track(), Track()
        self.changes: list[tuple[float, str]] = []
        self.pushes: list[Push] = []
        self.holes: list[tuple[float, float]] = []
        self.time = 0.0
        self.seq = 0
        self.states = 0
        self.violated = False
        self.diverged_at: float | None = None
        self.sane_until = math.inf

    def diverge(self, time: float) -> None:
        """Record a divergence of the simulation at `time`, s, and set `sane_until`.

        `sane_until` is the time of the last state whose largest velocity is at most OUT_OF_ALL times the 90 % quantile
        of the largest velocities of all states.
        """
        self.diverged_at = self.sane_until = time
        series = self.series.get("velocity") or self.series.get("energy")
        if series is None or len(series.times) == 0:
            return
        size = np.abs(np.nan_to_num(series.values, nan=math.inf)).max(axis=1, initial=0.0)
        usual = float(np.quantile(size, USUAL, method="lower"))
        self.sane_until = float(series.times[np.flatnonzero(size <= OUT_OF_ALL * usual)[-1]])

    def take(self, topic: str, message: Message) -> None:
        """Add one live message. Messages of other robots and of unknown topics are ignored."""
        if isinstance(message, PlotValues):
            self.units |= {(topic, name): unit for name, unit in message.units.items()}
            return
        robot, _, _ = topic.rpartition("/")
        if not robot or (self.robot and robot != self.robot):
            return
        if isinstance(message, RobotState):
            self.robot = robot
            self._take_state(message)
        elif isinstance(message, Description):
            self.robot = robot
            self.description = message
        elif isinstance(message, BodyPoses):
            if topic.endswith(f"/{MEASURED}"):
                self.measured = _appended(self.measured, message)
            else:
                self.poses = _appended(self.poses, message)
        elif isinstance(message, Polylines):
            track = self.overlay if topic.endswith("/overlay") else self.lines
            track.append(message.timestamp, message.name, message.count, message.points)
        elif isinstance(message, Event):
            if message.kind == DIVERGED:
                self.diverge(message.timestamp)
            elif message.kind == PUSHED:
                self._add_push(message.timestamp, message.part, message.new)
            elif message.source != message.target:
                self.changes.append((message.timestamp, message.kind))
        elif isinstance(message, JointReference):
            self._append("reference", message.name, message.timestamp, message.position)
        elif isinstance(path := getattr(message, PATH, None), list):
            self.overlay.append(message.timestamp, [_leaf(topic)], [len(path) // 3], path[: len(path) // 3 * 3])

    def outputs_at(self, time: float) -> dict[str, float]:
        """{output: its value} in the last state at or before `time`, s."""
        series = self.series.get("outputs")
        place = None if series is None else row_at(series.times, time)
        return {} if series is None or place is None else dict(zip(series.labels, series.values[place], strict=True))

    def derived(self, field: str) -> Series | None:
        """Series of a field that is computed from outputs; None if the description or the outputs lack the data.

        field  "force" for the magnitude of each force, or "hold" for the state of each gripper
        """
        outputs, description = self.series.get("outputs"), self.description
        if outputs is None or description is None:
            return None
        columns = {label: outputs.values[:, place] for place, label in enumerate(outputs.labels)}
        found = derived_columns(description, field, columns)
        return Whole(tuple(found), outputs.times, np.stack(list(found.values()), axis=1)) if found else None

    def _take_state(self, state: RobotState) -> None:
        if is_set_back(state, self.time):  # later states do not continue earlier ones
            self.series.clear()
            self.poses, self.measured = _until(self.poses, state.timestamp), _until(self.measured, state.timestamp)
            self.lines.begin_anew(state.timestamp)
            self.overlay.begin_anew(state.timestamp)
            self.changes.clear()
            self.pushes.clear()
            self.diverged_at, self.sane_until = None, math.inf
        self.time, self.seq = state.timestamp, state.seq
        self.states += 1
        self.violated = self.violated or state.phi != 0.0 or state.phidot != 0.0
        for field in VECTORS:
            row = getattr(state, field)
            self._append(field, state.name[: len(row)], state.timestamp, row)
        for field in SCALARS:
            self._append(field, (field,), state.timestamp, (getattr(state, field),))
        for field, labels, values in frame_columns(self.description, np.array([state.frames])):
            self._append(field, labels, state.timestamp, values[0].tolist())
        if state.outputs:
            self._append("outputs", tuple(state.outputs), state.timestamp, tuple(state.outputs.values()))

    def _add_push(self, time: float, body: str, new: str) -> None:
        if (push := logged_push(time, body, new)) is not None:
            self.pushes.append(push)

    def _append(self, field: str, labels: Sequence[str], time: float, row: Sequence[float]) -> None:
        ring = self.series.get(field)
        if not isinstance(ring, Ring) or ring.labels != tuple(labels):
            ring = self.series[field] = Ring(labels, capacity=LATEST)
        if len(row) == len(ring.labels):
            ring.append(time, row)


def _appended(series: Series | None, poses: BodyPoses) -> Series:
    """Append the poses of a message to a series, and return the series.

    Returns a new series if `series` is None, if the numbers of bodies in the series and in the message differ, or if
    the last row of the series is later than the message, which shows that the simulation was reset.
    """
    row = [*poses.p, *poses.quaternion]
    series = _until(series, poses.timestamp)
    if not isinstance(series, Ring) or len(series.labels) != len(row):
        series = Ring([""] * len(row), capacity=LATEST)
    series.append(poses.timestamp, row)
    return series


def _until(series: Series | None, time: float) -> Series | None:
    """The series; None if its last row is later than `time` (s), which shows that simulation time was set back."""
    return None if series is None or series.times[-1] > time else series


def frame_columns(description: Description | None, frames: Floats) -> Iterator[tuple[str, tuple[str, ...], Floats]]:
    """Yield (field, labels, values (k, m)) of the positions, m, and the quaternions of the free and spherical joints.

    A spherical joint has no position, since its points coincide.

    frames  `RobotState.frames` of k states, (k, 7n)
    """
    names = [] if description is None else description.frames
    if not names or frames.ndim != 2 or frames.shape[1] != 7 * len(names):
        return
    parts = frames.reshape(len(frames), len(names), 7)
    free = [place for place in range(len(names)) if bool(np.any(parts[:, place, :3] != 0.0))]
    if free:
        labels = tuple(f"{names[place]} {axis}" for place in free for axis in "xyz")
        yield PLACE, labels, parts[:, free, :3].reshape(len(frames), -1)
    labels = tuple(f"{name} {part}" for name in names for part in ("qw", "qx", "qy", "qz"))
    yield ORIENTATION, labels, parts[:, :, 3:].reshape(len(frames), -1)


def derived_columns(description: Description, field: str, columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """{name of a force or gripper: its values over time}, computed from outputs.

    field    "force" for the magnitudes of forces, or "hold" for the states of grippers
    columns  {output: its values over time}
    """
    found: dict[str, Floats] = {}
    for part in description.forces if field == "force" else description.holds:
        if part.outputs and all(name in columns for name in part.outputs):
            values = np.stack([columns[name] for name in part.outputs], axis=1)
            if isinstance(part, GripperDescription):
                found[part.name] = np.asarray((values > 0.5).sum(axis=1) * (FULL / len(part.outputs)))
            elif len(part.axes) == 3 * len(part.outputs):
                found[part.name] = np.linalg.norm(values @ np.reshape(part.axes, (-1, 3)), axis=1)
    return found


def from_recording(recording: Recording) -> Signals:
    """Signals of the first robot whose states were recorded.

    For a recording without states, the signals contain only the description.
    """
    signals = Signals()
    signals.description = recording.description
    for topic in recording.topics:
        if topic.endswith("/plot") and (columns := recording.known(topic)) is not None:
            named = {name.removeprefix("units."): name for name in columns if name.startswith("units.")}
            for name, column in named.items():
                signals.units[topic, name] = next((str(unit) for unit in columns[column][::-1] if unit), "")
    state = recording.topic_of_states()
    if state is None:
        return signals
    signals.robot = state.rpartition("/")[0]
    columns = recording[state]
    times = columns["timestamp"].astype(np.float64, copy=False)
    signals.time = float(times[-1])
    signals.states = len(times)
    signals.holes = holes_of(recording, state, times)
    names = [str(name) for name in columns["name"][0]] if columns["name"].ndim == 2 else []
    for field in VECTORS:
        if columns[field].ndim == 2:
            values = columns[field]
            signals.series[field] = Whole(names[: values.shape[1]], *interrupted(times, values, signals.holes))
    for field in SCALARS:
        values = columns[field].astype(np.float64, copy=False).reshape(-1, 1)
        signals.series[field] = Whole((field,), *interrupted(times, values, signals.holes))
    signals.violated = bool(np.any(columns["phi"] != 0.0) or np.any(columns["phidot"] != 0.0))
    for field, labels, values in frame_columns(signals.description, np.asarray(columns.get("frames", np.zeros(0)))):
        signals.series[field] = Whole(labels, *interrupted(times, values, signals.holes))
    outputs = [name for name in columns if name.startswith("outputs.")]
    if outputs:
        known = [name.removeprefix("outputs.") for name in outputs]
        values = np.stack([columns[name] for name in outputs], axis=1)
        signals.series["outputs"] = Whole(known, *interrupted(times, values, signals.holes))
    events = recording.known(f"{signals.robot}/event")
    if events is not None and (found := np.flatnonzero(events["kind"] == DIVERGED)).size:
        signals.diverge(float(events["timestamp"][found[-1]]))
    if events is not None:
        rows = zip(*(events[field] for field in ("timestamp", "kind", "source", "target")), strict=True)
        for time, kind, part, new in zip(*(events[f] for f in ("timestamp", "kind", "part", "new")), strict=True):
            if kind == PUSHED:
                signals._add_push(float(time), str(part), str(new))
        signals.changes = [(float(time), str(kind)) for time, kind, source, target in rows if source != target]
    _add_reference(signals, recording)
    signals.poses = _recorded_poses(recording, f"{signals.robot}/body_poses")
    signals.measured = _recorded_poses(recording, f"{signals.robot}/{MEASURED}")
    _add_lines(signals, recording)
    return signals


def holes_of(recording: Recording, topic: str, times: Floats) -> list[tuple[float, float]]:
    """(start, end), s, of each gap in the recorded messages of a topic.

    A recording may contain several runs. Gaps in other runs than the run that is shown are left out.

    times  times of the topic's messages in the run that is shown, s
    """
    found = []
    for hole in recording.holes:
        if hole.start_s is None or hole.end_s is None or not hole.covers(topic):
            continue
        first = np.searchsorted(times, hole.start_s + ROUNDING_S, side="right")
        last = np.searchsorted(times, hole.end_s - ROUNDING_S)
        around = times[max(first - 1, 0) : last + 1]
        if hole.cause == LOST and len(around) > 1:  # such a hole is that of several topics, which end at other times
            longest = int(np.argmax(np.diff(around)))
            if np.diff(around)[longest] > 1.5 * np.median(np.diff(times)):
                found.append((float(around[longest]), float(around[longest + 1])))
        elif 0 < first == last < len(times):  # no state lies inside the gap; states inside it belong to another run
            found.append((float(times[first - 1]), float(times[last])))
    return found


def _add_reference(signals: Signals, recording: Recording) -> None:
    columns = recording.known(f"{signals.robot}/reference")
    if columns is not None and columns["position"].ndim == 2 and columns["name"].ndim == 2:
        names = [str(name) for name in columns["name"][0]]
        held = holes_of(recording, f"{signals.robot}/reference", columns["timestamp"])
        signals.series["reference"] = Whole(names, *interrupted(columns["timestamp"], columns["position"], held))


def _recorded_poses(recording: Recording, topic: str) -> Series | None:
    """Series of the body poses in a topic; None if the recording has no poses there."""
    columns = recording.known(topic)
    if columns is None or columns["p"].ndim != 2 or columns["quaternion"].ndim != 2:
        return None
    rows: Floats = np.hstack([columns["p"], columns["quaternion"]])
    return Whole([""] * rows.shape[1], columns["timestamp"], rows)


def _add_lines(signals: Signals, recording: Recording) -> None:
    for topic, columns in recording.items():
        robot, _, leaf = topic.rpartition("/")
        if robot != signals.robot:
            continue
        if {"name", "count", "points"} <= set(columns) and recording.has_known_type(topic):
            track = signals.overlay if leaf == "overlay" else signals.lines
            for time, names, counts, points in zip(
                *(columns[field] for field in ("timestamp", "name", "count", "points")), strict=True
            ):
                track.append(float(time), [str(name) for name in names], [int(count) for count in counts], points)
        elif PATH in columns:
            for time, path in zip(columns["timestamp"], columns[PATH], strict=True):
                if isinstance(path, list | np.ndarray) and all(isinstance(each, int | float) for each in path):
                    points = [float(each) for each in path[: len(path) // 3 * 3]]
                    signals.overlay.append(float(time), [leaf], [len(path) // 3], points)


def _leaf(topic: str) -> str:
    return topic.rpartition("/")[2]


def diverged_text(signals: Signals) -> str:
    """Text that reports when the simulation diverged; "" if it did not diverge."""
    return "" if signals.diverged_at is None else f"; diverged at t = {signals.diverged_at:.3f} s (dashed)"

"""What the viewer shows of one robot: description, poses, lines, changes, and the store of all numeric fields.

It is filled from live messages or from a recording.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, TypeGuard

import numpy as np

from nodes.framework.messages import (
    BodyPoses,
    Description,
    Event,
    Message,
    PlotValues,
    Polylines,
    RobotState,
)
from nodes.framework.messages.codec import AnyMessage
from nodes.framework.recording.reader import Recording
from viewer.data.boundaries import is_set_back
from viewer.data.live_store import LiveStore
from viewer.data.pushes import PUSHED, Push, logged_push
from viewer.data.recorded_store import RecordedStore
from viewer.data.series import Floats, Series, Table, Track, Whole, row_at
from viewer.data.store import DERIVED, DERIVED_TOPIC, FORCE, HOLD, ORIENTATION, PLACE, SCALARS

MEASURED, STATES = "measured_body_poses", "measured_state"  # topics of the measured robot: its poses, its states
DIVERGED = "diverged"  # kind of the event that a diverged simulation publishes
# Velocities above OUT_OF_ALL times the USUAL quantile belong to the divergence rather than to the motion.
USUAL, OUT_OF_ALL = 0.9, 10.0
PATH = "path"  # field of a message, points (3n,), that is drawn over the picture as the topic `overlay` is
LATEST = 4096  # poses of a live run that are kept

Store = LiveStore | RecordedStore


class Signals:
    """The run of one robot: the first robot whose messages arrive.

    states_topic  topic of the states: "state", or "measured_state" of a recording in which nothing was simulated
    store        numeric fields of all topics, also those of other robots
    poses        one row per instant: positions (3n,), m, and then quaternions (4n,) of the n bodies; None before the
                 first poses
    measured     poses of the real robot from measurements, with rows as in `poses`; None before the first such poses
    lines        polylines that are parts of the robot, such as elastic beams
    overlay      polylines that nodes publish to be drawn over the picture, such as planned paths
    changes      (time in s, kind) of each change of the set of active constraints, such as grip and release
    pushes       external forces on bodies, in the order of their starts
    units        {(topic, name): unit} of the values that nodes plot
    description  description of the robot; None until it is received
    time, seq    time, s, and sequence number of the latest live state; 0 before the first
    states       number of states so far
    violated     whether any state so far had a constraint violation other than exactly zero
    holes        (start, end) of each gap in a recording, s
    diverged_at  time of the event that reported a divergence of the simulation, s; None if there is no such event
    """

    def __init__(self, store: Store | None = None) -> None:
        """Start without messages.

        store  None for a new live store
        """
        self.store: Store = LiveStore() if store is None else store
        self.robot = ""
        self.states_topic = "state"
        self.description: Description | None = None
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
        self._sane_until: float | None = None

    @property
    def times(self) -> Floats:
        """Times of the states that are kept, s."""
        return self.store.times(f"{self.robot}/{self.states_topic}")

    def topic_of(self, field: str) -> str:
        """Topic with a field of the robot's states, such as "position", or a field that is computed from them."""
        return f"{self.robot}/{DERIVED_TOPIC if field in DERIVED else self.states_topic}"

    def labels(self, field: str) -> list[str]:
        """Names of the values of a field of the robot: of its joints, outputs, forces; [field] for a single value."""
        if field in SCALARS and self.states_topic == STATES:  # no sensor has them
            return []
        parts = (name.partition(".") for name in self.store.fields(self.topic_of(field)))
        return [label or kind for kind, _, label in parts if kind == field]

    def column(self, field: str, label: str) -> tuple[Floats, Floats] | None:
        """(times in s, values) of one value of a field of the robot; None if there is no such value."""
        return self.store.column(self.topic_of(field), field if field in SCALARS else f"{field}.{label}")

    @property
    def sane_until(self) -> float:
        """Time, s, up to which values are shown; infinite for a simulation that did not diverge.

        This is the time of the last state whose largest velocity is at most OUT_OF_ALL times the 90 % quantile of the
        largest velocities of all states.
        """
        if self.diverged_at is None:
            return math.inf
        if self._sane_until is None:
            self._sane_until = self.diverged_at
            field = "velocity" if self.labels("velocity") else "energy"
            found = [column for label in self.labels(field) if (column := self.column(field, label)) is not None]
            if found and len(times := found[0][0]):
                size = np.abs(np.nan_to_num([values for _, values in found], nan=math.inf)).max(axis=0)
                usual = float(np.quantile(size, USUAL, method="lower"))
                self._sane_until = float(times[np.flatnonzero(size <= OUT_OF_ALL * usual)[-1]])
        return self._sane_until

    def _diverge(self, time: float | None) -> None:
        self.diverged_at, self._sane_until = time, None

    def add(self, messages: Collection[tuple[str, Message]]) -> None:
        """Add live messages (topic, message), in the order of their arrival."""
        for topic, message in messages:
            self.take(topic, message)
        self.keep(messages)

    def keep(self, messages: Collection[tuple[str, Message]]) -> None:
        """Add the numeric fields of live messages to the store."""
        if isinstance(self.store, LiveStore):
            self.store.add(list(messages))

    def take(self, topic: str, message: Message) -> None:
        """Add what is drawn of one live message. Messages of other robots and of unknown topics are ignored."""
        content = message.content if isinstance(message, AnyMessage) else {}
        units = message.units if isinstance(message, PlotValues) else content.get("units")
        if isinstance(units, dict):
            self.units |= {(topic, name): str(unit) for name, unit in units.items()}
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
                self._diverge(message.timestamp)
            elif message.kind == PUSHED:
                self._add_push(message.timestamp, message.part, message.new)
            elif message.source != message.target:
                self.changes.append((message.timestamp, message.kind))
        elif _is_path(path := content.get(PATH, getattr(message, PATH, None))):
            self.overlay.append(message.timestamp, [_leaf(topic)], [len(path) // 3], path[: len(path) // 3 * 3])

    def outputs_at(self, time: float, names: Collection[str]) -> dict[str, float]:
        """{output: its value} in the last state at or before `time`, s, for those of the outputs `names` that exist."""
        found = {}
        for name in names:
            column = self.column("outputs", name)
            place = None if column is None else row_at(column[0], time)
            if column is not None and place is not None:
                found[name] = float(column[1][place])
        return found

    def _take_state(self, state: RobotState) -> None:
        if is_set_back(state, self.time):  # later states do not continue earlier ones
            self.poses, self.measured = _until(self.poses, state.timestamp), _until(self.measured, state.timestamp)
            self.lines.begin_anew(state.timestamp)
            self.overlay.begin_anew(state.timestamp)
            self.changes.clear()
            self.pushes.clear()
            self._diverge(None)
        self.time, self.seq = state.timestamp, state.seq
        self.states += 1
        self.violated = self.violated or state.phi != 0.0 or state.phidot != 0.0

    def _add_push(self, time: float, body: str, new: str) -> None:
        if (push := logged_push(time, body, new)) is not None:
            self.pushes.append(push)


def _appended(series: Series | None, poses: BodyPoses) -> Series:
    """Append the poses of a message to a series, and return the series.

    Returns a new series if `series` is None, if the numbers of bodies in the series and in the message differ, or if
    the last row of the series is later than the message, which shows that the simulation was reset.
    """
    row = [*poses.p, *poses.quaternion]
    series = _until(series, poses.timestamp)
    if not isinstance(series, Table) or len(series.labels) != len(row):
        series = Table([str(place) for place in range(len(row))], LATEST)
    series.extend([poses.timestamp], [row])
    return series


def _until(series: Series | None, time: float) -> Series | None:
    """The series; None if its last row is later than `time` (s), which shows that simulation time was set back."""
    return None if series is None or series.times[-1] > time else series


def from_recording(recording: Recording) -> Signals:
    """Signals of the first robot whose states were recorded.

    For a recording without states, the signals contain only the description.
    """
    store = RecordedStore(recording)
    signals = Signals(store)
    signals.description = recording.description
    for topic in recording.topics:
        if topic.endswith("/plot") and (columns := recording.known(topic)) is not None:
            named = {name.removeprefix("units."): name for name in columns if name.startswith("units.")}
            for name, column in named.items():
                signals.units[topic, name] = next((str(unit) for unit in columns[column][::-1] if unit), "")
    state = recording.topic_of_states() or next((each for each in recording.topics if _leaf(each) == STATES), None)
    if state is None:
        return signals
    signals.robot, _, signals.states_topic = state.rpartition("/")
    columns, times = recording[state], store.times(state)
    signals.time = float(times[-1])
    signals.states = len(times)
    signals.holes = store.holes_of(state)
    signals.violated = bool(np.any(columns["phi"] != 0.0) or np.any(columns["phidot"] != 0.0))
    if (events := recording.known(f"{signals.robot}/event")) is not None:
        fields = ("timestamp", "kind", "source", "target", "part", "new")
        for time, kind, source, target, part, new in zip(*(events[field] for field in fields), strict=True):
            if kind == DIVERGED:
                signals._diverge(float(time))
            elif kind == PUSHED:
                signals._add_push(float(time), str(part), str(new))
            elif source != target:
                signals.changes.append((float(time), str(kind)))
    simulated, measured = (_recorded_poses(recording, f"{signals.robot}/{leaf}") for leaf in ("body_poses", MEASURED))
    is_measured = signals.states_topic == STATES
    signals.poses, signals.measured = (measured, None) if is_measured else (simulated, measured)
    _add_lines(signals, recording)
    return signals


def _recorded_poses(recording: Recording, topic: str) -> Series | None:
    """Series of the body poses in a topic; None if the recording has no poses there."""
    columns = recording.known(topic)
    if columns is None or columns["p"].ndim != 2 or columns["quaternion"].ndim != 2:
        return None
    rows: Floats = np.hstack([columns["p"], columns["quaternion"]])
    return Whole(columns["timestamp"], rows)


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
                if _is_path(path):
                    points = [float(each) for each in path[: len(path) // 3 * 3]]
                    signals.overlay.append(float(time), [leaf], [len(path) // 3], points)


def _is_path(value: Any) -> TypeGuard[list[float]]:
    return isinstance(value, list | np.ndarray) and all(isinstance(each, int | float) for each in value)


def _leaf(topic: str) -> str:
    return topic.rpartition("/")[2]


def diverged_text(signals: Signals) -> str:
    """Text that reports when the simulation diverged; "" if it did not diverge."""
    return "" if signals.diverged_at is None else f"; diverged at t = {signals.diverged_at:.3f} s (dashed)"


def unit_of(signals: Signals, topic: str, field: str) -> str:
    """Unit of a field, from the robot's description; "" if the unit is not known.

    topic  full name of the topic
    field  name of the field, such as "position.elbow"
    """
    kind, _, name = field.partition(".")
    description = signals.description
    if kind == "values":
        of_vector = signals.units.get((topic, name.rpartition(".")[0]), "")
        return signals.units.get((topic, name), of_vector)
    if field == "energy":
        return "J"
    if kind in ("phi", "phidot"):
        return "constraints' units" + ("/s" if kind == "phidot" else "")
    if kind in DERIVED:
        return {FORCE: "N", HOLD: "state", PLACE: "m", ORIENTATION: "1"}[kind]
    if kind == "timing":
        return "s"
    if description is None:
        return ""
    if kind == "outputs":
        return dict(zip(description.outputs, description.output_units, strict=False)).get(name, "")
    joints = {joint.name: joint.unit for joint in description.joints}
    efforts = {each: one.unit for one in description.actuators for each in (one.joint, one.name)}
    per = {"position": "", "velocity": "/s", "acceleration": "/s²"}
    if kind in per:
        unit = joints.get(name) or {"N": "m", "N m": "rad"}.get(efforts.get(name, ""), "")
        return unit + per[kind] if unit else ""
    return efforts.get(name, "") if kind == "effort" else ""

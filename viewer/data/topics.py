"""Numeric fields of every topic as time series.

The fields of a live domain are stored in tables, to which rows are added. The fields of a recording are read from the
recording.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from nodes.messages import Description, Event, Message, PlotValues, RobotState
from nodes.messages.stamp import SequenceTracker
from nodes.recording.columns import Columns
from nodes.recording.reader import Recording
from nodes.recording.runs import PUT_BACK
from viewer.data.boundaries import is_set_back
from viewer.data.series import Floats, interrupted
from viewer.data.signals import DERIVED, Signals, derived_columns, holes_of

CAPACITY = 20_000  # rows of a live topic that are kept at least: 20 s at 1 kHz
LARGEST = CAPACITY + CAPACITY // 4  # rows for which there is memory; when they are full, the latest CAPACITY are kept
FIRST_ROWS = 1024
MOST_NUMBERS = 64  # most numbers of a list without names that become fields
DERIVED_TOPIC = "derived"  # forces and gripper states, computed from outputs by the robot's description
LATE_S = 0.5  # longest time by which a message of another node may be late after a reset, or ahead of the latest state
STAMPS = ("timestamp", "seq", "sent_ns", "log_time")


Batches = dict[tuple[str, tuple[str, ...]], tuple[list[float], list[list[float]]]]  # {(topic, fields): (times, rows)}


class EventMark(msgspec.Struct, frozen=True):
    """One event: time in s, kind, and one line of detail.

    before  kind of the later event that set the simulation time back, such as "reset"; "" for an event of the present
            run. The time of an event with `before` is not on the time axis of the present run
    """

    time: float
    kind: str
    detail: str = ""
    before: str = ""


class Store(Protocol):
    """Interface of an object that has the numeric fields of all topics of a live or recorded run."""

    events: list[EventMark]

    @property
    def topics(self) -> Sequence[str]:
        """Names of the topics that have fields, in the order of their first message."""

    def fields(self, topic: str) -> Sequence[str]:
        """Names of the fields of a topic, such as `position.elbow`; [] for an unknown topic."""

    def column(self, topic: str, field: str) -> tuple[Floats, Floats] | None:
        """(times in s, values) of a field; None for an unknown field."""

    def total(self, topic: str, field: str) -> int:
        """Number of rows that a field has received so far, including old rows that are no longer stored."""


class Table:
    """Rows of the numeric fields of one live topic; at least the latest CAPACITY rows are kept."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self.places = {label: place for place, label in enumerate(self.labels)}
        self.total = 0  # rows ever added
        self._count = 0
        self._data = np.zeros((len(self.labels) + 1, FIRST_ROWS))  # times, then a row per field

    def extend(self, times: Sequence[float], rows: Any) -> None:
        """Add rows (n, labels) with their times (s). Of more than CAPACITY rows, only the latest are added."""
        if len(times) > CAPACITY:
            self.total += len(times) - CAPACITY
            self._count = 0  # rows from before those that are left out
        times, rows = times[-CAPACITY:], rows[-CAPACITY:]
        new = len(times)
        if self._count + new > self._data.shape[1]:
            self._make_room(new)
        part = slice(self._count, self._count + new)
        self._data[0, part] = times
        self._data[1:, part] = np.asarray(rows, dtype=np.float64).T
        self._count += new
        self.total += new

    @property
    def times(self) -> Floats:
        """Times of the rows, s."""
        return self._data[0, : self._count]

    def column(self, label: str) -> Floats:
        """Values of one field."""
        return self._data[1 + self.places[label], : self._count]

    def _make_room(self, new: int) -> None:
        """Grow the table, up to LARGEST rows; when it is full, keep the latest CAPACITY rows."""
        size = self._data.shape[1]
        while size < min(LARGEST, self._count + new):
            size = min(2 * size, LARGEST)
        if size > self._data.shape[1]:
            grown = np.zeros((len(self._data), size))
            grown[:, : self._count] = self._data[:, : self._count]
            self._data = grown
        if self._count + new > self._data.shape[1]:
            kept = min(self._count, CAPACITY, self._data.shape[1] - new)
            for row in self._data:  # one by one, without a copy of the whole table
                row[:kept] = row[self._count - kept : self._count].copy()
            self._count = kept


class LiveStore:
    """Numeric fields of the messages of a live domain.

    events             all events of the launch; events from before the latest reset or restore have a text in `before`
    received_at        {topic: time of the monotonic clock at which the topic's last message was received, s}
    first_received_at  {topic: time of the monotonic clock at which the topic's first message was received, s}
    received           {topic: number of messages received on the topic}
    """

    def __init__(self) -> None:
        self.events: list[EventMark] = []
        self.received_at: dict[str, float] = {}
        self.first_received_at: dict[str, float] = {}
        self.received: dict[str, int] = {}
        self._sequences = SequenceTracker()
        self._tables: dict[str, list[Table]] = {}  # {topic: its tables, one for each set of fields}
        self._descriptions: dict[str, Description] = {}
        self._times: dict[str, float] = {}  # {topic of states: time of the latest state, s}
        self._put_back: tuple[str, float] = "", -math.inf  # latest event that set the time back, and its arrival, s

    @property
    def topics(self) -> Sequence[str]:
        """Names of the topics that have fields."""
        return tuple(self._tables)

    def times(self, topic: str) -> Floats:
        """Times of the rows of a topic that are kept, s; empty for an unknown topic."""
        tables = self._tables.get(topic)
        return tables[0].times if tables else np.zeros(0)

    def fields(self, topic: str) -> Sequence[str]:
        """Names of the fields of a topic."""
        return [label for table in self._tables.get(topic, ()) for label in table.labels]

    def column(self, topic: str, field: str) -> tuple[Floats, Floats] | None:
        """(times in s, values) of a field; None for an unknown field."""
        table = self._table(topic, field)
        return None if table is None else (table.times, table.column(field))

    def total(self, topic: str, field: str) -> int:
        """Number of rows that a field has received so far, including old rows that are no longer stored."""
        table = self._table(topic, field)
        return 0 if table is None else table.total

    @property
    def lost(self) -> int:
        """Number of lost messages, computed from gaps in the sequence numbers of the received messages."""
        return sum(self._sequences.lost.values())

    def _table(self, topic: str, field: str) -> Table | None:
        return next((table for table in self._tables.get(topic, ()) if field in table.places), None)

    def add(self, messages: Sequence[tuple[str, Message]]) -> None:
        """Add messages, in the order of their arrival.

        messages  (topic, message) of each message
        """
        instant = time.monotonic()
        batches: Batches = {}
        for topic, message in messages:
            node = getattr(message, "node", "")
            name = f"{topic}/{node}" if node and not isinstance(message, Event) else topic
            self.received_at[name] = instant
            self.first_received_at.setdefault(name, instant)
            self.received[name] = self.received.get(name, 0) + 1
            if isinstance(message, Event):
                self._take_event(message, instant)
                continue
            if isinstance(message, Description):
                self._descriptions[topic.rpartition("/")[0]] = message
                continue
            if isinstance(message, RobotState) and not message.clock:
                if is_set_back(message, self._now(topic)):
                    self._flush(batches)
                    self._remove_later(message.timestamp, instant)
                self._times[topic] = message.timestamp
            self._sequences.is_new(name, message.seq)
            for labels, row in _rows(message):
                times, rows = batches.setdefault((name, labels), ([], []))
                if times and message.timestamp < times[-1]:
                    self._flush(batches)
                    times, rows = batches.setdefault((name, labels), ([], []))
                times.append(message.timestamp)
                rows.append(row)
        self._flush(batches)

    def _now(self, topic: str) -> float:
        """Time of the latest state message on a topic, s; -inf before the first one."""
        return self._times.get(topic, -math.inf)

    def _flush(self, batches: Batches) -> None:
        """Add the rows of `batches` to the tables, and empty `batches`."""
        for (name, labels), (times, rows) in batches.items():
            self._extend(name, labels, times, rows)
            if name.endswith("/state"):
                self._derive(name.removesuffix("/state"), labels, times, rows)
        batches.clear()

    def _take_event(self, event: Event, instant: float) -> None:
        """Add an event.

        A reset or restore sets the attribute `before` of all earlier events. The attribute is also set for an event of
        another node that arrives after a reset but has a time from before the reset.

        instant  time of arrival by the monotonic clock, s
        """
        kind, at = self._put_back
        mark = EventMark(event.timestamp, event.kind, event_text(event))
        if event.kind in PUT_BACK:
            if (
                event.kind != kind or instant - at > LATE_S
            ):  # the other robots of the launch are put back with the first
                self._put_time_back(event.kind, instant)
        elif instant - at < LATE_S and event.timestamp > max(self._times.values(), default=math.inf) + LATE_S:
            mark = msgspec.structs.replace(mark, before=kind)
        self.events.append(mark)

    def _remove_later(self, now: float, instant: float) -> None:
        """After a reset, remove each table whose last row is later than the first state after the reset.

        now      time of this state, s
        instant  time of arrival of this state by the monotonic clock, s
        """
        if instant - self._put_back[1] > LATE_S:  # the event of the reset was lost
            self._put_time_back("reset", instant)
        for tables in self._tables.values():
            tables[:] = [table for table in tables if not table.total or table.times[-1] <= now]

    def _put_time_back(self, kind: str, instant: float) -> None:
        self._put_back = kind, instant
        self.events[:] = [each if each.before else msgspec.structs.replace(each, before=kind) for each in self.events]

    def _extend(self, topic: str, labels: tuple[str, ...], times: list[float], rows: Any) -> None:
        """Add rows to the table of a topic that has the fields `labels`.

        A new table is made if the topic has no table with these fields, or if the new times are earlier than the last
        time in the table, as after a reset. The new table replaces older tables that have any of these fields.
        """
        tables = self._tables.setdefault(topic, [])
        table = next((each for each in tables if each.labels == labels), None)
        if table is None or (table.total and times[0] < table.times[-1]):
            table = Table(labels)
            tables[:] = [each for each in tables if each.places.keys().isdisjoint(labels)] + [table]
        table.extend(times, rows)

    def _derive(self, robot: str, labels: Sequence[str], times: list[float], rows: list[list[float]]) -> None:
        """Compute the magnitudes of forces and the states of grippers from the outputs in `rows`, and add them.

        The results become fields of the robot's topic DERIVED_TOPIC.
        """
        description = self._descriptions.get(robot)
        if description is None or not (description.forces or description.holds):
            return
        values = np.asarray(rows, dtype=np.float64)
        places = [place for place, label in enumerate(labels) if label.startswith("outputs.")]
        found = _derived(description, {labels[place].removeprefix("outputs."): values[:, place] for place in places})
        if found:
            self._extend(f"{robot}/{DERIVED_TOPIC}", tuple(found), times, np.stack(list(found.values()), axis=1))


class RecordedStore:
    """Numeric fields of the topics of a recording."""

    def __init__(self, recording: Recording, signals: Signals) -> None:
        self._recording, self._signals = recording, signals
        self._holes: dict[str, list[tuple[float, float]]] = {}
        self._columns: dict[tuple[str, str], tuple[Floats, Floats]] = {}
        timed = [topic for topic in recording.topics if not topic.endswith("/description")]
        self._fields = {topic: found for topic in timed if (found := _recorded_fields(recording[topic]))}
        self._add_derived()
        self.events = [
            mark
            for topic in recording.topics
            if topic.endswith("event") and (events := recording.known(topic)) is not None
            for mark in _events(events)
        ]
        self.events.sort(key=lambda mark: mark.time)

    @property
    def topics(self) -> Sequence[str]:
        """Names of the topics that have fields."""
        return tuple(self._fields)

    def fields(self, topic: str) -> Sequence[str]:
        """Names of the fields of a topic."""
        return tuple(self._fields.get(topic, ()))

    def column(self, topic: str, field: str) -> tuple[Floats, Floats] | None:
        """(times in s, values) of a field, with a NaN in each gap of the recording; None for an unknown field."""
        key = (topic, field)
        if key not in self._columns:
            place = self._fields.get(topic, {}).get(field)
            if place is None:
                return None
            columns = self._recording[topic]
            name, index = place
            values = columns[name] if index is None else columns[name][:, index]
            times = _times(columns)
            holes = self._holes_of(topic, times)
            if (has := columns.present.get(name)) is not None:  # the curve joins the messages that have the value
                times, values = times[has], values[has]
            self._columns[key] = interrupted(times, values.astype(np.float64, copy=False), holes)
        return self._columns[key]

    def total(self, topic: str, field: str) -> int:
        """Number of rows of a field."""
        found = self.column(topic, field)
        return 0 if found is None else len(found[0])

    def extent(self, topic: str) -> tuple[float, float, float] | None:
        """(time of a topic's first message, time of its last message, mean interval between its messages), s.

        Gaps of the recording do not count for the mean interval, which is 0 for a single message. None for a topic
        without messages, such as the topic DERIVED_TOPIC.
        """
        columns = self._recording.get(topic)
        if columns is None or len(times := _times(columns)) == 0:
            return None
        gaps = self._holes_of(topic, times)
        passed = float(times[-1] - times[0]) - sum(end - start for start, end in gaps)
        return float(times[0]), float(times[-1]), passed / max(len(times) - 1 - len(gaps), 1)

    def _holes_of(self, topic: str, times: Floats) -> list[tuple[float, float]]:
        """(start, end), s, of each gap in a topic, whose messages have the times `times`."""
        if topic not in self._holes:
            self._holes[topic] = holes_of(self._recording, topic, times)
        return self._holes[topic]

    def _add_derived(self) -> None:
        """Add the magnitudes of forces and the states of grippers of the first robot, as fields of the separate topic
        DERIVED_TOPIC."""
        signals = self._signals
        topic = f"{signals.robot}/{DERIVED_TOPIC}"
        for field in DERIVED:
            series = signals.derived(field)
            for place, label in enumerate(series.labels if series is not None else ()):
                if series is not None:
                    self._columns[topic, f"{field}.{label}"] = (series.times, series.values[:, place])
                    self._fields.setdefault(topic, {})[f"{field}.{label}"] = ("", None)


_LABELS: dict[tuple[Any, ...], tuple[str, ...]] = {}
_FIELDS: dict[type[Message], tuple[str, ...]] = {}


def _rows(message: Message) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """(names of the fields, values) of each table row to which a message is converted.

    A message is converted to one row. Only a PlotValues message is converted to one row for each value, because
    consecutive PlotValues messages may contain different values.
    """
    parts: list[Message] = [message]
    if isinstance(message, PlotValues):
        parts = [PlotValues(values={name: value}) for name, value in message.values.items()]
    for part in parts:
        labels, row = _row(part)
        if labels:
            yield labels, row


def _row(message: Message) -> tuple[tuple[str, ...], list[float]]:
    """(names, values) of the numeric fields of a message."""
    values: list[float] = []
    shape: list[Any] = [type(message)]
    names = getattr(message, "name", ())
    for field in _numeric_fields(type(message)):
        value = getattr(message, field)
        if isinstance(value, list):
            taken = _is_plotted(value, names)
            shape.append(len(value) if taken else 0)
            if taken:
                values += value
        elif isinstance(value, dict):
            shape.append(tuple(value))
            for each in value.values():
                if isinstance(each, list):
                    shape.append(len(each))
                    values += each
                else:
                    values.append(each)
        elif value is None:
            values.append(np.nan)
        elif isinstance(value, int | float):
            values.append(value)
    key = (*shape, *names) if isinstance(names, list) else tuple(shape)
    labels = _LABELS.get(key)
    if labels is None:
        labels = _LABELS[key] = tuple(_labels(message))
    return labels, values


def _labels(message: Message) -> Iterator[str]:
    """Names of the numeric fields of a message, in the order of the values of `_row`."""
    names = getattr(message, "name", ())
    for field in _numeric_fields(type(message)):
        value = getattr(message, field)
        if isinstance(value, list):
            if _is_plotted(value, names):
                named = isinstance(names, list) and len(names) == len(value)
                yield from (f"{field}.{names[i] if named else i}" for i in range(len(value)))
        elif isinstance(value, dict):
            for key, each in value.items():
                several = isinstance(each, list)
                yield from (f"{field}.{key}.{i}" for i in range(len(each))) if several else (f"{field}.{key}",)
        elif value is None or isinstance(value, int | float):
            yield field


def _is_plotted(value: list[Any], names: object) -> bool:
    """Whether each number of a list is shown as a separate field of the topic.

    This is so for lists of at most MOST_NUMBERS numbers, and for lists whose entries have names.

    names  list of the names of the entries; any other object if the entries have no names
    """
    if not value or not isinstance(value[0], int | float):
        return False
    return len(value) <= MOST_NUMBERS or (isinstance(names, list) and len(names) == len(value))


def _numeric_fields(kind: type[Message]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        known = msgspec.structs.fields(kind)
        _FIELDS[kind] = tuple(field.name for field in known if field.name not in (*STAMPS, "name"))
    return _FIELDS[kind]


def _derived(description: Description, outputs: dict[str, Floats]) -> dict[str, Floats]:
    """{name of a field: its values over time} for the magnitudes of forces and the states of grippers.

    The fields, such as `force.hand_a`, are computed from outputs.

    outputs  {output: its values over time}
    """
    return {
        f"{field}.{name}": values
        for field in DERIVED
        for name, values in derived_columns(description, field, outputs).items()
    }


def _recorded_fields(columns: Any) -> dict[str, tuple[str, int | None]]:
    """{numeric field of a recorded topic: (its column, its index in that column)}. The index is None for a scalar
    column."""
    found: dict[str, tuple[str, int | None]] = {}
    names = [str(name) for name in columns["name"][0]] if "name" in columns and columns["name"].ndim == 2 else []
    for name, values in columns.items():
        if name in STAMPS or values.dtype.kind not in "ifub":
            continue
        if values.ndim == 1:
            found[name] = (name, None)
        elif values.ndim == 2 and (len(names) == values.shape[1] or values.shape[1] <= MOST_NUMBERS):
            named = len(names) == values.shape[1]
            found |= {f"{name}.{names[i] if named else i}": (name, i) for i in range(values.shape[1])}
    return found


def _times(columns: Columns) -> Floats:
    """Times of a topic's messages, s: their timestamps, or their log times if another program gave no such numbers."""
    times = columns.get("timestamp", columns["log_time"])
    has_numbers = times.ndim == 1 and times.dtype.kind in "iuf"
    return (times if has_numbers else columns["log_time"]).astype(np.float64, copy=False)


def _events(columns: Any) -> list[EventMark]:
    rows = [{name: columns[name][i] for name in columns} for i in range(len(columns["timestamp"]))]
    return [EventMark(float(row["timestamp"]), str(row["kind"]), _event_text(row)) for row in rows]


def event_text(event: Event) -> str:
    """An event as one line of text."""
    return _event_text({name: getattr(event, name) for name in event.__struct_fields__})


def _event_text(row: dict[str, Any]) -> str:
    if row.get("detail"):
        return str(row["detail"])
    if row.get("key"):
        return f"{row['node']}.{row['key']} = {row['new']} (before: {row['old']})"
    if row.get("source") != row.get("target"):
        return f"{row['part']}: {row['source']} to {row['target']}".strip(": ")
    return str(row.get("node") or "")


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
    if kind in ("force", "hold"):
        return "N" if kind == "force" else "state"
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

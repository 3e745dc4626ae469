"""Numeric fields of the messages of a live domain as time series, in tables to which rows are added."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import Description, Event, Message, PlotValues, RobotState
from nodes.framework.messages.codec import AnyMessage
from nodes.framework.messages.stamp import SequenceTracker
from nodes.framework.recording.runs import PUT_BACK
from viewer.data.boundaries import is_set_back
from viewer.data.series import Floats, Table
from viewer.data.store import (
    DERIVED_TOPIC,
    MOST_NUMBERS,
    STAMPS,
    EventMark,
    derived_columns,
    event_text,
    frame_columns,
)

LATE_S = 0.5  # longest time by which a message of another node may be late after a reset, or ahead of the latest state

Batches = dict[tuple[str, tuple[str, ...]], tuple[list[float], list[list[float]]]]  # {(topic, fields): (times, rows)}


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
        states: dict[str, list[RobotState]] = {}  # of the batches, by topic
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
                    self._flush(batches, states)
                    self._remove_later(message.timestamp, instant)
                self._times[topic] = message.timestamp
            self._sequences.is_new(name, message.seq)
            if isinstance(message, RobotState):
                states.setdefault(topic, []).append(message)
            for labels, row in _rows(message):
                times, rows = batches.setdefault((name, labels), ([], []))
                if times and message.timestamp < times[-1]:
                    self._flush(batches, states)
                    times, rows = batches.setdefault((name, labels), ([], []))
                times.append(message.timestamp)
                rows.append(row)
        self._flush(batches, states)

    def _now(self, topic: str) -> float:
        """Time of the latest state message on a topic, s; -inf before the first one."""
        return self._times.get(topic, -math.inf)

    def _flush(self, batches: Batches, states: dict[str, list[RobotState]]) -> None:
        """Add the rows of `batches`, and what is derived from `states`, to the tables, and empty both."""
        for (name, labels), (times, rows) in batches.items():
            self._extend(name, labels, times, rows)
        for topic, messages in states.items():
            self._derive(topic.rpartition("/")[0], messages)
        batches.clear()
        states.clear()

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

    def _derive(self, robot: str, states: Sequence[RobotState]) -> None:
        """Add the fields of the robot's topic DERIVED_TOPIC for states, in the order of their times."""
        description = self._descriptions.get(robot)
        if description is None:
            return
        needed = {name for force in description.forces for name in force.outputs}
        needed |= {name for hold in description.holds for name in hold.outputs}
        columns = {
            name: np.array([state.outputs.get(name, math.nan) for state in states])
            for name in needed
            if name in states[0].outputs
        }
        length = 7 * len(description.frames)
        has_frames = bool(length) and all(len(state.frames) == length for state in states)
        frames = np.array([state.frames for state in states] if has_frames else [])
        topic = f"{robot}/{DERIVED_TOPIC}"
        found = dict(derived_columns(description, columns))
        found |= frame_columns(description.frames, frames, self.fields(topic) if has_frames else ())
        if found:
            times = [state.timestamp for state in states]
            self._extend(topic, tuple(found), times, np.stack(list(found.values()), axis=1))


_LABELS: dict[tuple[Any, ...], tuple[str, ...]] = {}
_FIELDS: dict[type[Message], tuple[str, ...]] = {}


def _rows(message: Message) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """(names of the fields, values) of each table row to which a message is converted.

    A message is converted to one row. Only a PlotValues message is converted to one row for each value, because
    consecutive PlotValues messages may contain different values.
    """
    if isinstance(message, AnyMessage):
        found = dict(_numbers_in({key: value for key, value in message.content.items() if key not in STAMPS}))
        if found:
            yield tuple(found), list(found.values())
        return
    parts: list[Message] = [message]
    if isinstance(message, PlotValues):
        parts = [PlotValues(values={name: value}) for name, value in message.values.items()]
    for part in parts:
        labels, row = _row(part)
        if labels:
            yield labels, row


def _numbers_in(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """(name, value) of the numbers of a message whose type is not known; those in maps and lists are named by both."""
    names = content.get("name", ())
    for key, value in content.items():
        if isinstance(value, dict) and not prefix:  # as in a recording, where deeper maps are no columns
            yield from _numbers_in(value, f"{key}.")
        elif isinstance(value, list):
            if _is_plotted(value, names) and all(isinstance(each, int | float) for each in value):
                named = isinstance(names, list) and len(names) == len(value)
                yield from ((f"{prefix}{key}.{names[i] if named else i}", each) for i, each in enumerate(value))
        elif value is None or isinstance(value, int | float):
            yield f"{prefix}{key}", math.nan if value is None else value


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

"""Numeric fields of the topics of a recording as time series, read from its columns when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodes.framework.recording.columns import Columns
from nodes.framework.recording.integrity.holes import LOST
from nodes.framework.recording.reader import Recording
from viewer.data.series import Floats, interrupted
from viewer.data.store import (
    DERIVED_TOPIC,
    MOST_NUMBERS,
    STAMPS,
    EventMark,
    derived_columns,
    frame_columns,
    row_text,
)

ROUNDING_S = 1e-9  # s; the times of holes are whole nanoseconds, those of states are not


class RecordedStore:
    """Numeric fields of the topics of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._holes: dict[str, list[tuple[float, float]]] = {}
        self._columns: dict[tuple[str, str], tuple[Floats, Floats]] = {}
        timed = [topic for topic in recording.topics if not topic.endswith("/description")]
        self._fields = {topic: found for topic in timed if (found := _fields_of(recording[topic]))}
        self._add_derived()
        self.events = [
            mark
            for topic in recording.topics
            if topic.endswith("event") and (events := recording.known(topic)) is not None
            for mark in _marks_of(events)
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
            holes = self.holes_of(topic)
            if (has := columns.present.get(name)) is not None:  # the curve joins the messages that have the value
                times, values = times[has], values[has]
            self._columns[key] = interrupted(times, values.astype(np.float64, copy=False), holes)
        return self._columns[key]

    def times(self, topic: str) -> Floats:
        """Times of the messages of a topic, s; empty for an unknown topic."""
        columns = self._recording.get(topic)
        return np.zeros(0) if columns is None else _times(columns)

    def total(self, topic: str, field: str) -> int:
        """Number of rows of a field."""
        found = self.column(topic, field)
        return 0 if found is None else len(found[0])

    def extent(self, topic: str) -> tuple[float, float, float] | None:
        """(time of a topic's first message, time of its last message, mean interval between its messages), s.

        Gaps of the recording do not count for the mean interval, which is 0 for a single message. None for a topic
        without messages, such as the topic DERIVED_TOPIC.
        """
        if len(times := self.times(topic)) == 0:
            return None
        gaps = self.holes_of(topic)
        passed = float(times[-1] - times[0]) - sum(end - start for start, end in gaps)
        return float(times[0]), float(times[-1]), passed / max(len(times) - 1 - len(gaps), 1)

    def holes_of(self, topic: str) -> list[tuple[float, float]]:
        """(start, end), s, of each gap in the recorded messages of a topic."""
        if topic not in self._holes:
            self._holes[topic] = _holes(self._recording, topic, self.times(topic))
        return self._holes[topic]

    def _add_derived(self) -> None:
        """Add the topic DERIVED_TOPIC of the first robot."""
        description, topic = self._recording.description, self._recording.topic_of_states()
        if description is None or topic is None:
            return
        state = self._recording[topic]
        outputs = {name.removeprefix("outputs."): state[name] for name in state if name.startswith("outputs.")}
        frames = np.asarray(state.get("frames", np.zeros(0)))
        times = _times(state)
        fields: dict[str, tuple[str, int | None]] = {}
        for field, values in (*derived_columns(description, outputs), *frame_columns(description.frames, frames)):
            derived = f"{topic.rpartition('/')[0]}/{DERIVED_TOPIC}"
            self._columns[derived, field] = interrupted(times, values, self.holes_of(topic))
            self._fields.setdefault(derived, fields)[field] = ("", None)


def _holes(recording: Recording, topic: str, times: Floats) -> list[tuple[float, float]]:
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


def _fields_of(columns: Any) -> dict[str, tuple[str, int | None]]:
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


def _marks_of(columns: Any) -> list[EventMark]:
    rows = [{name: columns[name][i] for name in columns} for i in range(len(columns["timestamp"]))]
    return [EventMark(float(row["timestamp"]), str(row["kind"]), row_text(row)) for row in rows]

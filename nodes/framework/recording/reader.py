"""Reading recordings: as arrays by topic and field, as a stream of messages, or as a summary.

A recording may be damaged, or truncated because the writer was killed or the disk was full. All intact messages are
read, and `holes` lists the missing messages.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np
from mcap.exceptions import McapError
from mcap.writer import MCAP0_MAGIC

from nodes.framework.messages import Description, Event, Message
from nodes.framework.messages.codec import LATEST_S
from nodes.framework.messages.protocol import FIRST, mismatch
from nodes.framework.messages.topics import lookup
from nodes.framework.recording.columns import Columns, columns
from nodes.framework.recording.frames import frame, recording_html
from nodes.framework.recording.integrity.holes import MOST_TOPICS, Hole, damage_text, inner
from nodes.framework.recording.integrity.scan import ReadMessage, Scanner
from nodes.framework.recording.integrity.search import FileSearch
from nodes.framework.recording.integrity.unreadable import UnreadableMessages
from nodes.framework.recording.integrity.warning import RecordingWarning
from nodes.framework.recording.runs import Run, RunCutter, picked, seq_of
from nodes.framework.recording.schema import DECODE_ERRORS, decode_json, field_without_number, schema_name
from nodes.framework.recording.sidecar import read_sidecar, sidecar_is_damaged
from nodes.framework.recording.writer import RecordingWriter, is_complete
from sim_core.support.suggestion import falls_hint

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Hole",
    "Recorded",
    "Recording",
    "RecordingError",
    "RecordingFile",
    "RecordingWarning",
    "RecordingWriter",
    "describe",
    "read_recording",
    "require_no_hole",
]


LARGEST_PAYLOAD = 10_000_000  # bytes of a message that is decoded
_plain = msgspec.json.Decoder(dict[str, Any]).decode


class RecordingError(ValueError):
    """A file that cannot be read as a recording. The text is one line for the user."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded message in its encoded form, with topic and times.

    schema   name of the message's type, such as "armswing.RobotState"
    time_ns  log time, which is simulation time, in nanoseconds
    payload  the message as JSON
    """

    topic: str
    schema: str
    time_ns: int
    payload: bytes

    @property
    def seq(self) -> int:
        """Sequence number `seq` of the message; 0 if the message has none."""
        return seq_of(self.payload)

    def plain(self) -> dict[str, Any]:
        """The message as a dictionary of plain data. Raises RecordingError for a message that is no dictionary."""
        try:
            found: dict[str, Any] = _plain(self._limited)
        except DECODE_ERRORS as error:
            raise self._unreadable(error) from None
        return found

    def message(self) -> Message | None:
        """The typed message; None for a type that armswing does not know.

        Raises RecordingError if the message is not valid.
        """
        row = lookup(self.topic)
        if row is None or schema_name(row.message) != self.schema:
            return None
        try:
            return decode_json(row.message, self._limited)
        except DECODE_ERRORS as error:
            raise self._unreadable(error) from None

    @property
    def _limited(self) -> bytes:
        if len(self.payload) > LARGEST_PAYLOAD:
            raise self._unreadable(f"it has {len(self.payload)} bytes, more than {LARGEST_PAYLOAD}")
        return self.payload

    def _unreadable(self, why: object) -> RecordingError:
        if isinstance(why, msgspec.DecodeError) and (field := field_without_number(self.payload)):
            why = f"{field}, which is no number in JSON"
        return RecordingError(f"{self.topic}: the message at t = {self.time_ns / 1e9:.6g} s cannot be read: {why}")


class RecordingFile:
    """A recording as a stream: iterating over it yields its messages (`Recorded`) in file order.

    The attributes are complete after the iteration.

    metadata          the run's metadata without the protocol version; {} if no copy of the metadata is intact
    metadata_damaged  whether the metadata were damaged
    holes             missing messages, in file order
    damage            short descriptions of damage that removed no message
    cut_off           whether the file ends before its writer closed it
    truncated         whether messages are missing, at the end of the file (cut off) or elsewhere
    channels          {topic: schema} of all topics, including those without messages
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.metadata: dict[str, str] = {}
        self.metadata_damaged = False
        self._scanned: dict[str, str] | None = None
        self.holes: list[Hole] = []
        self.channels: dict[str, str] = {}
        self.damage: list[str] = []
        self.truncated = self.cut_off = False
        self._scanner: Scanner | None = None
        self._other_encodings: dict[str, str] = {}  # {topic: encoding} of messages that are not JSON
        self._is_read = False  # whether a message in JSON was read
        self._unreadable = UnreadableMessages()
        try:
            self._check_beginning()
            self.truncated = not is_complete(self.path)
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror or error}; expected a recording (.mcap)") from None

    def _check_beginning(self) -> None:
        """Raise RecordingError for a file that is not a recording, and for an empty recording."""
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not FileSearch(file, size).is_recording:
                raise RecordingError(
                    f"{self.path} is not an MCAP file; expected a recording (.mcap){falls_hint(Path(self.path))}"
                )
        if size <= len(MCAP0_MAGIC):
            raise RecordingError(f"{self.path} is empty; expected a recording (.mcap)")

    def __iter__(self) -> Iterator[Recorded]:
        for batch in self.batches():
            for channel, time_ns, payload in batch:
                yield Recorded(channel.topic, channel.schema, time_ns, payload)

    def batches(self) -> Iterator[Iterator[ReadMessage]]:
        """Yield batches of consecutive messages in file order; a message is (channel, log time in ns, payload).

        Each batch has to be read to its end before the next one.
        """
        self._other_encodings, self._is_read, self._unreadable = {}, False, UnreadableMessages()
        with open(self.path, "rb") as file:
            scanner = self._scanner = Scanner(file, os.fstat(file.fileno()).st_size)
            try:
                for batch in scanner.batches():
                    self._take_metadata(scanner)
                    yield batch if scanner.has_checks else self._checked(batch)
            except McapError as error:  # an unknown compression
                raise RecordingError(f"{self.path} cannot be read: {error}") from None
        self._take_metadata(scanner)
        self.holes = [*scanner.holes, *self._unreadable.holes]
        self.damage, self.cut_off, self.channels = scanner.damage, scanner.cut_off, scanner.channels
        self.truncated = self.cut_off or bool(self.holes)
        self._require_readable()

    def _checked(self, batch: Iterator[ReadMessage]) -> Iterator[ReadMessage]:
        """Yield the readable messages of a batch from a file without check records, which another program wrote.

        Messages in other encodings, and JSON messages that are not valid, are left out and counted.
        """
        for channel, time_ns, payload in batch:
            if channel.encoding != "json":
                self._other_encodings[channel.topic] = channel.encoding
                continue
            recorded = Recorded(channel.topic, channel.schema, time_ns, payload)
            try:
                if time_ns > LATEST_S * 1e9:
                    raise RecordingError(
                        f"{channel.topic}: the time {time_ns / 1e9:g} s of a message is above {LATEST_S:g} s"
                    )
                message = recorded.message()
                plain = recorded.plain()
            except RecordingError as error:
                self._unreadable.add(channel.topic, str(error).removeprefix(f"{channel.topic}: "))
                continue
            if message is not None and not plain.keys() >= set(message.__struct_fields__):
                payload = msgspec.json.encode({**msgspec.to_builtins(message), **plain})
            self._is_read = True
            self._unreadable.pass_readable(channel.topic, time_ns / 1e9)
            yield channel, time_ns, payload

    def _require_readable(self) -> None:
        """Add a text to `damage` that lists the topics whose messages are not JSON and were therefore left out.

        Raises RecordingError if the file has messages, but none that can be read.
        """
        named = ", ".join(f"{topic} in {code!r}" for topic, code in list(self._other_encodings.items())[:MOST_TOPICS])
        if not self._is_read and self._unreadable.holes:
            hole = self._unreadable.holes[0]
            raise RecordingError(f"{self.path}: {next(iter(hole.messages))}: {hole.reason}")
        if not self._is_read and named:
            raise RecordingError(f"{self.path} is no recording of armswing: its messages are not JSON ({named})")
        if named:
            self.damage.append(f"topics that are not JSON, which are ignored ({named})")

    @property
    def position(self) -> int:
        """End of the part of the file that an iteration has read so far, bytes."""
        return 0 if self._scanner is None else self._scanner.position

    def holes_so_far(self) -> list[Hole]:
        """The holes (missing messages) in the part of the file that an iteration has read so far."""
        return [] if self._scanner is None else [*self._scanner.holes_so_far(), *self._unreadable.holes]

    def _take_metadata(self, scanner: Scanner) -> None:
        """Copy the run's metadata from the scanner.

        Raises RecordingError if the recording has another protocol version.
        """
        if scanner.metadata is self._scanned and self._scanned is not None:
            return
        self._scanned, self.metadata_damaged = scanner.metadata, scanner.metadata_damaged
        self.metadata = {key: value for key, value in scanner.metadata.items() if key != "protocol"}
        version = scanner.metadata.get("protocol", str(FIRST))
        if not scanner.metadata or scanner.metadata_damaged:
            return  # the version is unknown
        if line := mismatch(f"recording {str(self.path)!r}", int(version) if version.isdecimal() else version):
            raise RecordingError(f"{line}; read it with the version of armswing that wrote it")

    def scan(self) -> RecordingFile:
        """Read this recording to its end, so that all attributes are complete; returns the recording."""
        for batch in self.batches():
            for _ in batch:
                pass
        return self

    @property
    def warning(self) -> str:
        """One line on missing messages and damage; "" for an intact recording."""
        return damage_text(self.path, self.holes, self.damage, self.metadata_damaged)

    def require_no_hole(self, purpose: str) -> None:
        """Raise RecordingError for a recording with messages missing before its end, or with a damaged plan.

        purpose  participle such as "replayed", which ends the error message "...; the recording cannot be replayed"
        """
        require_no_hole(self, purpose)


@dataclass
class Recording(Mapping[str, Columns]):
    """A recording in memory: `recording[topic][field]` is an array with one row per message.

    Vectors of constant length have shape (n, length), text is an array of str, each entry of a dictionary of numbers is
    a column ("outputs.height"), lists of varying length are arrays of lists. Each topic has the column `log_time`, s.

    description  description of the robot; None if the file does not contain it
    metadata     the run's metadata: plan and parameters as JSON; {} if they are damaged
    truncated    whether messages are missing, at the end of the file (cut off) or elsewhere
    holes        where messages are missing, and how many
    cut_off      whether the file ends early because its writer did not close it
    warning      one line on what is missing or damaged; "" for an intact recording
    types        {topic: name of the messages' type, such as "armswing.RobotState"}
    runs         the runs in the file; a reset, a restore or a restart of the simulation server begins another run
    run          number of the run that this object contains; None if it contains all runs, one after the other
    """

    path: Path
    metadata: dict[str, str]
    truncated: bool
    description: Description | None
    runs: list[Run]
    run: int | None
    _topics: dict[str, Columns] = field(repr=False)
    holes: list[Hole] = field(default_factory=list)
    cut_off: bool = False
    warning: str = ""
    metadata_damaged: bool = False
    types: dict[str, str] = field(default_factory=dict)

    def has_known_type(self, topic: str) -> bool:
        """Whether the messages of a topic have the type of the topic table; not if another program chose the name."""
        row = lookup(topic)
        return row is not None and self.types.get(topic, "") == schema_name(row.message)

    def known(self, topic: str) -> Columns | None:
        """The columns of a topic whose messages have the type of the topic table; None without such messages."""
        return self._topics.get(topic) if self.has_known_type(topic) else None

    def topic_of_states(self) -> str | None:
        """The first topic with the states of a robot; None if there is none."""
        return next((topic for topic in self if topic.endswith("/state") and self.has_known_type(topic)), None)

    @property
    def topics(self) -> list[str]:
        """Names of the topics, in the order of their first message."""
        return list(self._topics)

    @overload
    def to_pandas(self, topic: str) -> pd.DataFrame: ...

    @overload
    def to_pandas(self, topic: None = None) -> dict[str, pd.DataFrame]: ...

    def to_pandas(self, topic: str | None = None) -> pd.DataFrame | dict[str, pd.DataFrame]:
        """The messages of a topic as a pandas data frame; without a topic, {topic: data frame}.

        The index `time_s` is the log time, which is simulation time in s. If the recording has several runs, the index
        goes back at the start of each run; to avoid this, read a single run: `read_recording(path, run=1)`. A vector
        has one column per entry, such as "position[arm]". `DataFrame.attrs` contains the path of the file, the topic,
        and the text `warning` of the recording. Raises ModuleNotFoundError with the install command if pandas is
        missing.
        """
        if topic is None:
            return {name: self.to_pandas(name) for name in self}
        return frame(self[topic], {"file": str(self.path), "topic": topic, "warning": self.warning})

    def _repr_html_(self) -> str:
        """The recording as HTML, which a notebook shows for the last expression of a cell."""
        several = len(self.runs) != 1
        runs = f"run {self.run} of {len(self.runs)}" if self.run else f"{len(self.runs)} runs" if several else ""
        robot = "" if self.description is None else self.description.robot
        return recording_html(self.path.name, self, robot, runs, self.warning.removeprefix(f"{self.path}: "))

    def __getitem__(self, topic: str) -> Columns:
        try:
            return self._topics[topic]
        except KeyError:
            raise KeyError(f"{self.path} has no topic {topic!r}; its topics are {self.topics}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


def require_no_hole(recording: Recording | RecordingFile, purpose: str) -> None:
    """Raise RecordingError for a recording with messages missing before its end, or with a damaged plan.

    An analysis of such a recording would attribute effects of the missing messages to the robot or a node. A truncated
    end, or damage that removed no message, causes only a RecordingWarning.

    purpose  participle such as "replayed", which ends the error message "...; the recording cannot be replayed"
    """
    if inner(recording.holes) or recording.metadata_damaged:
        raise RecordingError(f"{recording.warning}; the recording cannot be {purpose}")
    if recording.warning:
        warnings.warn(recording.warning, RecordingWarning, stacklevel=3)


def read_recording(
    path: str | os.PathLike[str],
    topics: Collection[str] | None = None,
    run: int | None = None,
    *,
    warn: bool = True,
) -> Recording:
    """The recording at `path` as arrays. Raises RecordingError if the file cannot be read.

    topics  names of the topics to read; None for all
    run     number of the run to read, counted from 1; -1 for the last run; None for all runs one after the other, as in
            the file, so that `timestamp` goes back at the start of each run
    warn    whether to issue a RecordingWarning if messages are missing; `Recording.holes` lists them in any case
    """
    with uncollected():
        found, file = _read(path, topics, run)
    if warn and file.warning:
        warnings.warn(file.warning, RecordingWarning, stacklevel=2)
    return found


@contextmanager
def uncollected() -> Iterator[None]:
    """Context manager that switches Python's garbage collection off.

    Reading a recording makes millions of objects, and the collector's passes over them would take most of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(
    path: str | os.PathLike[str], topics: Collection[str] | None, run: int | None
) -> tuple[Recording, RecordingFile]:
    """(the recording as arrays, the file that was read).

    topics  names of the topics to read; None for all
    run     number of the run to read, counted from 1; -1 for the last run; None for all runs
    """
    file = RecordingFile(path)
    cutter = RunCutter()
    times: dict[str, list[int]] = {}
    payloads: dict[str, list[bytes]] = {}
    places: dict[str, list[int | None]] = {}
    description: Description | None = None
    for recorded in file:
        place = cutter.place(recorded.topic, recorded.time_ns, recorded.payload)
        if description is None and recorded.schema == schema_name(Description):
            message = recorded.message()
            description = message if isinstance(message, Description) else None
        if topics is None or recorded.topic in topics:
            times.setdefault(recorded.topic, []).append(recorded.time_ns)
            payloads.setdefault(recorded.topic, []).append(recorded.payload)
            places.setdefault(recorded.topic, []).append(place)
    try:
        wanted = picked(cutter.runs, run)
    except ValueError as error:
        raise RecordingError(f"{file.path}: {error}") from None
    tables = {}
    for topic, lines in payloads.items():
        rows = [i for i, place in enumerate(places[topic]) if wanted is None or place in (None, wanted)]
        if rows:
            time_ns = np.asarray([times[topic][i] for i in rows], dtype=np.int64)
            tables[topic] = columns(time_ns / 1e9, [_plain(lines[i]) for i in rows])
            tables[topic].log_time_ns = time_ns
    number = None if wanted is None else wanted + 1
    found = Recording(
        file.path,
        file.metadata,
        file.truncated,
        description,
        cutter.runs,
        number,
        tables,
        file.holes,
        file.cut_off,
        file.warning,
        file.metadata_damaged,
        file.channels,
    )
    return found, file


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Summary of a recording as plain data, as `armswing info` shows it: runs, topics, rates, duration, size, metadata.

    Times are simulation seconds. `start_s`, `end_s` and `duration_s` ignore latched topics, because a latched message
    may be much older than the recording. `start_s` is the start of the first run, `end_s` the end of the last run, and
    `duration_s` the sum of the runs' lengths. `rate_hz` is the number of messages of a topic per second, including
    missing messages; the duration of holes with an unknown number of missing messages is left out of the time. It is
    None for a topic that has fewer than two different times in every run. `topics` includes topics without messages.
    `warning` is one line on what is missing or damaged; `holes` lists the missing messages.
    """
    file = RecordingFile(path)
    cutter = RunCutter()
    rows: dict[str, dict[str, Any]] = {}
    spans: dict[str, dict[int | None, list[int]]] = {}
    events: list[dict[str, Any]] = []
    for recorded in file:
        place = cutter.place(recorded.topic, recorded.time_ns, recorded.payload)
        row = rows.setdefault(
            recorded.topic,
            {"topic": recorded.topic, "type": recorded.schema, "count": 0, "first_s": recorded.time_ns / 1e9},
        )
        row["count"] += 1
        row["last_s"] = recorded.time_ns / 1e9
        if recorded.schema == schema_name(Event) and isinstance(event := recorded.message(), Event):
            events.append({"run": (place or 0) + 1, **_event_fields(event)})
        span = spans.setdefault(recorded.topic, {}).setdefault(place, [recorded.time_ns, recorded.time_ns])
        span[0], span[1] = min(span[0], recorded.time_ns), max(span[1], recorded.time_ns)
    for topic, row in rows.items():
        known_s = sum(last - first for first, last in spans[topic].values()) / 1e9
        intervals = row["count"] - len(spans[topic])
        for hole in file.holes:
            if hole.length_s is None or not hole.covers(topic):
                continue
            if hole.counted and hole.start_s < row["last_s"]:
                intervals += hole.messages[topic]
            else:
                known_s, intervals = known_s - hole.length_s, intervals - 1
        row["rate_hz"] = intervals / known_s if known_s > 0.0 and intervals > 0 else None
    empty = {"count": 0, "first_s": None, "last_s": None, "rate_hz": None}
    silent = [{"topic": topic, "type": kind, **empty} for topic, kind in file.channels.items() if topic not in rows]
    timed = [topic for topic in rows if not _is_latched(topic)] or list(rows)
    runs = _run_spans([spans[topic] for topic in timed])
    return {
        "file": str(file.path),
        "size_bytes": file.path.stat().st_size,
        "start_s": runs[0][0] if runs else 0.0,
        "end_s": runs[-1][1] if runs else 0.0,
        "duration_s": sum(end - start for start, end in runs),
        "messages": sum(row["count"] for row in rows.values()),
        "truncated": file.truncated,
        "cut_off": file.cut_off,
        "holes": [msgspec.to_builtins(hole) for hole in file.holes],
        "damage": [*file.damage, *(["its sidecar"] if sidecar_is_damaged(file.path) else [])],
        "metadata_damaged": file.metadata_damaged,
        "warning": file.warning,
        "runs": [msgspec.to_builtins(run) for run in cutter.runs],
        "topics": [*rows.values(), *silent],
        "events": events,
        "metadata": file.metadata,
        "sidecar": read_sidecar(file.path),
    }


def _event_fields(event: Event) -> dict[str, Any]:
    """The kind of an event, and its other fields that are not empty."""
    keys = ("timestamp", "kind", "node", "key", "old", "new", "part", "detail")
    return {key: value for key in keys if (value := getattr(event, key)) != "" or key == "kind"}


def _run_spans(topics: list[dict[int | None, list[int]]]) -> list[tuple[float, float]]:
    """(first, last) log time of each run, s.

    topics  for each topic, {index of the run: [first, last] log time, ns}
    """
    numbers = sorted({place or 0 for spans in topics for place in spans})
    found = []
    for number in numbers:
        of_run = [span for spans in topics for place, span in spans.items() if (place or 0) == number]
        found.append((min(first for first, _ in of_run) / 1e9, max(last for _, last in of_run) / 1e9))
    return found


def _is_latched(topic: str) -> bool:
    row = lookup(topic)
    return row is not None and row.latched

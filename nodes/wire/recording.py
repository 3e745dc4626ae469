"""Reading recordings: as arrays by topic and field, as a stream of messages, or as a summary.

A recording that was cut off (its writer was killed, its disk was full) is read up to the cut, and says so.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from mcap.exceptions import EndOfFile, InvalidMagic, McapError, RecordLengthLimitExceeded
from mcap.records import Channel, Chunk, McapRecord, Metadata, Schema
from mcap.records import Message as McapMessage
from mcap.stream_reader import CRCValidationError, StreamReader, breakup_chunk
from mcap.writer import MCAP0_MAGIC

from nodes.wire.messages import Description, Event, Message
from nodes.wire.recording_columns import Columns, columns
from nodes.wire.recording_runs import Run, RunCutter, picked
from nodes.wire.recording_schema import decode_json, schema_name
from nodes.wire.recording_writer import METADATA_NAME, RecordingWriter, is_complete, sidecar_path
from nodes.wire.topics import lookup

__all__ = [
    "Recorded",
    "Recording",
    "RecordingError",
    "RecordingFile",
    "RecordingWriter",
    "describe",
    "read_recording",
]

MAX_RECORD_BYTES = 256 << 20
_CUT = (EndOfFile, struct.error, UnicodeDecodeError)


class RecordingError(ValueError):
    """A file that cannot be read as a recording; its text is one line for a person."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded message, not decoded yet.

    schema   the name of its type, "armswing.RobotState"
    time_ns  log time: simulation time, nanoseconds
    seq      of its publisher and topic
    """

    topic: str
    schema: str
    time_ns: int
    payload: bytes
    seq: int = 0

    def message(self) -> Message | None:
        """The typed message, None when its type is none of ours."""
        row = lookup(self.topic)
        if row is None or schema_name(row.message) != self.schema:
            return None
        return decode_json(row.message, self.payload)


class RecordingFile:
    """A recording as a stream: iterate for its messages in file order; metadata and flags fill in on the way.

    truncated  True once reading met the end without the closing index, or a damaged chunk
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.metadata: dict[str, str] = {}
        self.truncated = False
        try:
            self._check_beginning()
            self.truncated = not is_complete(self.path)
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror or error}; expected a recording (.mcap)") from None

    def _check_beginning(self) -> None:
        """Refuse what was never a recording, and what was cut off before anything was in it."""
        with open(self.path, "rb") as file:
            beginning = file.read(len(MCAP0_MAGIC) + 1)
        if not beginning.startswith(MCAP0_MAGIC[: len(beginning)]):
            raise RecordingError(f"{self.path} is no MCAP file; expected a recording (.mcap)")
        if len(beginning) <= len(MCAP0_MAGIC):
            raise RecordingError(f"{self.path} has nothing in it; expected a recording (.mcap)")

    def __iter__(self) -> Iterator[Recorded]:
        schemas: dict[int, str] = {0: ""}
        channels: dict[int, Channel] = {}
        for record in self._records():
            if isinstance(record, McapMessage):
                channel = channels[record.channel_id]
                yield Recorded(channel.topic, schemas[channel.schema_id], record.log_time, record.data, record.sequence)
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Schema):
                schemas[record.id] = record.name
            elif isinstance(record, Metadata) and record.name == METADATA_NAME:
                self.metadata.update(record.metadata)

    def _records(self) -> Iterator[McapRecord]:
        """Every readable record, chunks opened; stops at a cut, leaves out chunks with a wrong checksum."""
        with open(self.path, "rb") as file:
            try:
                for record in self._reader(file).records:
                    if isinstance(record, Chunk):
                        yield from self._chunk(record)
                    else:
                        yield record
            except (*_CUT, RecordLengthLimitExceeded):
                self.truncated = True
            except InvalidMagic:
                raise RecordingError(f"{self.path} is no MCAP file; expected a recording (.mcap)") from None
            except McapError as error:
                raise RecordingError(f"{self.path} cannot be read: {error}") from None

    @staticmethod
    def _reader(file: BinaryIO) -> StreamReader:
        return StreamReader(file, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES)

    def _chunk(self, chunk: Chunk) -> list[McapRecord]:
        try:
            records: list[McapRecord] = breakup_chunk(chunk, validate_crc=True)
            return records
        except (CRCValidationError, *_CUT):
            self.truncated = True
            return []


@dataclass
class Recording(Mapping[str, Columns]):
    """A recording in memory: `recording[topic][field]` is an array with one row per message.

    Vectors of constant length are (n, length), text is an array of str, dictionaries of numbers are columns
    of their own ("outputs.height"), ragged fields are arrays of lists. `log_time` is among the fields, in
    seconds.

    description  what the robot is, None when it was not recorded
    metadata     what the writer put in: the plan and the parameters as JSON
    truncated    the writer was cut off; everything before the cut is here
    runs         the runs of the file: a reset, a restore or a restart of the server begins another
    run          the number of the one that is here, None when all are, one after the other
    """

    path: Path
    metadata: dict[str, str]
    truncated: bool
    description: Description | None
    runs: list[Run]
    run: int | None
    _topics: dict[str, Columns] = field(repr=False)

    @property
    def topics(self) -> list[str]:
        """The topics, in the order of their first message."""
        return list(self._topics)

    def __getitem__(self, topic: str) -> Columns:
        try:
            return self._topics[topic]
        except KeyError:
            raise KeyError(f"{self.path} has no topic {topic!r}; its topics are {self.topics}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


def read_recording(
    path: str | os.PathLike[str], topics: Collection[str] | None = None, run: int | None = None
) -> Recording:
    """The recording at `path` as arrays, all topics or those named. Raises RecordingError.

    run  which of its runs, from 1, -1 for the last; None for all of them one after the other, as they stand in the
         file: where the simulation was reset in between, `timestamp` goes back
    """
    file = RecordingFile(path)
    cutter = RunCutter()
    times: dict[str, list[int]] = {}
    payloads: dict[str, list[bytes]] = {}
    places: dict[str, list[int | None]] = {}
    description: Description | None = None
    for recorded in file:
        place = cutter.place(recorded.topic, recorded.time_ns, recorded.seq, recorded.payload)
        if description is None and recorded.schema == schema_name(Description):
            found = recorded.message()
            description = found if isinstance(found, Description) else None
        if topics is None or recorded.topic in topics:
            times.setdefault(recorded.topic, []).append(recorded.time_ns)
            payloads.setdefault(recorded.topic, []).append(recorded.payload)
            places.setdefault(recorded.topic, []).append(place)
    try:
        wanted = picked(cutter.runs, run)
    except ValueError as error:
        raise RecordingError(f"{file.path}: {error}") from None
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    tables = {}
    for topic, lines in payloads.items():
        rows = [i for i, place in enumerate(places[topic]) if wanted is None or place in (None, wanted)]
        if rows:
            log_time = np.asarray([times[topic][i] for i in rows], dtype=np.int64) / 1e9
            tables[topic] = columns(log_time, [decode(lines[i]) for i in rows])
    number = None if wanted is None else wanted + 1
    return Recording(file.path, file.metadata, file.truncated, description, cutter.runs, number, tables)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `armswing info` shows, as plain data: runs, topics with counts and rates, duration, size, metadata.

    Times are simulation seconds, of the messages that are said once and not again to each who comes later: such
    a latched one may be much older than the recording. `duration_s` and the rates go by the sum of the runs' lengths;
    `rate_hz` is None for a topic with fewer than two instants in every run. `start_s` is of the first run, `end_s` of
    the last.
    """
    file = RecordingFile(path)
    cutter = RunCutter()
    rows: dict[str, dict[str, Any]] = {}
    spans: dict[str, dict[int | None, list[int]]] = {}
    events: list[dict[str, Any]] = []
    for recorded in file:
        place = cutter.place(recorded.topic, recorded.time_ns, recorded.seq, recorded.payload)
        row = rows.setdefault(
            recorded.topic,
            {"topic": recorded.topic, "type": recorded.schema, "count": 0, "first_s": recorded.time_ns / 1e9},
        )
        row["count"] += 1
        row["last_s"] = recorded.time_ns / 1e9
        if recorded.schema == schema_name(Event) and isinstance(event := recorded.message(), Event):
            events.append({"run": (place or 0) + 1, **_told(event)})
        span = spans.setdefault(recorded.topic, {}).setdefault(place, [recorded.time_ns, recorded.time_ns])
        span[0], span[1] = min(span[0], recorded.time_ns), max(span[1], recorded.time_ns)
    for topic, row in rows.items():
        length_ns = sum(last - first for first, last in spans[topic].values())
        row["rate_hz"] = (row["count"] - len(spans[topic])) / (length_ns / 1e9) if length_ns > 0 else None
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
        "runs": [msgspec.to_builtins(run) for run in cutter.runs],
        "topics": list(rows.values()),
        "events": events,
        "metadata": file.metadata,
        "sidecar": _read_sidecar(file.path),
    }


def _told(event: Event) -> dict[str, Any]:
    """What an event says in words."""
    keys = ("timestamp", "kind", "node", "key", "old", "new", "part", "detail")
    return {key: value for key in keys if (value := getattr(event, key)) != ""}


def _run_spans(topics: list[dict[int | None, list[int]]]) -> list[tuple[float, float]]:
    """First and last time of each run over these topics, seconds."""
    numbers = sorted({place or 0 for spans in topics for place in spans})
    found = []
    for number in numbers:
        of_run = [span for spans in topics for place, span in spans.items() if (place or 0) == number]
        found.append((min(first for first, _ in of_run) / 1e9, max(last for _, last in of_run) / 1e9))
    return found


def _is_latched(topic: str) -> bool:
    row = lookup(topic)
    return row is not None and row.latched


def _read_sidecar(path: Path) -> dict[str, Any] | None:
    """Versions, host and wall-clock times of the run; None when the file travelled without them."""
    try:
        return msgspec.json.decode(sidecar_path(path).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return None

"""A recording that is read in pieces, each of which can be used before the whole file has been read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.framework.messages import Description
from nodes.framework.recording.columns import Columns, column, columns, is_constant
from nodes.framework.recording.integrity.holes import Hole
from nodes.framework.recording.reader import Recorded, Recording, RecordingError, RecordingFile
from nodes.framework.recording.runs import Run, RunCutter, picked
from nodes.framework.recording.schema import schema_name

Values = NDArray[Any]


@dataclass
class Piece:
    """Consecutive messages of a recording as arrays, and properties of the recording up to the last of these messages.

    parts  (topic, index of the run, columns) of the messages; the index is None for latched topics, whose messages
           belong to all runs
    runs   the runs found so far
    holes  gaps in the recording: in the whole file if it was scanned before, otherwise in the part that was read so far
    read   end of the part of the file that was read so far, bytes
    size   size of the file, bytes
    whole  whether the file was read to its end
    """

    parts: list[tuple[str, int | None, Columns]]
    runs: list[Run]
    description: Description | None
    metadata: dict[str, str]
    metadata_damaged: bool
    types: dict[str, str]
    holes: list[Hole]
    cut_off: bool
    truncated: bool
    warning: str
    read: int
    size: int
    whole: bool


def pieces(path: str | os.PathLike[str], length: int, scanned: RecordingFile | None = None) -> Iterator[Piece]:
    """The pieces of a recording, in file order, of about `length` bytes each; there is at least one piece.

    scanned  the recording after a scan of the whole file. The attribute `holes` of every piece then lists the messages
             that are missing in the whole file. If `scanned` is None, `holes` lists the messages that are missing in
             the part of the file that was read so far

    Raises RecordingError for a file that cannot be read.
    """
    file = RecordingFile(path)
    cutter, size = RunCutter(), file.path.stat().st_size
    description: Description | None = None
    found: dict[tuple[str, int | None], tuple[list[int], list[bytes]]] = {}
    decode = msgspec.json.Decoder(dict[str, Any]).decode

    def piece(whole: bool) -> Piece:
        parts = [
            (topic, place, columns(np.asarray(times, dtype=np.int64) / 1e9, [decode(line) for line in lines]))
            for (topic, place), (times, lines) in found.items()
        ]
        found.clear()
        return Piece(
            parts,
            [msgspec.structs.replace(run) for run in cutter.runs],
            description,
            file.metadata,
            file.metadata_damaged,
            types,
            known.holes if (known := file if whole else scanned) is not None else file.holes_so_far(),
            known is not None and known.cut_off,
            file.truncated,
            file.warning if whole else "",
            size if whole else file.position,
            size,
            whole,
        )

    end = length
    types: dict[str, str] = {}
    for batch in file.batches():
        for channel, time_ns, payload in batch:
            place = cutter.place(channel.topic, time_ns, payload)
            if (held := found.get((channel.topic, place))) is None:
                held = found[channel.topic, place] = ([], [])
                types[channel.topic] = channel.schema
            held[0].append(time_ns)
            held[1].append(payload)
            if description is None and channel.schema == schema_name(Description):
                message = Recorded(channel.topic, channel.schema, time_ns, payload).message()
                description = message if isinstance(message, Description) else None
        if file.position >= end:
            yield piece(whole=False)
            end = file.position + length
    yield piece(whole=True)


class GrowingColumn:
    """One column, to which further rows can be added. Arrays that `values` returned earlier stay valid."""

    def __init__(self, values: Values) -> None:
        self._set(values)

    def _set(self, values: Values) -> None:
        self._data, self._count = values, len(values)

    @property
    def values(self) -> Values:
        """The rows so far, without a copy."""
        return self._data[: self._count]

    def extend(self, values: Values) -> None:
        """Add rows. The result is the same column that the function `columns` makes from all rows at once."""
        present = self.values
        if is_constant(present) and is_constant(values) and np.array_equal(present[0], values[0]):
            self._set(np.broadcast_to(present[0], (len(present) + len(values), len(present[0]))))
        elif present.dtype == object and present.ndim == 1:
            self._append(_objects(_rows(values)))
        elif _are_alike(present, values):
            self._append(values)
        else:
            self._set(column(_rows(present) + _rows(values)))

    def _append(self, values: Values) -> None:
        start, end = self._count, self._count + len(values)
        kind = np.promote_types(self._data.dtype, values.dtype)
        if end > len(self._data) or kind != self._data.dtype or is_constant(self._data):
            grown = np.empty((max(end, 3 * start // 2), *self._data.shape[1:]), dtype=kind)
            grown[:start] = self._data[:start]
            self._data = grown
        self._data[start:end] = values
        self._count = end


class GrowingColumns:
    """Columns of one topic, to which the columns of further messages can be added."""

    def __init__(self) -> None:
        self._count = 0
        self._fields: dict[str, GrowingColumn] = {}
        self._present: dict[str, GrowingColumn] = {}

    def extend(self, part: Columns) -> None:
        """Add the columns of further messages, which may lack fields or have new ones."""
        new = len(part["log_time"])
        for name, grown in self._fields.items():
            if name not in part:
                self._mark(name, np.zeros(new, dtype=bool))
                grown.extend(_absent(grown.values, new, is_key="." in name))
        for name, values in part.items():
            present = part.present.get(name)
            if name in self._fields:
                if name in self._present or present is not None:
                    self._mark(name, np.ones(new, dtype=bool) if present is None else present)
                self._fields[name].extend(values)
                continue
            self._fields[name] = GrowingColumn(values)
            if self._count:
                before = GrowingColumn(_absent(values, self._count, is_key="." in name))
                before.extend(values)
                self._fields[name] = before
            if self._count or present is not None:
                self._mark(name, np.ones(new, dtype=bool) if present is None else present, default=False)
        self._count += new

    def _mark(self, name: str, present: Values, default: bool = True) -> None:
        """Add the next messages to the mask of the field `name`, which is true for messages that have the field.

        Only fields of dictionaries, such as "outputs.height", have a mask.

        present  mask of the next messages
        default  value for all earlier messages if the field has no mask yet
        """
        if "." not in name:
            return
        if name not in self._present:
            self._present[name] = GrowingColumn(np.full(self._count, default))
        self._present[name].extend(present)

    def columns(self) -> Columns:
        """The columns of all messages so far, without copies."""
        found = Columns({name: grown.values for name, grown in self._fields.items()})
        found.present = {name: grown.values for name, grown in self._present.items()}
        return found


@dataclass
class GrowingRecording:
    """The part of a recording that was read so far, for one run.

    run     number of the run, from 1; -1 for the last run: when a new run begins, the messages of the earlier run are
            dropped
    whole   whether the file was read to its end
    share   share of the run that was read so far, estimated by bytes; 1 for a run that was read to its end
    """

    path: Path
    run: int = -1
    whole: bool = False
    share: float = 0.0
    _tables: dict[str, GrowingColumns | None] = field(default_factory=dict)  # None: no messages in the run
    _latched: set[str] = field(default_factory=set)
    _requested: int = 0  # index of the run
    _began: int = 0  # position in the file after which the run began, bytes
    _read: int = 0
    _last: Piece | None = None

    def add(self, piece: Piece) -> None:
        """Add the next piece."""
        requested = max(len(piece.runs) - 1, 0) if self.run == -1 else self.run - 1
        if requested != self._requested:
            self._requested, self._began = requested, self._read
            self._tables = {topic: self._tables[topic] if topic in self._latched else None for topic in self._tables}
        for topic, place, part in piece.parts:
            self._tables.setdefault(topic)
            if place is None:
                self._latched.add(topic)
            if place in (None, requested):
                table = self._tables[topic] or GrowingColumns()
                table.extend(part)
                self._tables[topic] = table
        self._read, self._last, self.whole = piece.read, piece, piece.whole
        has_ended = piece.whole or requested < len(piece.runs) - 1
        self.share = 1.0 if has_ended else (piece.read - self._began) / max(1, piece.size - self._began)

    def recording(self) -> Recording:
        """The recording, with the messages that were read so far.

        Its attributes are those of the latest piece. Raises RecordingError if the whole file was read and has no run
        with the requested number.
        """
        last = self._last
        if last is None:
            raise ValueError("no piece of the recording was added yet; call add first")
        if self.whole:
            try:
                picked(last.runs, self.run)
            except ValueError as error:
                raise RecordingError(f"{self.path}: {error}") from None
        tables = {topic: table.columns() for topic, table in self._tables.items() if table is not None}
        return Recording(
            self.path,
            last.metadata,
            last.truncated,
            last.description,
            last.runs,
            self._requested + 1 if self._requested < max(len(last.runs), 1) else None,
            tables,
            last.holes,
            last.cut_off,
            last.warning,
            last.metadata_damaged,
            last.types,
        )


def _are_alike(one: Values, other: Values) -> bool:
    """Whether the rows of two columns have the same shape, and are both numbers, both truth values, or both text."""
    kinds = {one.dtype.kind, other.dtype.kind}
    return one.shape[1:] == other.shape[1:] and (kinds <= {"i", "f"} or kinds == {"b"} or kinds == {"U"})


def _rows(values: Values) -> list[Any]:
    """The rows of an array as nested lists, with None for NaN."""
    if values.dtype.kind != "f":
        return list(values.tolist())
    if values.ndim == 1:
        return [None if value != value else value for value in values.tolist()]
    return [[None if value != value else value for value in row] for row in values.tolist()]


def _objects(rows: list[Any]) -> Values:
    found = np.empty(len(rows), dtype=object)
    for place, row in enumerate(rows):
        found[place] = row
    return found


def _absent(like: Values, count: int, is_key: bool) -> Values:
    """Rows of a field for `count` messages without this field, with the missing values that `columns` writes.

    like    rows of the same field in other messages
    is_key  whether the field is an entry of a dictionary; a row then has as many missing values as a row of `like`
    """
    row = [None] * like.shape[1] if is_key and like.ndim == 2 else None
    return column([row] * count)

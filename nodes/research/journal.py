"""Journals of sweeps, searches for boundaries and maps: files to which one line is appended per finished run.

A line is a JSON object whose last member, `crc32`, is the checksum of the object without this member.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec

from sim_core.errors import InvalidRequest

MEMBER = b',"crc32":"%08x"}'
Line = TypeVar("Line")


class JournalError(InvalidRequest):
    """Raised if a journal cannot be used. The message is one line for the user."""


class Journal(Generic[Line]):
    """Context manager for the open journal of this process; no other process can open it at the same time.

    Lines are only appended. An incomplete last line, left by a killed process, is removed. Raises JournalError if
    another process has the journal, or if a line is damaged.

    kind   type of the lines, a msgspec.Struct
    busy   message of the error if another process has the journal
    lines  the lines of the file when it was opened
    """

    def __init__(self, path: Path, kind: type[Line], busy: str) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise JournalError(busy) from None
            self.lines, end = [], 0
            for size, line in _read(path, kind):
                self.lines.append(line)
                end += size
            if end < os.fstat(self._file).st_size:
                os.ftruncate(self._file, end)
        except BaseException:
            os.close(self._file)
            raise

    def add(self, line: Line) -> None:
        """Write a line at once, so that it is kept even if this process is killed."""
        append(self._file, encode_line(line))

    def close(self) -> None:
        """Write all data to the disk and close the journal."""
        with contextlib.suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encode_line(item: Any) -> bytes:
    """Encode a struct as a line with a checksum."""
    data = msgspec.json.encode(item)
    return data[:-1] + MEMBER % zlib.crc32(data) + b"\n"


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """Yield the structs of this type in a file, up to a last line that is incomplete because a process was killed.

    Raises JournalError with a one-line message for a damaged line.
    """
    return (line for _, line in _read(path, kind))


def _read(path: Path, kind: type[Line]) -> Iterator[tuple[int, Line]]:
    """Yield (size in bytes, struct) of each complete line."""
    decoder, size = msgspec.json.Decoder(kind), len(MEMBER % 0)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            content, check = line[: -size - 1] + b"}", line[-size - 1 : -1]
            repeated = "delete this line, so that its run is repeated"
            if check != MEMBER % zlib.crc32(content):
                raise JournalError(
                    f"{path}, line {number} is damaged: its content does not have its checksum; {repeated}"
                )
            try:
                yield len(line), decoder.decode(content)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise JournalError(
                    f"{path}, line {number} is not a line that this version can read: {error}; {repeated}"
                ) from None


def append(file: int, data: bytes) -> None:
    """Write bytes at the end of a file that is open for appending; all of them or, if an error is raised, none."""
    before, left = os.fstat(file).st_size, memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, before)
        raise

"""Lines of JSON with checksums, in files to which a sweep appends a line per run.

A line is a JSON object whose last member, `crc32`, is the checksum of the object without this member.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nodes.research.sweeps.design import SweepError

MEMBER = b',"crc32":"%08x"}'
Line = TypeVar("Line")


def encode_line(item: Any) -> bytes:
    """Encode a struct as a line with a checksum."""
    data = msgspec.json.encode(item)
    return data[:-1] + MEMBER % zlib.crc32(data) + b"\n"


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """Yield the structs of this type in a file, up to a last line that is incomplete because a process was killed.

    Raises SweepError with a one-line message for a damaged line.
    """
    decoder, size = msgspec.json.Decoder(kind), len(MEMBER % 0)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            content, check = line[: -size - 1] + b"}", line[-size - 1 : -1]
            if check != MEMBER % zlib.crc32(content):
                raise SweepError(
                    f"{path}, line {number} is damaged: its content does not have its checksum; delete this line, so "
                    "that its run is repeated"
                )
            try:
                item = decoder.decode(content)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise SweepError(
                    f"{path}, line {number} is not a line that this version can read: {error}; delete this line, so "
                    "that its run is repeated"
                ) from None
            yield item


def append(file: int, data: bytes) -> None:
    """Write bytes at the end of a file that is open for appending; all of them or, if an error is raised, none."""
    before, left = os.fstat(file).st_size, memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, before)
        raise


def end_of_lines(path: Path) -> int:
    """Position (bytes) of the end of the file's last complete line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size:
            begin = max(0, size - 65536)
            file.seek(begin)
            found = file.read(size - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            size = begin
    return 0

"""Search of a damaged MCAP file for its intact chunks, its check records and its summary."""

from __future__ import annotations

import os
import re
import struct
from typing import BinaryIO

from mcap.opcode import Opcode
from mcap.writer import MCAP0_MAGIC

from nodes.framework.recording.integrity import checks
from nodes.framework.recording.integrity.checks import CHUNK, HEAD
from nodes.framework.recording.integrity.chunks import decode_chunk
from nodes.framework.recording.integrity.summary import Summary, is_closed_by, read_summary

WINDOW_BYTES = 1 << 20  # length of file searched at a time
BEGINNING_BYTES = 256 << 10  # searched for a check record where the first bytes of the file are damaged
_BEGINNING = MCAP0_MAGIC + bytes([Opcode.HEADER])  # of any MCAP file
_LONGEST_CHUNK_HEAD = HEAD.size + CHUNK.size + 4 + 8
_CHUNK_HEAD = re.compile(rb"\x06.{36}(?:\x00\x00\x00\x00|\x04\x00\x00\x00zstd|\x03\x00\x00\x00lz4)", re.DOTALL)


class FileSearch:
    """A file and its size in bytes, with functions that find what is intact in it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        self._file = file
        self._no_check_from: int | None = None
        self._summary_read = False
        self._summary_found: Summary | None = None

    def end_at(self, size: int) -> None:
        """Ignore the part of the file from the position `size` on."""
        self.size, self._summary_read, self._no_check_from = size, False, None

    @property
    def is_closed(self) -> bool:
        """Whether the file ends as its writer ends a complete file."""
        return is_closed_by(self.bytes, self.size)

    def has_summary_from(self, end: int) -> bool:
        """Whether the file has a summary that begins at `end`, although the end of the file gives another position."""
        if (moved := read_summary(self.bytes, self.size, end)) is None:
            return False
        self._summary_found = moved
        return True

    def bytes(self, start: int, length: int) -> bytes:
        """At most `length` bytes from the position `start` on."""
        self._file.seek(start)
        return self._file.read(min(length, self.size - start))

    def summary(self) -> Summary | None:
        """The summary section of the file; None if the section is missing or damaged."""
        if not self._summary_read:
            self._summary_read = True
            self._summary_found = read_summary(self.bytes, self.size)
        return self._summary_found

    @property
    def is_recording(self) -> bool:
        """Whether the file is MCAP. A file whose first bytes are damaged or missing is recognized by its check records,
        its summary or its last bytes."""
        if self.bytes(0, len(MCAP0_MAGIC)) == MCAP0_MAGIC[: self.size]:
            return True
        if checks.MAGIC in self.bytes(0, BEGINNING_BYTES) or self.summary() is not None:
            return True
        return self.is_closed

    def next_recording(self, start: int, until: int) -> int | None:
        """Position at which another recording begins between the positions `start` and `until`; None if none does.

        Another recording begins there if two files were concatenated; it is ignored.
        """
        while start < until:
            window = self.bytes(start, min(WINDOW_BYTES, until - start) + len(_BEGINNING))
            if (place := window.find(_BEGINNING)) >= 0:
                return start + place
            start += WINDOW_BYTES
        return None

    def next_anchor(self, start: int, is_checked: bool) -> tuple[int, tuple[checks.Check, int] | None] | None:
        """Find the next intact chunk or check record from position `start` on; None if there is neither.

        The parameter `is_checked` states whether chunks must have checksums.

        For a chunk, the result is (position of the chunk, None). For a check record that ends at position p, the result
        is (p, (content of the check record, p)): the end of the record, twice.
        """
        check = self.next_check(start)
        until = self.size if check is None else check[1]
        chunk = self._next_chunk(start, until, is_checked)
        if chunk is not None:
            return chunk, None
        return None if check is None else (check[1], check)

    def next_check(self, start: int) -> tuple[checks.Check, int] | None:
        """(next intact check record from position `start` on, position of its end); None if there is none."""
        if self._no_check_from is not None and start >= self._no_check_from:
            return None
        searched = start
        while start < self.size:
            window = self.bytes(start, WINDOW_BYTES + len(checks.MAGIC))
            place = window.find(checks.MAGIC)
            if place < 0:
                start += WINDOW_BYTES
                continue
            length = checks.LARGEST_BYTES + 64
            found = checks.decode_check(self.bytes(start + place, length))
            if found is not None:
                return found[0], start + place + found[1]
            start += place + 1
        self._no_check_from = searched  # a file without check records is searched only once
        return None

    def _next_chunk(self, start: int, until: int, is_checked: bool) -> int | None:
        """Position of the next intact chunk between `start` and `until`; None if there is no such chunk."""
        while start < until:
            window = self.bytes(start, WINDOW_BYTES + _LONGEST_CHUNK_HEAD)
            place = 0
            while (match := _CHUNK_HEAD.search(window, place)) is not None:
                place = match.start() + 1
                found = start + match.start()
                if match.start() < WINDOW_BYTES and found < until and self._is_chunk(found, is_checked):
                    return found
            start += WINDOW_BYTES
        return None

    def _is_chunk(self, position: int, is_checked: bool) -> bool:
        head = self.bytes(position, _LONGEST_CHUNK_HEAD)
        _, length = HEAD.unpack_from(head)
        size_of_head = checks.chunk_head_bytes(head[HEAD.size :])
        if len(head) < HEAD.size + size_of_head or position + HEAD.size + length > self.size:
            return False
        (size,) = struct.unpack_from("<Q", head, HEAD.size + size_of_head - 8)
        if size + size_of_head != length:
            return False
        return decode_chunk(self.bytes(position + HEAD.size, length), is_checked) is not None


def is_replaceable(path: str | os.PathLike[str]) -> bool:
    """Whether a recorder may write to `path`: there is no file, an empty one, a recording, or a device or pipe."""
    try:
        if not os.path.isfile(path):
            return True
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return size == 0 or FileSearch(file, size).is_recording
    except OSError:
        return True  # the recorder reports a file that it cannot read or write

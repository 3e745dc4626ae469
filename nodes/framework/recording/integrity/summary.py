"""The summary section at the end of a closed MCAP file: its channels and their message counts."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from mcap.opcode import Opcode

from nodes.framework.recording.integrity.checks import HEAD
from nodes.framework.recording.integrity.records import Channel, channel_of, schema_of
from nodes.framework.recording.places import MAGIC

_FOOTER = struct.Struct("<BQQQI")  # record head, start of the summary, start of its offsets, CRC
_STATISTICS_BYTES = 46  # length of a statistics record up to its counts by channel
Read = Callable[[int, int], bytes]  # (start, length) -> bytes of the file from `start`, at most `length`


@dataclass(slots=True)
class Summary:
    """The summary section of a file.

    start     position of the section in the file
    channels  {channel number: channel}
    counts    {channel number: number of messages}; None if the section has no statistics
    """

    start: int
    channels: dict[int, Channel] = field(default_factory=dict)
    counts: dict[int, int] | None = None


def read_summary(read: Read, size: int, start: int | None = None) -> Summary | None:
    """The summary section of a file with `size` bytes; None if the section is missing or damaged.

    start  position of the section; None for the position in the footer, which is wrong if bytes were removed from the
           file or inserted into it
    """
    try:
        return _summary(read, size, start)
    except (struct.error, ValueError):
        return None


def is_closed_by(read: Read, size: int) -> bool:
    """Whether the writer closed the file: the file ends with the magic bytes, or with a footer if the magic bytes are
    damaged.
    """
    magic = read(max(0, size - len(MAGIC)), len(MAGIC))
    if magic == MAGIC and size > 2 * len(MAGIC):
        return True
    footer = _footer(read, size)
    return footer is not None and len(MAGIC) <= footer[0] < size


def _footer(read: Read, size: int) -> tuple[int, int] | None:
    """(start of the summary, CRC) from the footer; None if the file does not end with a footer."""
    start = size - len(MAGIC) - _FOOTER.size
    if start < len(MAGIC):
        return None
    opcode, length, summary_start, _, crc = _FOOTER.unpack(read(start, _FOOTER.size))
    if opcode != Opcode.FOOTER or length != _FOOTER.size - HEAD.size:
        return None
    return summary_start, crc


def _summary(read: Read, size: int, actual_start: int | None) -> Summary | None:
    footer = _footer(read, size)
    end = size - len(MAGIC) - 4  # the CRC covers everything up to itself
    if footer is None:
        return None
    start, crc = footer
    if actual_start is not None and start:
        start = actual_start
    if not len(MAGIC) <= (start or end) <= end:
        return None
    records = end - _FOOTER.size + 4  # end of the summary's records
    section = read(start or records, end - (start or records))
    if crc and zlib.crc32(section) != crc:
        return None
    found = Summary(start)
    schemas: dict[int, str] = {0: ""}
    position = 0
    while start and position < records - start:
        opcode, length = HEAD.unpack_from(section, position)
        content = section[position + HEAD.size : position + HEAD.size + length]
        position += HEAD.size + length
        if opcode == Opcode.SCHEMA:
            number, schemas[number] = schema_of(content)
        elif opcode == Opcode.CHANNEL:
            number, channel = channel_of(content, schemas)
            found.channels[number] = channel
        elif opcode == Opcode.STATISTICS:
            found.counts = dict(struct.iter_unpack("<HQ", content[_STATISTICS_BYTES:]))
    return found

"""Check records: what stood in a recording before this place, so that damage is found and counted.

A check record follows the file's metadata and each chunk. It is an MCAP record of an opcode that the format leaves to
applications, so readers that do not know it skip it. Its content:

    magic (8 bytes) | CRC-32 of the JSON (4) | length of the JSON (4) | JSON of `Check`

Magic and length stand in the content as well as in the record's head, so that a check record is found by searching for
it where the heads of records before it are damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import msgspec

OPCODE = 0x9A  # 0x80 .. 0xFF are for applications [mcap.dev/spec]
MAGIC = b"\x8aARMCHK\n"
COUNTED = {"sequence": "count"}  # metadata of a channel whose messages' `sequence` counts them, from 0
HEAD = struct.Struct("<BQ")  # of any MCAP record: opcode, length of the content
CHUNK = struct.Struct("<QQQII")  # first and last log time, size, CRC, length of the name of the compression
_FRAME = struct.Struct("<8sII")  # magic, CRC-32, length of the JSON
LARGEST_BYTES = 4 << 20


class ChannelCheck(msgspec.Struct, array_like=True):
    """One channel up to a place in the file.

    before           messages before the chunk
    count            messages in the chunk, the first of them of log time `first_ns`, the last of `last_ns`
    """

    id: int
    topic: str
    schema: str
    before: int = 0
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0

    @property
    def total(self) -> int:
        """Messages up to here."""
        return self.before + self.count


class Check(msgspec.Struct, omit_defaults=True):
    """What stands before this place.

    offset         of the chunk; 0 for the record at the file's beginning
    length         from there to this record
    frame_crc      CRC-32 of the chunk record without the messages, and of what stands between it and this record
    channels       all channels so far
    run_crc        of the run's metadata, see `metadata_crc`
    metadata       the run's metadata once more, in the record at the file's beginning
    """

    offset: int = 0
    length: int = 0
    frame_crc: int = 0
    channels: list[ChannelCheck] = []
    run_crc: int = 0
    metadata: dict[str, str] | None = None


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Check).decode


def encode_check(check: Check) -> bytes:
    """The whole record."""
    text = _encode(check)
    content = _FRAME.pack(MAGIC, zlib.crc32(text), len(text)) + text
    return HEAD.pack(OPCODE, len(content)) + content


def decode_check(data: bytes, start: int = 0) -> tuple[Check, int] | None:
    """The check whose magic is at `start`, and where it ends; None where it is damaged or not whole."""
    if len(data) - start < _FRAME.size:
        return None
    magic, crc, length = _FRAME.unpack_from(data, start)
    end = start + _FRAME.size + length
    if magic != MAGIC or length > LARGEST_BYTES or end > len(data):
        return None
    text = data[start + _FRAME.size : end]
    if zlib.crc32(text) != crc:
        return None
    try:
        return _decode(text), end
    except msgspec.DecodeError:
        return None


def metadata_crc(metadata: Mapping[str, str]) -> int:
    """CRC-32 of a run's metadata, whatever the order of its keys."""
    return zlib.crc32(_encode(dict(metadata)))


def chunk_head_bytes(content: bytes) -> int:
    """How many bytes of a chunk record's content stand before its messages. ValueError where that makes no sense."""
    (length,) = struct.unpack_from("<I", content, CHUNK.size - 4)
    if length > 16:
        raise ValueError("no name of a compression is that long")
    return int(CHUNK.size + length + 8)

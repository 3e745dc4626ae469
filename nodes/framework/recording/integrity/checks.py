"""Check records: message counts up to a position of a recording, by which readers find damage and missing messages.

A check record follows the file's metadata and each chunk. It is an MCAP record with an opcode that the format reserves
for applications, so other readers skip it. Its content:

    magic (8 bytes) | CRC-32 of the JSON (4) | length of the JSON (4) | JSON of `Check`

The content has its own magic and length, so that a search finds a check record even if the heads of earlier records are
damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import msgspec

OPCODE = 0x9A  # 0x80 .. 0xFF are reserved for applications [mcap.dev/spec]
MAGIC = b"\x8aARMCHK\n"
COUNTED = {"sequence": "count"}  # metadata of a channel whose messages' `sequence` counts them, from 0
HEAD = struct.Struct("<BQ")  # head of an MCAP record: opcode, length of the content
CHUNK = struct.Struct("<QQQII")  # chunk: first and last log time, size, CRC, length of the compression's name
_FRAME = struct.Struct("<8sII")  # magic, CRC-32, length of the JSON
LARGEST_BYTES = 4 << 20


class ChannelCheck(msgspec.Struct, array_like=True):
    """Numbers of messages of one channel in the chunk that precedes a check record, and before this chunk.

    before    number of messages before the chunk
    count     number of messages in the chunk
    first_ns  log time of the first message in the chunk
    last_ns   log time of the last message in the chunk
    lost      number of messages that did not reach the recorder while it wrote the chunk; `before` includes them
    """

    id: int
    topic: str
    schema: str
    before: int = 0
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """Number of messages up to the end of the chunk."""
        return self.before + self.count


class Check(msgspec.Struct, omit_defaults=True):
    """Content of a check record: message counts of all channels before the record's position in the file.

    offset     position of the chunk before the check record; 0 for the check record at the file's beginning
    length     number of bytes from `offset` to the check record
    frame_crc  CRC-32 of the chunk record without its messages, and of all records between the chunk record and the
               check record
    channels   counts of each channel so far
    run_crc    CRC-32 of the run's metadata
    metadata   second copy of the run's metadata, in the check record at the file's beginning
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
    """Bytes of the MCAP record with the given check: opcode, length and content."""
    text = _encode(check)
    content = _FRAME.pack(MAGIC, zlib.crc32(text), len(text)) + text
    return HEAD.pack(OPCODE, len(content)) + content


def decode_check(data: bytes, start: int = 0) -> tuple[Check, int] | None:
    """Decode the content of a check record, which begins with its magic bytes at the position `start` of `data`.

    Returns (content, position of its end), or None if the record is damaged or incomplete.
    """
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
    """CRC-32 of a run's metadata, independent of the order of the keys."""
    return zlib.crc32(_encode(dict(metadata)))


def chunk_head_bytes(content: bytes) -> int:
    """Number of bytes before the messages in the content of a chunk record.

    Raises ValueError if these bytes, the head of the chunk, are invalid.
    """
    (length,) = struct.unpack_from("<I", content, CHUNK.size - 4)
    if length > 16:
        raise ValueError(f"damaged chunk: its compression name has {length} bytes, at most 16 are possible")
    return int(CHUNK.size + length + 8)

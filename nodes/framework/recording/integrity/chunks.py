"""Decoding of a chunk record: its messages, and the schemas and channels that it defines."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import lz4.frame
import zstandard
from mcap.exceptions import McapError, UnsupportedCompressionError
from mcap.opcode import Opcode

from nodes.framework.recording.integrity.checks import CHUNK, HEAD, chunk_head_bytes
from nodes.framework.recording.integrity.records import channel_of, schema_of

MAX_RECORD_BYTES = 128 << 20
MAX_INFLATED_BYTES = 64 << 20  # of a compressed chunk, whose size in the file is no limit
MAX_RECORDS = 1_000_000  # in a chunk
MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time

RawMessage = tuple[int, int, int, bytes]  # channel, sequence, log time in ns, payload


class Chunk(NamedTuple):
    """Content of a chunk: its messages, and its schema and channel records as (opcode, content), in file order."""

    messages: list[RawMessage]
    definitions: list[tuple[int, bytes]]


def decode_chunk(content: bytes, is_checked: bool) -> Chunk | None:
    """Content of a chunk record; None for a damaged chunk.

    is_checked  whether the chunk must have a checksum; in a file of another writer it may be 0
    Raises UnsupportedCompressionError for an intact chunk whose compression is unknown.
    """
    try:
        size_of_head = chunk_head_bytes(content)
        _, _, size, crc, _ = CHUNK.unpack_from(content)
        compression = content[CHUNK.size : size_of_head - 8].decode()
        (length,) = struct.unpack_from("<Q", content, size_of_head - 8)
        if length != len(content) - size_of_head or size > (MAX_INFLATED_BYTES if compression else MAX_RECORD_BYTES):
            return None
        if compression not in ("", "lz4", "zstd"):
            raise UnsupportedCompressionError(compression)
        data = content[size_of_head:]
        if compression:
            data = decompressed(compression, data, size)
        if (crc or is_checked) and zlib.crc32(data) != crc:
            return None
        return _records(data)
    except UnsupportedCompressionError:
        if content[CHUNK.size : chunk_head_bytes(content) - 8] in (b"lz4", b"zstd"):
            raise
        return None
    except (struct.error, ValueError, RuntimeError, MemoryError, EOFError, McapError, OSError):
        return None
    except Exception as error:  # exceptions of the decompressors have no common base class
        if type(error).__module__.partition(".")[0] in ("zstandard", "lz4"):
            return None
        raise


def _records(data: bytes) -> Chunk:
    """Records of a decompressed chunk. Raises ValueError or struct.error for damaged records."""
    found = Chunk([], [])
    messages = found.messages
    position, size = 0, len(data)
    for _ in range(MAX_RECORDS):
        if position >= size:
            return found
        opcode, length = HEAD.unpack_from(data, position)
        start = position + HEAD.size
        position = start + length
        if position > size or not opcode:
            raise ValueError(f"damaged chunk: the record at byte {start} of {size} has type {opcode}, {length} bytes")
        if opcode == Opcode.MESSAGE:
            channel, sequence, log_time, _ = MESSAGE.unpack_from(data, start)
            messages.append((channel, sequence, log_time, data[start + MESSAGE.size : position]))
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
            content = data[start:position]
            if opcode == Opcode.SCHEMA:
                schema_of(content)
            else:
                channel_of(content, {})
            found.definitions.append((opcode, content))
    raise ValueError(f"damaged chunk: it has more than {MAX_RECORDS} records")


def decompressed(compression: str, data: bytes, size: int) -> bytes:
    """Content of a compressed chunk; at most size + 1 bytes of it, because the stated size may be wrong.

    The function of the MCAP library has no limit.
    """
    if compression == "lz4":
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1))
    return zstandard.ZstdDecompressor().stream_reader(data).read(size + 1)

"""Parses the contents of the MCAP records that a recording uses: schemas, channels, metadata."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from nodes.framework.recording.integrity.checks import COUNTED

LARGEST_METADATA = 10_000_000  # bytes of a metadata record


@dataclass(slots=True)
class Channel:
    """A topic of the file, with the numbers of messages read and messages missing so far in a scan of the file.

    counted     whether the field `sequence` numbers the messages of the channel consecutively
    expected    value of `sequence` that the channel's next message must have
    read        number of messages read from this channel
    last_s      log time of the latest message read from this channel, s; None if there is none
    damaged     number of messages of this channel that were lost in damaged parts of the file
    counted_at  place in the scan up to which each message of this channel is known to be read or missing; the place is
                given as the number of messages that the scan had read from all channels
    encoding    encoding of the messages; "json" in recordings of armswing
    """

    topic: str
    schema: str
    counted: bool
    expected: int = 0
    read: int = 0
    damaged: int = 0
    counted_at: int = 0
    encoding: str = "json"
    last_s: float | None = None


def schema_of(content: bytes) -> tuple[int, str]:
    """(number, name) of a schema record. Raises ValueError for invalid content."""
    (number,) = struct.unpack_from("<H", content)
    return number, text_at(content, 2)[0]


def text_at(content: bytes, start: int) -> tuple[str, int]:
    """(length-prefixed text at `start`, position after the text). Raises ValueError if the text exceeds the record."""
    (length,) = struct.unpack_from("<I", content, start)
    end = start + 4 + length
    if end > len(content):
        raise ValueError("damaged record: a text in it is longer than the record")
    return content[start + 4 : end].decode(), end


def texts_at(content: bytes, start: int) -> tuple[dict[str, str], int]:
    """(dictionary of texts at `start`, position after the dictionary)."""
    (length,) = struct.unpack_from("<I", content, start)
    position, end = start + 4, start + 4 + length
    found = {}
    while position < end:
        key, position = text_at(content, position)
        found[key], position = text_at(content, position)
    return found, position


def metadata_of(content: bytes) -> tuple[str, dict[str, str]]:
    """(name, content) of a metadata record. Raises ValueError if name and content do not fill the record exactly."""
    if len(content) > LARGEST_METADATA:
        raise ValueError(f"a metadata record has more than {LARGEST_METADATA} bytes")
    name, position = text_at(content, 0)
    found, end = texts_at(content, position)
    if end != len(content):
        raise ValueError("damaged metadata record: its entries do not end where the record ends")
    return name, found


def has_schema(content: bytes) -> bool:
    """Whether a channel record refers to a schema; the schema number 0 stands for "no schema"."""
    return bool(struct.unpack_from("<HH", content)[1])


def channel_of(content: bytes, schemas: Mapping[int, str]) -> tuple[int, Channel]:
    """(number, channel) of a channel record. Raises ValueError for invalid content.

    schemas  {schema number: name}
    """
    number, schema = struct.unpack_from("<HH", content)
    topic, position = text_at(content, 4)
    encoding, position = text_at(content, position)
    metadata, end = texts_at(content, position)
    if end != len(content):
        raise ValueError("damaged channel record: its fields do not end where the record ends")
    counted = metadata.items() >= COUNTED.items()
    return number, Channel(topic, schemas.get(schema, ""), counted, encoding=encoding)

"""Parses the contents of the MCAP records that a recording uses: schemas, channels, metadata."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from nodes.recording.integrity.checks import COUNTED


@dataclass(slots=True)
class Channel:
    """A topic of the file, with the numbers of its messages that were read and that are missing so far.

    counted   whether the field `sequence` of a message counts the channel's messages
    expected  `sequence` expected of the next message
    read      number of messages read
    damaged   number of messages missing in damaged parts
    seen_at   number of messages read from the file when this channel was last known to be complete
    """

    topic: str
    schema: str
    counted: bool
    expected: int = 0
    read: int = 0
    damaged: int = 0
    seen_at: int = 0


def schema_of(content: bytes) -> tuple[int, str]:
    """(number, name) of a schema record. ValueError for invalid content."""
    (number,) = struct.unpack_from("<H", content)
    return number, text_at(content, 2)[0]


def text_at(content: bytes, start: int) -> tuple[str, int]:
    """(length-prefixed text at `start`, position after it). ValueError where the text exceeds the record."""
    (length,) = struct.unpack_from("<I", content, start)
    end = start + 4 + length
    if end > len(content):
        raise ValueError("a text is longer than its record")
    return content[start + 4 : end].decode(), end


def texts_at(content: bytes, start: int) -> tuple[dict[str, str], int]:
    """(dictionary of texts at `start`, position after it)."""
    (length,) = struct.unpack_from("<I", content, start)
    position, end = start + 4, start + 4 + length
    found = {}
    while position < end:
        key, position = text_at(content, position)
        found[key], position = text_at(content, position)
    return found, position


def metadata_of(content: bytes) -> tuple[str, dict[str, str]]:
    """(name, content) of a metadata record. ValueError where they do not fill the record exactly."""
    name, position = text_at(content, 0)
    found, end = texts_at(content, position)
    if end != len(content):
        raise ValueError("the entries of a metadata record do not end where the record ends")
    return name, found


def has_schema(content: bytes) -> bool:
    """Whether a channel record refers to a schema; the number 0 stands for none."""
    return bool(struct.unpack_from("<HH", content)[1])


def channel_of(content: bytes, schemas: Mapping[int, str]) -> tuple[int, Channel]:
    """(number, channel) of a channel record. ValueError for invalid content.

    schemas  {schema number: name}
    """
    number, schema = struct.unpack_from("<HH", content)
    topic, position = text_at(content, 4)
    _, position = text_at(content, position)
    metadata, end = texts_at(content, position)
    if end != len(content):
        raise ValueError("the fields of a channel record do not end where the record ends")
    counted = metadata.items() >= COUNTED.items()
    return number, Channel(topic, schemas.get(schema, ""), counted)

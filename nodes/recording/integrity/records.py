"""Contents of MCAP records, as far as a recording needs them: schemas, channels, metadata."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from nodes.recording.integrity.checks import COUNTED


@dataclass(slots=True)
class Channel:
    """A topic of the file, and how many of its messages were read and lost so far.

    counted   whether `sequence` counts its messages
    expected  the sequence of its next message
    seen_at   how many messages of the file had been read when it was last known to be whole
    """

    topic: str
    schema: str
    counted: bool
    expected: int = 0
    read: int = 0
    damaged: int = 0
    seen_at: int = 0


def schema_of(content: bytes) -> tuple[int, str]:
    """Number and name of a schema record. ValueError where it does not fit."""
    (number,) = struct.unpack_from("<H", content)
    return number, text_at(content, 2)[0]


def text_at(content: bytes, start: int) -> tuple[str, int]:
    """A text with its length before it, and where it ends. ValueError where it does not fit."""
    (length,) = struct.unpack_from("<I", content, start)
    end = start + 4 + length
    if end > len(content):
        raise ValueError("a text is longer than its record")
    return content[start + 4 : end].decode(), end


def texts_at(content: bytes, start: int) -> tuple[dict[str, str], int]:
    """A dictionary of texts, and where it ends."""
    (length,) = struct.unpack_from("<I", content, start)
    position, end = start + 4, start + 4 + length
    found = {}
    while position < end:
        key, position = text_at(content, position)
        found[key], position = text_at(content, position)
    return found, position


def metadata_of(content: bytes) -> tuple[str, dict[str, str]]:
    """Name and content of a metadata record. ValueError where it does not fit its length."""
    name, position = text_at(content, 0)
    found, end = texts_at(content, position)
    if end != len(content):
        raise ValueError("metadata does not fit its record")
    return name, found


def channel_of(content: bytes, schemas: Mapping[int, str]) -> tuple[int, Channel]:
    """Number of a channel record, and the channel; `schemas` has their names. ValueError where it does not fit."""
    number, schema = struct.unpack_from("<HH", content)
    topic, position = text_at(content, 4)
    _, position = text_at(content, position)
    metadata, end = texts_at(content, position)
    if end != len(content):
        raise ValueError("a channel does not fit its record")
    counted = metadata.items() >= COUNTED.items()
    return number, Channel(topic, schemas.get(schema, ""), counted)

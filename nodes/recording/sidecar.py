"""The sidecar of a recording: what differs between equal runs, as JSON with a checksum."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from nodes.recording.places import sidecar_path

FORMAT, CHECKSUM = "format", "crc32"  # the checksum is of all else, as JSON with sorted keys


def encode_sidecar(sidecar: Mapping[str, Any]) -> bytes:
    """The file's content."""
    content = {FORMAT: 2, **sidecar}
    return msgspec.json.format(msgspec.json.encode({**content, CHECKSUM: _checksum(content)}), indent=2) + b"\n"


def read_sidecar(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Versions, host and wall-clock times of a recording's run; None where the file travelled without, or is damaged.

    One of an earlier version has no checksum, and is read as it is.
    """
    try:
        found = msgspec.json.decode(sidecar_path(path).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    if FORMAT in found or CHECKSUM in found:  # one of them, where the name of the other is damaged
        checksum = found.pop(CHECKSUM, None)
        if checksum != _checksum(found):
            return None
        found.pop(FORMAT, None)
    return found


def sidecar_is_damaged(path: str | os.PathLike[str]) -> bool:
    """Whether there is a sidecar that cannot be read."""
    return sidecar_path(path).is_file() and read_sidecar(path) is None


def _checksum(content: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(msgspec.json.encode(dict(content), order='deterministic')):08x}"

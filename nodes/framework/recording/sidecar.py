"""The sidecar file of a recording: data that differ between equal runs, as JSON with a checksum."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.recording.places import sidecar_path
from sim_core.support.limited import read_limited

LARGEST_BYTES = 1_000_000  # of a sidecar file
FORMAT, CHECKSUM = "format", "crc32"  # the checksum covers all other keys, as JSON with sorted keys


def encode_sidecar(sidecar: Mapping[str, Any]) -> bytes:
    """Contents of a sidecar file, with format number and checksum."""
    content = {FORMAT: 2, **sidecar}
    return msgspec.json.format(msgspec.json.encode({**content, CHECKSUM: _checksum(content)}), indent=2) + b"\n"


def read_sidecar(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Versions, host and wall-clock times of a recording's run; None if the sidecar file is missing or damaged.

    A sidecar of format 1 has no checksum and is returned as it is.
    """
    try:
        found = msgspec.json.decode(read_limited(sidecar_path(path), LARGEST_BYTES), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if FORMAT in found or CHECKSUM in found:  # either one: the other key's name may be damaged
        checksum = found.pop(CHECKSUM, None)
        if checksum != _checksum(found):
            return None
        found.pop(FORMAT, None)
    return found


def folders_of(path: str | os.PathLike[str]) -> list[Path]:
    """Folders in which the files of a recording's plan are searched for.

    These are the working folder, the recording's folder, and the folders of the launch plan and of the robot file that
    the sidecar names.
    """
    sidecar = read_sidecar(path) or {}
    elsewhere = str(sidecar.get("robot_file", "")).rpartition("/")[0]
    return [Path.cwd(), Path(path).parent, *(Path(each) for each in (sidecar.get("plan_folder"), elsewhere) if each)]


def sidecar_is_damaged(path: str | os.PathLike[str]) -> bool:
    """Whether a recording has a sidecar file that is damaged: one that is not JSON, or has a wrong checksum."""
    return sidecar_path(path).is_file() and read_sidecar(path) is None


def _checksum(content: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(msgspec.json.encode(dict(content), order='deterministic')):08x}"

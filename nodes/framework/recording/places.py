"""Paths of a recording, of its sidecar file and of the previous recording."""

from __future__ import annotations

import os
from pathlib import Path

MAGIC = b"\x89MCAP0\r\n"  # at the beginning, and at the end of a file that was closed


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Path of a recording's sidecar file."""
    return Path(f"{os.fspath(path)}.sidecar.json")


def part_path(path: str | os.PathLike[str]) -> Path:
    """Path at which a recording is written before it is renamed to `path`."""
    return Path(path).with_name(f".{Path(path).name}.part")


def before_path(path: str | os.PathLike[str]) -> Path:
    """Path to which the previous recording is renamed: run.before.mcap for run.mcap."""
    return Path(path).with_name(f"{Path(path).stem}.before{Path(path).suffix}")


def keep_before(target: Path, sidecar: Path) -> None:
    """Keep the last run's recording at `target` as `before_path(target)`, so that a new run can record to `target`.

    The recording and its sidecar file are renamed. Files that already have the new names are replaced.
    """
    if target.is_file() and target.stat().st_size:
        before = before_path(target)
        sidecar_path(before).unlink(missing_ok=True)  # first: a kill in between must not leave another run's sidecar
        target.replace(before)
        if sidecar.is_file():
            sidecar.replace(sidecar_path(before))
    sidecar.unlink(missing_ok=True)


def is_closed(path: str | os.PathLike[str]) -> bool:
    """Whether a recording was closed: a closed file ends with the magic bytes."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 2 * len(MAGIC):
            return False
        file.seek(-len(MAGIC), os.SEEK_END)
        return bool(file.read() == MAGIC)

"""Where a recording, its sidecar and the recording before it stand."""

from __future__ import annotations

import os
from pathlib import Path

MAGIC = b"\x89MCAP0\r\n"  # at the beginning and, of a file that was closed, at the end


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Where the sidecar of a recording stands."""
    return Path(f"{os.fspath(path)}.sidecar.json")


def part_path(path: str | os.PathLike[str]) -> Path:
    """Where a recording is written until it is worth taking the place of what stands at `path`."""
    return Path(path).with_name(f".{Path(path).name}.part")


def before_path(path: str | os.PathLike[str]) -> Path:
    """Where the recording that stood at `path` is kept when another takes its place: run.before.mcap of run.mcap."""
    return Path(path).with_name(f"{Path(path).stem}.before{Path(path).suffix}")


def keep_before(target: Path, sidecar: Path) -> None:
    """Make room at `target`: what stands there becomes the one before, in place of an older one, with its sidecar."""
    if target.is_file() and target.stat().st_size:
        before = before_path(target)
        sidecar_path(before).unlink(missing_ok=True)  # first: a kill in between leaves no sidecar of another run
        target.replace(before)
        if sidecar.is_file():
            sidecar.replace(sidecar_path(before))
    sidecar.unlink(missing_ok=True)


def is_closed(path: str | os.PathLike[str]) -> bool:
    """Whether a recording was closed: it ends with the magic bytes that are written last."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 2 * len(MAGIC):
            return False
        file.seek(-len(MAGIC), os.SEEK_END)
        return bool(file.read() == MAGIC)


def known_until(path: str | os.PathLike[str]) -> str:
    """ "t = 3.200 s": the time of the last message of a recording that was cut off."""
    from nodes.recording.reader import RecordingError, RecordingFile

    try:
        last_ns = [recorded.time_ns for recorded in RecordingFile(path)][-1:]
    except RecordingError:
        last_ns = []
    return f"t = {last_ns[0] / 1e9:.3f} s" if last_ns else "its beginning"


def last_time(path: str | os.PathLike[str], topic: str) -> float:
    """Simulation time of the last message of a topic in a recording, whole or not; 0.0 where there is none."""
    from nodes.recording.reader import RecordingError, RecordingFile

    latest = 0
    try:
        for recorded in RecordingFile(path):
            if recorded.topic == topic:
                latest = max(latest, recorded.time_ns)
    except (OSError, RecordingError):
        pass
    return latest * 1e-9

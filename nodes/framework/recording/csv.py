"""Export of a recording to CSV: one file per topic, one column per number, joint names in the headings."""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from numpy.typing import NDArray

from nodes.framework.recording.columns import labelled
from nodes.framework.recording.integrity.holes import Hole
from nodes.framework.recording.new_file import new_file
from nodes.framework.recording.reader import Recording

HOLES = "holes.csv"
EXACT_NS = 2**53  # largest time (ns) up to which a time in s as a float keeps all ns
LONGEST_NAME = 200  # bytes


def export_csv(recording: Recording, folder: str | os.PathLike[str]) -> list[Path]:
    """Write `<folder>/<topic with dots>.csv` for each topic; returns the paths written. Creates the folder if missing.

    Dots of a topic and characters that a file name cannot have are written as in a URL: "arm.joint" as arm%2Ejoint.csv.

    A vector field becomes one column per vector entry. The heading is "position[arm]" if the messages name the entries
    and the names are the same in all messages, otherwise "position[0]". NaN is written as an empty cell, and any
    value other than a number or text as JSON. If messages are missing, `<folder>/holes.csv` lists them.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = _write_holes(recording.holes, target / HOLES)
    names = {HOLES.removesuffix(".csv")}
    for topic, fields in recording.items():
        name = _file_name(topic, names)
        names.add(name)
        path = target / f"{name}.csv"
        headings, series = zip(*labelled(fields), strict=True)
        with new_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(headings)
            cells = [_cells(values) for values in series]
            if fields.log_time_ns is not None and fields.log_time_ns.max() > EXACT_NS:
                cells[0] = [f"{time_ns // 10**9}.{time_ns % 10**9:09d}" for time_ns in fields.log_time_ns.tolist()]
            writer.writerows(zip(*cells, strict=True))
        written.append(path)
    return written


def _file_name(topic: str, taken: Collection[str]) -> str:
    """Name of a topic's table without ".csv"; none of those in `taken`, and not hidden.

    A leading slash is left out unless the name is taken. A name that is too long is cut, with a checksum of the topic.
    """
    parts = topic.strip("/").split("/")
    name = ".".join(map(_quoted, parts))
    if not all(parts) or name in taken:
        name = "%2F".join(map(_quoted, topic.split("/"))) or "%"
        name = f"%{name}" if name in taken else name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = f"{os.fsencode(name)[:LONGEST_NAME].decode(errors='ignore')}%{zlib.crc32(topic.encode()):08x}"
    return name


def _quoted(part: str) -> str:
    """A part of a topic with dots, percent signs and characters that cannot be printed as in a URL."""
    quoted = "".join(char if char.isprintable() and char != "%" else quote(char, safe="") for char in part)
    return quoted.replace(".", "%2E")


def _write_holes(holes: Sequence[Hole], path: Path) -> list[Path]:
    """Write a file with one row for each hole (missing messages) and topic, and return its path.

    If there are no holes, remove the file that an earlier export wrote to `path`, and return [].
    """
    if not holes:
        path.unlink(missing_ok=True)
        return []
    with new_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("start_s", "end_s", "cause", "topic", "messages"))
        for hole in holes:
            for topic, count in hole.messages.items() or [("", "")]:
                writer.writerow((hole.start_s, hole.end_s, hole.cause, topic, count))
    return [path]


def _cells(values: NDArray[Any]) -> list[Any]:
    if values.dtype == object:
        return [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in values]
    if values.dtype.kind == "f":
        return ["" if value != value else value for value in values.tolist()]
    return list(values.tolist())

"""Export of a recording to CSV: one file per topic, one column per number, joint names in the headings."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from nodes.recording.columns import labelled
from nodes.recording.integrity.holes import Hole
from nodes.recording.new_file import new_file
from nodes.recording.reader import Recording

HOLES = "holes.csv"


def export_csv(recording: Recording, folder: str | os.PathLike[str]) -> list[Path]:
    """Write `<folder>/<topic with dots>.csv` for each topic; returns the paths written. Creates the folder if missing.

    A vector field becomes one column per vector entry. The heading is "position[arm]" if the messages name the entries
    and the names are the same in all messages, otherwise "position[0]". NaN is written as an empty cell, and any
    value other than a number or text as JSON. If messages are missing, `<folder>/holes.csv` lists them.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = _write_holes(recording.holes, target / HOLES)
    for topic, fields in recording.items():
        path = target / f"{topic.replace('/', '.')}.csv"
        headings, series = zip(*labelled(fields), strict=True)
        with new_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(headings)
            writer.writerows(zip(*map(_cells, series), strict=True))
        written.append(path)
    return written


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

"""The folder of a sweep: its definition (`sweep.json`), and one line per finished cell (`cells.jsonl`).

A cell is one run of the sweep. Its line is a row with the results of the run.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.recording.new_file import write_file
from nodes.research.journal import Journal, read_lines
from nodes.research.sweeps.cells import Row
from nodes.research.sweeps.design import Sweep, SweepError, changed_files, is_same
from sim_core.support.limited import read_limited

MARKER, JOURNAL = "sweep.json", "cells.jsonl"
LARGEST_BYTES = 10_000_000  # of MARKER
CHECK = "crc32"  # key of the checksum in MARKER


class SweepJournal(Journal[Row]):
    """The open journal of a sweep's folder, with rows of results of the finished cells (runs).

    If a cell has several rows, the last one is valid.

    rows  {number of a cell: its row of results} of all finished cells
    """

    def __init__(self, folder: Path) -> None:
        busy = f"{folder}: another process is running this sweep now; wait until that process has ended"
        super().__init__(folder / JOURNAL, Row, busy)
        self.rows = {row.cell: row for row in self.lines}

    def add(self, row: Row) -> None:
        """Write a row at once, so that the row is kept even if this process is killed."""
        super().add(row)
        self.rows[row.cell] = row


def read_sweep(folder: Path) -> Sweep:
    """Read the sweep of a folder. Raises SweepError with a one-line message if the folder has no valid sweep."""
    if not folder.is_dir():
        raise SweepError(f"no folder {str(folder)!r}")
    try:
        plain = msgspec.json.decode(read_limited(folder / MARKER, LARGEST_BYTES), type=dict[str, Any])
        check = plain.pop(CHECK, None)
        sweep = msgspec.convert(plain, Sweep)
    except FileNotFoundError:
        raise SweepError(
            f"{str(folder)!r} holds no sweep, because it has no {MARKER}; name the folder of a sweep"
        ) from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SweepError(
            f"{folder / MARKER} is not a sweep that this version can read: {error}; begin a new one"
        ) from None
    if check != _checksum(sweep):
        raise SweepError(f"{folder / MARKER} is damaged: its content does not have its checksum; begin a new sweep")
    return sweep


def _checksum(sweep: Sweep) -> str:
    return f"{zlib.crc32(msgspec.json.encode(sweep)):08x}"


def read_rows(folder: Path) -> dict[int, Row]:
    """Return {number of a cell: its row of results} of the finished cells (runs) of the sweep in a folder."""
    path = folder / JOURNAL
    return {row.cell: row for row in read_lines(path, Row)} if path.exists() else {}


def claim(folder: Path, sweep: Sweep, accept_changes: bool = False) -> list[str]:
    """Prepare a folder for a sweep. The folder is new or already has the same sweep.

    The parameters, the result and the errors are those of `check_folder`.
    """
    changed = check_folder(folder, sweep, accept_changes)
    if not (folder / MARKER).exists():
        folder.mkdir(exist_ok=True)
        plain = {**msgspec.to_builtins(sweep), CHECK: _checksum(sweep)}
        write_file(folder / MARKER, msgspec.json.format(msgspec.json.encode(plain)) + b"\n")
    return changed


def check_folder(folder: Path, sweep: Sweep, accept_changes: bool = False) -> list[str]:
    """Check that a folder can have a sweep: it is new, empty, or already has the same sweep. Nothing is written.

    Returns the names of files that changed since the sweep in this folder began. Raises SweepError with a one-line
    message if the folder has other content.

    accept_changes  whether the sweep may continue although files changed; otherwise a change raises SweepError
    """
    where = str(folder)
    if folder.exists() and not folder.is_dir():
        raise SweepError(f"--output {where!r} is a file; name a folder")
    if not folder.absolute().parent.is_dir():
        raise SweepError(f"--output {where!r}: there is no folder {str(folder.absolute().parent)!r}; create it first")
    if not folder.is_dir() or not any(folder.iterdir()):
        return []
    if not (folder / MARKER).exists():
        raise SweepError(f"--output {where!r} holds other files and no sweep; name an empty or a new folder")
    before = read_sweep(folder)
    if not is_same(before, sweep):
        raise SweepError(f"--output {where!r} holds another sweep, {difference(before, sweep)}; name another folder")
    changed = changed_files(before, sweep)
    if changed and not accept_changes:
        raise SweepError(
            f"{where!r}: {', '.join(changed)} changed since this sweep began, so new rows would not fit the old ones; "
            "begin a new sweep in another folder, or use --retry-failed, which accepts the changes and runs the failed "
            "cells again"
        )
    return changed


def difference(before: Sweep, now: Sweep) -> str:
    """Describe the sweep `before` by its first property that differs from the sweep `now`, such as "with --repeat 3".

    A message has this text after the words "another sweep".
    """
    if before.launch != now.launch:
        return f"of {before.launch}"
    if before.axes != now.axes:
        return f"over {'; '.join(axis.text() for axis in before.axes)}"
    for name, what in (("repeat", "--repeat"), ("seconds", "--seconds")):
        if (value := getattr(before, name)) != getattr(now, name):
            return f"with {what} {value:g}"
    if before.arguments != now.arguments or before.sets != now.sets:
        return f"with {' '.join([*before.arguments, *(f'--set {each}' for each in before.sets)]) or 'no --set'}"
    return "of an earlier content of the launch file, or of another version of armswing"

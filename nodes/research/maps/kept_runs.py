"""File of the finished runs of a stability map, so that an interrupted map continues instead of beginning anew."""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from pathlib import Path

import msgspec
import numpy as np

from nodes.framework.plan.launch_plan import Plan
from nodes.research.sweeps.checked_lines import append
from nodes.research.sweeps.design import files_of
from sim_core.errors import InvalidRequest

Array = np.ndarray
TITLE = b"armswing map "


class KeptRunsError(InvalidRequest):
    """Raised if the file of a stability map cannot be used. The message is one line for the user."""


class KeptRuns:
    """Context manager for the file of a stability map: a line that identifies the map, then one record per finished
    run.

    A record has the number of the run, `width` results and the CRC-32 of both, as 8-byte floats. Records are only
    appended; an incomplete last record, left by a killed process, is removed. No other process can have the file open
    at the same time.

    rows  (n, width) results of the runs; nan in runs that are not finished
    done  (n,) whether each run is finished
    """

    def __init__(self, path: Path, identity: str, runs: int, width: int) -> None:
        self.path = path
        head = TITLE + f"{identity}\n".encode()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise KeptRunsError(f"{path}: another process is making this map now; wait until it has ended") from None
        content = path.read_bytes()
        without_runs = content.startswith(TITLE) and content.find(b"\n") in (-1, len(content) - 1)
        if not content or without_runs:
            os.ftruncate(self._file, 0)
            os.write(self._file, head)
            content = head
        if not content.startswith(head):
            os.close(self._file)
            raise KeptRunsError(
                f"{path} has the runs of another map, with other options, another launch file or other code; name "
                "another --output, or remove this file"
            )
        size = 8 * (width + 2)
        whole = (len(content) - len(head)) // size
        os.ftruncate(self._file, len(head) + whole * size)
        records = np.frombuffer(content, count=whole * (width + 2), offset=len(head)).reshape(whole, width + 2)
        self.rows, self.done = np.full((runs, width), np.nan), np.zeros(runs, dtype=bool)
        for k, record in enumerate(records):
            if record[-1] != zlib.crc32(record[:-1].tobytes()):
                os.close(self._file)
                raise KeptRunsError(
                    f"{path} is damaged: its run {k + 1} does not have its checksum; remove this file, so that all "
                    "runs of the map are repeated"
                )
        numbers = records[:, 0].astype(int)
        self.rows[numbers], self.done[numbers] = records[:, 1:-1], True

    def add(self, number: int, row: Array) -> None:
        """Write the results of a run at once, so that they are kept even if this process is killed."""
        content = np.concatenate([[float(number)], row]).tobytes()
        append(self._file, content + np.float64(zlib.crc32(content)).tobytes())
        self.rows[number], self.done[number] = row, True

    def __enter__(self) -> KeptRuns:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def identity_of(plan: Plan, steps: int, *arrays: Array) -> str:
    """Hash of all that the runs of a stability map depend on: plan, code, number of steps and initial states.

    arrays  initial states q and v, and the reference attitudes if there are any
    """
    parts = [msgspec.json.encode([plan, files_of(plan), steps]), *(array.tobytes() for array in arrays)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]

"""File of the finished runs of a stability map, so that an interrupted map continues instead of beginning anew."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np

from nodes.framework.plan.launch_plan import Plan
from nodes.research.journal import Journal, JournalError
from nodes.research.sweeps.design import files_of

Array = np.ndarray


class KeptRun(msgspec.Struct, frozen=True):
    """A finished run of a stability map.

    map      hash of all that the runs of the map depend on
    number   index of the run
    results  results of the run, as 8-byte floats
    """

    map: str
    number: int
    results: bytes


class KeptRuns(Journal[KeptRun]):
    """Journal of a stability map: one line per finished run, which also identifies the map.

    rows  (n, width) results of the runs; nan in runs that are not finished
    done  (n,) whether each run is finished
    """

    def __init__(self, path: Path, identity: str, runs: int, width: int) -> None:
        self.identity = identity
        head = msgspec.json.encode(KeptRun(identity, 0, b"")).partition(b',"number"')[0]
        if path.exists() and not head.startswith(path.read_bytes()[: len(head)]):
            raise JournalError(
                f"{path} has the runs of another map, with other options, another launch file or other code; name "
                "another --output, or remove this file"
            )
        super().__init__(path, KeptRun, f"{path}: another process is making this map now; wait until it has ended")
        self.rows, self.done = np.full((runs, width), np.nan), np.zeros(runs, dtype=bool)
        for line in self.lines:
            self.rows[line.number], self.done[line.number] = np.frombuffer(line.results), True

    def keep(self, number: int, row: Array) -> None:
        """Write the results of a run."""
        self.add(KeptRun(self.identity, number, row.tobytes()))
        self.rows[number], self.done[number] = row, True


def identity_of(plan: Plan, steps: int, *arrays: Array) -> str:
    """Hash of all that the runs of a stability map depend on: plan, code, number of steps and initial states.

    arrays  initial states q and v, and the reference attitudes if there are any
    """
    parts = [msgspec.json.encode([plan, files_of(plan), steps]), *(array.tobytes() for array in arrays)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]

"""The work of a sweep's worker processes, which run cells (runs of the sweep).

If the process of a cell ends early, the row of the cell in the sweep's results has the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodes.research.sweeps.cells import CRASHED, HUNG, Row, run_cell
from nodes.research.sweeps.design import Cell, Sweep
from nodes.research.workers import Loss, Pool


class CellTask(NamedTuple):
    """A cell (one run of the sweep) to carry out.

    recording  path of the recording to write; "" if no recording is written
    """

    cell: Cell
    recording: str = ""


@dataclass(frozen=True)
class CellJob:
    """Job for worker processes: running the cells (runs) of a sweep."""

    sweep: Sweep

    def encode(self, task: CellTask) -> bytes:
        """Encode a cell (run of the sweep) as bytes."""
        return _encoder.encode(tuple(task))

    def do(self, task: bytes) -> bytes:
        """Run an encoded cell (run of the sweep), and return its row of results as bytes."""
        cell, recording = _tasks.decode(task)
        return _encoder.encode(run_cell(self.sweep, cell, Path(recording) if recording else None))

    def decode(self, result: bytes) -> Row:
        """Decode a row of results from bytes."""
        return _rows.decode(result)

    def lost(self, task: CellTask, loss: Loss) -> Row:
        """Row of results of a cell (run of the sweep) whose process ended or was killed.

        The result is "crashed", or "hung" if the process was killed after the time limit.
        """
        result = HUNG if loss.hung else CRASHED
        return Row(cell=task.cell.number, seed=task.cell.seed, result=result, reason=loss.reason, wall_s=loss.wall_s)


def run_alone(
    sweep: Sweep, number: int, limit_s: float, poll: Callable[[], None], recording: Path | None = None
) -> Row:
    """Run one cell (run of the sweep) in a separate process, and return its row of results.

    poll  function called several times a second; it may raise an exception to stop the cell
    """
    task = CellTask(sweep.cell(number), "" if recording is None else str(recording))
    with Pool(CellJob(sweep), 1, limit_s) as pool:
        return next(row for _, row in pool.results([task], poll))


_encoder = msgspec.json.Encoder()
_rows = msgspec.json.Decoder(Row)
_tasks = msgspec.json.Decoder(tuple[Cell, str])

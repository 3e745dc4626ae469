"""What the worker processes of a sweep do: they run its cells, and a lost cell is a row that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodes.sweeps.cells import CRASHED, HUNG, Row, run_cell
from nodes.sweeps.design import Cell, Sweep
from nodes.workers import Loss, Pool


class CellTask(NamedTuple):
    """A cell to run, and the path of a recording to write, "" for none."""

    cell: Cell
    recording: str = ""


@dataclass(frozen=True)
class CellJob:
    """The cells of a sweep, as a job of worker processes."""

    sweep: Sweep

    def encode(self, task: CellTask) -> bytes:
        """A cell as bytes."""
        return _encoder.encode(tuple(task))

    def do(self, task: bytes) -> bytes:
        """Run a cell; its row as bytes."""
        cell, recording = _tasks.decode(task)
        return _encoder.encode(run_cell(self.sweep, cell, Path(recording) if recording else None))

    def decode(self, result: bytes) -> Row:
        """A row from its bytes."""
        return _rows.decode(result)

    def lost(self, task: CellTask, loss: Loss) -> Row:
        """Row of a cell whose process ended, which says "crashed" or "hung"."""
        result = HUNG if loss.hung else CRASHED
        return Row(cell=task.cell.number, seed=task.cell.seed, result=result, reason=loss.reason, wall_s=loss.wall_s)


def run_alone(
    sweep: Sweep, number: int, limit_s: float, look: Callable[[], None], recording: Path | None = None
) -> Row:
    """Row of one cell, run in a separate process.

    look  called several times a second; may raise an exception to stop the cell
    """
    task = CellTask(sweep.cell(number), "" if recording is None else str(recording))
    with Pool(CellJob(sweep), 1, limit_s) as pool:
        return next(row for _, row in pool.results([task], look))


_encoder = msgspec.json.Encoder()
_rows = msgspec.json.Decoder(Row)
_tasks = msgspec.json.Decoder(tuple[Cell, str])

"""Carries out a sweep: gives the remaining cells (runs) to worker processes, and writes a row when a cell has ended."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.simulation.server import SimServer
from nodes.research.sweeps.cell_job import CellJob, CellTask
from nodes.research.sweeps.cells import LOST, Row
from nodes.research.sweeps.design import Cell, Sweep, plan_with
from nodes.research.sweeps.folder import SweepJournal
from nodes.research.sweeps.structures import structures
from nodes.research.workers import POLL_S, Pool

Report = Callable[[int, int], None]  # (finished cells, all cells); may raise to stop the sweep
Ended = Callable[[Cell, Row], None]  # called with each cell that has ended, and its row
CellRunner = Callable[[Sequence[Cell], Ended, Report], None]


class Schedule:
    """Order of the remaining cells (runs of a sweep), in which one cell compiles the code that other cells share.

    Cells that share all compiled code form a group, called a structure. The first cell of a structure runs alone and
    compiles the code; the other cells of the structure run after it. If several structures share the equations of the
    robots, the first cell of one of these structures runs before all their other cells, and compiles the equations for
    all these structures.
    """

    def __init__(self, sweep: Sweep, remaining: Iterable[int]) -> None:
        self._structure = structures(sweep)
        self._remaining: dict[tuple[int, int], deque[int]] = {}
        for cell in remaining:
            self._remaining.setdefault(self._structure(cell), deque()).append(cell)
        self._warm: set[tuple[int, int]] = set()
        self._warming: set[tuple[int, int]] = set()
        self._robots_warm: set[int] = set()
        self._robots_warming: set[int] = set()

    def next(self) -> int | None:
        """Return the number of the next cell (run of the sweep), or None if no cell can be started now."""
        for structure, cells in self._remaining.items():
            robots, _ = structure
            if structure in self._warm:
                return self._take(structure, cells)
            if structure not in self._warming and (robots in self._robots_warm or robots not in self._robots_warming):
                self._warming.add(structure)
                self._robots_warming.add(robots)
                return self._take(structure, cells)
        return None

    def ended(self, cell: int) -> None:
        """Record that a cell (run of the sweep) has ended. The code that it shares with other cells now counts as
        compiled.
        """
        structure = self._structure(cell)
        self._warm.add(structure)
        self._robots_warm.add(structure[0])

    def _take(self, structure: tuple[int, int], cells: deque[int]) -> int:
        cell = cells.popleft()
        if not cells:
            del self._remaining[structure]
        return cell


def carry_out(
    sweep: Sweep,
    journal: SweepJournal,
    workers: int,
    limit_s: float,
    report: Report,
    ended: Callable[[Row], None] = lambda row: None,
    retry: bool = False,
) -> None:
    """Run every cell (run of the sweep) that has no row of results in the journal.

    limit_s  wall time after which a cell is stopped (s)
    report   function called with (number of finished cells, number of all cells); it may raise to stop the sweep
    ended    function called with each new row
    retry    whether to repeat cells that were not completed, with the result "diverged", "error", "refused", "crashed"
             or "hung"
    """
    remaining = remaining_cells(sweep, journal, retry)
    total = sweep.cells
    done = total - len(remaining)
    report(done, total)
    if not remaining:
        return
    warm_up(sweep)
    schedule = Schedule(sweep, remaining)
    with Pool(CellJob(sweep), min(workers, len(remaining)), limit_s) as pool:
        while done < total:
            for worker in pool.idle:
                if (cell := schedule.next()) is None:
                    break
                worker.give(CellTask(sweep.cell(cell)))
            for _, row in pool.ended(POLL_S):
                journal.add(row)
                schedule.ended(row.cell)
                done += 1
                ended(row)
            report(done, total)


@contextmanager
def local_runner(sweep: Sweep, workers: int, limit_s: float) -> Iterator[CellRunner]:
    """Context manager that yields a function which runs cells (runs of the sweep), in any order.

    The cells run in worker processes of this computer.
    """
    with Pool(CellJob(sweep), workers, limit_s) as pool:

        def run(cells: Sequence[Cell], ended: Ended, report: Report) -> None:
            done = 0

            def poll() -> None:
                report(done, len(cells))

            for task, row in pool.results(map(CellTask, cells), poll):
                ended(task.cell, row)
                done += 1
            poll()

        yield run


def remaining_cells(sweep: Sweep, journal: SweepJournal, retry: bool) -> list[int]:
    """Numbers of the cells (runs of the sweep) that have no row of results in the journal.

    retry  whether to include cells that were not completed: their row has the result "diverged", "error", "refused",
           "crashed" or "hung"
    """
    rows = journal.rows
    return [cell for cell in range(sweep.cells) if (row := rows.get(cell)) is None or (retry and row.result in LOST)]


def warm_up(sweep: Sweep) -> None:
    """Import and compile the code that all runs of the sweep need, in this process, before the worker processes are
    forked.
    """
    logging.getLogger("armswing.compile").setLevel(logging.INFO)
    with contextlib.suppress(PlanError, ValueError, RuntimeError):  # the cells' rows name the error
        SimServer(plan_with(sweep, ()), wall_clock=False)


def default_workers() -> int:
    """Default number of workers: one per core that this process may use."""
    return len(os.sched_getaffinity(0))


def folder_of(launch: Path) -> Path:
    """Default folder of a sweep: the name of the launch file without its suffix, followed by "_sweep"."""
    return Path(f"{launch.stem}_sweep")

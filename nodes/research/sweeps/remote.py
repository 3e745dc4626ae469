"""Process in which a Dask worker runs the cells of a sweep.

The command is `python -P -m nodes.research.sweeps.remote DESCRIPTOR PARENT`.

A cell is one run of the sweep. The process reads the sweep and the time limit of a cell from the file descriptor
DESCRIPTOR. It replies with the reason why it cannot run the sweep, or with "" if it can. Then it reads requests. For
each request, it runs the named cells in a forked process, and replies with their rows of results.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

import msgspec

from nodes.framework.launching.process import die_with_parent
from nodes.framework.plan.key_checks import PlanError
from nodes.research.sweeps.cell_job import CellJob, CellTask
from nodes.research.sweeps.cells import Row
from nodes.research.sweeps.design import Cell, Sweep, SweepError, changed_files, made_again
from nodes.research.sweeps.engine import warm_up
from nodes.research.workers import Worker


def main() -> None:
    """Run the cells (runs of a sweep) that each request names, until the connection is closed."""
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    sweep, limit_s = msgspec.json.decode(connection.recv_bytes(), type=tuple[Sweep, float])
    refusal = refused(sweep)
    connection.send_bytes(refusal.encode())
    if refusal:
        return
    warm_up(sweep)
    worker = Worker(CellJob(sweep))
    while True:
        try:
            cells = msgspec.json.decode(connection.recv_bytes(), type=list[int | Cell])
        except (EOFError, OSError):
            worker.stop()
            return
        connection.send_bytes(
            msgspec.json.encode(
                [_row(worker, sweep.cell(cell) if isinstance(cell, int) else cell, limit_s) for cell in cells]
            )
        )


def _row(worker: Worker[CellTask, Row], cell: Cell, limit_s: float) -> Row:
    worker.give(CellTask(cell))
    return worker.take() if worker.connection.poll(limit_s) else worker.end(limit_s)


def refused(sweep: Sweep) -> str:
    """Reason why this computer cannot run the sweep with the same results as the sender; "" if it can."""
    if os.path.isdir(sweep.cwd):
        os.chdir(sweep.cwd)
    try:
        changed = changed_files(sweep, made_again(sweep))
    except (PlanError, SweepError) as error:
        return f"{os.uname().nodename}: {error}"
    return f"{os.uname().nodename} has other code than this computer: {', '.join(changed)}" if changed else ""


if __name__ == "__main__":
    main()

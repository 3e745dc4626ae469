"""Sweeps on a Dask cluster. Each Dask worker runs its cells (runs of the sweep) in a separate process, as a local sweep
does.
"""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from nodes.research.sweeps.cells import CRASHED, LOST, Row
from nodes.research.sweeps.design import Cell, Sweep, SweepError
from nodes.research.sweeps.engine import CellRunner, Ended, Report, remaining_cells
from nodes.research.sweeps.folder import SweepJournal
from nodes.research.sweeps.structures import structures
from nodes.research.workers import POLL_S

LOCAL = "local"  # address of a cluster of this computer's processes
TASK_S, MOST_PER_TASK = 2.0, 1000  # wall time that a task is to take, so that the scheduler's share is small
AHEAD = 3  # tasks per Dask worker that are handed out
CONNECT_S, WORKERS_EVERY_S = 20.0, 2.0  # wait for the scheduler, period of counting its workers, s
DAEMON = {"distributed.worker.daemon": False, "distributed.scheduler.worker-saturation": "inf"}


def carry_out_on(
    address: str,
    workers: int,
    sweep: Sweep,
    journal: SweepJournal,
    limit_s: float,
    report: Report,
    retry: bool = False,
) -> None:
    """Run the cells (runs of the sweep) without a row in the journal. The Dask scheduler at `address` distributes them.

    With the address "local", `workers` processes on this computer run the cells. Raises SweepError with a one-line
    message if no scheduler replies, or if the code on a worker differs from the code on this computer.
    """
    left = sorted(
        remaining_cells(sweep, journal, retry), key=structures(sweep)
    )  # cells that share compiled code are neighbours
    done, total = sweep.cells - len(left), sweep.cells
    report(done, total)
    if not left:
        return
    with _client(address, workers) as client:
        for _, row in _rows_on(client, sweep, left, limit_s, lambda ended: report(done + ended, total)):
            journal.add(row)


@contextmanager
def dask_runner(address: str, workers: int, sweep: Sweep, limit_s: float) -> Iterator[CellRunner]:
    """Context manager that yields a function which runs cells (runs of the sweep), in any order, on a Dask scheduler.

    Raises SweepError with a one-line message if no scheduler replies, or if the code on a worker differs from the code
    on this computer.
    """
    with _client(address, workers) as client:

        def run(cells: Sequence[Cell], ended: Ended, report: Report) -> None:
            for place, row in _rows_on(client, sweep, cells, limit_s, lambda done: report(done, len(cells))):
                ended(cells[place], row)

        yield run


def _rows_on(
    client: Any, sweep: Sweep, cells: Sequence[int | Cell], limit_s: float, poll: Callable[[int], None]
) -> Iterator[tuple[int, Row]]:
    """(index in `cells`, row of results) of each cell (run of the sweep), as soon as the cell ends.

    cells  cells, or their numbers
    poll   function that is called several times a second with the number of cells that have ended; it may raise an
           error to stop the cells
    """
    tasks: dict[Any, range] = {}
    data, place, each_s = msgspec.json.encode(sweep), 0, math.nan
    done, cores, asked_at = 0, 1, -math.inf
    while done < len(cells):
        if time.monotonic() - asked_at > WORKERS_EVERY_S:
            cores, asked_at = max(1, len(client.scheduler_info(n_workers=-1)["workers"])), time.monotonic()
        while place < len(cells) and len(tasks) < AHEAD * cores:
            share = math.ceil((len(cells) - place) / (AHEAD * cores))
            size = 1 if math.isnan(each_s) else max(1, min(MOST_PER_TASK, share, int(TASK_S / each_s)))
            places = range(place, min(place + size, len(cells)))
            place += size
            request = msgspec.json.encode([cells[k] for k in places])
            tasks[client.submit(run_cells_of, data, request, limit_s, pure=False)] = places
        for future in [future for future in tasks if future.done()]:
            places = tasks.pop(future)
            for k, row in zip(places, _rows_of(future, sweep, [cells[k] for k in places]), strict=True):
                done += 1
                if row.result not in LOST:
                    each_s = row.wall_s if math.isnan(each_s) else 0.9 * each_s + 0.1 * row.wall_s
                yield k, row
        poll(done)
        time.sleep(POLL_S)


def _rows_of(future: Any, sweep: Sweep, cells: Sequence[int | Cell]) -> list[Row]:
    """Rows of results of the cells (runs of the sweep) of one Dask task.

    If Dask gave up the task, because each worker that ran it has ended, the result of all these cells is "crashed".
    """
    from distributed.scheduler import KilledWorker

    error = future.exception()
    if isinstance(error, KilledWorker):
        reason = "the Dask workers that ran it ended"
        whole = [sweep.cell(cell) if isinstance(cell, int) else cell for cell in cells]
        return [Row(cell=cell.number, seed=cell.seed, result=CRASHED, reason=reason) for cell in whole]
    if error is not None:
        raise SweepError(f"Dask: {error}")
    return msgspec.json.decode(future.result(), type=list[Row])


@contextmanager
def _client(address: str, workers: int) -> Iterator[Any]:
    """Context manager for the connection to a Dask scheduler.

    Raises SweepError with a one-line message if no scheduler replies.
    """
    import dask
    from distributed import Client, LocalCluster

    with dask.config.set(DAEMON):
        if address == LOCAL:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50, processes=True
            )
            with cluster, Client(cluster) as client:
                yield client
            return
        try:
            client = Client(address, timeout=CONNECT_S)
        except (OSError, ValueError, TypeError) as error:
            raise SweepError(
                f"--dask {address!r}: no scheduler replies: {' '.join(str(error).split())}; start a Dask scheduler at "
                "this address, or pass --dask local"
            ) from None
        with client:
            yield client


# -- in the Dask workers


class SweepProcess:
    """A process that runs cells (runs) of one sweep.

    The process is spawned and not forked, because a Dask worker has threads.
    """

    def __init__(self, sweep: bytes, limit_s: float) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "nodes.research.sweeps.remote", str(theirs.fileno()), str(os.getpid())]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], stdin=quiet, stdout=quiet, stderr=quiet
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self._connection.send_bytes(msgspec.json.encode((msgspec.Raw(sweep), limit_s)))
        try:
            refusal = self._connection.recv_bytes().decode()
        except EOFError:
            refusal = "its worker process ended at its start"
        if refusal:
            self.stop()
            raise SweepError(refusal)

    def rows(self, cells: bytes) -> bytes:
        """Run cells (runs of the sweep) in the process, and return their rows of results. Raises EOFError if the
        process has ended.

        cells  list of cells or of their numbers, encoded; the rows are encoded, too
        """
        self._connection.send_bytes(cells)
        return self._connection.recv_bytes()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


_idle: dict[tuple[bytes, float], list[SweepProcess]] = {}  # processes of this Dask worker, by their sweep and limit
_lock = threading.Lock()


def run_cells_of(sweep: bytes, cells: bytes, limit_s: float) -> bytes:
    """Run some cells (runs of the sweep) one after the other, and return their encoded rows of results.

    The process that runs the cells is kept for the next task.

    sweep  the sweep, encoded
    cells  list of cells or of their numbers, encoded
    """
    with _lock:
        free = _idle.setdefault((sweep, limit_s), [])
        process = free.pop() if free else None
    if process is None:
        process = SweepProcess(sweep, limit_s)
    try:
        rows = process.rows(cells)
    except (EOFError, OSError):
        process.stop()
        raise SweepError(
            "the process in which a Dask worker runs cells was killed, perhaps for lack of memory; continue the sweep "
            "with 'armswing sweep FOLDER', where FOLDER is the folder of the sweep"
        ) from None
    with _lock:
        free.append(process)
    return rows

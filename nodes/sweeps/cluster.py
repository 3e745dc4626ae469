"""Sweeps on a Dask cluster: each Dask worker runs its cells in a process of its own, as a local sweep does."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from nodes.sweeps.cells import CRASHED, LOST, Row
from nodes.sweeps.design import Sweep, SweepError
from nodes.sweeps.engine import LOOK_S, Report, left_of
from nodes.sweeps.journal import Journal

LOCAL = "local"  # address of a cluster of this computer's processes
TASK_S, MOST_PER_TASK = 2.0, 1000  # wall time that a task is to take, so that the scheduler's share is small
AHEAD = 3  # tasks per Dask worker that are handed out
CONNECT_S, WORKERS_EVERY_S = 20.0, 2.0  # wait for the scheduler, period of counting its workers, s
DAEMON = {"distributed.worker.daemon": False, "distributed.scheduler.worker-saturation": "inf"}


def carry_out_on(
    address: str,
    workers: int,
    sweep: Sweep,
    journal: Journal,
    limit_s: float,
    report: Report,
    retry: bool = False,
) -> None:
    """Run every cell that is not in the journal on a Dask scheduler, or on `workers` local processes for "local".

    SweepError, one line, for a scheduler that does not reply, or a worker with different code.
    """
    left = left_of(sweep, journal, retry)
    done, total = sweep.cells - len(left), sweep.cells
    report(done, total)
    if not left:
        return
    with _client(address, workers) as client:
        tasks: dict[Any, list[int]] = {}
        data, place, each_s = msgspec.json.encode(sweep), 0, math.nan
        cores, asked_at = 1, -math.inf
        while done < total:
            if time.monotonic() - asked_at > WORKERS_EVERY_S:
                cores, asked_at = max(1, len(client.scheduler_info(n_workers=-1)["workers"])), time.monotonic()
            while place < len(left) and len(tasks) < AHEAD * cores:
                share = math.ceil((len(left) - place) / (AHEAD * cores))
                size = 1 if math.isnan(each_s) else max(1, min(MOST_PER_TASK, share, int(TASK_S / each_s)))
                cells = left[place : place + size]
                place += size
                tasks[client.submit(run_cells_of, data, cells, limit_s, pure=False)] = cells
            for future in [future for future in tasks if future.done()]:
                cells = tasks.pop(future)
                for row in _rows_of(future, sweep, cells):
                    journal.add(row)
                    done += 1
                    if row.result not in LOST:
                        each_s = row.wall_s if math.isnan(each_s) else 0.9 * each_s + 0.1 * row.wall_s
            report(done, total)
            time.sleep(LOOK_S)


def _rows_of(future: Any, sweep: Sweep, cells: Sequence[int]) -> list[Row]:
    """Rows of a task. The result is "crashed" for the cells of a task whose Dask workers ended repeatedly."""
    from distributed.scheduler import KilledWorker

    error = future.exception()
    if isinstance(error, KilledWorker):
        reason = "the Dask workers that ran it ended"
        return [Row(cell=cell, seed=sweep.cell(cell).seed, result=CRASHED, reason=reason) for cell in cells]
    if error is not None:
        raise SweepError(f"Dask: {error}")
    return msgspec.json.decode(future.result(), type=list[Row])


@contextmanager
def _client(address: str, workers: int) -> Iterator[Any]:
    """Context manager for the connection to a scheduler. SweepError, one line, where no scheduler replies."""
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
            raise SweepError(f"--dask {address!r}: no scheduler answers: {' '.join(str(error).split())}") from None
        with client:
            yield client


# -- in the Dask workers


class SweepProcess:
    """A process that runs cells of one sweep.

    It is started and not forked, because a Dask worker has threads.
    """

    def __init__(self, sweep: bytes, limit_s: float) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "nodes.sweeps.remote", str(theirs.fileno()), str(os.getpid())]
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

    def rows(self, cells: Sequence[int]) -> bytes:
        """Encoded rows of some cells, which the process runs. EOFError where the process has ended."""
        self._connection.send_bytes(msgspec.json.encode(list(cells)))
        return self._connection.recv_bytes()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


_idle: dict[tuple[bytes, float], list[SweepProcess]] = {}  # processes of this Dask worker, by their sweep and limit
_lock = threading.Lock()


def run_cells_of(sweep: bytes, cells: Sequence[int], limit_s: float) -> bytes:
    """Encoded rows of some cells, run one after the other in a process that is kept for the next task.

    sweep    the sweep, encoded
    limit_s  wall time after which a cell is ended, s
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
        raise SweepError("the process of a Dask worker that runs cells was ended from outside") from None
    with _lock:
        free.append(process)
    return rows

"""Worker processes of a sweep: each runs many cells, one at a time; a worker that ends affects only its present
cell.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import msgspec

from nodes.launching.process import die_with_parent
from nodes.sweeps.cells import CRASHED, HUNG, Row, run_cell
from nodes.sweeps.design import Cell, Sweep

ENDING = {signal.SIGINT, signal.SIGTERM}


class Process(Protocol):
    """The parts of a process that a worker needs."""

    @property
    def exitcode(self) -> int | None:
        """Exit code of the process, negative for a signal; None while the process runs."""

    def kill(self) -> None:
        """End the process at once."""

    def join(self) -> None:
        """Wait for the end of the process."""


class Worker:
    """One process that runs cells, forked from this process with all imported and compiled code.

    cell   cell that the worker runs; None while it runs none
    since  time at which the cell was started, by time.monotonic()
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.cell: Cell | None = None
        self.since = 0.0
        self.starts = 0
        self._start()

    def _start(self) -> None:
        """Start the process: sets `connection` and `_process`."""
        context = multiprocessing.get_context("fork")
        self.connection, other = context.Pipe()
        process = context.Process(target=_serve, args=(other, self.connection, self.sweep, os.getpid()))
        self._process: Process = process
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()
        self.starts += 1

    def give(self, cell: Cell, recording: Path | None = None) -> None:
        """Have the worker run a cell, and record the run if a path is given."""
        self.cell, self.since = cell, time.monotonic()
        with contextlib.suppress(OSError):  # it has ended; `take` says so
            self.connection.send_bytes(_encoder.encode((cell, "" if recording is None else str(recording))))

    def take(self) -> Row:
        """Row of the worker's cell.

        Where the process has ended, the result is "crashed", and a new process is started.
        """
        cell = self.cell
        assert cell is not None
        self.cell = None
        try:
            return _decoder.decode(self.connection.recv_bytes())
        except (EOFError, OSError):
            self._process.join()
            row = self._lost(cell, CRASHED, f"its process ended {_how(self._process.exitcode)}")
            self._start()
            return row

    def end(self, limit_s: float) -> Row:
        """End the process of a cell that takes longer than `limit_s`, s, and start a new process.

        Returns the cell's row with the result "hung".
        """
        cell = self.cell
        assert cell is not None
        self.cell = None
        self.stop()
        row = self._lost(cell, HUNG, f"it took longer than {limit_s:g} s")
        self._start()
        return row

    def _lost(self, cell: Cell, result: str, reason: str) -> Row:
        self.connection.close()
        return Row(cell=cell.number, seed=cell.seed, result=result, reason=reason, wall_s=time.monotonic() - self.since)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def run_alone(
    sweep: Sweep, number: int, limit_s: float, look: Callable[[], None], recording: Path | None = None
) -> Row:
    """Row of one cell, run in a separate process.

    look  called several times a second; may raise an exception to stop the cell
    """
    with Pool(sweep, 1, limit_s) as pool:
        pool.workers[0].give(sweep.cell(number), recording)
        while True:
            for _, row in pool.ended(0.1):
                return row
            look()


class Pool:
    """Workers of a sweep, as a context manager whose end ends the processes.

    limit_s  wall time after which a cell is ended, s
    """

    def __init__(self, sweep: Sweep, workers: int, limit_s: float) -> None:
        self.limit_s = limit_s
        self.workers: Sequence[Worker] = [Worker(sweep) for _ in range(workers)]

    @property
    def idle(self) -> list[Worker]:
        """Workers without a cell."""
        return [worker for worker in self.workers if worker.cell is None]

    @property
    def busy(self) -> list[Worker]:
        """Workers with a cell."""
        return [worker for worker in self.workers if worker.cell is not None]

    def ended(self, timeout_s: float) -> Iterator[tuple[Cell, Row]]:
        """(cell, row) of each cell that has ended. Waits for at most `timeout_s`, s; yields nothing where all cells
        still run."""
        by_connection: dict[Any, Worker] = {worker.connection: worker for worker in self.busy}
        for ready in wait(list(by_connection), timeout_s):
            worker = by_connection[ready]
            if (cell := worker.cell) is not None:
                yield cell, worker.take()
        now = time.monotonic()
        for worker in self.busy:
            if (cell := worker.cell) and now - worker.since > self.limit_s and not worker.connection.poll():
                yield cell, worker.end(self.limit_s)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Row)
_requests = msgspec.json.Decoder(tuple[Cell, str])


def _serve(connection: Connection, parents: Connection, sweep: Sweep, parent: int) -> None:
    """Run the cells that the parent process sends, until the parent closes the connection."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    parents.close()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(silence, stream.fileno())
    serve(connection, sweep)


def serve(connection: Connection, sweep: Sweep) -> None:
    """Run each cell that arrives and send its row, until the connection is closed."""
    while True:
        try:
            cell, recording = _requests.decode(connection.recv_bytes())
        except (EOFError, OSError):
            return
        connection.send_bytes(_encoder.encode(run_cell(sweep, cell, Path(recording) if recording else None)))


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"

"""Worker processes of a sweep: they live long, run one cell at a time, and take nothing with them when they end."""

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
    """What a worker needs of its process."""

    @property
    def exitcode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def kill(self) -> None:
        """End it."""

    def join(self) -> None:
        """Wait for its end."""


class Worker:
    """One process that runs cells, forked from this one with all that it has imported and compiled.

    cell   the cell that it runs; None while it has none
    since  when it was given the cell, time.monotonic()
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
        """Have it run a cell, and record it if a path is given."""
        self.cell, self.since = cell, time.monotonic()
        with contextlib.suppress(OSError):  # it has ended; `take` says so
            self.connection.send_bytes(_encoder.encode((cell, "" if recording is None else str(recording))))

    def take(self) -> Row:
        """The row of its cell; one that says "crashed" if the process has ended, and a new process in its place."""
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
        """End the process of a cell that takes longer than limit_s; a row that says "hung", and a new process."""
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
    """Row of one cell, run in a process of its own.

    look  called several times a second; may raise to stop the cell
    """
    with Pool(sweep, 1, limit_s) as pool:
        pool.workers[0].give(sweep.cell(number), recording)
        while True:
            for _, row in pool.ended(0.1):
                return row
            look()


class Pool:
    """Workers of a sweep, as a context: its end ends the processes.

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
        """Cells that ended and their rows, after timeout_s at most; none where all still run."""
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
    """Run the cells that the parent sends until it hangs up."""
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
    """Run each cell that arrives and send its row, until the other end hangs up."""
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

"""Worker processes of sweeps and studies.

A worker does many tasks, one at a time. If its process ends, only the present task is lost.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from nodes.framework.launching.process import die_with_parent

ENDING = {signal.SIGINT, signal.SIGTERM}
POLL_S = 0.1  # wall time between two reports while no task ends, s
Task = TypeVar("Task")
Result = TypeVar("Result")
Asked = TypeVar("Asked", contravariant=True)
Answer = TypeVar("Answer", covariant=True)


class Loss(NamedTuple):
    """Why a task has no result: its process ended, or was killed because the task took too long (`hung`)."""

    hung: bool
    reason: str
    wall_s: float


class Job(Protocol[Asked, Answer]):
    """The work of a pool of worker processes, which compute a result for each task.

    Tasks and results are sent between the processes as bytes.
    """

    def encode(self, task: Asked) -> bytes:
        """Encode a task as bytes."""

    def do(self, task: bytes) -> bytes:
        """Do an encoded task in a worker process, and return the result as bytes."""

    def decode(self, result: bytes) -> Answer:
        """Decode a result from bytes."""

    def lost(self, task: Asked, loss: Loss) -> Answer:
        """Make a result, with the reason `loss`, for a task whose process ended before the task was done."""


class Process(Protocol):
    """The part of the interface of multiprocessing.Process that a worker uses."""

    @property
    def exitcode(self) -> int | None:
        """Exit code of the process, negative if a signal ended it; None while it runs."""

    def kill(self) -> None:
        """End the process at once."""

    def join(self) -> None:
        """Wait until the process has ended."""


class Worker(Generic[Task, Result]):
    """A child process that does tasks. It is forked, so all modules and compiled code of the parent are already loaded.

    task   the task that the process is doing; None if it is idle
    since  time at which the process was given the task, from time.monotonic()
    """

    def __init__(self, job: Job[Task, Result]) -> None:
        self.job = job
        self.task: Task | None = None
        self.since = 0.0
        self._start()

    def _start(self) -> None:
        """Start the process, and set `connection` and `_process`."""
        context = multiprocessing.get_context("fork")
        self.connection, other = context.Pipe()
        process = context.Process(target=_serve, args=(other, self.connection, self.job, os.getpid()))
        self._process: Process = process
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()

    def give(self, task: Task) -> None:
        """Send a task to the process."""
        self.task, self.since = task, time.monotonic()
        with contextlib.suppress(OSError):  # it has ended; `take` reports it
            self.connection.send_bytes(self.job.encode(task))

    def take(self) -> Result:
        """Return the result of the present task.

        If the process has ended, start a new process, and return what `job.lost` returns for the task: a result that
        contains the reason of the loss.
        """
        task = self.task
        assert task is not None
        self.task = None
        try:
            return self.job.decode(self.connection.recv_bytes())
        except (EOFError, OSError):
            self._process.join()
            return self._lost(task, False, f"its process ended {_how(self._process.exitcode)}")
        except ValueError as error:  # the task wrote to the connection itself
            self.stop()
            return self._lost(task, False, f"the result of its process cannot be read: {error}")

    def end(self, limit_s: float) -> Result:
        """Kill the process because its task took longer than limit_s (s), and start a new process.

        Returns what `job.lost` returns for the task: a result that contains the reason of the loss.
        """
        task = self.task
        assert task is not None
        self.task = None
        self.stop()
        return self._lost(task, True, f"it took longer than {limit_s:g} s")

    def _lost(self, task: Task, hung: bool, reason: str) -> Result:
        self.connection.close()
        self._start()
        return self.job.lost(task, Loss(hung, reason, time.monotonic() - self.since))

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()


class Pool(Generic[Task, Result]):
    """Worker processes for one job, as a context manager that ends the processes on exit.

    limit_s  wall time after which the process of a task is killed and the task is lost (s)
    """

    def __init__(self, job: Job[Task, Result], workers: int, limit_s: float) -> None:
        self.limit_s = limit_s
        self.workers: Sequence[Worker[Task, Result]] = [Worker(job) for _ in range(workers)]

    @property
    def idle(self) -> list[Worker[Task, Result]]:
        """Workers without a task."""
        return [worker for worker in self.workers if worker.task is None]

    @property
    def busy(self) -> list[Worker[Task, Result]]:
        """Workers with a task."""
        return [worker for worker in self.workers if worker.task is not None]

    def ended(self, timeout_s: float) -> Iterator[tuple[Task, Result]]:
        """Yield (task, result) of the tasks that have ended. Waits at most timeout_s (s) for the first of them.

        A task that has exceeded its time limit is stopped; its result, from `job.lost`, contains the time limit.
        """
        by_connection: dict[Any, Worker[Task, Result]] = {worker.connection: worker for worker in self.busy}
        for ready in wait(list(by_connection), timeout_s):
            worker = by_connection[ready]
            if (task := worker.task) is not None:
                yield task, worker.take()
        now = time.monotonic()
        for worker in self.busy:
            if (task := worker.task) is None or now - worker.since <= self.limit_s:
                continue
            if not worker.connection.poll():
                yield task, worker.end(self.limit_s)

    def results(self, tasks: Iterable[Task], poll: Callable[[], None]) -> Iterator[tuple[Task, Result]]:
        """Yield (task, result) of each task, in the order in which the tasks end.

        poll  function called every POLL_S seconds; it may raise an exception to stop the work
        """
        left = deque(tasks)
        while left or self.busy:
            for worker in self.idle:
                if left:
                    worker.give(left.popleft())
            yield from self.ended(POLL_S)
            poll()

    def __enter__(self) -> Pool[Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()


def _serve(connection: Connection, parents: Connection, job: Job[Any, Any], parent: int) -> None:
    """Do the tasks that the parent process sends, until the parent closes the connection. Runs in a worker process.

    connection  the worker's end of the connection
    parents     the parent's end, which the worker closes
    parent      process id of the parent
    """
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    parents.close()
    silence = os.open(os.devnull, os.O_WRONLY)
    for descriptor, stream in enumerate((sys.stdout, sys.stderr), start=1):  # in a notebook, streams are no files
        stream.flush()
        os.dup2(silence, descriptor)
    while True:
        try:
            task = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(job.do(task))


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"

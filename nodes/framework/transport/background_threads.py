"""Scheduling of background threads: a deferred thread does not interrupt another thread.

A message that is sent, and a packet that arrives, wake one of libzmq's I/O threads. A call or a handshake of another
computer wakes a thread that answers it. A window wakes 30 times a second to draw. If no core is idle, the operating
system may run such a thread at once on the core of a simulation step or a control step; the step then takes longer. A
deferred thread has the policy SCHED_BATCH: it has the same share of the processor, but begins only when its core is
free or the time slice of the running thread is over.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

IO_THREADS = "ZMQbg/IO/"  # start of the names that libzmq gives to these threads

_is_permanent = False


def defer_this() -> None:
    """Defer the calling thread."""
    _replace_policy(threading.get_native_id(), os.SCHED_OTHER, os.SCHED_BATCH)


@contextlib.contextmanager
def not_deferred() -> Iterator[None]:
    """Context manager in which the calling thread is not deferred, so that processes that it starts are not either."""
    this = threading.get_native_id()
    was_deferred = os.sched_getscheduler(this) == os.SCHED_BATCH
    _replace_policy(this, os.SCHED_BATCH, os.SCHED_OTHER)
    try:
        yield
    finally:
        if was_deferred:
            defer_this()


def defer_others(but: Collection[int] = ()) -> None:
    """Defer all threads of this process but the calling one, until the process ends.

    Call this after the threads are started and the first socket of each context is created.

    but  numbers of further threads that are not deferred: threads on the way of a message to a controller and back.
         Deferred, they would begin up to a scheduler's tick (1 to 4 ms) later where other processes use the core
    """
    global _is_permanent
    _is_permanent = not but
    for thread in _threads("self"):
        if thread not in (threading.get_native_id(), *but):
            _replace_policy(thread, os.SCHED_OTHER, os.SCHED_BATCH)


def defer_io(is_deferred: bool) -> None:
    """Defer all of this process's I/O threads, or end this.

    After `defer_others`, the I/O threads stay deferred.
    """
    if is_deferred or not _is_permanent:
        before, after = (os.SCHED_OTHER, os.SCHED_BATCH) if is_deferred else (os.SCHED_BATCH, os.SCHED_OTHER)
        for thread in io_threads():
            _replace_policy(thread, before, after)


def io_threads(process: int | None = None) -> list[int]:
    """Thread numbers of the I/O threads of all ZeroMQ contexts of a process.

    process  process id; None for this process
    """
    found = []
    for thread in _threads("self" if process is None else process):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{thread}/comm").read_text().startswith(IO_THREADS):
                found.append(thread)
    return found


def _threads(process: int | str) -> list[int]:
    """Numbers of all threads of a process."""
    return [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]


def _replace_policy(thread: int, before: int, after: int) -> None:
    """Give a thread the scheduling policy `after` if its policy is `before`.

    A thread with another policy, such as SCHED_FIFO, keeps that policy.
    """
    with contextlib.suppress(OSError):  # the thread has ended
        if os.sched_getscheduler(thread) == before:
            os.sched_setscheduler(thread, after, os.sched_param(0))

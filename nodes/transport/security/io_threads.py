"""Scheduling of libzmq's I/O threads: while peers are blocked, these threads do not interrupt other threads.

A blocked peer that keeps connecting, or whose queued messages are still arriving, keeps the I/O threads busy. On a
computer with few cores the operating system would let them interrupt a simulation step or a control step each time
that a packet arrives.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

IO_THREADS = "ZMQbg/IO/"  # start of the names that libzmq gives to these threads


def defer(is_deferred: bool) -> None:
    """Set the scheduling policy of all of this process's I/O threads: SCHED_BATCH if deferred, otherwise SCHED_OTHER.

    A thread with SCHED_BATCH has the same share of the processor, but begins only when its core is free or the time
    slice of the running thread is over. Threads with another policy, such as SCHED_FIFO, keep it.
    """
    before, after = os.SCHED_OTHER, os.SCHED_BATCH
    if not is_deferred:
        before, after = after, before
    for thread in io_threads():
        with contextlib.suppress(OSError):  # the thread has ended
            if os.sched_getscheduler(thread) == before:
                os.sched_setscheduler(thread, after, os.sched_param(0))


def io_threads() -> list[int]:
    """Thread numbers of the I/O threads of all ZeroMQ contexts of this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith(IO_THREADS):
                found.append(int(task.name))
    return found

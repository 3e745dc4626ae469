"""Scheduling of libzmq's I/O threads: a deferred I/O thread does not interrupt another thread.

A message that is sent, and a packet that arrives, wake an I/O thread. If no core is idle, the operating system may run
the I/O thread at once on a core that computes a simulation step or a control step; the step then takes longer.

In a test with a hostile peer and two busy cores (tests/benchmarks/hostile_peer.py), the 99 % quantile of the time steps
of the rotary pendulum was 224 to 244 us, and 91 to 110 us with deferred I/O threads. The round trip to the controller
was not longer.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

IO_THREADS = "ZMQbg/IO/"  # start of the names that libzmq gives to these threads

_is_permanent = False


def defer(is_deferred: bool) -> None:
    """Set the scheduling policy of all of this process's I/O threads: SCHED_BATCH if deferred, otherwise SCHED_OTHER.

    A thread with SCHED_BATCH has the same share of the processor, but begins only when its core is free or the time
    slice of the running thread is over. An I/O thread with another policy, such as SCHED_FIFO, keeps that policy. After
    `defer_permanently`, the I/O threads stay deferred.
    """
    before, after = os.SCHED_OTHER, os.SCHED_BATCH
    if not is_deferred:
        before, after = after, before
        if _is_permanent:
            return
    for thread in io_threads():
        with contextlib.suppress(OSError):  # the thread has ended
            if os.sched_getscheduler(thread) == before:
                os.sched_setscheduler(thread, after, os.sched_param(0))


def defer_permanently() -> None:
    """Defer the I/O threads until the process ends. Call this after the first socket of each context is created."""
    global _is_permanent
    _is_permanent = True
    defer(True)


def io_threads(process: int | None = None) -> list[int]:
    """Thread numbers of the I/O threads of all ZeroMQ contexts of a process.

    process  process id; None for this process
    """
    found = []
    for task in Path(f"/proc/{'self' if process is None else process}/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith(IO_THREADS):
                found.append(int(task.name))
    return found

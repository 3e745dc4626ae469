"""CPU core and scheduling priority of the calling thread, as far as the operating system permits."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

PRIORITY = 50  # SCHED_FIFO priority, 1 .. 99: above ordinary threads, not above the kernel's interrupt threads


def pin(cpu: int) -> str:
    """Bind this thread to one core. Returns "" or, if this is not possible, the reason."""
    allowed = sorted(os.sched_getaffinity(0))
    if cpu not in allowed:
        return f"there is no core {cpu} for this process; it may use {cores_text(allowed)}"
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        return f"core {cpu} is not available: {error.strerror}"
    return ""


def prefer(priority: int = PRIORITY) -> str:
    """Give this thread SCHED_FIFO, so that no ordinary thread interrupts it. Returns "" or the reason for a failure."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except PermissionError:
        limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
        return f"SCHED_FIFO is not permitted (ulimit -r is {limit}, {priority} would be needed)"
    except OSError as error:
        return f"SCHED_FIFO is not available: {error.strerror}"
    return ""


@contextlib.contextmanager
def preferred(priority: int = PRIORITY) -> Iterator[str]:
    """Context manager that gives this thread SCHED_FIFO and restores the scheduling afterwards.

    Yields "", or the reason why SCHED_FIFO is not permitted.
    """
    before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    refused = prefer(priority)
    try:
        yield refused
    finally:
        if not refused:
            os.sched_setscheduler(0, before, parameters)


def arrange(cpu: int | None, realtime_priority: bool) -> list[str]:
    """Set core and priority of this thread. Returns one line for each setting that was not possible.

    cpu                core number, None for any
    realtime_priority  whether to use SCHED_FIFO
    """
    wanted = [] if cpu is None else [pin(cpu)]
    if realtime_priority:
        wanted.append(prefer())
    return [line for line in wanted if line]


def as_it_is() -> str:
    """Present core and scheduling of this thread as text, such as "core 1, SCHED_FIFO 50"."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    fifo = f"SCHED_FIFO {os.sched_getparam(0).sched_priority}" if policy == os.SCHED_FIFO else "SCHED_OTHER"
    return f"{cores_text(sorted(os.sched_getaffinity(0)))}, {fifo}"


def cores_text(cores: list[int]) -> str:
    """Core numbers as text, such as "cores 0, 1" or "core 3"."""
    return f"core{'s' if len(cores) != 1 else ''} {', '.join(map(str, cores))}"

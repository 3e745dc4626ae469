"""The fork server of `armswing launch`: nodes are copies of it, and so begin with all modules imported.

The fork server is a copy of the launch, made while the launch has one thread, no socket and no code of a user. It
imports what a simulation needs, and then forks a process for each node. The launch becomes the parent of this process:
it learns how the process ended, and the process ends with the launch.

Other programs that start a launch, such as a notebook or a test, have no fork server; there each node's process starts
with a new interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import gc
import io
import os
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import setproctitle

from nodes.launching.ending import end_process
from nodes.launching.process import die_with_parent
from nodes.launching.process import main as run_process

PR_SET_CHILD_SUBREAPER = 36
ANSWER_S = 60.0  # longest wait for a process, s: on a busy computer the server may still be importing modules
LOOK_S = 1e-4  # time between two looks at the parent of a new process, s
LENGTH = struct.Struct("!I")
RESULT = struct.Struct("!q")  # the process id, or the negative errno


class ForkServer:
    """The launch's connection to its fork server, whose process id is `pid`."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        connection.settimeout(ANSWER_S)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: int) -> int:
        """Start the process of a node as a child of the calling process, and return its process id.

        arguments    arguments of `python -m nodes.launching.process`
        environment  environment variables of the process
        output       file descriptor for its stdout and stderr

        Raises OSError if the fork server cannot start it, for example because the server has ended.
        """
        task = msgspec.json.encode((os.getpid(), list(arguments), dict(environment)))
        _adopt_descendants(True)
        try:
            socket.send_fds(self._connection, [LENGTH.pack(len(task))], [output])
            self._connection.sendall(task)
            (result,) = RESULT.unpack(_receive(self._connection, RESULT.size))
        except TimeoutError:
            self._connection.close()  # a process that starts all the same ends, as it cannot reply
            raise
        finally:
            _adopt_descendants(False)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return int(result)

    def close(self) -> None:
        """End the fork server. Processes that it started keep running."""
        self._connection.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class _Current:
    server: ForkServer | None = None


def fork_server() -> ForkServer | None:
    """The fork server of this process; None without one."""
    return _Current.server


def start_fork_server() -> None:
    """Start the fork server of this process. Has no effect in a process with several threads.

    The processes that the fork server starts run their node in this function and end in it.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # locks that other threads hold would never be released in a copy
        return
    _import_for_all()
    launch = os.getpid()
    ours, theirs = socket.socketpair()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        _Current.server = ForkServer(ours, pid)
        atexit.register(_Current.server.close)
        return
    ours.close()
    die_with_parent(launch)
    os.setsid()  # Ctrl-C in a terminal is a signal to the launch alone
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # who reads the launch's output to its end does not wait for this process
        os.dup2(null, descriptor)
    os.close(null)
    _set_title("armswing: fork server")
    _import_for_simulation()
    gc.freeze()  # collections leave these objects, and the memory that the processes share, alone
    _serve(theirs)


def _serve(connection: socket.socket) -> None:
    """Answer the requests of `ForkServer.start` until the launch closes the connection."""
    while True:
        try:
            length, outputs, _, _ = socket.recv_fds(connection, LENGTH.size, 1)
            task = _receive(connection, LENGTH.unpack(length)[0])
        except (OSError, struct.error):
            os._exit(0)
        request = msgspec.json.decode(task, type=tuple[int, list[str], dict[str, str]])
        child = _fork(connection)
        if child == 0:
            _start_node(connection, outputs[0], *request)
        elif child is not None:
            os.waitpid(child, 0)
        os.close(outputs[0])


def _fork(connection: socket.socket) -> int | None:
    """`os.fork()`; None after a failure, which is sent to the launch."""
    try:
        return os.fork()
    except OSError as error:
        connection.sendall(RESULT.pack(-(error.errno or 1)))
        return None


def _start_node(
    connection: socket.socket, output: int, launch: int, arguments: list[str], environment: dict[str, str]
) -> None:
    """Fork once more and end this process, so that the launch adopts the new process; run the node there."""
    middle = os.getpid()
    if _fork(connection) != 0:
        os._exit(0)
    os.setsid()
    while os.getppid() == middle:
        time.sleep(LOOK_S)
    if os.getppid() != launch:  # which has ended, or the kernel knows no adoption
        connection.sendall(RESULT.pack(-errno.ECHILD))
        os._exit(1)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    _set_title(f"armswing: {arguments[arguments.index('--node') + 1]}")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["nodes.launching.process", *arguments]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _unbuffered(1)
    sys.stderr = _unbuffered(2, errors="backslashreplace")
    connection.sendall(RESULT.pack(os.getpid()))
    connection.close()
    end_process(run_process(arguments))


def _unbuffered(descriptor: int, **more: Any) -> io.TextIOWrapper:
    """Standard stream as in a process with PYTHONUNBUFFERED."""
    raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, encoding="utf-8", write_through=True, **more)


def _set_title(title: str) -> None:
    """Set the command line that `ps` shows for this process."""
    os.environ["SPT_NOENV"] = "1"  # keeps what `ps e` shows
    setproctitle.setproctitle(title)


def _import_for_all() -> None:
    """Import the modules that launches and nodes have in common, as far as their packages are installed."""
    with contextlib.suppress(ImportError):
        import nodes.hosting.runner
        import nodes.plan.checks
        import nodes.recorder  # noqa: F401
        import robots.registry  # noqa: F401
        import sim_core.integrators.steppers
        import sim_core.stabilization.registry  # noqa: F401


def _import_for_simulation() -> None:
    """Import the modules of a simulation server; the server's own process reports what cannot be imported."""
    with contextlib.suppress(Exception):
        import nodes.simulation.compose
        import nodes.simulation.event_loop  # noqa: F401


def _receive(connection: socket.socket, size: int) -> bytes:
    """Receive exactly `size` bytes. Raises ConnectionResetError if the connection ends before."""
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError
        received += part
    return received


def _adopt_descendants(whether: bool) -> None:
    """Whether this process becomes the parent of a descendant whose parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0)

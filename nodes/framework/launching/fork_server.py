"""The fork server of `armswing launch`: nodes are copies of it, and so begin with all modules imported.

The fork server is a copy of the launch, made while the launch has one thread, no socket and no code of a user. It
imports what a simulation needs, and then forks a process for each node. The launch becomes the parent of this process:
it learns how the process ended, and the process ends with the launch.

Other programs that start a launch, such as a notebook or a test, have no fork server; there each node's process starts
with a new interpreter.

The fork server of `multiprocessing` would take 1.3 times the wall time of a launch of 0.2 s, a new interpreter for each
node 1.6 times. Processes of `multiprocessing` end without exit functions (`atexit`) and without a flush of open files.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec
import setproctitle

from nodes.framework.launching.process import die_with_parent
from nodes.framework.launching.process import main as run_process

PR_SET_CHILD_SUBREAPER = 36
ANSWER_S = 60.0  # longest wait for a process, s: on a busy computer the server may still be importing modules
POLL_S = 1e-4  # time between two polls of the parent of a new process, s
FOR_ALL = (
    "nodes.framework.hosting.runner",
    "nodes.framework.plan.checks",
    "nodes.recorder",
    "robots.registry",
    "sim_core.integrators.steppers",
    "sim_core.stabilization.registry",
)  # modules that launches and nodes have in common
FOR_SIMULATION = ("nodes.framework.simulation.compose", "nodes.framework.simulation.event_loop")
LARGEST_TASK = 1 << 20  # bytes; more than the kernel accepts in one message


class ForkServer:
    """The launch's connection to its fork server."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(ANSWER_S)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: int) -> int:
        """Start the process of a node as a child of the calling process, and return its process id.

        arguments    arguments of `python -m nodes.framework.launching.process`
        environment  environment variables of the process
        output       file descriptor for its stdout and stderr

        Raises OSError if the fork server cannot start it, for example because the server has ended.
        """
        task = msgspec.json.encode((arguments, environment))
        try:
            socket.send_fds(self._connection, [task], [output])
            answer = self._connection.recv(LARGEST_TASK)
        except TimeoutError:
            self._connection.close()  # a process that starts all the same ends, as it cannot reply
            raise
        if not answer:
            raise ConnectionResetError
        return msgspec.json.decode(answer, type=int)


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
    _import(FOR_ALL)
    launch = os.getpid()
    # the kernel makes the launch the parent of descendants whose parent ends
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)  # which keeps the bounds of messages
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.fork():
        theirs.close()
        _Current.server = ForkServer(ours)
        return
    ours.close()
    die_with_parent(launch)
    os.setsid()  # Ctrl-C in a terminal is a signal to the launch alone
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # who reads the launch's output to its end does not wait for this process
        os.dup2(null, descriptor)
    os.close(null)
    _set_title("armswing: fork server")
    _import(FOR_SIMULATION)
    gc.freeze()  # collections of the copies skip these objects: a fifth of the processor time of a short launch
    _serve(theirs)


def _serve(connection: socket.socket) -> None:
    """Answer the requests of `ForkServer.start` until the launch closes the connection or a process cannot start."""
    while True:
        task, outputs, _, _ = socket.recv_fds(connection, LARGEST_TASK, 1)
        if not task:
            os._exit(0)
        child = os.fork()
        if child == 0:
            _start_node(connection, outputs[0], *msgspec.json.decode(task, type=tuple[list[str], dict[str, str]]))
        if os.waitpid(child, 0)[1]:
            os._exit(1)
        os.close(outputs[0])


def _start_node(connection: socket.socket, output: int, arguments: list[str], environment: dict[str, str]) -> None:
    """Fork once more and end this process, so that the launch adopts the new process; run the node there."""
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    os.setsid()
    while os.getppid() == middle:
        time.sleep(POLL_S)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    _set_title(f"armswing: {arguments[arguments.index('--node') + 1]}")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["nodes.framework.launching.process", *arguments]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    connection.send(msgspec.json.encode(os.getpid()))
    connection.close()
    sys.exit(run_process(arguments))


def _set_title(title: str) -> None:
    """Set the command line that `ps` shows for this process."""
    os.environ["SPT_NOENV"] = "1"  # keeps what `ps e` shows
    setproctitle.setproctitle(title)


def _import(modules: Sequence[str]) -> None:
    """Import modules, as far as possible; the node's own process reports what cannot be imported."""
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)

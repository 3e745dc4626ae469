"""A launch at the server's host: starts the registry and a plan's processes, watches the run, and sums it up."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from nodes.framework.launching.display import Display, NodeLine
from nodes.framework.launching.fork_server import fork_server
from nodes.framework.launching.graph import owners_of, unpublished
from nodes.framework.launching.hosts.own_address import check_own_address
from nodes.framework.launching.hosts.remote_nodes import RemoteNodes, digests, host_config_of
from nodes.framework.launching.logs import WARNING, RunLog
from nodes.framework.launching.observer import Observer
from nodes.framework.launching.results import RunResults, recorded_file
from nodes.framework.launching.summary import Summary
from nodes.framework.launching.supervisor import SHOWN_LINES, Failure, Program, Restart, Supervisor, execute
from nodes.framework.launching.watching import FileWatch
from nodes.framework.messages import Status
from nodes.framework.messages.topics import resolve
from nodes.framework.plan.launch_plan import PLAN_FILE, Plan, save_plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import Registry
from nodes.framework.transport.sockets import sweep
from sim_core.support.shown import printable

BEGIN_FILE = "begin.msgpack"
NODE_PROCESS = (sys.executable, "-P", "-m", "nodes.framework.launching.process")
AT_ONCE_S = 0.3  # `timeout`, for one, sends a signal to a process and again to its group: that is one request
STARTING_TICK_S = 0.01
RUNNING_TICK_S = 0.05
WAITED_PART = 0.02  # tick of a start that takes long, such as one that compiles, as a part of the time waited
VIEWER = (
    "import sys; from nodes.framework.launching.process import die_with_parent; die_with_parent(int(sys.argv[1]));"
    "from nodes.cli.application import run; sys.exit(run(['view', '--domain', sys.argv[2]]))"
)
LAST_STATUS_S = 0.3  # longest wait for the last status of a process that has ended
FAILING_S = 2.0  # longest time from the status of a failed node until its process ends


def process_began() -> float:
    """Start time of this process on the clock of `time.monotonic`, before the interpreter and imports were loaded."""
    started_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s


def launch_plan(
    plan: Plan,
    *,
    view: bool = False,
    watch: bool = False,
    began: float | None = None,
    begin: bytes = b"",
    notes: Sequence[str] = (),
) -> Summary:
    """Run a plan until its end, Ctrl-C or a failure, and display the run; print and return a summary of the run.

    view   whether to open the viewer
    watch  whether a node loads its file again when the file is saved
    began  time.monotonic() from which the time to the first state is counted; by default now
    begin  encoded state of a recorded run from which this run continues; b"" for the robot's start
    notes  lines to show at the start

    The summary contains the exit code. Raises RegistryError if a launch is live in the domain already, PlanError if
    this computer is not the server's host. Call from the main thread.
    """
    began = time.monotonic() if began is None else began
    if plan.timing_from:
        from nodes.framework.simulation.recorded_links import (
            with_recorded_links,  # numpy, which most launches do not need
        )

        plan, measured = with_recorded_links(plan)
        notes = [*notes, *measured]
    check_own_address(plan, plan.sim.host)
    notes = [*notes, *unpublished(plan)]
    with (
        Registry(plan.domain, host_config=host_config_of(plan, plan.sim.host), owners=owners_of(plan)) as registry,
        contextlib.ExitStack() as stack,
    ):
        observer = Observer(plan.domain)
        stack.callback(observer.close)
        display = stack.enter_context(Display(plan.duration_s))
        for note in notes:
            display.print_line(note)
        try:
            if (log := run_log(plan)) is not None:
                display.log = log
                stack.callback(log.close)
        except FileExistsError as error:
            display.print_line(f"no log of this run is written: {error}")
        launch = Launch(plan, observer, display, began, registry, begin)
        stack.enter_context(launch.signals())
        launch.run(view=view, watch=watch)
    launch.show_failure()
    recorded = [file.path for file in launch.results.summary.files if file.path.endswith(".mcap")]
    if view and recorded:
        hint = f"`armswing view {shlex.quote(recorded[0])}` shows the recording of this run"
        print(hint, file=sys.stderr, flush=True)
    print(printable(launch.results.summary.text(), "\n"), flush=True)
    return launch.results.summary


def run_log(plan: Plan) -> RunLog | None:
    """The log of a run, in the folder of the first recording that this host writes.

    None if no recorder runs on this host, or if the folder of the recording cannot be written. Raises FileExistsError
    with a one-line message if the file is not the log of an earlier run.
    """
    for node in plan.nodes_on(plan.sim.host):
        file = recorded_file(node, load_class(node.run, plan.folder))
        if file is not None and file.suffix == ".mcap" and file.absolute().parent.is_dir():
            try:
                return RunLog(file.with_suffix(".log"))
            except FileExistsError:
                raise
            except OSError:  # the recorder reports a folder that cannot be written
                return None
    return None


class Launch:
    """One launch in a domain whose registry is running; call `run` once, in the main thread."""

    def __init__(
        self, plan: Plan, observer: Observer, display: Display, began: float, registry: Registry, begin: bytes = b""
    ) -> None:
        self.plan = plan
        self._begin = begin
        self._registry = registry
        registry.plan = digests(plan) if plan.hosts else {}
        registry.hosts = {"sim": plan.sim.host, **{node.name: node.host for node in plan.nodes}}
        self._remote_nodes = RemoteNodes(plan, observer, display)
        self._observer = observer
        self._display = display
        self._resumed_at = 0.0
        self._failure: Failure | None = None
        self._unshown: list[str] = []
        self._shown_warnings: set[str] = set()
        self._signal, self._signal_at = 0, 0.0
        self._file_watch: FileWatch | None = None
        self._names = ["sim", *(node.name for node in plan.nodes)]
        self._folder = domain_folder(plan.domain)
        self._supervisor = Supervisor(
            folder=self._folder / "logs",
            is_ready=observer.is_ready,
            request_stop=self._request_stop,
            note=lambda name, line: display.print_line(line, name),
            environment={**os.environ, "PYTHONUNBUFFERED": "1"},
            spawn=spawn,
            has_stopped=self._has_stopped,
        )
        self.results = RunResults(plan, observer, registry, self._supervisor, began)

    def signals(self) -> contextlib.AbstractContextManager[None]:
        """Context manager in which Ctrl-C, SIGTERM and SIGHUP end the run in an orderly way.

        A second signal, at least AT_ONCE_S after the first one, kills the remaining processes.
        """
        return on_signals(self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self._signal:
            self._signal, self._signal_at = number, now
        elif now - self._signal_at >= AT_ONCE_S:
            self._supervisor.in_a_hurry = True

    def run(self, *, view: bool = False, watch: bool = False) -> None:
        """Start the processes, start simulation time, watch until the end, stop the processes, and print the summary.

        No child process survives, even on an exception.
        """
        # made before the nodes load their files, so that no change in between is missed
        file_watch = (
            FileWatch(self.plan, self._observer.call, self._display.print_line, self.plan.sim.host) if watch else None
        )
        try:
            self._supervisor.start(self._programs(view))
            if self._watch(lambda: self._supervisor.ready and self._remote_nodes.ready, STARTING_TICK_S):
                self._file_watch = file_watch
                self._resume()
                if self._watch(self._is_over, RUNNING_TICK_S):
                    self._await_failures()
            self.results.gather(self._resumed_at, self._failure)
        finally:
            self._registry.ending = True  # the other hosts end their nodes
            self._supervisor.stop()
            self._remote_nodes.wait_until_gone()
            sweep(self._folder)  # sockets of processes that were killed
            if self._failure is None and not self._signal:
                self._failure = self._supervisor.failure_at_end()
            self._show_output()
        self.results.take_last_statuses()
        self.results.finish(self._failure, self._signal)

    def _programs(self, view: bool) -> list[Program]:
        path = self._folder / PLAN_FILE
        save_plan(self.plan, path)
        server, more = program("sim", path), list[str]()
        if self._begin:
            (self._folder / BEGIN_FILE).write_bytes(self._begin)
            more = ["--begin", str(self._folder / BEGIN_FILE)]
        programs = [dataclasses.replace(server, command=[*server.command, *more])]
        programs += node_programs(self.plan, self.plan.sim.host, path, self._display)
        if view:
            viewer = [sys.executable, "-P", "-c", VIEWER, str(os.getpid()), str(self.plan.domain)]
            programs.append(Program("viewer", viewer, needed=False))
        return programs

    def _watch(self, done: Callable[[], bool], tick_s: float) -> bool:
        """Supervise the nodes until `done()` is true. Returns False if a failure or a signal came first.

        tick_s  longest time between two checks at first (s); grows to RUNNING_TICK_S while a start takes long
        """
        began = time.monotonic()
        while not done():
            if self._signal:
                return False
            self._failure = self._supervisor.poll()
            if self._failure is not None:
                return False
            self._show_output()
            if self._file_watch is not None:
                self._file_watch.poll()
            waited = time.monotonic() - began
            self._observer.receive(min(max(tick_s, WAITED_PART * waited), RUNNING_TICK_S))
            self._remote_nodes.poll(self._supervisor.ready)
            self._display.update(self._observer.time, self._lines())
        return True

    def _await_failures(self) -> None:
        """Wait until the process of each node with the status "failed" has ended, and store the failure.

        In mode "fast", a whole run may be over before the process of a failed node has ended. Waits at most FAILING_S.
        """
        deadline = time.monotonic() + FAILING_S
        while True:
            self._failure = self._supervisor.poll()
            failing = [name for name in self._names if self._is_failing(name)]
            if self._failure is not None or not failing or time.monotonic() > deadline or self._signal:
                return
            self._observer.receive(STARTING_TICK_S)

    def _is_failing(self, name: str) -> bool:
        child, status = self._supervisor.children.get(name), self._observer.status.get(name)
        return child is not None and child.state == "running" and status is not None and status.state == "failed"

    def _resume(self) -> None:
        self._observer.expect_state(resolve("state", self.plan.sim.robot_name))
        self._resumed_at = time.monotonic()
        self._observer.call("sim", "resume", args={"first": True})  # a client that paused it before keeps it paused

    def _is_over(self) -> bool:
        """Whether the simulation has reached its planned duration or has ended for another reason."""
        if self._supervisor.children["sim"].exit_code == 0:
            return True
        status = self._observer.status.get("sim")
        return status is not None and status.state == "stopped"

    def show_failure(self) -> None:
        """Print the failed node with its last lines of output."""
        failure = self._failure
        if failure is None:
            return
        print(f"node {failure.name!r} {printable(failure.reason)}, exit code {failure.exit_code}", file=sys.stderr)
        if self._unshown:
            print(
                f"the last lines of the output of node {failure.name!r}:",
                *map(printable, self._unshown[-SHOWN_LINES:]),
                sep="\n  ",
                file=sys.stderr,
                flush=True,
            )
        elif failure.last_lines:
            print(f"the last lines of the output of node {failure.name!r} are above", file=sys.stderr, flush=True)

    def _has_stopped(self, name: str) -> bool:
        """Whether a node whose process has ended said before that it stops, as after a call of its service shutdown."""
        deadline = time.monotonic() + LAST_STATUS_S
        while time.monotonic() < deadline:
            status = self._observer.status.get(name)
            if status is not None and status.state in ("stopping", "stopped"):
                return True
            self._observer.receive(LAST_STATUS_S / 10)
        return False

    def _request_stop(self, name: str) -> bool:
        if self._observer.entry(name) is None:
            return False
        self._observer.call(name, "shutdown")
        return True

    def _lines(self) -> list[NodeLine]:
        lines = []
        for name, child in self._supervisor.children.items():
            status = self._observer.status.get(name)
            state = (self._observer.state(name) if child.state == "running" else "") or child.state
            lost = status.counters.get("lost", 0) if status is not None else None
            is_reason = status is not None and bool(status.detail) and state in ("starting", "ready", "running")
            lines.append(NodeLine(name, child.pid, state, lost, _detail(status), is_reason))
        return [*lines, *self._remote_nodes.lines()]

    def _show_output(self) -> None:
        failed = self._failure.name if self._failure is not None else None
        for name, line in self._supervisor.new_lines():
            if line.startswith(WARNING) and line in self._shown_warnings:
                continue  # several nodes build the robot, and each has the same warnings
            if line.startswith(WARNING):
                self._shown_warnings.add(line)
            if name != failed:
                self._display.print_line(line, name)
            elif line.strip():
                self._unshown.append(line)  # printed once, at the end


def program(
    name: str, plan_file: Path, restart: Restart = "never", max_restarts: int = 3, required: bool = True
) -> Program:
    """The process that runs one node of a saved plan; the node "sim" is the simulation server."""
    # The parent's pid is passed: a launch killed before the child starts cannot be found through getppid().
    arguments = ["--parent", str(os.getpid()), "--plan", str(plan_file), "--node", name]
    return Program(name, [*NODE_PROCESS, *arguments], restart, max_restarts, required=required)


def spawn(program: Program, environment: Mapping[str, str], output: int) -> int:
    """Start a program: the process of a node as a copy of the fork server, where this process has one.

    The arguments and the result are those of `nodes.framework.launching.supervisor.execute`.
    """
    server, node_process = fork_server(), len(NODE_PROCESS)
    if server is not None and tuple(program.command[:node_process]) == NODE_PROCESS:
        with contextlib.suppress(OSError):  # such as a fork server that was killed: the process is started anew
            return server.start(program.command[node_process:], environment, output)
    return execute(program, environment, output)


def node_programs(plan: Plan, host: str, plan_file: Path, display: Display) -> list[Program]:
    """The processes of the nodes that run on one host."""
    programs = []
    stay: list[str] = []
    for node in plan.nodes_on(host):
        # A restarted node has lost its state, so a lockstep run would no longer be reproducible.
        restart: Restart = "never" if plan.sim.mode == "lockstep" else node.restart
        if restart != node.restart:
            stay.append(node.name)
        required = node.required or plan.sim.mode == "lockstep"
        programs.append(program(node.name, plan_file, restart, node.max_restarts, required))
    if stay:
        display.print_line(f"lockstep: nodes are never restarted, `restart` is ignored: {', '.join(stay)}")
    return programs


@contextlib.contextmanager
def on_signals(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Context manager in which Ctrl-C, SIGTERM and SIGHUP call `on_signal`."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, on_signal)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _detail(status: Status | None) -> str:
    """Detail line of a node's status; if the detail line is empty, the counters of the status that are not zero."""
    if status is None:
        return ""
    counted = (f"{name} {count}" for name, count in status.counters.items() if count and name != "lost")
    return status.detail or ", ".join(counted)

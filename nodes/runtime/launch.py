"""A launch: the registry, the processes of a plan, the run from resume to its end, and the summary."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import zmq

from nodes.client import lost_messages
from nodes.runtime.display import Display, NodeLine
from nodes.runtime.plan import Plan, load_node_class, save_plan
from nodes.runtime.summary import ListenerLoss, Summary
from nodes.runtime.supervisor import Failure, Program, Supervisor
from nodes.wire.bus import Subscriber
from nodes.wire.domain import domain_folder
from nodes.wire.messages import Status
from nodes.wire.registry import NodeEntry, Registry
from nodes.wire.registry_link import RegistryLink
from nodes.wire.service import ServiceClient, ServiceError
from nodes.wire.topics import resolve

NOT_READY = ("starting", "failed")
TICK_S = 0.05
ASK_TIMEOUT_S = 1.0
MILESTONE_MISSED = 1


def process_began() -> float:
    """When this process was started, on the clock of `time.monotonic`; interpreter and imports included."""
    started_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s


def launch_plan(plan: Plan, *, view: bool = False, began: float | None = None) -> Summary:
    """Run a plan to its end, Ctrl-C or a failure, show it meanwhile, print and return the summary.

    The exit code is in the summary. RegistryError when the domain is live already. Call from the main thread.
    `began` (time.monotonic) is what the time to the first state counts from, by default now.
    """
    began = time.monotonic() if began is None else began
    with Registry(plan.domain), contextlib.ExitStack() as stack:
        launch = Launch(plan, stack.enter_context(Display(plan.duration_s)), began)
        stack.callback(launch.close)
        stack.enter_context(launch.signals())
        launch.run(view=view)
    launch.show_failure()
    print(launch.summary.text(), flush=True)
    return launch.summary


class Launch:
    """One launch in a domain whose registry is up; `run` it once, in the main thread."""

    def __init__(self, plan: Plan, display: Display, began: float) -> None:
        self.plan = plan
        self.summary = Summary(plan=plan.name, robot=plan.sim.robot, mode=plan.sim.mode)
        self._display = display
        self._began = began
        self._folder = domain_folder(plan.domain)
        self._names = ["sim", *(node.name for node in plan.nodes)]
        self._link = RegistryLink(plan.domain)
        self._subscriber = Subscriber(zmq.Context.instance(), ["status"], "launch")
        self._first: Subscriber | None = None
        self._status: dict[str, Status] = {}
        self._failure: Failure | None = None
        self._signal = 0
        self._resumed_at = 0.0
        self.supervisor = Supervisor(
            folder=self._folder / "logs",
            is_ready=self._is_ready,
            ask_to_stop=lambda name: self._ask(name, "shutdown"),
            note=lambda name, line: display.say(line, name),
        )

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and SIGHUP end the run in order; a second one kills what is left."""

        def asked(number: int, _frame: FrameType | None) -> None:
            self.supervisor.in_a_hurry = bool(self._signal)
            self._signal = self._signal or number

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = [(number, signal.signal(number, asked)) for number in numbers]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    def run(self, *, view: bool = False) -> None:
        """Start, resume, watch until the end, stop, sum up. No child is left, whatever happens."""
        try:
            self.supervisor.start(self._programs(view))
            if self._watch(lambda: self.supervisor.ready):
                self._resume()
                self._watch(self._is_over)
            if self._failure is None:
                self._gather()
        finally:
            self.supervisor.stop()
            self._show_output()
        self._finish()

    def _programs(self, view: bool) -> list[Program]:
        path = self._folder / "plan.json"
        save_plan(self.plan, path)
        python = [sys.executable, "-P", "-m"]
        process = [*python, "nodes.runtime.process", "--plan", str(path), "--node"]
        programs = [Program("sim", [*process, "sim"])]
        programs += [
            Program(node.name, [*process, node.name], node.restart, node.max_restarts)
            for node in self.plan.nodes
        ]
        if view:
            viewer = [*python, "nodes.runtime.cli", "view", "--domain", str(self.plan.domain)]
            programs.append(Program("viewer", viewer, needed=False))
        return programs

    def _watch(self, done: Any) -> bool:
        """Look after everything until `done()`; False when a failure or a signal came first."""
        while not done():
            if self._signal:
                return False
            self._failure = self.supervisor.poll()
            if self._failure is not None:
                return False
            self._show_output()
            self._hear()
            self._display.update(self._time(), self._lines())
        return True

    def _hear(self) -> None:
        """Take what was said, waiting a little for the first word."""
        if self._link.nodes:
            for entry in self._link.nodes:
                if "data" in entry.endpoints:
                    self._subscriber.connect(entry.name, entry.endpoints["data"])
        if self._first is not None:
            self._await_first_state(self._first)
            wait_s = 0.0
        else:
            wait_s = TICK_S if self.supervisor.ready else TICK_S / 5
        while (heard := self._subscriber.receive(wait_s)) is not None:
            if isinstance(heard[2], Status):
                self._status[heard[2].node] = heard[2]
            wait_s = 0.0

    def _await_first_state(self, subscriber: Subscriber) -> None:
        heard = subscriber.receive(TICK_S / 5)
        # The state that a paused server holds, at time zero, is no sign that it runs.
        if heard is not None and heard[2].timestamp > 0.0:
            self.summary.first_state_s = time.monotonic() - self._began
            subscriber.close()
            self._first = None

    def _resume(self) -> None:
        self._first = Subscriber(zmq.Context.instance(), [resolve("state", self.plan.sim.robot)], "launch")
        entry = self._entry("sim")
        if entry is not None and "data" in entry.endpoints:
            self._first.connect("sim", entry.endpoints["data"])
            deadline = time.monotonic() + ASK_TIMEOUT_S
            while not self._first.ready and time.monotonic() < deadline:
                self._first.receive(TICK_S / 5)
        self._resumed_at = time.monotonic()
        self._ask("sim", "resume")

    def _is_over(self) -> bool:
        """Whether the simulation came to its end, or ended itself."""
        if self.supervisor.children["sim"].exit_code == 0:
            return True
        duration_s = self.plan.duration_s
        return duration_s is not None and self._time() >= duration_s - 0.5 * self.plan.sim.step_s

    def _gather(self) -> None:
        """Pause, then ask everybody how it went."""
        with contextlib.suppress(ServiceError):
            self._ask("sim", "pause")
        self.summary.wall_s = time.monotonic() - self._resumed_at if self._resumed_at else 0.0
        for name in self._names:
            with contextlib.suppress(ServiceError):
                status = self._ask(name, "status")
                if name == "sim":
                    self.summary.take_simulation(status)
                self._note_losses(name, status)

    def _note_losses(self, name: str, status: dict[str, Any]) -> None:
        refused = status.get("counters", {}).get("refused", status.get("frames_refused", 0))
        self.summary.nodes[name] = ListenerLoss(
            lost=lost_messages(status), refused=refused, restarts=self.supervisor.children[name].restarts
        )

    def _finish(self) -> None:
        """The exit code, and the files that are complete only now that their writers have ended."""
        summary = self.summary
        required = {milestone.name for milestone in self.plan.milestones if milestone.required}
        summary.missed = [name for name in required if summary.milestones.get(name) is None]
        for node in self.plan.nodes:
            file = self._file_of(node.name)
            if file is not None:
                summary.take_file(file)
        if self._failure is not None:
            summary.exit_code = self._failure.exit_code
            summary.ended = f"node {self._failure.name!r} {self._failure.reason}"
        elif self._signal == signal.SIGINT:
            summary.exit_code, summary.ended = 128 + self._signal, "interrupted"
        elif self._signal:
            summary.exit_code, summary.ended = 128 + self._signal, signal.Signals(self._signal).name
        elif summary.missed:
            summary.exit_code = MILESTONE_MISSED
            summary.ended = f"missed: {', '.join(summary.missed)}"

    def _file_of(self, name: str) -> Path | None:
        """The file a node writes, if its parameters name one (defaults included) and it listens to all."""
        node = self.plan.node(name)
        cls = load_node_class(node.run, self.plan.folder)
        if "*" not in cls.listens or "file" not in cls.Params.__struct_fields__:
            return None
        file = node.params.get("file")
        return Path(file) if isinstance(file, str) else None

    def show_failure(self) -> None:
        """Say what failed, with its last lines."""
        if self._failure is None:
            return
        failure = self._failure
        print(f"node {failure.name!r} {failure.reason}, exit code {failure.exit_code}", file=sys.stderr)
        if failure.last_lines:
            print("its last lines:", *failure.last_lines, sep="\n  ", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Let go of the registry and the streams."""
        self._link.close()
        self._subscriber.close()
        if self._first is not None:
            self._first.close()

    def _entry(self, name: str) -> NodeEntry | None:
        return next((entry for entry in self._link.nodes if entry.name == name), None)

    def _is_ready(self, name: str, pid: int) -> bool:
        entry = self._entry(name)
        return entry is not None and entry.pid == pid and entry.state not in NOT_READY

    def _ask(self, name: str, service: str) -> Any:
        entry = self._entry(name)
        if entry is None or "service" not in entry.endpoints:
            raise ServiceError(f"node {name!r} is not there to be asked")
        with ServiceClient(entry.endpoints["service"]) as client:
            return client.call(service, timeout_s=ASK_TIMEOUT_S)

    def _time(self) -> float:
        status = self._status.get("sim")
        return status.timestamp if status is not None else 0.0

    def _lines(self) -> list[NodeLine]:
        lines = []
        for name, child in self.supervisor.children.items():
            status = self._status.get(name)
            state = status.state if status is not None and child.state == "running" else child.state
            lost = status.counters.get("lost", 0) if status is not None else None
            lines.append(NodeLine(name, child.pid, state, lost, status.detail if status is not None else ""))
        return lines

    def _show_output(self) -> None:
        failed = self._failure.name if self._failure is not None else None
        for name, line in self.supervisor.new_lines():
            if name != failed:  # its last lines come at the end
                self._display.say(line, name)

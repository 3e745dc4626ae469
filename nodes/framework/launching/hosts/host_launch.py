"""A launch on a host other than the server's: starts this host's nodes and joins the registry on the server's host."""

from __future__ import annotations

import contextlib
import os
import sys
from types import FrameType

from nodes.framework.launching.display import Display, NodeLine
from nodes.framework.launching.hosts.own_address import check_own_address
from nodes.framework.launching.hosts.remote_nodes import difference, host_config_of
from nodes.framework.launching.hosts.waiting import Waiting
from nodes.framework.launching.launch import node_programs, on_signals, spawn
from nodes.framework.launching.observer import Observer
from nodes.framework.launching.supervisor import Failure, Supervisor
from nodes.framework.launching.watching import FileWatch
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import PLAN_FILE, Plan, save_plan
from nodes.framework.transport.host_config import remove_host_config, write_host_config
from nodes.framework.transport.registry import DomainLock
from nodes.framework.transport.sockets import sweep
from sim_core.support.shown import printable
from sim_core.support.suggestion import did_you_mean

TICK_S = 0.05


def launch_host(plan: Plan, host: str, watch: bool = False) -> int:
    """Run a plan's nodes on one host until the launch at the server ends, a node fails or Ctrl-C is pressed.

    watch  whether a node loads its file again when the file is saved

    Returns the exit code. Raises PlanError if the host is not in the plan or its address is not this computer's,
    KeysError if a key is missing, and RegistryError if a launch is live in the domain already. Call from the main
    thread.
    """
    if not plan.hosts:
        raise PlanError(f"--host {host}: plan {plan.name!r} has no table [hosts]; add the table, or leave out --host")
    if host not in plan.hosts or host == plan.sim.host:
        others = [name for name in plan.hosts if name != plan.sim.host]
        why = f"runs the server; launch there without --host; the other hosts are {', '.join(others) or 'none'}"
        if host != plan.sim.host:
            there = ", ".join([*others, f"{plan.sim.host} (the server's host: launch there without --host)"])
            why = f"is not in [hosts]; give one of the hosts {there}{did_you_mean(host, others)}"
        raise PlanError(f"--host {host}: {host!r} {why}")
    check_own_address(plan, host)
    host_config = host_config_of(plan, host)
    with contextlib.ExitStack() as stack:
        hold = DomainLock(plan.domain)
        stack.callback(hold.release)
        sweep(hold.folder)
        write_host_config(plan.domain, host_config)
        stack.callback(remove_host_config, plan.domain)
        display = stack.enter_context(Display(None))
        waiting = Waiting(plan, host, host_config, display.print_line)
        stack.enter_context(on_signals(waiting.on_signal))
        if not waiting.run():
            return 128 + waiting.signal
        observer = Observer(plan.domain)
        stack.callback(observer.close)
        launch = HostLaunch(plan, host, observer, display, watch)
        stack.enter_context(on_signals(launch.on_signal))
        if waiting.signal:  # a signal came after the wait and before the launch
            launch.on_signal(waiting.signal, None)
        launch.run()
    return launch.exit_code


class HostLaunch:
    """One host's part of a launch; call `run` once, in the main thread. This process must hold the domain's lock."""

    def __init__(self, plan: Plan, host: str, observer: Observer, display: Display, watch: bool = False) -> None:
        self.exit_code = 0
        self._plan = plan
        self._host = host
        self._observer = observer
        self._display = display
        # made before the nodes load their files, so that no change in between is missed
        self._file_watch = FileWatch(plan, observer.call, display.print_line, host) if watch else None
        self._signal = 0
        self._was_connected = True
        self._joined = ""  # instance of the registry whose plan was compared
        self._refusal = ""  # how the server's plan differs from this one; "" if it does not
        self._supervisor = Supervisor(
            folder=observer.folder / "logs",
            is_ready=observer.is_ready,
            request_stop=self._request_stop,
            note=lambda name, line: display.print_line(line, name),
            environment={**os.environ, "PYTHONUNBUFFERED": "1"},
            spawn=spawn,
        )

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler: the first signal ends the launch in an orderly way, the second kills remaining processes."""
        self._supervisor.in_a_hurry = bool(self._signal)
        self._signal = self._signal or number

    def run(self) -> None:
        """Wait for the registry, start the nodes, watch them until the end, and stop them.

        No child process survives, even after an exception.
        """
        failure = None
        try:
            if self._found() and self._is_the_same_launch():
                path = self._observer.folder / PLAN_FILE
                save_plan(self._plan, path)
                self._supervisor.start(node_programs(self._plan, self._host, path, self._display))
                failure = self._watch()
        finally:
            self._supervisor.stop()
            sweep(self._observer.folder)
            if failure is None and not self._signal:
                failure = self._supervisor.failure_at_end()
            self._show_output()
        self._finish(failure)

    def _found(self) -> bool:
        """Wait for a message from the registry. Returns False if a signal came first."""
        server = self._plan.sim.host
        while not self._observer.registry_instance:
            if self._signal:
                return False
            self._observer.receive(TICK_S)
        self._display.print_line(f"joined host {server!r} at {self._plan.hosts[server]}")
        return True

    def _watch(self) -> Failure | None:
        """Supervise the nodes until the launch ends; returns the failure that ended it, if any."""
        while not self._signal and not self._observer.ending and self._is_the_same_launch():
            failure = self._supervisor.poll()
            if failure is not None:
                return failure
            children = self._supervisor.children.values()
            if children and all(child.state == "ended" for child in children):
                break
            self._show_output()
            if self._file_watch is not None and self._supervisor.ready:
                self._file_watch.poll()
            self._observer.receive(TICK_S)
            self._print_connection()
            self._display.update(self._observer.time, self._lines())
        return None

    def _print_connection(self) -> None:
        """Print a line when the connection to the server's registry is lost, and when it is restored."""
        is_connected = self._observer.is_connected
        if is_connected != self._was_connected:
            self._was_connected = is_connected
            server = self._plan.sim.host
            self._display.print_line(f"host {server!r} is back" if is_connected else f"no message from host {server!r}")

    def _is_the_same_launch(self) -> bool:
        """Whether the server's plan equals the plan of this host.

        If the plans differed, the recording, which contains the server's plan, would be wrong about this host's nodes.
        """
        if (instance := self._observer.registry_instance) != self._joined:
            self._joined = instance
            self._refusal = difference(self._plan, self._observer.remote_plan)
        return not self._refusal

    def _lines(self) -> list[NodeLine]:
        lines = []
        for name, child in self._supervisor.children.items():
            status = self._observer.status.get(name)
            known = status is not None and child.state == "running"
            lost = status.counters.get("lost", 0) if status is not None else None
            lines.append(NodeLine(name, child.pid, status.state if status and known else child.state, lost, ""))
        return lines

    def _request_stop(self, name: str) -> bool:
        if self._observer.entry(name) is None:
            return False
        self._observer.call(name, "shutdown")
        return True

    def _show_output(self) -> None:
        for name, line in self._supervisor.new_lines():
            self._display.print_line(line, name)

    def _finish(self, failure: Failure | None) -> None:
        if failure is not None:
            self.exit_code = failure.exit_code
            print(f"node {failure.name!r} {printable(failure.reason)}, exit code {failure.exit_code}", file=sys.stderr)
        elif self._refusal:
            self.exit_code = 2
            print(self._refusal, file=sys.stderr)
        elif self._signal:
            self.exit_code = 128 + self._signal
        else:
            self._display.print_line("the launch has ended")

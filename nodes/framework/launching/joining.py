"""Runs one node in this process: in the domain of a live launch or, if allowed, alone in its domain."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import zmq

from nodes.framework.client import Client, NodeEntry, NotLiveError, UnknownNameError
from nodes.framework.hosting.runner import Runner
from nodes.framework.launching.process import traceback_text
from nodes.framework.messages import Description
from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.plan.launch_plan import PLAN_FILE, NodePlan, Plan, SimPlan, read_plan
from nodes.framework.plan.node_classes import load_class, locate, uncalled
from nodes.framework.transport.domain import DomainError, default_domain, domain_folder
from nodes.framework.transport.registry import Registry, RegistryError
from nodes.framework.transport.service import ServiceError
from nodes.framework.transport.sockets import AddressError
from nodes.node import Node

DESCRIPTION_WAIT_S = 2.0
BESIDE_PERIOD_S = 0.05
SILENT_S = 0.5  # waiting time for a launch after which a line reports it


class NodeFailedError(RuntimeError):
    """A node raised an exception. Its traceback has been printed; the error's text names the node and the exception."""

    exit_code = 1


def run_node(
    run: str,
    *,
    name: str | None = None,
    robot: str | None = None,
    params: Mapping[str, Any] | None = None,
    domain: int | None = None,
    alone: bool = False,
    beside: Callable[[Client, str], None] | None = None,
    ended: Callable[[Node], None] | None = None,
    greet: Callable[[str], None] | None = None,
) -> int:
    """Run the node "path/to/file.py:Class" until it is asked to stop; returns the exit code.

    name    name of the node; by default derived from the class name ("MyLogger" -> "my_logger")
    robot   robot whose topics the node publishes and subscribes to; by default the robot of the live simulation.
            UnknownNameError is raised if other robots are live and `robot` is not, unless `alone` is true
    alone   if no launch is live in the domain: True runs a registry there while the node runs, False raises an error
    beside  function called with (client, name) in a thread of its own once the node is registered; the function may
            watch or end the node
    ended   function called with the node when it has ended
    greet   function called with one line of text when the node waits for a launch, when the node has joined a
            simulation, when the simulation has ended, and when it has been restarted

    An exception in the node's own code is printed as in a launch; then NodeFailedError is raised.
    """
    domain = default_domain() if domain is None else domain
    path, class_name = locate(run, Path.cwd())
    if not class_name:
        raise PlanError(f"{path} is a program, not a Python class; start it with '{path} --domain {domain}'")
    cls = load_class(f"{path}:{class_name}")
    name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    node_plan = NodePlan(name=name, run=f"{path}:{class_name}", params=dict(params or {}))
    if wrong := uncalled(cls):
        raise PlanError(f"node {name!r}: {wrong}")
    convert(node_plan.params, cls.Params, f"node {name!r}: params")
    with contextlib.ExitStack() as stack:
        with _shown_when_slow(greet, f"{name}: waits for a launch in domain {domain}; Ctrl-C ends"):
            sim = _live_simulation(domain, robot, alone)
        if sim is None:
            if not alone:
                Client(domain).close()  # raises NotLiveError where no launch is live
                raise NotLiveError(f"no simulation is live in domain {domain}; name the robot with --robot")
            stack.enter_context(Registry(domain))
            sim = SimPlan(robot=robot or "")
        plan = Plan(name=name, sim=sim, nodes=[node_plan], domain=domain, folder=str(Path.cwd()))
        logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level=logging.INFO)
        node = _run(plan, cls, beside, greet)
        if ended is not None:
            ended(node)
    return 0


@contextlib.contextmanager
def _shown_when_slow(show: Callable[[str], None] | None, line: str) -> Iterator[None]:
    """Context manager that calls `show` with `line` if its body takes longer than SILENT_S."""
    if show is None:
        yield
        return
    timer = threading.Timer(SILENT_S, show, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run(
    plan: Plan,
    cls: type[Node],
    beside: Callable[[Client, str], None] | None,
    greet: Callable[[str], None] | None,
) -> Node:
    """Run the only node of the plan to its end; an exception in the node's own code is printed.

    beside  function called with (client, name of the node) in a thread of its own once the node is registered
    greet   function called with one line of text when the node waits for a launch, when the node has joined a
            simulation, when the simulation has ended, and when it has been restarted
    """
    node_plan = plan.nodes[0]
    try:
        node = cls()
        greeting = None if greet is None else Greeting(plan, cls, greet)
        runner = Runner(plan, node_plan, node, context_plan=live_plan(plan.domain), on_nodes=greeting)
        if beside is not None:
            threading.Thread(target=_stand_beside, args=(beside, plan.domain, node_plan.name), daemon=True).start()
        runner.run()
    except (PlanError, RegistryError, AddressError, DomainError):
        raise
    except Exception as error:
        print(traceback_text(error), file=sys.stderr)
        line = f"node {node_plan.name!r} ended: {type(error).__name__}: {error}"
        raise NodeFailedError(line.rstrip(": ").partition("\n")[0]) from None
    return node


class Greeting:
    """Callback for registry changes: reports that the node joined a simulation, that the simulation ended or no longer
    answers, and that the node rejoined.
    """

    def __init__(self, plan: Plan, cls: type[Node], show: Callable[[str], None]) -> None:
        self._name, self._robot, self._show = plan.nodes[0].name, plan.sim.robot_name, show
        inputs, outputs = (", ".join(table) or "nothing" for table in (cls.subscribes, cls.publishes))
        domain = f"domain {plan.domain}, robot {plan.sim.robot_name}"
        self._line = f"{domain}, subscribes to {inputs}, publishes {outputs}; Ctrl-C ends"
        self._gone = f"the simulation in domain {plan.domain} has ended or does not answer; waits for it; Ctrl-C ends"
        self._sim: int | None = None  # process id of the simulation joined
        self._waits = False  # whether this simulation has left since

    def __call__(self, nodes: Sequence[NodeEntry]) -> None:
        pids = {entry.name: entry.pid for entry in nodes}
        servers = [e.pid for e in nodes if e.name == "sim" and f"{self._robot}/state" in e.publishes]
        if not servers and self._sim is not None and not self._waits:
            self._waits = True
            self._show(f"{self._name}: {self._gone}")
        if pids.get(self._name) != os.getpid() or not servers or (servers[0] == self._sim and not self._waits):
            return
        joined = "joined" if self._sim is None else "joined again,"
        self._sim, self._waits = servers[0], False
        self._show(f"{self._name}: {joined} {self._line}")


def _stand_beside(beside: Callable[[Client, str], None], domain: int, name: str) -> None:
    """Wait until the node is registered, then call `beside`.

    No error is raised if the node or its domain ends in the meantime.
    """
    over = (ServiceError, RegistryError, NotLiveError, UnknownNameError, zmq.ZMQError)
    with contextlib.suppress(*over), Client(domain) as client:
        while all((entry.name, entry.pid) != (name, os.getpid()) for entry in client.nodes()):
            time.sleep(BESIDE_PERIOD_S)
        beside(client, name)


def live_plan(domain: int) -> Plan | None:
    """Plan of the launch that is live in the domain, from its plan file; None if no server is live.

    The plan file alone is no proof of a live launch, because it may outlast its launch.
    """
    with contextlib.suppress(NotLiveError, PlanError), Client(domain) as client:
        if any(entry.name == "sim" for entry in client.nodes()):
            return read_plan(domain_folder(domain) / PLAN_FILE)
    return None


def _live_simulation(domain: int, robot: str | None, alone: bool) -> SimPlan | None:
    """Table [sim] of a launch file with the live simulation's robot and time step; None if no launch is live.

    Robot and time step come from the robot's description. If the simulation sends no description, the table contains
    only the given `robot`; if `robot` is None too, the result is None.

    alone  whether the call also succeeds if `robot` is not among the live robots. If False, UnknownNameError is raised
           in this case
    """
    with contextlib.suppress(NotLiveError), Client(domain) as client:
        described = [t.name for t in client.topics() if t.name.endswith("/description") and t.publishes]
        chosen = described if robot is None else [name for name in described if name == f"{robot}/description"]
        if robot is not None and described and not chosen and not alone:
            there = ", ".join(name.removesuffix("/description") for name in described)
            raise UnknownNameError(f"no robot {robot!r} is live in domain {domain}; name a live robot: {there}")
        for topic in chosen:
            for _, message in client.stream(topic, timeout_s=DESCRIPTION_WAIT_S):
                if isinstance(message, Description):
                    return SimPlan(robot=message.robot, step_ms=1e3 * message.step_s or 1.0)
        if robot is not None:
            return SimPlan(robot=robot)
    return None

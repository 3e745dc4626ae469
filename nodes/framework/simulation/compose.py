"""Runs a plan in one process: the lockstep schedule without sockets, for sweeps, tests and replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.outgoing import EncodedMessage, Out
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.simulation.links import links_of
from nodes.framework.simulation.lockstep import LocalPort, Scheduler
from nodes.framework.simulation.recorded_links import with_recorded_links
from nodes.framework.simulation.restart.snapshots import Restart, require_robot
from nodes.framework.simulation.server import SimServer
from nodes.node import Node
from sim_core.support.notebook import page
from sim_core.system import System


class Composition:
    """The simulation server and the nodes of a plan, which run together in this process.

    `close`, or the end of a `with` block, stops the nodes.

    carry  function called with every (topic, encoded message) of the run, in order
    nodes  {name: class} of node classes that are not in a file; each replaces the plan's node of this name, or is added
           if the plan has no such node
    begin  point of a recorded run from which this run continues, see `read_restart`; None for a run from its start
    start  coordinates q and velocities v (n_q,) at the start of a run of one robot; None for the robot's own start
    assembled  the robot of a plan of one robot, if it is already assembled, as when many runs share it; otherwise None
    """

    def __init__(
        self,
        plan: Plan,
        carry: Out | None = None,
        nodes: Mapping[str, type[Node]] | None = None,
        begin: Restart | None = None,
        start: tuple[Any, Any] | None = None,
        assembled: System | None = None,
    ) -> None:
        classes = dict(nodes or {})
        named = {node_plan.name for node_plan in plan.nodes}
        added = [NodePlan(name=name, run=f"{cls.__module__}:{cls.__name__}") for name, cls in classes.items()]
        added = [node_plan for node_plan in added if node_plan.name not in named]
        plan = msgspec.structs.replace(plan, nodes=[*plan.nodes, *added])
        if plan.timing_from:
            plan, _ = with_recorded_links(plan, classes)
        self.plan = plan
        self.server = SimServer(plan, wall_clock=False, assembled=assembled)
        if begin is not None:
            require_robot(begin, self.server.code_hash)
        if start is not None:
            (only,) = self.server.robots
            only.begin_at(*start)
        self.nodes: dict[str, HostedNode] = {}
        for node_plan in plan.nodes:
            node = (classes.get(node_plan.name) or load_class(node_plan.run, plan.folder))()
            self.nodes[node_plan.name] = HostedNode(node, plan, node_plan, _silent, wall_clock=False)
        self._scheduler = Scheduler(
            self.server, [LocalPort(node) for node in self.nodes.values()], carry, links=links_of(plan)
        )
        for hosted in self.nodes.values():
            hosted.start()
        if begin is None:
            self.server.start()
            return
        latched: list[EncodedMessage] = []
        self.server.out = lambda topic, payload: latched.append((topic, payload))
        self.server.start(restarts=True)
        if carry is not None:
            for topic, payload in latched:
                carry(topic, payload)
        for _ in self._scheduler.restart(self.server, begin, latched):
            pass

    def _repr_html_(self) -> str:
        """The run as HTML, which a notebook shows at the end of a cell: time, integration method and a row per node."""
        plan, facts = self.plan, []
        for robot in self.server.robots:
            simulation = robot.simulation
            facts += [
                robot.name,
                f"t = {simulation.time:.6g} s",
                f"{simulation.stepper.name}, {simulation.stabilizer.name}, steps of {plan.sim.step_ms:g} ms",
                "peak violation |Phi| {:.2g}, |Phidot| {:.2g}".format(*simulation.peak_violation()),
            ]
        rows = [
            (name, type(hosted.node).__name__, hosted.messages.refusals.count, hosted.messages.refusals.last)
            for name, hosted in self.nodes.items()
        ]
        return page(f"Run of {plan.name}", facts, ("node", "class", "refused", "latest refusal"), rows)

    def step(self, n: int = 1) -> None:
        """Take n time steps, also beyond the plan's duration_s."""
        step = self._scheduler.step
        for _ in range(n):
            step()

    def run(self, seconds: float | None = None) -> None:
        """Run for `seconds` of simulation time, by default until the plan's duration_s, and deliver all messages."""
        duration_s = seconds
        if duration_s is None and self.plan.duration_s is not None:
            duration_s = self.plan.duration_s - self.server.time
        if duration_s is None:
            raise ValueError(f"plan {self.plan.name!r} has no duration_s; give the number of seconds to run")
        self.step(round(duration_s / self.plan.sim.step_s))
        self._scheduler.finish()

    def request(self, name: str, **args: Any) -> Any:
        """Response of the simulation server to a service call.

        Raises ValueError with a one-line message if the server refuses the call.
        """
        if name in ("reset", "restore"):
            self._scheduler.forget()
        return self.server.request(name, args)

    def ignored_commands(self) -> dict[str, str]:
        """{node: latest reason} of the nodes that commanded the robot without one accepted command."""
        status = self.server.status()
        accepted, refused = status["commands_taken"], status["commands_refused"]
        topics = {f"'{view.sim.robot_name}/command'" for view in self.plan.views}
        found = {name: refused[name]["reason"] for name in self.nodes if name in refused}
        for name, hosted in self.nodes.items():
            topic, _, reason = hosted.messages.refusals.last.partition(": ")
            if topic in topics:
                found.setdefault(name, reason)
        return {name: reason for name, reason in found.items() if not accepted.get(name)}

    def close(self) -> None:
        """Stop the nodes."""
        for hosted in self.nodes.values():
            hosted.stop()

    def __enter__(self) -> Composition:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compose(
    plan: Plan,
    carry: Out | None = None,
    nodes: Mapping[str, type[Node]] | None = None,
    begin: Restart | None = None,
    start: tuple[Any, Any] | None = None,
) -> Composition:
    """A `Composition` of the server and the nodes of a plan, at the start or at a point of a recorded run.

    carry  function called with every (topic, encoded message) of the run, in order
    nodes  {name: class} of node classes that are not in a file; each replaces the plan's node of this name, or is added
           if the plan has no such node
    begin  point of a recorded run from which this run continues; None for a run from its start
    start  coordinates q and velocities v (n_q,) at the start of a run of one robot; None for the robot's own start
    """
    return Composition(plan, carry, nodes, begin, start)


def _silent(_topic: str, _payload: bytes) -> None:
    """Discard a message: the initial `out` function of a node, until a LocalPort sets another function."""

"""Runs a plan in one process: the lockstep schedule without sockets, for sweeps, tests and replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nodes.hosting.hosted import HostedNode, Out
from nodes.node import Node
from nodes.plan.launch_plan import NodePlan, Plan
from nodes.plan.loading import load_class
from nodes.simulation.lockstep import LocalPort, Scheduler
from nodes.simulation.server import SimServer


def make_server(plan: Plan, wall_clock: bool | None = None) -> SimServer:
    """The simulation server of a plan; wall_clock: whether the wall clock paces it, None: as the plan's mode has it."""
    return SimServer(plan, wall_clock)


class Composition:
    """The server and the nodes of a plan, stepped together. `close`, or leaving the context manager, stops the nodes.

    carry  called with every (topic, encoded message) of the run, in order
    nodes  {name: class} of node classes that are in no file: they replace the plan's nodes of that name, or are added
    """

    def __init__(self, plan: Plan, carry: Out | None = None, nodes: Mapping[str, type[Node]] | None = None) -> None:
        classes = dict(nodes or {})
        named = {node_plan.name for node_plan in plan.nodes}
        added = [NodePlan(name=name, run=f"{cls.__module__}:{cls.__name__}") for name, cls in classes.items()]
        added = [node_plan for node_plan in added if node_plan.name not in named]
        self.plan = plan = msgspec.structs.replace(plan, nodes=[*plan.nodes, *added])
        self.server = make_server(plan, wall_clock=False)
        self.nodes: dict[str, HostedNode] = {}
        for node_plan in plan.nodes:
            node = (classes.get(node_plan.name) or load_class(node_plan.run, plan.folder))()
            self.nodes[node_plan.name] = HostedNode(node, plan, node_plan, _silent, wall_clock=False)
        self._scheduler = Scheduler(self.server, [LocalPort(node) for node in self.nodes.values()], carry)
        for hosted in self.nodes.values():
            hosted.start()
        self._scheduler.start()

    def step(self, n: int = 1) -> None:
        """Take n steps, also beyond the plan's duration_s."""
        step = self._scheduler.step
        for _ in range(n):
            step()

    def run(self, seconds: float | None = None) -> None:
        """Run for `seconds` of simulation time, by default the plan's duration_s; then deliver remaining messages."""
        duration_s = self.plan.duration_s if seconds is None else seconds
        if duration_s is None:
            raise ValueError(f"plan {self.plan.name!r} has no duration_s: give the number of seconds to run")
        self.step(round(duration_s / self.plan.sim.step_s))
        self._scheduler.finish()

    def request(self, name: str, **args: Any) -> Any:
        """Response of the simulation server to a service call. ValueError, one line, where it refuses."""
        if name in ("reset", "restore"):
            self._scheduler.forget()
        return self.server.request(name, args)

    def close(self) -> None:
        """Stop the nodes."""
        for hosted in self.nodes.values():
            hosted.stop()

    def __enter__(self) -> Composition:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compose(plan: Plan, carry: Out | None = None, nodes: Mapping[str, type[Node]] | None = None) -> Composition:
    """The plan in this process, at tick 0, to be stepped or run; parameters as in `Composition`."""
    return Composition(plan, carry, nodes)


def _silent(_topic: str, _payload: bytes) -> None:
    """Placeholder for `out`, replaced by the port before the node publishes anything."""

"""The nodes that the simulation server runs in turns: their connections, the scheduler, and the messages to them."""

from __future__ import annotations

from collections.abc import Sequence

from nodes.framework.hosting.outgoing import EncodedMessage, Out
from nodes.framework.hosting.turns import RemotePort
from nodes.framework.messages.topics import node_topic
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.links import links_of
from nodes.framework.simulation.lockstep import Scheduler
from nodes.framework.simulation.server import SimServer
from nodes.framework.transport.bus import Context
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.rejections import RejectionLog

FAST_BATCH = 32  # in mode fast, time steps between two runs of a lossless participant, such as a recorder


class Participants:
    """The participants of a run over sockets. In mode realtime there are none.

    scheduler  runs the participants and the time steps; None before `connect`, and in mode realtime
    restarts   whether the run begins at a point of a recorded run that was not reached yet
    first      messages published before `connect`, for participants that connect later

    carry  function that publishes an encoded message
    """

    def __init__(self, plan: Plan, server: SimServer, context: Context, carry: Out, restarts: bool) -> None:
        self.scheduler: Scheduler | None = None
        self.restarts = restarts
        self.first: list[EncodedMessage] = []
        self._plan, self._server, self._context, self._carry = plan, server, context, carry
        self._own_topics = frozenset(server.topics)
        self._ports: dict[str, tuple[str, RemotePort]] = {}
        server.out = self._publish_first

    @property
    def refusals(self) -> list[RejectionLog]:
        """Logs of the rejected messages of the participants."""
        return [port.refusals for _, port in self._ports.values()]

    @property
    def forged(self) -> list[dict[str, int]]:
        """Numbers of messages that were dropped because their topics do not belong to the participants."""
        return [port.forged for _, port in self._ports.values()]

    def finish(self) -> None:
        """Deliver all remaining messages to the participants, when stepping ends."""
        if self.scheduler is not None:
            self.scheduler.finish()

    def forget(self) -> None:
        """Deliver all remaining messages, and drop what is queued, before a reset or a restore."""
        if self.scheduler is not None:
            self.scheduler.finish()
            self.scheduler.forget()

    def close(self) -> None:
        """Close the connections."""
        for _, port in self._ports.values():
            port.close()

    def connect(self, nodes: Sequence[NodeEntry]) -> None:
        """Connect to every participant of the plan that is among `nodes`.

        In lockstep, raises ValueError with the names of the nodes that are missing.
        """
        mode = self._plan.sim.mode
        if mode == "realtime":
            if self.scheduler is None:
                self._server.out = self._carry
                self.first.clear()
            return
        entries = {entry.name: entry for entry in nodes}
        there = [n for n in self._plan.nodes if n.name in entries and "step" in entries[n.name].endpoints]
        missing = [n.name for n in self._plan.nodes if n not in there]
        if mode == "lockstep" and missing:
            raise ValueError(
                f"resume: lockstep needs every node of the plan; start the missing nodes ({', '.join(missing)})"
            )
        wanted = {node.name: entries[node.name].endpoints["step"] for node in there}
        if self.scheduler is not None and wanted == {name: end for name, (end, _) in self._ports.items()}:
            return
        for _, port in self._ports.values():
            port.close()
        turns = {name: port.seq for name, (_, port) in self._ports.items()}
        self._ports = {}
        for node in there:
            entry = entries[node.name]
            robot = self._plan.robot_of(node.namespace)
            plotted = node_topic("plot", robot, node.local_name)  # announced at any time: it must not matter
            only_listens = entry.lossless and set(entry.publishes) <= {"status", plotted}
            port = RemotePort(
                self._context,
                node.name,
                wanted[node.name],
                entry.subscribes,
                publishes=not only_listens,
                decimation=node.decimation,
                lossless=entry.lossless,
                deadline_s=self._plan.sim.deadline_ms * 1e-3,
                seq=turns.get(node.name, 0),
                topics=entry.publishes,
            )
            self._ports[node.name] = (wanted[node.name], port)
        ports = [port for _, port in self._ports.values()]
        batch = FAST_BATCH if mode == "fast" else 1
        carry = self._carry_own if mode == "lockstep" else self._carry
        links = links_of(self._plan) if mode == "lockstep" else None
        if links is not None and self.scheduler is not None:
            links.count_on(self.scheduler.dropped)
        self.scheduler = Scheduler(self._server, ports, carry, batch, links)
        if not self.restarts:
            self.scheduler.queue_first(self.first)
            self.first.clear()

    def _carry_own(self, topic: str, payload: bytes) -> None:
        """Publish a message of the simulation server. Ignore a message of a node, which the node itself publishes."""
        if topic in self._own_topics:
            self._carry(topic, payload)

    def _publish_first(self, topic: str, payload: bytes) -> None:
        """Publish a message, and keep it for participants that connect later; these receive it when they first run."""
        self.first.append((topic, payload))
        self._carry(topic, payload)

"""The lockstep schedule: per step, each due participant has one turn in plan order, then the simulation advances.

A turn delivers every due message: the state, and the messages that earlier participants published in this step. The
same scheduler runs nodes in this process (`LocalPort`) and in others (`RemotePort`). Both exchange encoded messages, so
both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodes.hosting.hosted import EncodedMessage, HostedNode, Out
from nodes.messages import JointCommand
from nodes.messages.codec import WireError, decode
from nodes.messages.topics import is_sampled
from nodes.simulation.protocol import Stepped


class Port(Protocol):
    """The scheduler's connection to a participant.

    decimation  number n: the participant has a turn on each n-th step
    lossless    whether it receives every message, also with fewer turns
    """

    name: str
    decimation: int
    lossless: bool

    def wants(self, topic: str) -> bool:
        """Whether the participant subscribes to a topic."""

    def turn(self, now: float, incoming: Sequence[EncodedMessage]) -> list[EncodedMessage]:
        """One turn at simulation time `now`, s; returns the messages that the participant published."""

    def settle(self) -> list[EncodedMessage]:
        """Wait for a pending reply; returns its messages."""


class LocalPort:
    """A participant in this process, connected without sockets."""

    def __init__(self, hosted: HostedNode) -> None:
        self.name = hosted.name
        self.decimation = hosted.decimation
        self.lossless = hosted.lossless
        self.wants = hosted.wants
        self._hosted = hosted
        self._outgoing: list[EncodedMessage] = []
        hosted.out = self._collect

    def _collect(self, topic: str, payload: bytes) -> None:
        self._outgoing.append((topic, payload))

    def turn(self, now: float, incoming: Sequence[EncodedMessage]) -> list[EncodedMessage]:
        """Run the node's turn; returns the messages that it published in the turn or since the previous one."""
        self._hosted.turn(now, incoming)
        if not self._outgoing:
            return self._outgoing
        messages, self._outgoing = self._outgoing, []
        return messages

    def settle(self) -> list[EncodedMessage]:
        """Returns no messages, as no reply is ever pending."""
        return []


class ScheduledParticipant:
    """A participant with the messages waiting for its next turn."""

    def __init__(self, port: Port, decimation: int) -> None:
        self.port = port
        self.decimation = decimation
        self.waiting: list[EncodedMessage] = []

    def due(self) -> list[EncodedMessage]:
        """Take the messages for the turn that begins now; with decimation, only the latest of each sampled topic.

        Lossless participants receive all messages.
        """
        incoming, self.waiting = self.waiting, []
        if self.decimation == 1 or self.port.lossless:
            return incoming
        latest = {topic: index for index, (topic, _) in enumerate(incoming)}
        return [
            (topic, payload)
            for index, (topic, payload) in enumerate(incoming)
            if latest[topic] == index or not is_sampled(topic)
        ]


class Scheduler:
    """Steps a simulation together with its participants.

    carry  called with every message of the run, of server and participants, in their order
    batch  lossless participants have a turn only on each batch-th step, and receive all messages; 1 in lockstep
    """

    def __init__(self, server: Stepped, ports: Sequence[Port], carry: Out | None = None, batch: int = 1) -> None:
        self.server = server
        self._carry = carry
        self._command = f"{server.robot}/command"
        self._participants = [
            ScheduledParticipant(port, max(port.decimation, batch) if port.lossless else port.decimation)
            for port in ports
        ]
        self._routes: dict[str, list[ScheduledParticipant]] = {}
        server.out = self._from_server

    def start(self) -> None:
        """Start the server: it publishes description and initial state."""
        self.server.start()

    def queue_first(self, messages: Sequence[EncodedMessage]) -> None:
        """Queue messages that the server published before the schedule existed, for each participant's first turn."""
        for topic, payload in messages:
            for participant in self._route(topic):
                participant.waiting.append((topic, payload))

    def step(self) -> None:
        """Give every due participant its turn, then take one step."""
        server = self.server
        tick, now = server.tick, server.time
        for participant in self._participants:
            if tick % participant.decimation == 0:
                for topic, payload in participant.port.turn(now, participant.due()):
                    self._from_port(participant, topic, payload)
        server.step()

    def finish(self) -> None:
        """Deliver the remaining messages to lossless participants, and wait for all pending replies."""
        for participant in self._participants:
            if participant.port.lossless and participant.waiting:
                participant.port.turn(self.server.time, participant.due())
            participant.port.settle()

    def forget(self) -> None:
        """Drop queued messages after a reset or restore, except those of lossless participants."""
        for participant in self._participants:
            if not participant.port.lossless:
                participant.waiting.clear()

    def _from_server(self, topic: str, payload: bytes) -> None:
        if self._carry is not None:
            self._carry(topic, payload)
        for participant in self._routes.get(topic) or self._route(topic):
            participant.waiting.append((topic, payload))

    def _from_port(self, speaker: ScheduledParticipant, topic: str, payload: bytes) -> None:
        if self._carry is not None:
            self._carry(topic, payload)
        if topic == self._command:
            try:
                command = decode(topic, payload, JointCommand)
            except WireError as error:
                self.server.refuse(topic, error.reason)
                return
            self.server.command(speaker.port.name, command)
        for participant in self._routes.get(topic) or self._route(topic):
            if participant is not speaker:
                participant.waiting.append((topic, payload))

    def _route(self, topic: str) -> list[ScheduledParticipant]:
        route = [participant for participant in self._participants if participant.port.wants(topic)]
        if len(self._routes) < 1024:
            self._routes[topic] = route
        return route

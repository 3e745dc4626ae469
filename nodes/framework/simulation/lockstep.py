"""The lockstep schedule: in each time step, the due participants run one after the other, then the simulation advances.

When a participant runs (its turn), it receives every due message: the state, and the messages that earlier participants
published in this time step. The participants run in the order of the plan. The same scheduler runs nodes in this
process (`LocalPort`) and nodes in other processes (`RemotePort`). Both ports exchange encoded messages, so that a run
has the same bytes with either port.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Protocol

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.outgoing import EncodedMessage, Out
from nodes.framework.hosting.snapshots import restore, snapshot_of
from nodes.framework.hosting.turns import QUIET, SNAPSHOT, TURN
from nodes.framework.messages import Event, JointCommand
from nodes.framework.messages.codec import WireError, decode
from nodes.framework.messages.topics import is_sampled
from nodes.framework.simulation.links import ROUNDING_S, Links
from nodes.framework.simulation.restart.snapshots import LinksState, Played, Restart

if TYPE_CHECKING:
    from nodes.framework.simulation.commands import CommandHandler
    from nodes.framework.simulation.server import SimServer

SERVER = "sim"  # name of the server at the ends of links


class Stepped(Protocol):
    """What the scheduler steps: the simulation server, or the recorded messages of one in a replay.

    out  function that is called with (topic, encoded message) for each message, as soon as it is published
    """

    out: Out

    @property
    def commands(self) -> Mapping[str, CommandHandler]:
        """{topic of commands: object that receives them}."""

    @property
    def tick(self) -> int:
        """Number of time steps since the start or the last reset; time = tick * step_s."""

    @property
    def time(self) -> float:
        """Simulation time, s."""

    def step(self) -> None:
        """Apply the commands received, advance one time step, publish the messages that are due."""

    def next_snapshot(self, tick: int) -> int:
        """First tick at or after `tick` at which a snapshot is taken."""

    def publish_snapshot(
        self, nodes: Mapping[str, bytes], waiting: Mapping[str, Sequence[EncodedMessage]], links: LinksState | None
    ) -> None:
        """Publish the state of the run: states of the server and of the nodes, and messages waiting for the nodes."""


class Port(Protocol):
    """The scheduler's connection to a participant.

    decimation  number n: the participant runs on each n-th time step
    lossless    whether the participant receives every message, even if it does not run on every time step
    publishes   whether a time step waits for the participant; false for a lossless node that publishes no topic
    state       latest state that the participant returned on request; b"" before the first request
    """

    name: str
    decimation: int
    lossless: bool
    publishes: bool
    state: bytes

    def subscribes_to(self, topic: str) -> bool:
        """Whether the participant subscribes to `topic`, a full topic name."""

    def turn(self, now: float, incoming: Sequence[EncodedMessage], kind: str = TURN) -> list[EncodedMessage]:
        """Run the participant for the time step at simulation time `now` (s); returns the messages that it published.

        kind  "quiet": the participant's messages are not sent to observers; "snapshot": the participant's state after
              the step is stored in `state`
        """

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        """Set the participant to a state, from which it continues at simulation time `now` (s).

        latched  latest messages of latched topics (such as descriptions), which the server does not send again
        stamps   whether the sequence numbers of messages continue from those in `state`
        """

    def settle(self) -> list[EncodedMessage]:
        """Wait for the reply to the latest request to run, if this reply is pending. Returns the messages in this
        reply.
        """


class LocalPort:
    """A participant in this process, connected without sockets."""

    def __init__(self, hosted: HostedNode) -> None:
        self.name = hosted.name
        self.decimation = hosted.decimation
        self.lossless = hosted.lossless
        self.publishes = bool(hosted.messages.publishes) or not hosted.lossless
        self.state = b""
        self.subscribes_to = hosted.subscribes_to
        self._hosted = hosted
        self._outgoing: list[EncodedMessage] = []
        self._only_listens = hosted.lossless and not hosted.messages.publishes  # its plotted values come one call late
        hosted.messages.out = self._collect

    def _collect(self, topic: str, payload: bytes) -> None:
        self._outgoing.append((topic, payload))

    def turn(self, now: float, incoming: Sequence[EncodedMessage], kind: str = TURN) -> list[EncodedMessage]:
        """Run the node for a time step.

        Returns the messages that the node has published since the previous call of this method. For a lossless node
        that publishes no topic, the result is instead the values that the node plotted in the previous call, as with a
        RemotePort.
        """
        if self._only_listens:
            late = self.settle()
            self._hosted.turn(now, incoming)
            return late
        self._hosted.turn(now, incoming)
        if kind == SNAPSHOT:
            self.state = snapshot_of(self._hosted)
        if not self._outgoing:
            return self._outgoing
        messages, self._outgoing = self._outgoing, []
        return messages

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        """Set the node to the encoded `state`, from which it continues.

        latched  latest messages of latched topics (such as descriptions), which the server does not send again
        stamps   whether the sequence numbers of the node's messages continue from those in `state`
        """
        self._outgoing = []
        restore(self._hosted, state, latched, stamps)

    def settle(self) -> list[EncodedMessage]:
        """Return the messages that `turn` has not returned yet.

        These are the values that a lossless node without published topics plotted in the latest call of `turn`, because
        `turn` returns such values one call late. For any other node the result is [].
        """
        if not self._only_listens:
            return []
        messages, self._outgoing = self._outgoing, []
        return messages


class ScheduledParticipant:
    """A participant (node that the scheduler runs), with the messages that it will receive when it next runs.

    A participant is lossless if its node class has `lossless = True`, as a recorder has: it receives every message.

    on_the_way  heap of (arrival time, number, topic, message) for messages that a communication link delays
    busy_until  simulation time (s) until which the participant still computes and does not run again
    """

    def __init__(self, port: Port, decimation: int) -> None:
        self.port = port
        self.decimation = decimation
        self.waiting: list[EncodedMessage] = []
        self.on_the_way: list[tuple[float, int, str, bytes]] = []
        self.busy_until = 0.0

    def receive_until(self, now: float) -> None:
        """Move the messages that have arrived by the time `now` (s) from `on_the_way` to `waiting`."""
        while self.on_the_way and self.on_the_way[0][0] <= now + ROUNDING_S:
            _, _, topic, payload = heapq.heappop(self.on_the_way)
            self.waiting.append((topic, payload))

    def due(self) -> list[EncodedMessage]:
        """Remove the messages that the participant receives now, before it runs, and return them."""
        incoming, self.waiting = self.needed, []
        return incoming

    @property
    def needed(self) -> list[EncodedMessage]:
        """The waiting messages that the participant will receive.

        A lossless participant, and one that runs on every time step, receives all of them. Any other participant
        receives only the latest message of each sampled topic, and all messages of other topics.
        """
        incoming = self.waiting
        if self.decimation == 1 or self.port.lossless:
            return incoming
        latest = {topic: index for index, (topic, _) in enumerate(incoming)}
        return [
            (topic, payload)
            for index, (topic, payload) in enumerate(incoming)
            if latest[topic] == index or not is_sampled(topic)
        ]


class Scheduler:
    """Advances a simulation together with its participants.

    carry  function called with every message of the server and of the participants, in the order of publication
    batch  number of time steps between two runs of a lossless participant, which then receives all messages of these
           time steps at once; 1 in lockstep
    links  communication links, which compute the arrival time of each message; None: messages arrive at once
    """

    def __init__(
        self,
        server: Stepped,
        ports: Sequence[Port],
        carry: Out | None = None,
        batch: int = 1,
        links: Links | None = None,
    ) -> None:
        self.server = server
        self._links = links
        self._commands: list[tuple[float, int, str, str, bytes]] = []  # delayed commands: (arrival, number, node, ...)
        self._numbers = count()
        self._carry = carry
        self._commanded = server.commands
        self._participants = [
            ScheduledParticipant(port, max(port.decimation, batch) if port.lossless else port.decimation)
            for port in ports
        ]
        self._listening = self._participants  # those that receive messages
        self._routes: dict[str, list[ScheduledParticipant]] = {}
        self._snapshot_tick = -1  # tick of the next snapshot
        server.out = self._from_server

    @property
    def dropped(self) -> dict[str, list[int]]:
        """{node whose link loses messages: [number of messages lost on the link, number of all messages on it]}.

        It is {} if no node has an emulated link. Messages that are never lost, such as events, are not counted.
        """
        return {} if self._links is None else self._links.dropped

    def queue_first(self, messages: Sequence[EncodedMessage]) -> None:
        """Queue messages that the server published before this scheduler existed. Each participant receives them when
        it first runs.
        """
        for topic, payload in messages:
            for participant in self._route(topic):
                self._send(SERVER, participant, topic, payload)

    def give(self, name: str, messages: Sequence[EncodedMessage]) -> None:
        """Add messages to those that the participant `name` will receive the next time it runs."""
        for participant in self._participants:
            if participant.port.name == name:
                participant.waiting += messages

    def step(self) -> None:
        """Run every participant that is due, then take one time step."""
        self._take_turns()
        if self.server.tick == self._snapshot_tick:
            self._take_snapshot()
        self.server.step()

    def _take_turns(self, kind: str = TURN) -> None:
        server = self.server
        tick, now = server.tick, server.time
        if tick > self._snapshot_tick:
            self._snapshot_tick = server.next_snapshot(tick)
        for participant in self._listening:
            if tick % participant.decimation:
                continue
            port, how, until_next = participant.port, kind, participant.decimation
            if self._links is not None:
                if now + ROUNDING_S < participant.busy_until:
                    continue
                participant.receive_until(now)
                participant.busy_until = now + self._links.compute_s(port.name)
                until_next = self._links.ticks_of_turn(port.name, participant.decimation)
            if tick + until_next > self._snapshot_tick and port.publishes:
                how = SNAPSHOT  # its last turn before the snapshot
            messages = port.turn(now, participant.due(), how) if how else port.turn(now, participant.due())
            for topic, payload in messages:
                self._from_port(participant, topic, payload)
        while self._commands and self._commands[0][0] <= now + ROUNDING_S:
            _, _, source, topic, payload = heapq.heappop(self._commands)
            self._command(source, topic, payload, timed=False)

    # -- snapshots

    def _take_snapshot(self) -> None:
        """Publish a snapshot of the whole run.

        Does nothing if, since the last reset, not all participants that publish topics have returned their state.
        """
        speaking = [each for each in self._participants if each.port.publishes]
        if all(each.port.state for each in speaking):
            nodes = {each.port.name: each.port.state for each in speaking}
            waiting = {each.port.name: each.needed for each in speaking}
            self.server.publish_snapshot(nodes, waiting, self._links_state(speaking))

    def _links_state(self, participants: Sequence[ScheduledParticipant]) -> LinksState | None:
        """State of the communication links (delay, jitter and loss of messages) for a snapshot; None if there are no
        links.

        The state contains the counts of random draws, the delayed messages to the server and to `participants`, and the
        simulation times until which these participants compute.
        """
        if self._links is None:
            return None
        return LinksState(
            links=self._links.snapshot(),
            commands=sorted(self._commands),
            on_the_way={each.port.name: sorted(each.on_the_way) for each in participants if each.on_the_way},
            busy_until={each.port.name: each.busy_until for each in participants if each.busy_until},
        )

    def put_on_the_way(self, state: LinksState) -> None:
        """Set the communication links to their state in a snapshot, see `_links_state`.

        Delayed messages that the snapshot contains are then delivered at their arrival times.
        """
        if self._links is None:
            return
        self._links.restore(state.links)
        self._commands = [each for each in state.commands if each[3] in self._commanded]  # sorted, so a heap
        for participant in self._participants:
            participant.on_the_way = list(state.on_the_way.get(participant.port.name, ()))
            participant.busy_until = state.busy_until.get(participant.port.name, 0.0)
        numbers = [each[1] for each in state.commands]
        numbers += [each[1] for messages in state.on_the_way.values() for each in messages]
        self._numbers = count(max(numbers, default=-1) + 1)

    def restart(
        self, server: SimServer, begin: Restart, latched: Sequence[EncodedMessage], live: bool = False
    ) -> Iterator[int]:
        """Continue from a snapshot: take unpublished time steps up to the restart tick, then one time step whose
        messages are published.

        In the unpublished time steps, only participants that publish messages run. For participants that start anew,
        without their recorded state, the recorded messages are used instead. The users' recorded actions are repeated.

        server   the simulation server that this scheduler steps
        latched  latest messages of latched topics (such as descriptions), which the server does not send again
        live     whether a run is in progress: sequence numbers then continue from those of this run instead of those of
                 the snapshot, and an event "restore" is published first
        """
        run = begin.run
        server.out = self._from_server
        server.restart(run.server, stamps=not live, ahead=begin.tick - 1 - run.tick)
        everyone = self._participants
        self._listening, self._routes = [each for each in everyone if each.port.publishes], {}
        fresh = [each for each in everyone if each.port.name in begin.fresh or not each.port.publishes]
        for participant in everyone:
            name = participant.port.name
            participant.waiting = list(run.waiting.get(name, ()))
            if participant not in fresh:
                participant.port.state = run.nodes[name]
                participant.port.restore(server.time, run.nodes[name], latched, not live)
        if run.links is not None:
            self.put_on_the_way(run.links)
        present = {each.port.name: each.port for each in fresh}
        for participant in fresh:
            name = participant.port.name
            participant.port = Played(name, participant.decimation, begin.step_s, begin.played.get(name, ()))
        there = {each.port.name for each in everyone}
        for name in (name for name in begin.played if name not in there):  # nodes that the plan lacks
            self._listening.append(ScheduledParticipant(Played(name, 1, begin.step_s, begin.played[name]), 1))
        carry, self._carry = self._carry, None
        actions = deque(begin.actions)
        self._snapshot_tick = -1
        try:
            while True:
                yield server.tick
                if server.tick >= begin.tick - 1:
                    break
                server.step()
                while actions and actions[0][0] <= server.tick:
                    server.repeat(actions.popleft()[1])
                self._take_turns(QUIET)
        finally:
            for participant in fresh:
                participant.port, participant.waiting = present[participant.port.name], list(latched)
                participant.on_the_way, participant.busy_until = [], 0.0
            self._listening, self._carry, self._routes = everyone, carry, {}
        if live:
            server.publish_events([Event(kind="restore")])
        server.step()

    def finish(self) -> None:
        """Deliver the remaining messages to lossless participants, and wait for all pending replies."""
        for participant in self._participants:
            port = participant.port
            if port.lossless:
                participant.receive_until(math.inf)
            last = port.turn(self.server.time, participant.due()) if port.lossless and participant.waiting else []
            for topic, payload in [*last, *port.settle()]:
                self._from_port(participant, topic, payload)

    def forget(self) -> None:
        """Drop all queued messages after a reset or restore, except those for lossless participants."""
        for participant in self._participants:
            participant.port.state = b""
            participant.receive_until(math.inf)
            participant.busy_until = 0.0
            if not participant.port.lossless:
                participant.waiting.clear()
        self._commands.clear()
        if self._links is not None:
            self._links.forget()
        self._snapshot_tick = -1

    def _from_server(self, topic: str, payload: bytes) -> None:
        if self._carry is not None:
            self._carry(topic, payload)
        for participant in self._routes.get(topic) or self._route(topic):
            self._send(SERVER, participant, topic, payload)

    def _from_port(self, speaker: ScheduledParticipant, topic: str, payload: bytes) -> None:
        if self._carry is not None:
            self._carry(topic, payload)
        source = speaker.port.name
        if topic not in self._commanded:
            pass
        elif self._links is None:
            if not self._command(source, topic, payload):
                return
        elif (at := self._links.arrival(source, SERVER, topic, self.server.time)) is not None:
            heapq.heappush(self._commands, (at, next(self._numbers), source, topic, payload))
        for participant in self._routes.get(topic) or self._route(topic):
            if participant is not speaker:
                self._send(source, participant, topic, payload)

    def _command(self, source: str, topic: str, payload: bytes, timed: bool = True) -> bool:
        """Pass a command to the simulation of the commanded robot. Returns whether the message is valid."""
        commands = self._commanded[topic]
        try:
            command = decode(topic, payload, JointCommand)
        except WireError as error:
            commands.refuse(error.reason)
            return False
        commands.receive(source, command, timed)
        return True

    def _send(self, source: str, participant: ScheduledParticipant, topic: str, payload: bytes) -> None:
        """Pass a message to a participant, over the participant's simulated communication link if there is one."""
        port = participant.port
        if self._links is None or (port.lossless and not self._links.has(port.name)):
            participant.waiting.append((topic, payload))
        elif (at := self._links.arrival(source, port.name, topic, self.server.time)) is not None:
            heapq.heappush(participant.on_the_way, (at, next(self._numbers), topic, payload))

    def _route(self, topic: str) -> list[ScheduledParticipant]:
        route = [participant for participant in self._listening if participant.port.subscribes_to(topic)]
        if len(self._routes) < 1024:
            self._routes[topic] = route
        return route

"""A node's subscriptions: connects to the publishers of the node's topics whenever the registry's list of nodes
changes.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping

import zmq

from nodes.framework.messages import Message
from nodes.framework.messages.topics import is_sampled
from nodes.framework.transport.bus import LAST_WORDS_S, Context, PublisherConnection, Subscriber
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.sockets import QUEUE

log = logging.getLogger("armswing.node")

STALE_BACKLOG = 64
LONGEST_BACKLOG = 2 * QUEUE  # capacity of the queues at both ends of a connection

ReceivedMessage = tuple[str, str, Message, bytes, int]  # (source, topic, message, payload, messages lost before it)


class Subscriptions:
    """Connections of one node to the publishers of its topics.

    Any thread may call `offer`; only the thread of the node's loop may call the other methods.

    topics     {topic: message type}; None for all topics
    keeps_all  whether the node receives every message; if not, a node that fell far behind receives only the latest
               message of each sampled topic
    ignore     names of publishers to which no connection is made
    stale      number of messages of sampled topics that were dropped because the node fell behind
    """

    def __init__(
        self,
        context: Context,
        owner: str,
        topics: Mapping[str, type[Message]] | None,
        keeps_all: bool = False,
        ignore: Container[str] = (),
    ) -> None:
        self.subscriber = Subscriber(context, topics, owner)
        self.stale = 0
        self._owner = owner
        self._keeps_all = keeps_all
        self._ignore = ignore
        self._offered: list[NodeEntry] | None = None
        self._guard = threading.Lock()
        self._epoll = select.epoll()
        self._connections: dict[int, PublisherConnection] = {}  # by the descriptor that signals messages
        self._pending: list[tuple[str, int]] = []  # of publishers that have left
        self._flooded: set[int] = set()  # descriptors of connections with messages left from the last call

    @property
    def ready(self) -> bool:
        """Whether every publisher of the node's topics has received the node's subscriptions."""
        return self._offered is None and self.subscriber.ready

    @property
    def lost(self) -> int:
        """Number of messages lost on the way (gaps in seq) or dropped because the node fell behind."""
        return self.subscriber.lost + self.stale

    def offer(self, nodes: Iterable[NodeEntry]) -> None:
        """Store the registry's latest list of nodes for `update`."""
        with self._guard:
            self._offered = list(nodes)

    def update(self, poller: zmq.Poller, take: Callable[[ReceivedMessage], None]) -> list[str]:
        """Connect and disconnect according to the latest list of nodes. Returns the names of publishers that left.

        Before a publisher that left is disconnected, its messages that have arrived are passed to `take`. A node with
        `keeps_all` also waits, for at most LAST_WORDS_S seconds, until all messages of this publisher have arrived.
        """
        with self._guard:
            nodes, self._offered = self._offered, None
        if nodes is None:
            return []
        wanted = {node.name: node for node in nodes if self._concerns(node)}
        gone = []
        for source, connection in list(self.subscriber.connections.items()):
            node = wanted.get(source)
            if node is not None and node.endpoints["data"] == connection.endpoint:
                connection.permit(node.publishes)
            else:
                self._take_rest(connection, take, LAST_WORDS_S if self._keeps_all else 0.0)
                self._pending += connection.arrivals.pending.items()
                poller.unregister(connection.socket)
                self._forget(_descriptor(connection))
                self.subscriber.disconnect(source)
                gone.append(source)
        for source, node in wanted.items():
            if source not in self.subscriber.connections:
                self._connect(node, poller)
        return gone

    def _concerns(self, node: NodeEntry) -> bool:
        if node.name == self._owner or node.name in self._ignore or "data" not in node.endpoints:
            return False
        topics = self.subscriber.topics
        return topics is None or any(topic in topics for topic in node.publishes)

    def _connect(self, node: NodeEntry, poller: zmq.Poller) -> None:
        try:
            connection = self.subscriber.connect(node.name, node.endpoints["data"], node.publishes)
        except ValueError as error:
            log.warning("%s: cannot subscribe to %s: %s", self._owner, node.name, error)
            return
        poller.register(connection.socket, zmq.POLLIN)
        self._connections[_descriptor(connection)] = connection
        self._epoll.register(_descriptor(connection), select.EPOLLIN)

    def _forget(self, descriptor: int) -> None:
        self._epoll.unregister(descriptor)
        del self._connections[descriptor]
        self._flooded.discard(descriptor)

    def drain(self, awake: Container[object], take: Callable[[ReceivedMessage], None]) -> None:
        """Pass every available message to `take`, in order, from the sockets in `awake`, which a poll reported as
        readable.
        """
        for connection in list(self.subscriber.connections.values()):
            if connection.socket not in awake:
                continue
            received = connection.receive()
            if received is None:
                continue
            take((connection.source, *received))  # at once: usually there is one message, and it is urgent
            self._drain_rest(connection, take)

    def take_all(self, take: Callable[[ReceivedMessage], None]) -> None:
        """Pass available messages to `take`, at most STALE_BACKLOG messages per publisher."""
        self._flooded.clear()
        for connection in self.subscriber.connections.values():
            if connection.has_more:
                self._take_from(connection, take)

    def take_new(self, take: Callable[[ReceivedMessage], None], longest_s: float = 0.0) -> None:
        """Pass to `take` the messages that have arrived since the previous call, or that arrive within `longest_s` (s).

        A call without messages takes 0.5 us. libzmq signals only the arrival of messages at an empty socket, so other
        code that polls these sockets must receive all of their messages.
        """
        if longest_s > 0.0 and not self._flooded:
            select.select([self._epoll], [], [], longest_s)
        for descriptor, _ in self._epoll.poll(0):
            self._flooded.discard(descriptor)
            self._take_from(self._connections[descriptor], take)
        for descriptor in list(self._flooded) if self._flooded else ():
            self._flooded.discard(descriptor)
            self._take_from(self._connections[descriptor], take)

    def _take_from(self, connection: PublisherConnection, take: Callable[[ReceivedMessage], None]) -> None:
        for _ in range(STALE_BACKLOG):
            if (received := connection.receive()) is not None:
                take((connection.source, *received))
            if not connection.has_more:  # an unsuccessful receive would cost four times as much
                return
        self._flooded.add(_descriptor(connection))

    def _drain_rest(self, connection: PublisherConnection, take: Callable[[ReceivedMessage], None]) -> None:
        backlog: list[ReceivedMessage] = []
        most = STALE_BACKLOG if self._keeps_all else LONGEST_BACKLOG
        while len(backlog) < most and (received := connection.receive()) is not None:
            backlog.append((connection.source, *received))
        if len(backlog) > STALE_BACKLOG:
            fresh = _without_stale(backlog)
            self.stale += len(backlog) - len(fresh)
            backlog = fresh
        for item in backlog:
            take(item)

    def take_last(self, take: Callable[[ReceivedMessage], None], gone: Container[str]) -> None:
        """Receive the last messages before the node ends, and pass them to `take`.

        Messages that are already available are received from every publisher, and those of the publishers in `gone`
        that are still on the way. Each running publisher is asked for its latest seq, so that all lost messages are
        known.

        gone  names of publishers that have ended
        """
        connections = self.subscriber.connections.values()
        for connection in connections:
            connection.ask_latest()
        deadline = time.monotonic() + LAST_WORDS_S
        for connection in connections:
            for received in connection.receive_rest(deadline - time.monotonic(), connection.source in gone):
                take((connection.source, *received))
            self._pending += connection.arrivals.pending.items()

    def take_lost(self) -> list[tuple[str, int]]:
        """(topic, number of messages) lost since this publisher's latest message of the topic, of all publishers.

        These are losses that no message will reveal any more: call this when publishers have left, and at the end.
        """
        found, self._pending = self._pending, []
        return found

    def _take_rest(
        self, connection: PublisherConnection, take: Callable[[ReceivedMessage], None], longest_s: float
    ) -> None:
        for received in connection.receive_rest(longest_s):
            take((connection.source, *received))

    def close(self) -> None:
        """Disconnect from all publishers."""
        self.subscriber.close()
        self._epoll.close()


def _descriptor(connection: PublisherConnection) -> int:
    """File descriptor that becomes readable when messages may have arrived.

    It signals new messages only if all earlier messages were received.
    """
    return int(connection.socket.getsockopt(zmq.FD))


def _without_stale(backlog: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """The messages in order; of each sampled topic, only the latest message is kept."""
    last = {item[1]: index for index, item in enumerate(backlog)}
    return [item for index, item in enumerate(backlog) if index == last[item[1]] or not is_sampled(item[1])]

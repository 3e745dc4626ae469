"""The bus without sockets: the same semantics (whole topics, seq, latching) inside one process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from nodes.messages import Message
from nodes.messages.codec import decode, encode
from nodes.messages.stamp import Stamper
from nodes.messages.topics import lookup


class MemoryBus:
    """Joins publishers and subscribers of one process."""

    def __init__(self) -> None:
        self._subscribers: list[MemorySubscriber] = []
        self._latched: dict[tuple[str, str], bytes] = {}

    def publisher(self, name: str) -> MemoryPublisher:
        """A publisher that says things in the name of a node."""
        return MemoryPublisher(self, name)

    def subscriber(self, topics: Iterable[str] | None = None, limit: int = 10_000) -> MemorySubscriber:
        """A listener to these topics (None: all), holding at most `limit` messages."""
        subscriber = MemorySubscriber(topics, limit)
        self._subscribers.append(subscriber)
        for (source, topic), payload in self._latched.items():
            subscriber.offer(source, topic, payload)
        return subscriber

    def carry(self, source: str, topic: str, payload: bytes) -> None:
        """Give an encoded message to whoever listens."""
        row = lookup(topic)
        if row is not None and row.latched:
            self._latched[source, topic] = payload
        for subscriber in self._subscribers:
            subscriber.offer(source, topic, payload)


class MemoryPublisher:
    """Says messages on a MemoryBus."""

    def __init__(self, bus: MemoryBus, name: str) -> None:
        self._bus = bus
        self.name = name
        self._stamper = Stamper()

    def publish(self, topic: str, message: Message) -> int:
        """Stamp and say it; the seq it got."""
        seq = self._stamper.stamp(topic, message)
        self._bus.carry(self.name, topic, encode(message, topic))
        return seq


class MemorySubscriber:
    """A bounded queue of (source, topic, payload); what does not fit is lost and counted, the oldest stay."""

    def __init__(self, topics: Iterable[str] | None, limit: int) -> None:
        self._topics = None if topics is None else frozenset(topics)
        self._queue: deque[tuple[str, str, bytes]] = deque()
        self._limit = limit
        self.lost = 0

    def offer(self, source: str, topic: str, payload: bytes) -> None:
        """Queue a message if it is listened to."""
        if self._topics is not None and topic not in self._topics:
            return
        if len(self._queue) >= self._limit:
            self.lost += 1
            return
        self._queue.append((source, topic, payload))

    def receive(self) -> tuple[str, str, Message] | None:
        """The oldest (source, topic, message), None when there is none."""
        if not self._queue:
            return None
        source, topic, payload = self._queue.popleft()
        return source, topic, decode(topic, payload)

    def payloads(self) -> list[tuple[str, bytes]]:
        """All queued (topic, payload), taken out: the stream as bytes."""
        taken = [(topic, payload) for _, topic, payload in self._queue]
        self._queue.clear()
        return taken

"""Publish and subscribe over ZeroMQ without a broker: one XPUB socket per publisher, one SUB socket per connection.

A message has the frames [topic, payload]. A latched message is sent again at each new subscription, with its original
sequence number `seq`; subscribers ignore a `seq` that they have already received. The publisher replies to a
subscription to the probe topic with a probe message. This message tells the subscriber that the publisher has received
all earlier subscriptions of this subscriber, and contains the seq of the latest message on each topic. A closing
publisher sends it once more, and then a probe message with the payload `END`, its last message.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated

import msgspec
import zmq
from zmq.backend import zmq_poll

from nodes.framework.messages import Message
from nodes.framework.messages.codec import LARGEST_SEQ, AnyMessage, WireError, decode, encode
from nodes.framework.messages.stamp import MessageStamper, SequenceTracker
from nodes.framework.messages.topics import lookup
from nodes.framework.transport.ownership import is_shared, message_refusal, note_forged
from nodes.framework.transport.rejections import RejectionLog
from nodes.framework.transport.remote_stream import END, LAST_WORDS_MS, PROBE, RemoteStream
from nodes.framework.transport.sockets import (
    MORE,
    NOBLOCK,
    POLLIN,
    BoundEndpoint,
    connect,
    is_readable,
    make_socket,
    no_zmq_send,
    zmq_send,
)

Context = zmq.Context[zmq.Socket[bytes]]

BATCH = 256
MOST_TOPICS = 1024  # most topics outside the topic table that one connection receives
LONGEST_TOPIC = 256  # bytes
Received = tuple[str, Message, bytes, int]  # topic, message, payload, number of the topic's messages lost before it
LAST_WORDS_S = 1e-3 * LAST_WORDS_MS
_latest_decoder = msgspec.msgpack.Decoder(dict[str, Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEQ)]])
SUBSCRIPTIONS = (b"\x01", b"\x00")  # first byte of a subscription, and of an unsubscription


class Publisher:
    """Publishes messages on an XPUB socket without ever waiting: a subscriber that does not keep up loses messages.

    remote_endpoint  endpoint for subscribers on other computers; "" if there are no other computers
    remote           stream to the subscribers on other computers; None if `remote_endpoint` is ""
    prompt           true: each message is forwarded to `remote` at once; false: messages are forwarded when the owner
                     of the publisher calls `notify`
    subscribed       topics to which a subscriber has subscribed by their names, at most MOST_TOPICS
    """

    prompt = True

    def __init__(
        self,
        context: Context,
        name: str,
        endpoint: str,
        wall_clock: bool = True,
        now_ns: Callable[[], int] = time.time_ns,
        remote_endpoint: str = "",
    ) -> None:
        self.name = name
        self.subscribed: set[str] = set()
        self.refusals = RejectionLog(name)
        self.socket = make_socket(context, zmq.XPUB)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._zmq_send, self._pointer = zmq_send, ctypes.c_void_p(self.socket.underlying)
        self.remote: RemoteStream | None = None
        try:
            self._bound = BoundEndpoint(self.socket, endpoint)
        except ValueError:
            self.socket.close()
            raise
        self.endpoint = self._bound.endpoint
        try:
            self.remote = RemoteStream(context, self.socket, name, remote_endpoint) if remote_endpoint else None
        except ValueError:
            self.socket.close()
            self._bound.release()
            raise
        self.remote_endpoint = "" if self.remote is None else self.remote.endpoint
        self._stamper = MessageStamper(wall_clock, now_ns)
        self._topics: dict[str, bytes] = {}
        self._latched: list[bytes] = []
        self._last: dict[bytes, bytes] = {}  # {topic: payload of its latest message}

    def publish(self, topic: str, message: Message) -> bytes:
        """Stamp, encode and send a message. Returns the payload that was sent."""
        self._stamper.stamp(topic, message)
        try:
            payload = encode(message, topic)
        except WireError:
            self._stamper.take_back(topic)
            raise
        self.send(topic, payload)
        return payload

    def send(self, topic: str, payload: bytes) -> None:
        """Send a payload that is already stamped and encoded."""
        frame = self._topics.get(topic)
        if frame is None:
            frame = self._topics[topic] = topic.encode()
            if _is_latched(topic):
                self._latched.append(frame)
        self._last[frame] = payload
        pointer = self._pointer
        if self._zmq_send(pointer, frame, len(frame), MORE) < 0:
            self.socket.send(frame, MORE)  # repeats an interrupted send, and raises an error
        if self._zmq_send(pointer, payload, len(payload), 0) < 0:
            self.socket.send(payload)
        if self.remote is not None and self.prompt:
            self.remote.notify()

    def notify(self) -> None:
        """Forward the messages published so far to subscribers on other computers."""
        if self.remote is not None:
            self.remote.notify()

    def serve_subscriptions(self) -> None:
        """Handle new subscriptions: send the latched messages again, and reply to subscriptions to the probe topic."""
        self._answer_subscriptions()
        self.notify()

    def _answer_subscriptions(self) -> None:
        for _ in range(BATCH):
            if not is_readable(self.socket):
                return
            frames = self.socket.recv_multipart(zmq.NOBLOCK)
            if len(frames) != 1 or not frames[0].startswith(SUBSCRIPTIONS):
                self.refusals.refuse("(subscription)", "not a subscription")
                continue
            if not frames[0].startswith(SUBSCRIPTIONS[0]):
                continue
            wanted = frames[0][1:]
            if wanted == PROBE:
                self.socket.send_multipart([PROBE, self._latest()])
                continue
            if len(self.subscribed) < MOST_TOPICS:
                self.subscribed.add(wanted.decode(errors="replace"))
            for topic in self._latched:
                if topic.startswith(wanted):
                    self.socket.send_multipart([topic, self._last[topic]])

    def _latest(self) -> bytes:
        """Payload of a probe message: {topic: seq of its latest message}, by which subscribers know what they lost.

        Empty for a publisher that has not published anything.
        """
        if not self._topics:
            return b""
        head = msgspec.msgpack.Decoder(Message).decode
        return msgspec.msgpack.encode({topic: head(self._last[frame]).seq for topic, frame in self._topics.items()})

    def close(self) -> None:
        """Send the message `END` and close the socket. For up to LAST_WORDS_MS (ms), queued messages are still sent."""
        with contextlib.suppress(zmq.ZMQError):
            if latest := self._latest():
                self.socket.send_multipart([PROBE, latest], NOBLOCK)
            self.socket.send_multipart([PROBE, END], NOBLOCK)
        if self.remote is not None:
            self.remote.close()
        self._zmq_send = no_zmq_send  # pyzmq raises an error for a closed socket
        self.socket.close(linger=LAST_WORDS_MS)
        self._bound.release()


def _is_latched(topic: str) -> bool:
    row = lookup(topic)
    return row is not None and row.latched


class PublisherConnection:
    """Connection of a subscriber to one publisher.

    topics     {topic: message type}; None for every topic. A message of a topic that is not in the topic table is then
               an `AnyMessage`
    publishes  topics that the publisher has registered; messages on other topics are dropped and counted in `forged`.
               None for a publisher without an entry in the registry, whose messages are all accepted
    ready      whether the publisher has received the subscriptions to `topics`, so that every later message is
               delivered
    ended      whether the publisher has closed and all its messages have been received
    """

    def __init__(
        self,
        context: Context,
        source: str,
        endpoint: str,
        topics: Mapping[str, type[Message]] | None,
        refusals: RejectionLog,
        publishes: Collection[str] | None = None,
        forged: dict[str, int] | None = None,
    ) -> None:
        self.source = source
        self.endpoint = endpoint
        self.ready = self.ended = False
        self.arrivals = SequenceTracker()
        self._refusals = refusals
        self._forged = {} if forged is None else forged
        self._topics = topics
        self._publishes = publishes
        self._known: dict[bytes, tuple[str, type[Message]]] = {}  # topics of which every message is accepted
        self.socket = make_socket(context, zmq.SUB)
        self._poll_items = [(self.socket, POLLIN)]
        for topic in [""] if topics is None else topics:
            self.socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
        self.socket.setsockopt(zmq.SUBSCRIBE, PROBE)
        try:
            connect(self.socket, endpoint)
        except (ValueError, zmq.ZMQError):
            self.socket.close()
            raise

    def permit(self, publishes: Collection[str] | None) -> None:
        """Accept from now on the topics `publishes`, which the publisher has registered."""
        if publishes != self._publishes:
            self._publishes = publishes
            self._known.clear()

    @property
    def lost(self) -> int:
        """Number of messages lost, counted from gaps in the sequence numbers."""
        return sum(self.arrivals.lost.values())

    @property
    def has_more(self) -> bool:
        """Whether a frame can be received without waiting."""
        return bool(zmq_poll(self._poll_items, 0))

    def receive(self) -> Received | None:
        """Return the next message, without waiting; None if no message has arrived."""
        socket = self.socket
        for _ in range(BATCH):
            try:
                topic = socket.recv(NOBLOCK, False)  # a Frame has the flag `more`; asking the socket for it costs more
            except zmq.Again:
                return None
            frame = topic.bytes
            if not topic.more:
                self._refusals.refuse(_shown(frame), "a topic without a payload")
                continue
            payload = socket.recv(0, False)
            if payload.more:
                while socket.recv(0, False).more:
                    pass
                self._refusals.refuse(_shown(frame), "more than two frames; expected topic and payload")
                continue
            known = self._known.get(frame) or self._known_topic(frame, payload)
            if known is None:
                continue
            name, kind = known
            content = payload.bytes
            try:
                message = decode(name, content, kind)
            except WireError as error:
                self._refusals.refuse(name, error.reason)
                continue
            if self.arrivals.is_new(name, message.seq):
                return name, message, content, self.arrivals.gap
        return None

    def ask_latest(self) -> None:
        """Ask the publisher for a probe message. Until it arrives, `ready` is false."""
        self.ready = False
        self.socket.setsockopt(zmq.SUBSCRIBE, PROBE)

    def receive_rest(self, longest_s: float, has_left: bool = True) -> Iterator[Received]:
        """Yield the remaining messages of a publisher that has left, up to its message `END`.

        longest_s  longest wait for `END` (s), which a killed publisher does not send
        has_left   False for a publisher that is running: its messages up to the reply to `ask_latest` are yielded
        """
        deadline = time.monotonic() + longest_s
        while True:
            while (received := self.receive()) is not None:
                yield received
            if self.ended or (self.ready and not has_left):
                return
            if not zmq_poll(self._poll_items, max(int(1e3 * (deadline - time.monotonic())), 0)):
                return

    def _known_topic(self, frame: bytes, payload: zmq.Frame) -> tuple[str, type[Message]] | None:
        """Return (name, message type) of a topic that `_known` does not contain; None for the probe, for unwanted
        topics, and for a message that the publisher may not publish.

        A ZeroMQ subscription matches every topic that begins with the subscribed name, so unwanted topics may arrive.
        """
        if frame == PROBE:
            self.ready = True
            self.ended = payload.bytes == END
            self._pass_latest(payload.bytes)
            return None
        topic = _shown(frame)
        kind = self._kind_of(topic, frame) if self._topics is None else self._topics.get(topic)
        if kind is None:
            return None
        if self._publishes is not None:
            if line := message_refusal(self.source, self._publishes, topic, payload.bytes):
                self._refusals.refuse(topic, line)
                note_forged(self._forged, self.source, topic)
                return None
            if is_shared(topic, self._publishes):
                return topic, kind
        if len(self._known) < MOST_TOPICS:
            self._known[frame] = (topic, kind)
        return topic, kind

    def _kind_of(self, topic: str, frame: bytes) -> type[Message] | None:
        """Message type of a topic, for a subscription to all topics; None for a topic that is not received."""
        row = lookup(topic)
        if row is not None:
            return row.message
        if len(frame) > LONGEST_TOPIC or not topic.isprintable() or topic.encode() != frame:
            self._refusals.refuse(topic, f"not the name of a topic: at most {LONGEST_TOPIC} bytes of printable text")
        elif len(self._known) >= MOST_TOPICS:
            self._refusals.refuse(topic, f"not in the topic table, and {MOST_TOPICS} topics are received already")
        else:
            return AnyMessage
        return None

    def _pass_latest(self, payload: bytes) -> None:
        """Count lost messages by a probe message, which may be empty.

        It may be the reply to another subscriber, and then arrive before the latched messages that the publisher sends
        again to this one. Their topics begin with the first message.
        """
        if not payload or self.ended:
            return
        try:
            latest = _latest_decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._refusals.refuse("(probe)", f"not the seq of each topic: {error}")
            return
        wanted = latest if self._topics is None else self._topics
        owned = latest if self._publishes is None else self._publishes
        begun = {topic: self.arrivals.has_begun(topic) for topic in latest if topic in wanted and topic in owned}
        self.arrivals.pass_latest({k: latest[k] for k, has_begun in begun.items() if has_begun or not _is_latched(k)})

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


class Subscriber:
    """Subscribes to the same topics at many publishers.

    `connect` connects to one publisher; `receive` receives from all publishers.

    forged  {"TOPIC from NODE": number of messages that were dropped because the topic does not belong to the node}
    """

    def __init__(
        self, context: Context, topics: Iterable[str] | Mapping[str, type[Message]] | None, owner: str
    ) -> None:
        self._context = context
        self._poller = zmq.Poller()
        self.refusals = RejectionLog(owner)
        self.connections: dict[str, PublisherConnection] = {}
        self.forged: dict[str, int] = {}
        self._lost_before = 0
        self.topics = topics if isinstance(topics, Mapping) or topics is None else _kinds(topics)

    @property
    def lost(self) -> int:
        """Number of messages lost from all publishers, including publishers that were disconnected."""
        return self._lost_before + sum(connection.lost for connection in self.connections.values())

    @property
    def refused(self) -> int:
        """Number of frames dropped because they were not valid messages."""
        return self.refusals.count

    @property
    def ready(self) -> bool:
        """Whether every connected publisher has received the subscriptions."""
        return all(connection.ready for connection in self.connections.values())

    def connect(self, source: str, endpoint: str, publishes: Collection[str] | None = None) -> PublisherConnection:
        """Connect to a publisher, and return the connection.

        If the publisher has moved to another endpoint, the old connection is closed first.

        publishes  topics that the publisher has registered, from which alone messages are accepted; None for a
                   publisher without an entry in the registry
        """
        old = self.connections.get(source)
        if old is not None:
            if old.endpoint == endpoint:
                old.permit(publishes)
                return old
            self.disconnect(source)
        connection = PublisherConnection(
            self._context, source, endpoint, self.topics, self.refusals, publishes, self.forged
        )
        self.connections[source] = connection
        self._poller.register(connection.socket, zmq.POLLIN)
        return connection

    def disconnect(self, source: str) -> None:
        """Disconnect from a publisher. `lost` still includes the messages lost on this connection."""
        connection = self.connections.pop(source, None)
        if connection is not None:
            self._lost_before += connection.lost
            self._poller.unregister(connection.socket)
            connection.close()

    def receive(self, timeout_s: float = 0.0) -> tuple[str, str, Message] | None:
        """Return (source, topic, message) of the next message; None if no message arrives within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            for connection in self.connections.values():
                received = connection.receive()
                if received is not None:
                    return connection.source, received[0], received[1]
            left = deadline - time.monotonic()
            if left <= 0.0:
                return None
            self._wait(left)

    def receive_batch(self, timeout_s: float = 0.0) -> list[tuple[str, str, Message]]:
        """Return (source, topic, message) of all messages that have arrived, at most BATCH from each publisher.

        If no message has arrived, waits up to `timeout_s` for one message. `receive_batch` is faster than one call of
        `receive` per message, because `receive` checks every connection in each call.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            found = []
            for connection in self.connections.values():
                for _ in range(BATCH):
                    if (received := connection.receive()) is None:
                        break
                    found.append((connection.source, received[0], received[1]))
            left = deadline - time.monotonic()
            if found or left <= 0.0:
                return found
            self._wait(left)

    def _wait(self, longest_s: float) -> None:
        """Wait up to `longest_s` (s) for a message of a connected publisher."""
        if self.connections:
            self._poller.poll(int(longest_s * 1e3) + 1)
        else:
            time.sleep(longest_s)  # a poll of no sockets returns at once, whatever its timeout

    def close(self) -> None:
        """Disconnect from all publishers."""
        for source in list(self.connections):
            self.disconnect(source)


def _kinds(topics: Iterable[str]) -> dict[str, type[Message]]:
    kinds = {}
    for topic in topics:
        row = lookup(topic)
        if row is None:
            raise WireError(
                topic, "the topic is not in the topic table of standard topics; give the message type of the topic"
            )
        kinds[topic] = row.message
    return kinds


def _shown(frame: bytes) -> str:
    return frame[:LONGEST_TOPIC].decode("utf-8", "backslashreplace")

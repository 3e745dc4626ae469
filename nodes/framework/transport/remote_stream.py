"""A publisher's stream for subscribers on other computers: a socket and a thread of its own, with subscription quotas.

libzmq inserts each subscription into a tree, byte by byte, on the thread that uses the socket. A flood of subscriptions
would therefore block the publishing thread. For this reason, the publisher's own socket serves only subscribers on the
same computer. The stream subscribes to this socket, and serves the subscribers on other computers.
"""

from __future__ import annotations

import os
import threading
import time
from itertools import count

import zmq

from nodes.framework.messages.topics import lookup
from nodes.framework.transport.rejections import LONGEST_QUIET_S, RejectionLog
from nodes.framework.transport.security import authenticator
from nodes.framework.transport.security.peers import peer_of
from nodes.framework.transport.sockets import MORE, NOBLOCK, BoundEndpoint, make_socket

Context = zmq.Context[zmq.Socket[bytes]]
Connection = tuple[int, str, int]  # descriptor, address and port of the peer

PROBE = b"~"  # sorts after every robot name: a new connection sends its subscriptions in sorted order
END = b"end"  # payload of the probe topic when a publisher closes; no message follows
LARGEST_SUBSCRIPTION = 448  # bytes, CURVE overhead included (its handshake: 300); libzmq ends the connection above
NO_LIMIT = 0  # of the receive queue: libzmq aborts if a connection that it throttles ends; the quota limits the queue
BATCH = 64
SUBSCRIPTIONS_BATCH = 32
LONGEST_WAIT_MS = 10  # longest delay of a message published without `notify`
PAUSE_MS = 2  # pause between batches of subscriptions, for forwarding messages
LAST_WORDS_MS = 500  # a closing publisher still sends its last messages
MOST_TOPICS = 1024
_numbers = count()


class SubscriptionQuota:
    """Counts the subscriptions of each peer and of each connection, and reports when a limit is exceeded."""

    per_connection = 256
    unknown_per_connection = 64  # topics of the node's own, unknown to this publisher
    connections = 128
    per_peer = 2048

    def __init__(self) -> None:
        self._counts: dict[str, dict[Connection, list[int]]] = {}

    def excess(self, peer: str, connection: Connection, is_known: bool) -> str:
        """Count one subscription. Returns a text that names the exceeded limit; "" if no limit is exceeded.

        is_known  whether the topic is in the topic table or was published by this publisher
        """
        mine = self._counts.setdefault(peer, {})
        if connection not in mine and len(mine) >= self.connections:
            self._forget_ended(mine)
        counted = mine.setdefault(connection, [0, 0])
        counted[0] += 1
        counted[1] += not is_known
        if len(mine) > self.connections:
            return f"more than {self.connections} connections"
        if counted[0] > self.per_connection:
            return f"more than {self.per_connection} subscriptions on a connection"
        if counted[1] > self.unknown_per_connection:
            return f"more than {self.unknown_per_connection} unknown topics on a connection"
        if counted[0] % BATCH == 0 and sum(each[0] for each in mine.values()) > self.per_peer:
            self._forget_ended(mine)
            if sum(each[0] for each in mine.values()) > self.per_peer:
                return f"more than {self.per_peer} subscriptions"
        return ""

    @staticmethod
    def _forget_ended(mine: dict[Connection, list[int]]) -> None:
        for connection in [each for each in mine if authenticator.peer_at(each[0]) != each[1:]]:
            del mine[connection]


class SubscriptionGuard:
    """Ends connections that exceed the subscription quota, on a socket that is open to other computers.

    refused  log that counts the ended connections by peer
    """

    def __init__(self, context: Context, owner: str) -> None:
        self.refused = RejectionLog(owner, "%s: ended %d connections of %s: %s", LONGEST_QUIET_S)
        self._context = context
        self._quota = SubscriptionQuota()
        self._disconnected: dict[tuple[int, str], float] = {}  # {(descriptor, key): time}

    def passes(self, frame: zmq.Frame, is_known: bool) -> bool:
        """Count a subscription request. Returns False if its sender has exceeded the quota of subscriptions.

        frame     the request as received
        is_known  whether the topic is in the topic table or was published by this publisher

        Processes of this computer have no quota.
        """
        peer = peer_of(frame, keyed=True)
        if not peer.key:  # also for the unsubscriptions that libzmq makes for an ended connection
            return True
        descriptor = int(frame.get(zmq.SRCFD))
        now = time.monotonic()
        # a connection's last frames arrive after its end, when the descriptor may belong to another connection
        if now - self._disconnected.get((descriptor, peer.key), -authenticator.BLOCK_S) < authenticator.BLOCK_S:
            return False
        at = authenticator.peer_at(descriptor)
        if at is None:
            return False
        line = self._quota.excess(peer.key, (descriptor, *at), is_known)
        if line:
            self._disconnected[descriptor, peer.key] = now
            self.refused.refuse(peer.text, line)
            authenticator.block_key(self._context, peer.key)
            authenticator.disconnect(descriptor, at)
        return not line


def limit_subscriptions(socket: zmq.Socket[bytes]) -> None:
    """Limit the size of the frames that an XPUB socket receives, and remove the limit of its receive queue.

    Call this before the bind, because the limits apply only to later binds of the socket.
    """
    socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_SUBSCRIPTION)
    socket.setsockopt(zmq.RCVHWM, NO_LIMIT)


class RemoteStream:
    """Forwards the messages of a publisher's socket to subscribers with an authorized key, on a thread of its own.

    The thread wakes on `notify` and not on each message, because waking on a message would hold Python's global
    interpreter lock during a time step of the simulation.

    refusals  log that counts subscriptions to unknown topics, and frames that are not subscriptions
    refused   log that counts, by peer, the connections ended because they exceeded the quota
    """

    def __init__(self, context: Context, local: zmq.Socket[bytes], owner: str, address: str) -> None:
        self.refusals = RejectionLog(owner)
        self._guard = SubscriptionGuard(context, owner)
        self.refused = self._guard.refused
        number = next(_numbers)
        self._remote_socket = make_socket(context, zmq.XPUB)
        self._remote_socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        limit_subscriptions(self._remote_socket)
        try:
            self._bound = BoundEndpoint(self._remote_socket, f"inproc://armswing-far-{number}", address, owner)
        except ValueError:
            self._remote_socket.close()
            raise
        self.endpoint = self._bound.remote_endpoint
        local.bind(f"inproc://armswing-near-{number}")
        self._local_socket = make_socket(context, zmq.XSUB)
        self._local_socket.connect(f"inproc://armswing-near-{number}")
        self._latched: dict[bytes, bytes] = {}
        self._topics: set[bytes] = set()
        self._is_subscribed = self._joined = False  # whether the stream has subscribed; whether messages arrive
        self._probed = False  # whether a subscriber waits for the echo of the probe
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="remote stream", daemon=True)
        self._thread.start()

    @property
    def thread(self) -> int:
        """Number of the thread that forwards the messages, as the operating system counts threads."""
        return self._thread.native_id or 0

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The socket that other computers connect to."""
        return self._remote_socket

    def notify(self) -> None:
        """Wake the thread to forward the messages published so far. The call takes 0.5 us.

        Does nothing if there are no subscribers on other computers.
        """
        if self._is_subscribed:
            os.eventfd_write(self._wake, 1)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake, zmq.POLLIN)
        poller.register(self._remote_socket, zmq.POLLIN)
        subscribes = True
        while True:
            awake = dict(poller.poll((LONGEST_WAIT_MS if self._is_subscribed else None) if subscribes else PAUSE_MS))
            if self._wake in awake:
                os.eventfd_read(self._wake)
            while self._forward():
                pass
            if self._stop.is_set():
                break
            if not subscribes:  # the pause is over
                poller.register(self._remote_socket, zmq.POLLIN)
                subscribes = True
            elif self._remote_socket in awake and self._process_subscriptions():
                poller.unregister(self._remote_socket)
                subscribes = False
        while self._forward():
            pass
        if self._is_subscribed:
            self._remote_socket.send_multipart([PROBE, END])

    def _forward(self) -> bool:
        """Forward a batch of messages. Returns whether more messages may be waiting."""
        local, remote = self._local_socket, self._remote_socket
        for _ in range(BATCH):
            try:
                topic = local.recv(NOBLOCK)
            except zmq.Again:
                return False
            payload = local.recv()
            if topic == PROBE:
                self._process_echo(payload)
                continue
            if topic not in self._topics and len(self._topics) < MOST_TOPICS:
                self._topics.add(topic)
                row = lookup(topic.decode())
                if row is not None and row.latched:
                    self._latched[topic] = payload
            elif topic in self._latched:
                self._latched[topic] = payload
            remote.send(topic, MORE)
            remote.send(payload)
        return True

    def _process_echo(self, payload: bytes) -> None:
        """Handle the publisher's reply to the probe message of this stream.

        The reply means that all later messages of the publisher arrive at this stream. The stream therefore replies now
        to those subscribers on other computers that wait for a reply to their own probe messages.
        """
        if payload != END:
            self._joined = True
            if self._probed:
                self._probed = False
                self._remote_socket.send_multipart([PROBE, b""])

    def _process_subscriptions(self) -> bool:
        """Handle a batch of subscriptions. Returns whether more subscriptions may be waiting."""
        for _ in range(SUBSCRIPTIONS_BATCH):
            try:
                frame = self._remote_socket.recv(NOBLOCK, False)
            except zmq.Again:
                return False
            content = frame.bytes
            is_one = not frame.more and content[:1] in (b"\x00", b"\x01")
            while frame.more:
                frame = self._remote_socket.recv(0, False)
            prefix = content[1:]
            is_known = is_one and self._is_known(prefix)
            if not self._guard.passes(frame, is_known):
                continue
            if not is_one:
                self.refusals.refuse("(subscription)", "not a subscription")
            elif not is_known:
                self.refusals.refuse("(subscription)", "not in the topic table, nor a topic of this publisher")
            elif content.startswith(b"\x01"):
                self._subscribed(prefix)
        return True

    def _is_known(self, prefix: bytes) -> bool:
        """Whether `prefix`, the topic of a subscription, is a known topic, the probe topic, or "" for all topics.

        A topic is known if it is in the topic table or was published by this publisher.
        """
        if prefix in (b"", PROBE):
            return True
        try:
            row = lookup(prefix.decode())
        except UnicodeDecodeError:
            return False
        return row is not None or any(topic.startswith(prefix) for topic in self._topics)

    def _subscribed(self, prefix: bytes) -> None:
        if not self._is_subscribed:
            self._is_subscribed = True
            self._local_socket.send(b"\x01")
            self._local_socket.send(b"\x01" + PROBE)
        if prefix == PROBE:
            if self._joined:
                self._remote_socket.send_multipart([PROBE, b""])
            else:
                self._probed = True
            return
        for topic, payload in self._latched.items():
            if topic.startswith(prefix):
                self._remote_socket.send_multipart([topic, payload])

    def close(self) -> None:
        """Forward the remaining messages and `END`, then close. Call this before closing the publisher's own socket."""
        if not self._thread.is_alive():
            return
        self._stop.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        self._local_socket.close()
        self._remote_socket.close(linger=LAST_WORDS_MS)
        self._bound.release()

"""Measures the clocks of other nodes by round trips over their service sockets, more often at the start."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import dataclass

import msgspec
import zmq

from nodes.framework.hosting.wakeup import Timer
from nodes.framework.messages import PeerClock
from nodes.framework.transport.bus import Context
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.service import CLOCK, Call, Reply
from nodes.framework.transport.sockets import AddressError, connect, make_socket

PERIOD_S = 0.05
QUICK = 24  # round trips at the start, one per period: enough for a first estimate of offset and drift
EVERY = 10  # periods between later round trips: 2 Hz
MAX_DRIFT = 5e-4  # s per s: a larger change between two round trips means that a clock jumped
PATIENCE = 20  # periods after which a request without a reply is given up
READINGS = 16  # comparisons of the two clocks, of which the quickest counts

_encoder = msgspec.msgpack.Encoder()


class _Times(msgspec.Struct):
    received_ns: int
    answered_ns: int


_replies = msgspec.msgpack.Decoder(Reply)


def steady_clock() -> Callable[[], int]:
    """A function that returns this computer's time, in nanoseconds since the epoch.

    A later setting of the computer's clock does not change the results of the function. To relate this clock to the
    monotonic clock, it is read between two readings of the monotonic clock. This is done several times, and the
    attempt that took the shortest time is used: an interruption by the operating system would falsify the relation.
    """
    readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(READINGS)]
    before, clock, after = min(readings, key=lambda reading: reading[2] - reading[0])
    ahead_ns = clock - (before + after) // 2
    return lambda: ahead_ns + time.monotonic_ns()


@dataclass
class _Peer:
    endpoint: str
    socket: zmq.Socket[bytes]
    number: int = 0  # number of the pending request
    requested_ns: int | None = None  # send time of the pending request
    replies: int = 0  # since the last step of the peer's clock
    waits: int = 0  # periods until the next request
    last: PeerClock | None = None


class ClockAsker:
    """Makes the round trips to other nodes' clocks for one node.

    One thread must own this object and poll its `timer` and the sockets that `update` registers.

    topics  topics whose publishers are measured; None for every node
    """

    def __init__(self, context: Context, owner: str, topics: Collection[str] | None) -> None:
        self.timer = Timer(PERIOD_S)
        self._context, self._owner, self._topics = context, owner, topics
        self._now_ns = steady_clock()
        self._peers: dict[str, _Peer] = {}

    def update(self, nodes: list[NodeEntry], poller: zmq.Poller) -> None:
        """Connect to the nodes in the registry's list, and disconnect from those that left or moved."""
        required = {node.name: node.endpoints["service"] for node in nodes if self._concerns(node)}
        for name, peer in list(self._peers.items()):
            if required.get(name) != peer.endpoint:
                poller.unregister(peer.socket)
                self._peers.pop(name).socket.close()
        for name, endpoint in required.items():
            if name in self._peers:
                continue
            socket = make_socket(self._context, zmq.DEALER)
            try:
                connect(socket, endpoint)
            except AddressError:  # its subscribers report it
                socket.close()
                continue
            self._peers[name] = _Peer(endpoint, socket)
            poller.register(socket, zmq.POLLIN)

    def _concerns(self, node: NodeEntry) -> bool:
        if node.name == self._owner or "service" not in node.endpoints:
            return False
        return self._topics is None or any(topic in self._topics for topic in node.publishes)

    def send_requests(self) -> None:
        """Send the requests that are due. Call this method when the timer is readable."""
        self.timer.expired()
        for peer in self._peers.values():
            peer.waits -= 1
            if peer.waits > 0:
                continue
            peer.number += 1
            peer.waits = PATIENCE
            payload = _encoder.encode(Call(id=peer.number, call=CLOCK))
            peer.requested_ns = self._now_ns()
            try:
                peer.socket.send(payload, zmq.NOBLOCK)
            except zmq.Again:  # no reader at present; a later request may find one
                peer.requested_ns = None

    def receive_replies(self, awake: Container[object]) -> Iterator[PeerClock]:
        """Yield the round trips that were completed since the last call.

        awake  sockets that a poll reported as readable
        """
        for name, peer in self._peers.items():
            if peer.socket in awake:
                yield from self._answers(name, peer)

    def _answers(self, name: str, peer: _Peer) -> Iterator[PeerClock]:
        while True:
            try:
                frames = peer.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            heard_ns = self._now_ns()
            try:
                reply = _replies.decode(frames[-1])
                times = msgspec.convert(reply.result, _Times)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if reply.id != peer.number or peer.requested_ns is None:
                continue
            way_ns = (heard_ns - peer.requested_ns) - (times.answered_ns - times.received_ns)
            if 0 <= way_ns <= heard_ns - peer.requested_ns:  # otherwise a clock jumped during the round trip
                reading = PeerClock(
                    asker=self._owner,
                    peer=name,
                    asked_ns=peer.requested_ns,
                    received_ns=times.received_ns,
                    answered_ns=times.answered_ns,
                    heard_ns=heard_ns,
                    round_trip_s=1e-9 * way_ns,
                )
                stepped = peer.last is not None and _contradict(peer.last, reading)
                peer.replies = 1 if stepped else peer.replies + 1
                peer.last = reading
                yield reading
            peer.requested_ns = None
            peer.waits = 1 if peer.replies < QUICK else EVERY

    def close(self) -> None:
        """Close all sockets and the timer."""
        for peer in self._peers.values():
            peer.socket.close()
        self.timer.close()


def _contradict(a: PeerClock, b: PeerClock) -> bool:
    """Whether two consecutive round trips contradict each other: no single clock offset is consistent with both."""
    change_ns = (b.received_ns + b.answered_ns - b.asked_ns - b.heard_ns) - (
        a.received_ns + a.answered_ns - a.asked_ns - a.heard_ns
    )
    most_s = a.round_trip_s + b.round_trip_s + 2e-9 * MAX_DRIFT * (b.heard_ns - a.asked_ns)
    return abs(change_ns) > 1e9 * most_s + 2000

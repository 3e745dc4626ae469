"""Lockstep turns over DEALER/ROUTER: one request of the server per participant and due step, and one reply."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import zmq

from nodes.hosting.hosted import EncodedMessage, HostedNode
from nodes.messages.codec import LATEST_S
from nodes.transport.bus import Context, Publisher
from nodes.transport.rejections import RejectionLog
from nodes.transport.security.peers import peer_of
from nodes.transport.security.permissions import turn_refusal
from nodes.transport.sockets import LARGEST_FRAME, MORE, NOBLOCK, RCVMORE, BoundEndpoint, connect, make_socket

_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(tuple[int, float, list[tuple[str, bytes]]])
_reply_decoder = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, bytes]]])
_NOT_A_TURN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class LockstepError(RuntimeError):
    """A participant is absent or did not reply in time. The only argument is one line."""


class TurnServer:
    """Participant's end of the turns: receives requests, runs the node's turn, and replies with its messages."""

    def __init__(
        self, context: Context, hosted: HostedNode, endpoint: str, remote_endpoint: str = "", registry: str = ""
    ) -> None:
        self.received = self.sent = 0
        self.refusals = RejectionLog(hosted.name)
        self._hosted, self._registry = hosted, registry
        self._outgoing: list[EncodedMessage] = []  # includes messages that the node publishes before its first turn
        hosted.out = self._collect
        self._socket = make_socket(context, zmq.ROUTER)
        try:
            self._claim = BoundEndpoint(self._socket, endpoint, remote_endpoint, hosted.name)
        except ValueError:
            self._socket.close()
            raise
        self.endpoint, self.remote_endpoint = self._claim.endpoint, self._claim.remote_endpoint

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The socket to poll for reading."""
        return self._socket

    def _collect(self, topic: str, payload: bytes) -> None:
        self._outgoing.append((topic, payload))

    def serve(self, publisher: Publisher) -> None:
        """Run one turn if a request has arrived. The reply goes to the server first, then messages to subscribers."""
        socket = self._socket
        try:
            sender = socket.recv(NOBLOCK, False)
        except zmq.Again:
            return
        route, request = sender.bytes, socket.recv()
        try:
            if self.remote_endpoint and (line := turn_refusal(peer_of(sender, keyed=True), self._registry)):
                raise msgspec.ValidationError(line)
            if socket.getsockopt(RCVMORE):
                socket.recv_multipart()
                raise msgspec.ValidationError("more than one frame")
            seq, now, incoming = _request_decoder.decode(request)
            if not 0.0 <= now <= LATEST_S:
                raise msgspec.ValidationError(f"time {now} is not in 0 .. {LATEST_S:g} s")
        except _NOT_A_TURN as error:
            self.refusals.refuse("(turn)", f"not a request: {error}")
            return
        self.received += len(incoming)
        self._hosted.turn(now, incoming)
        messages, self._outgoing = self._outgoing, []
        try:
            socket.send(route, MORE | NOBLOCK)
            socket.send(_encoder.encode((seq, messages)), NOBLOCK)
        except zmq.ZMQError as error:
            self.refusals.refuse("(turn)", f"the server is gone: {error.strerror}")
        self.sent += len(messages)
        for topic, payload in messages:
            publisher.send(topic, payload)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._claim.release()


class RemotePort:
    """Server's end of the turns of one participant in another process.

    A participant that publishes nothing (a recorder) cannot change the step, so the server waits for its reply only
    before its next turn: it works while the simulation continues, and still loses nothing.

    deadline_s  longest wait for a reply, s
    """

    def __init__(
        self,
        context: Context,
        name: str,
        endpoint: str,
        subscribes: Sequence[str],
        publishes: bool,
        decimation: int = 1,
        lossless: bool = False,
        deadline_s: float = 1.0,
    ) -> None:
        self.name = name
        self.decimation = decimation
        self.lossless = lossless
        self.refusals = RejectionLog(name)
        self._subscribed = frozenset(subscribes)
        self._publishes = publishes
        self._deadline_s = deadline_s
        self._seq = 0
        self._awaited = False
        self._socket = make_socket(context, zmq.DEALER)
        self._socket.setsockopt(zmq.SNDTIMEO, round(deadline_s * 1e3))
        self._socket.setsockopt(zmq.RCVTIMEO, round(deadline_s * 1e3))
        connect(self._socket, endpoint)

    def wants(self, topic: str) -> bool:
        """Whether the participant subscribes to a topic."""
        return topic in self._subscribed or "*" in self._subscribed

    def turn(self, now: float, incoming: Sequence[EncodedMessage]) -> list[EncodedMessage]:
        """Request a turn at simulation time `now`, s; returns the messages that the participant published."""
        self.settle()
        self._seq += 1
        request = _encoder.encode((self._seq, now, incoming))
        if len(request) > LARGEST_FRAME:
            raise LockstepError(f"node {self.name!r}: a turn of {len(request)} bytes, at most {LARGEST_FRAME}")
        try:
            self._socket.send(request)
        except zmq.Again:
            raise self._silent() from None
        self._awaited = True
        return self.settle() if self._publishes else []

    def settle(self) -> list[EncodedMessage]:
        """Wait for the pending reply, if there is one; returns its messages."""
        if not self._awaited:
            return []
        until = time.monotonic() + self._deadline_s
        while time.monotonic() < until:
            try:
                reply = self._socket.recv()
            except zmq.Again:
                break
            try:
                if self._socket.getsockopt(RCVMORE):
                    self._socket.recv_multipart()
                    raise msgspec.ValidationError("more than one frame")
                seq, messages = _reply_decoder.decode(reply)
            except _NOT_A_TURN as error:
                self.refusals.refuse("(turn)", f"not a reply: {error}")
                continue
            if seq == self._seq:
                self._awaited = False
                return messages
            self.refusals.refuse("(turn)", f"received a reply to turn {seq}; expected one to turn {self._seq}")
        raise self._silent()

    def _silent(self) -> LockstepError:
        within = f"{self._deadline_s * 1e3:g} ms (deadline_ms)"
        return LockstepError(f"node {self.name!r} did not reply to turn {self._seq} within {within}")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

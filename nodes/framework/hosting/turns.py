"""Lockstep over DEALER/ROUTER sockets: in each time step, every participant gets a request and sends a reply.

In each time step, the simulation server sends each participant the messages for its node. The participant runs the
node for this time step (a turn) and replies with the messages that the node published.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence

import msgspec
import zmq

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.outgoing import EncodedMessage
from nodes.framework.hosting.snapshots import restore, snapshot_of
from nodes.framework.messages.codec import LATEST_S
from nodes.framework.transport.bus import Context, Publisher
from nodes.framework.transport.ownership import is_shared, message_refusal, note_forged
from nodes.framework.transport.rejections import RejectionLog
from nodes.framework.transport.security.peers import peer_of
from nodes.framework.transport.security.permissions import turn_refusal
from nodes.framework.transport.sockets import LARGEST_FRAME, MORE, NOBLOCK, RCVMORE, BoundEndpoint, connect, make_socket

TURN, QUIET, SNAPSHOT = "", "quiet", "snapshot"  # kinds of a request
RESTORE, REWIND = "restore", "rewind"
ATTEMPTS = 4  # a request without a reply is sent again after this part of the deadline
RESTORE_S = 30.0  # longest wait for a node that is restored


class TurnRequest(msgspec.Struct, array_like=True):
    """Request of the simulation server to a participant to run its node for one lockstep step.

    messages  messages that the node receives in this step; for the kinds "restore" and "rewind", the latched messages
    kind      "": the node runs one step. "quiet": the node runs one step, and its messages go to the server but not
              to subscribers. "snapshot": the node runs one step, and the reply contains the node's state after the
              step. "restore": the node runs no step and continues from `state`, including the sequence numbers of
              messages in `state`. "rewind": the node runs no step and continues from `state`, but the sequence numbers
              of its messages keep counting up
    """

    seq: int
    now: float
    messages: list[tuple[str, bytes]]
    kind: str = TURN
    state: bytes = b""


class TurnReply(msgspec.Struct, array_like=True):
    """Reply of a participant: the messages that it published and, if the request asked for it, the node's state."""

    seq: int
    messages: list[tuple[str, bytes]]
    state: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(TurnRequest)
_reply_decoder = msgspec.msgpack.Decoder(TurnReply)
_NOT_A_TURN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class LockstepError(RuntimeError):
    """A participant is absent or did not reply in time. The only argument is one line."""


class TurnServer:
    """Participant's side of lockstep: receives requests, runs the node for a step, and replies with its messages."""

    def __init__(
        self, context: Context, hosted: HostedNode, endpoint: str, remote_endpoint: str = "", registry: str = ""
    ) -> None:
        self.received = self.sent = 0
        self.refusals = RejectionLog(hosted.name)
        self._hosted, self._registry = hosted, registry
        self._outgoing: list[EncodedMessage] = []  # includes messages that the node publishes before its first turn
        self._latest = b"", b""  # request and reply of the latest turn
        self._seq = 0  # number of the latest turn
        hosted.messages.out = self._collect
        self._socket = make_socket(context, zmq.ROUTER)
        try:
            self._bound = BoundEndpoint(self._socket, endpoint, remote_endpoint, hosted.name)
        except ValueError:
            self._socket.close()
            raise
        self.endpoint, self.remote_endpoint = self._bound.endpoint, self._bound.remote_endpoint

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The socket to poll for reading."""
        return self._socket

    def _collect(self, topic: str, payload: bytes) -> None:
        self._outgoing.append((topic, payload))

    def serve(self, publisher: Publisher) -> None:
        """Run the node for one step if a request has arrived.

        The node's messages go first to the simulation server, in the reply, and then to the subscribers.
        """
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
                raise msgspec.ValidationError("the message has more than one ZeroMQ frame; it must have exactly one")
            if request == self._latest[0]:  # sent again: the link was lost before the reply arrived
                self._reply(route, self._latest[1])
                return
            turn = _request_decoder.decode(request)
            if turn.seq <= self._seq:  # sent again over a new connection, and then the old one delivered it
                raise msgspec.ValidationError(
                    f"a late copy of the request of turn {turn.seq}; turn {self._seq} has been run"
                )
            if not 0.0 <= turn.now <= LATEST_S:
                raise msgspec.ValidationError(
                    f"the simulation time of the request is {turn.now} s; it must be in 0 .. {LATEST_S:g} s"
                )
        except _NOT_A_TURN as error:
            self.refusals.refuse("(turn)", f"not a request: {error}")
            return
        self._seq = turn.seq
        state = self._run(turn)
        messages, self._outgoing = self._outgoing, []
        reply = _encoder.encode((turn.seq, messages, state) if state else (turn.seq, messages))
        self._latest = request, reply
        self._reply(route, reply)
        self.sent += len(messages)
        for topic, payload in messages if turn.kind != QUIET else ():
            publisher.send(topic, payload)

    def _reply(self, route: bytes, reply: bytes) -> None:
        try:
            self._socket.send(route, MORE | NOBLOCK)
            self._socket.send(reply, NOBLOCK)
        except zmq.ZMQError as error:
            self.refusals.refuse("(turn)", f"the server is gone: {error.strerror}")

    def _run(self, turn: TurnRequest) -> bytes:
        """Run the node for one step, or restore its state.

        Returns the node's state if the server requests it; otherwise b"".
        """
        if turn.kind in (RESTORE, REWIND):
            self._outgoing.clear()
            restore(self._hosted, turn.state, turn.messages, stamps=turn.kind == RESTORE)
            return b""
        self.received += len(turn.messages)
        self._hosted.turn(turn.now, turn.messages)
        return snapshot_of(self._hosted) if turn.kind == SNAPSHOT else b""

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._bound.release()


class RemotePort:
    """Server's side of lockstep for one participant in another process. A turn is one lockstep step of the participant.

    The server waits for the reply to each turn. A participant that publishes nothing, such as a recorder, works while
    the simulation continues: the server waits for the reply only before it requests the participant's next turn. No
    message is lost. Plotted values of such a participant are passed on at its next turn.

    publishes   False for a lossless node that publishes nothing but its status and plotted values
    topics      topics that the node has registered; its messages on other topics are dropped and counted in `forged`.
                None: all messages are accepted
    state       latest encoded state of the node that a reply contained
    deadline_s  longest wait for a reply (s)
    seq         number of the latest turn. A port that replaces another port to the same node continues the other port's
                numbers
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
        seq: int = 0,
        topics: Collection[str] | None = None,
    ) -> None:
        self.name = name
        self.forged: dict[str, int] = {}
        self._topics = topics
        self._accepted: set[str] = set()  # topics of which every message is accepted
        self.decimation = decimation
        self.lossless = lossless
        self.refusals = RejectionLog(name)
        self.publishes = publishes
        self.state = b""
        self._subscribed = frozenset(subscribes)
        self._within = tuple(each[:-1] for each in subscribes if each.endswith("*"))
        self._deadline_s = deadline_s
        self.seq = seq
        self._awaited = False
        self._latest = b""  # request
        self._repeats = 0  # requests that were sent again, to each of which a second reply may arrive
        self._socket = make_socket(context, zmq.DEALER)
        self._socket.setsockopt(zmq.SNDTIMEO, round(deadline_s * 1e3))
        self._socket.setsockopt(zmq.RCVTIMEO, max(round(deadline_s * 1e3 / ATTEMPTS), 1))
        connect(self._socket, endpoint)

    def subscribes_to(self, topic: str) -> bool:
        """Whether the participant subscribes to a topic."""
        return topic in self._subscribed or topic.startswith(self._within)

    def turn(self, now: float, incoming: Sequence[EncodedMessage], kind: str = TURN) -> list[EncodedMessage]:
        """Run the participant for one step at simulation time `now` (s).

        Returns the messages that the participant published in this step. If `publishes` is False, returns the values
        that the participant plotted in the previous step.
        """
        late = self._request(now, incoming, *([kind] if kind else []))
        return [*late, *self.settle()] if self.publishes else late

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        """Set the node of the participant to `state`, from which it continues.

        latched  latched messages that the node had received
        stamps   True: the sequence numbers of the node's messages are restored too; False: they keep counting up
        """
        self._request(now, latched, RESTORE if stamps else REWIND, state)
        self.settle(RESTORE_S)

    def _request(self, now: float, incoming: Sequence[EncodedMessage], *more: object) -> list[EncodedMessage]:
        """Send a request. If the reply to the previous request is still pending, wait for that reply first.

        Returns the messages of the pending reply; [] if no reply was pending.
        """
        late = self.settle()
        self.seq += 1
        request = _encoder.encode((self.seq, now, incoming, *more))
        if len(request) > LARGEST_FRAME:
            raise LockstepError(
                f"node {self.name!r}: the messages of one step have {len(request)} bytes, but at most {LARGEST_FRAME} "
                "are allowed; send smaller or fewer messages to this node"
            )
        try:
            self._socket.send(request)
        except zmq.Again:
            raise self._silent() from None
        self._awaited = True
        self._latest = request
        return late

    def settle(self, longest_s: float = 0.0) -> list[EncodedMessage]:
        """Wait for the pending reply and return its messages; return [] if no reply is pending.

        longest_s  longest wait (s) if this is more than `deadline_s`; otherwise, `deadline_s` is the longest wait
        """
        if not self._awaited:
            return []
        until = time.monotonic() + max(self._deadline_s, longest_s)
        while time.monotonic() < until - 1e-3:  # a receive may time out a little early
            try:
                received = self._socket.recv()
            except zmq.Again:
                self._repeat()
                continue
            try:
                if self._socket.getsockopt(RCVMORE):
                    self._socket.recv_multipart()
                    raise msgspec.ValidationError(
                        "the message has more than one ZeroMQ frame; it must have exactly one"
                    )
                reply = _reply_decoder.decode(received)
            except _NOT_A_TURN as error:
                self.refusals.refuse("(turn)", f"not a reply: {error}")
                continue
            if reply.seq == self.seq:
                self._awaited = False
                self.state = reply.state or self.state
                return self._permitted(reply.messages)
            if reply.seq < self.seq and self._repeats:
                self._repeats -= 1
                continue
            self.refusals.refuse("(turn)", f"received a reply to turn {reply.seq}; expected one to turn {self.seq}")
        raise self._silent()

    def _permitted(self, messages: list[EncodedMessage]) -> list[EncodedMessage]:
        """The messages on topics that the node may publish."""
        if self._topics is None or all(topic in self._accepted for topic, _ in messages):
            return messages
        kept = []
        for topic, payload in messages:
            line = "" if topic in self._accepted else message_refusal(self.name, self._topics, topic, payload)
            if line:
                self.refusals.refuse(topic, line)
                note_forged(self.forged, self.name, topic)
                continue
            kept.append((topic, payload))
            if not is_shared(topic, self._topics):
                self._accepted.add(topic)
        return kept

    def _repeat(self) -> None:
        """Send the latest request again, because the request or the reply may have been lost.

        A participant that has already run the requested step only repeats its reply.
        """
        with contextlib.suppress(zmq.Again):
            self._socket.send(self._latest, NOBLOCK)
            self._repeats += 1

    def _silent(self) -> LockstepError:
        within = f"{self._deadline_s * 1e3:g} ms (deadline_ms)"
        return LockstepError(
            f"node {self.name!r} did not reply to turn {self.seq} within {within}: it ended or is too slow"
        )

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

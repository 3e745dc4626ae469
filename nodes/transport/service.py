"""Requests and replies over DEALER/ROUTER: a call has a number and a deadline, so a lost one never hangs.

Frames: [request] from a DEALER (an empty delimiter before it, as REQ sends one, is given back), as
MessagePack maps: request {id, call, args}, reply {id, ok, result, error}.

Every server answers the call `clock` by itself, at once: {received_ns, answered_ns} of its own clock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import zmq

from nodes.messages.codec import MAX_BYTES
from nodes.transport.rejections import LONGEST_QUIET_S, RejectionLog
from nodes.transport.security.peers import Peer, peer_of
from nodes.transport.sockets import BoundEndpoint, connect, make_socket

Context = zmq.Context[zmq.Socket[bytes]]

CLOCK = "clock"
LAST_REPLY_MS = 200  # a closing server still hands over the replies it gave: shutdown is answered too


class ServiceError(RuntimeError):
    """The service refused; the only argument is its line."""


class ServiceTimeout(ServiceError):  # noqa: N818  it is what happened, as TimeoutError's cousins are named
    """No reply came in time."""


class Call(msgspec.Struct, kw_only=True):
    """A request: what is called, with which arguments; `id` comes back in the reply."""

    id: int
    call: str
    args: dict[str, Any] = {}


class Reply(msgspec.Struct, kw_only=True):
    """An answer: the result, or the line that says why there is none."""

    id: int
    ok: bool = True
    result: Any = None
    error: str = ""


class Request(msgspec.Struct, kw_only=True):
    """A call that arrived: whom to answer, the call, and who calls."""

    route: list[bytes]
    call: Call
    peer: Peer = Peer()


_encoder = msgspec.msgpack.Encoder()
_call_decoder = msgspec.msgpack.Decoder(Call)
_reply_decoder = msgspec.msgpack.Decoder(Reply)


class ServiceServer:
    """Takes calls on a ROUTER socket and answers them. One thread owns it.

    now_ns   the clock that it tells, in nanoseconds since the epoch
    far      a second address, for other computers, by keys
    guards   {call: why a peer may not make it, "" where it may}; refused ones never leave `receive`
    refused  counts the calls that peers were not allowed to make
    """

    def __init__(
        self,
        context: Context,
        name: str,
        endpoint: str,
        now_ns: Callable[[], int] = time.time_ns,
        far: str = "",
    ) -> None:
        self.refusals = RejectionLog(name)
        self.refused = RejectionLog(name, "%s: refused %d calls of %s: %s", LONGEST_QUIET_S)
        self.guards: dict[str, Callable[[Peer], str]] = {}
        self._now_ns = now_ns
        self.socket = make_socket(context, zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, LAST_REPLY_MS)
        try:
            self._claim = BoundEndpoint(self.socket, endpoint, far, name)
        except ValueError:
            self.socket.close()
            raise
        self.endpoint, self.far = self._claim.endpoint, self._claim.far
        self._keyed = bool(self.far) and not self.endpoint.startswith("tcp://")

    def receive(self) -> Request | None:
        """The next call that is here, None when there is none; what is no call is counted and dropped."""
        while True:
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return None
            received_ns = self._now_ns()
            frames = [part.bytes for part in parts]
            *route, payload = frames
            if len(frames) not in (2, 3) or (len(frames) == 3 and frames[1]):
                self.refusals.refuse("(service)", f"{len(frames) - 1} frames where one is a call")
            elif len(payload) > MAX_BYTES:
                self.refusals.refuse("(service)", f"{len(payload)} bytes, at most {MAX_BYTES} are allowed")
            else:
                try:
                    request = Request(route=route, call=_call_decoder.decode(payload))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    self.refusals.refuse("(service)", f"not a call: {error}")
                    continue
                if request.call.call == CLOCK:
                    self.reply(request, {"received_ns": received_ns, "answered_ns": self._now_ns()})
                    continue
                request.peer = peer_of(parts[-1], self._keyed)
                if self._may(request):
                    return request

    def _may(self, request: Request) -> bool:
        """Whether the guards let a call pass; one that they do not is answered here."""
        guard = self.guards.get(request.call.call)
        line = guard(request.peer) if guard is not None else ""
        if line:
            self.not_allowed(request, line)
        return not line

    def not_allowed(self, request: Request, line: str) -> None:
        """Answer that the caller is not allowed to make this call, count it and say so once in a while."""
        line = f"{request.call.call[:80]}: {line}"
        self.refused.refuse(request.peer.text, line)
        self.refuse(request, line)

    def reply(self, request: Request, result: Any = None) -> None:
        """Answer with plain data."""
        try:
            payload = _encoder.encode(Reply(id=request.call.id, result=result))
        except (TypeError, ValueError, OverflowError) as error:
            self.refuse(request, f"{request.call.call}: the result is not plain data: {error}")
            return
        self._send(request, payload)

    def refuse(self, request: Request, line: str) -> None:
        """Answer that it cannot be done, and why."""
        self._send(request, _encoder.encode(Reply(id=request.call.id, ok=False, error=line)))

    def _send(self, request: Request, payload: bytes) -> None:
        try:  # a caller that stopped reading must not stop us
            self.socket.send_multipart([*request.route, payload], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            self.refusals.refuse("(service)", f"the caller is gone: {error.strerror}")

    def close(self) -> None:
        """Take no more calls."""
        self.socket.close()
        self._claim.release()


class ServiceClient:
    """Calls the services of one node. Safe to share between threads; calls follow one another."""

    def __init__(self, endpoint: str, context: Context | None = None) -> None:
        self.endpoint = endpoint
        self.refusals = RejectionLog("caller")
        self._context = context or zmq.Context.instance()
        self._guard = threading.Lock()
        self._id = 0
        self._socket = self._open()

    def _open(self) -> zmq.Socket[bytes]:
        socket = make_socket(self._context, zmq.DEALER)
        try:
            connect(socket, self.endpoint)
        except (ValueError, zmq.ZMQError):
            socket.close()
            raise
        return socket

    def call(self, name: str, args: dict[str, Any] | None = None, timeout_s: float = 2.0) -> Any:
        """The service's result; ServiceError with its line, ServiceTimeout when no reply came."""
        with self._guard:
            self._id += 1
            payload = _encoder.encode(Call(id=self._id, call=name, args=args or {}))
            reply = self._exchange(payload, time.monotonic() + timeout_s)
        if reply is None:
            raise ServiceTimeout(f"{name!r}: no reply from {self.endpoint} within {timeout_s:g} s")
        if not reply.ok:
            raise ServiceError(reply.error)
        return reply.result

    def _exchange(self, payload: bytes, deadline: float) -> Reply | None:
        self._socket.send(payload, zmq.NOBLOCK)
        while (left := deadline - time.monotonic()) > 0.0 and self._socket.poll(math.ceil(left * 1e3)):
            with suppress(zmq.Again):
                reply = self._understand(self._socket.recv_multipart(zmq.NOBLOCK))
                if reply is not None:
                    return reply
        # a call that timed out must not wait in the socket for a server that starts an hour later
        self._socket.close()
        self._socket = self._open()
        return None

    def _understand(self, frames: list[bytes]) -> Reply | None:
        """The reply that is waited for; anything else is counted and dropped."""
        try:
            reply = _reply_decoder.decode(frames[-1])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.refusals.refuse("(reply)", f"not a reply: {error}")
            return None
        if reply.id == self._id and len(frames) == 1:
            return reply
        self.refusals.refuse("(reply)", f"{len(frames)} frames that answer call {reply.id}, not {self._id}")
        return None

    def close(self) -> None:
        """Call no more."""
        self._socket.close()

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

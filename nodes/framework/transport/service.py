"""Services with request and reply, over DEALER and ROUTER sockets.

Each call has an id and a timeout, so that no call hangs. A call is one frame from a DEALER. A REQ socket sends an empty
delimiter frame before the call; the reply to such a call also begins with a delimiter frame. Frames are MessagePack
maps: the request is {id, call, args}, the reply {id, ok, result, error}.

A `ServiceServer` itself replies to the call `clock`, with two readings of its clock: {received_ns, answered_ns}.
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

from nodes.framework.messages.codec import MAX_BYTES
from nodes.framework.transport.rejections import LONGEST_QUIET_S, RejectionLog
from nodes.framework.transport.security.peers import Peer, peer_of
from nodes.framework.transport.sockets import BoundEndpoint, connect, make_socket

Context = zmq.Context[zmq.Socket[bytes]]

CLOCK = "clock"
LAST_REPLY_MS = 200  # a closing server still sends its last replies, such as the one to `shutdown`


class ServiceError(RuntimeError):
    """Raised if a service refuses a call. The only argument is the reason, as one line."""

    exit_code = 2


class ServiceTimeout(ServiceError):  # noqa: N818  it is what happened, as TimeoutError's cousins are named
    """Raised if a service does not reply in time."""

    exit_code = 1


class Call(msgspec.Struct, kw_only=True):
    """A request: the name of the service, its arguments, and an id that the reply repeats."""

    id: int
    call: str
    args: dict[str, Any] = {}


class Reply(msgspec.Struct, kw_only=True):
    """A reply: the result or, for a refused call, a one-line reason."""

    id: int
    ok: bool = True
    result: Any = None
    error: str = ""


class Request(msgspec.Struct, kw_only=True):
    """A received call: the route of the reply, the call, and the peer that sent the call."""

    route: list[bytes]
    call: Call
    peer: Peer = Peer()


_encoder = msgspec.msgpack.Encoder()
_call_decoder = msgspec.msgpack.Decoder(Call)
_reply_decoder = msgspec.msgpack.Decoder(Reply)


class ServiceServer:
    """Receives calls on a ROUTER socket and replies to them. All methods are called on one thread.

    now_ns           clock for the call `clock` (nanoseconds since the epoch)
    remote_endpoint  second endpoint, with CURVE, for other computers; "" if the server has no second endpoint
    guards           {name of a call: function that returns the reason why a peer may not make this call; "" if the
                     peer may make this call}; `receive` refuses calls that are not permitted
    refused          log that counts the calls refused for lack of permission
    """

    def __init__(
        self,
        context: Context,
        name: str,
        endpoint: str,
        now_ns: Callable[[], int] = time.time_ns,
        remote_endpoint: str = "",
    ) -> None:
        self.refusals = RejectionLog(name)
        self.refused = RejectionLog(name, "%s: refused %d calls of %s: %s", LONGEST_QUIET_S)
        self.guards: dict[str, Callable[[Peer], str]] = {}
        self._now_ns = now_ns
        self.socket = make_socket(context, zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, LAST_REPLY_MS)
        try:
            self._bound = BoundEndpoint(self.socket, endpoint, remote_endpoint, name)
        except ValueError:
            self.socket.close()
            raise
        self.endpoint, self.remote_endpoint = self._bound.endpoint, self._bound.remote_endpoint
        self._keyed = bool(self.remote_endpoint) and not self.endpoint.startswith("tcp://")

    @property
    def has_call(self) -> bool:
        """Whether a call has arrived. Takes 2 us."""
        return bool(int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def receive(self) -> Request | None:
        """Return the next call; None if no call has arrived. Invalid frames are counted and dropped."""
        while True:
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return None
            received_ns = self._now_ns()
            frames = [part.bytes for part in parts]
            *route, payload = frames
            if len(frames) not in (2, 3) or (len(frames) == 3 and frames[1]):
                self.refusals.refuse("(service)", f"a message of {len(frames) - 1} frames; a call is 1 frame")
            elif len(payload) > MAX_BYTES:
                self.refusals.refuse("(service)", f"{len(payload)} bytes, at most {MAX_BYTES} are allowed")
            else:
                try:
                    request = Request(route=route, call=_call_decoder.decode(payload))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    self.refusals.refuse("(service)", f"not a valid call message: {error}")
                    continue
                if request.call.call == CLOCK:
                    self.reply(request, {"received_ns": received_ns, "answered_ns": self._now_ns()})
                    continue
                request.peer = peer_of(parts[-1], self._keyed)
                if self._may(request):
                    return request

    def _may(self, request: Request) -> bool:
        """Whether the peer may make the call, according to `guards`. If not, this method refuses the call."""
        guard = self.guards.get(request.call.call)
        line = guard(request.peer) if guard is not None else ""
        if line:
            self.not_allowed(request, line)
        return not line

    def not_allowed(self, request: Request, line: str) -> None:
        """Refuse a call for which the caller has no permission, and count and log the refusal."""
        line = f"{request.call.call[:80]}: {line}"
        self.refused.refuse(request.peer.text, line)
        self.refuse(request, line)

    def reply(self, request: Request, result: Any = None) -> None:
        """Reply to a request with the result of the call, which has to be plain data."""
        try:
            payload = _encoder.encode(Reply(id=request.call.id, result=result))
        except (TypeError, ValueError, OverflowError) as error:
            self.refuse(request, f"{request.call.call}: the result is not plain data: {error}")
            return
        self._send(request, payload)

    def refuse(self, request: Request, line: str) -> None:
        """Refuse a request by a reply with the one-line reason `line`."""
        self._send(request, _encoder.encode(Reply(id=request.call.id, ok=False, error=line)))

    def _send(self, request: Request, payload: bytes) -> None:
        try:  # a caller that no longer reads must not block the server
            self.socket.send_multipart([*request.route, payload], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            self.refusals.refuse("(service)", f"the caller is gone: {error.strerror}")

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
        self._bound.release()


class ServiceClient:
    """Calls the services of one node. Threads may share a client, which makes one call at a time."""

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
        """Call a service and return its result.

        Raises ServiceError if the service refuses the call, and ServiceTimeout if no reply arrives in time.
        """
        with self._guard:
            self._id += 1
            payload = _encoder.encode(Call(id=self._id, call=name, args=args or {}))
            reply = self._exchange(payload, time.monotonic() + timeout_s)
        if reply is None:
            raise ServiceTimeout(f"no reply from service {name!r} at {self.endpoint} within {timeout_s:g} s")
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
        # a new socket: a server that starts an hour later must not receive the call that timed out
        self._socket.close()
        self._socket = self._open()
        return None

    def _understand(self, frames: list[bytes]) -> Reply | None:
        """Decode frames as the reply to the current call.

        Returns None for frames that are not a reply to this call. Such frames are counted and dropped.
        """
        try:
            reply = _reply_decoder.decode(frames[-1])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.refusals.refuse("(reply)", f"not a valid reply message: {error}")
            return None
        if reply.id == self._id and len(frames) == 1:
            return reply
        self.refusals.refuse("(reply)", f"{len(frames)} frames that answer call {reply.id}, not {self._id}")
        return None

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

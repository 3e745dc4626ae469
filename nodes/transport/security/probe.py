"""Why another computer's socket cannot be reached, or its holder does not let us in: one attempt, looked at closely.

A peer of CURVE is told nothing when it is turned away. But the other's greeting is 64 bytes long, and only who was
called by its own key says more than that ("welcome"), before it asks its allow-list for ours. So the bytes that came
on a connection that was hung up tell which of the two keys was wrong; they are passed on through a socket of ours, as
ZeroMQ does not tell how many there were.
"""

from __future__ import annotations

import contextlib
import select
import socket as sockets
import time
from dataclasses import dataclass
from itertools import count
from typing import Literal

import zmq

from nodes.transport.security import keys
from nodes.transport.sockets import CONNECT_TIMEOUT_MS, AddressError, check_address, make_socket

Result = Literal["open", "refused", "unreachable", "silent", "wrong_key", "not_allowed"]

GREETING_BYTES = 64  # of ZMTP, which anyone gets
CHUNK_BYTES = 4096
HANDSHAKE_S = 2.0

_numbers = count()


@dataclass(frozen=True)
class Answer:
    """What came of an attempt.

    result  open: hands were shaken; refused: nothing listens there; unreachable; silent: connected, but nobody there
            speaks our protocol; wrong_key: the key that it was called by is not its own; not_allowed: ours is turned
            away
    detail  of what is unreachable, the system's word
    """

    result: Result
    detail: str = ""


def probe(endpoint: str) -> Answer:
    """Try once to shake hands with the publisher at tcp://ADDRESS:PORT#KEY; takes some seconds at most.

    AddressError for what is no such address, KeysError without a key of ours or where theirs is not allowed.
    """
    check_address(endpoint)
    address, _, key = endpoint.removeprefix("tcp://").partition("#")
    if not key:
        raise AddressError(f"address {endpoint!r} has no key to call it by")
    host, _, port = address.rpartition(":")
    try:
        far = sockets.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_MS * 1e-3)
    except ConnectionRefusedError:
        return Answer("refused")
    except TimeoutError:
        return Answer("unreachable", f"no answer within {CONNECT_TIMEOUT_MS * 1e-3:g} s")
    except OSError as error:
        return Answer("unreachable", error.strerror or str(error))
    with far:
        return _shake_hands(far, key)


def _shake_hands(far: sockets.socket, key: str) -> Answer:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(sockets.create_server(("127.0.0.1", 0)))
        listener.settimeout(HANDSHAKE_S)
        monitor = stack.enter_context(context.socket(zmq.PAIR))
        socket = stack.enter_context(make_socket(context, zmq.SUB))
        at = f"inproc://armswing-probe-{next(_numbers)}"
        socket.monitor(at, zmq.EVENT_HANDSHAKE_SUCCEEDED)
        stack.callback(socket.disable_monitor)
        monitor.connect(at)
        keys.be_client(socket, key)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        near = stack.enter_context(listener.accept()[0])
        return _pass_on(near, far, monitor)


def _pass_on(near: sockets.socket, far: sockets.socket, monitor: zmq.Socket[bytes]) -> Answer:
    """Carry bytes both ways until hands are shaken, one end hangs up or the time is over."""
    received = 0
    deadline = time.monotonic() + HANDSHAKE_S
    with contextlib.suppress(ConnectionError):  # the far end was closed upon us
        while (left := deadline - time.monotonic()) > 0.0:
            ready, _, _ = select.select([near.fileno(), far.fileno(), monitor.fileno()], [], [], left)
            for one, other in ((near, far), (far, near)):
                if one.fileno() not in ready:
                    continue
                data = one.recv(CHUNK_BYTES)
                if not data:
                    return _hung_up(received)
                received += len(data) if one is far else 0
                other.sendall(data)
            if monitor.poll(0):  # it tells of nothing but hands that were shaken
                return Answer("open")
        # who turned us away may leave the connection be for a while
        return Answer("not_allowed" if received > GREETING_BYTES else "silent")
    with contextlib.suppress(OSError):  # what it said before that is still here to be read
        while data := far.recv(CHUNK_BYTES):
            received += len(data)
    return _hung_up(received)


def _hung_up(received: int) -> Answer:
    if received < GREETING_BYTES:
        return Answer("silent")
    return Answer("wrong_key" if received == GREETING_BYTES else "not_allowed")

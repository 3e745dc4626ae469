"""Diagnosis of a connection to another computer: makes one attempt and finds the reason if it fails.

CURVE does not tell a rejected peer the reason. The number of bytes that arrive from the server before the connection
ends shows which key was wrong. A ZMTP greeting is 64 bytes long. The server sends more bytes (the command WELCOME) only
to a client that knows the server's key. Afterwards the server checks the client's key against the server's allow-list.
ZeroMQ does not report the number of bytes; a socket of this module therefore forwards and counts the bytes.
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

from nodes.framework.transport.security import curve
from nodes.framework.transport.sockets import CONNECT_TIMEOUT_MS, AddressError, check_address, make_socket

Result = Literal["open", "refused", "unreachable", "silent", "wrong_key", "not_allowed"]

GREETING_BYTES = 64  # length of the ZMTP greeting, which every client receives
CHUNK_BYTES = 4096
HANDSHAKE_S = 2.0

_numbers = count()


@dataclass(frozen=True)
class Answer:
    """Result of a connection attempt.

    result  "open": the handshake succeeded. "refused": no socket listens at the address. "unreachable": no connection
            could be made. "silent": the connection was made, but no ZeroMQ socket replies. "wrong_key": the server has
            another key than the given one. "not_allowed": the server's allow-list does not have this computer's key
    detail  the operating system's reason for "unreachable"
    """

    result: Result
    detail: str = ""


def probe(endpoint: str) -> Answer:
    """Attempt one handshake with the publisher at tcp://ADDRESS:PORT#KEY. This takes at most some seconds.

    Raises AddressError for an invalid endpoint. Raises KeysError if this computer has no key, or if the publisher's key
    is not on this computer's allow-list.
    """
    check_address(endpoint)
    address, _, key = endpoint.removeprefix("tcp://").partition("#")
    if not key:
        raise AddressError(f"address {endpoint!r} has no key; write it as tcp://ADDRESS:PORT#KEY")
    host, _, port = address.rpartition(":")
    try:
        remote = sockets.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_MS * 1e-3)
    except ConnectionRefusedError:
        return Answer("refused")
    except TimeoutError:
        return Answer("unreachable", f"no answer within {CONNECT_TIMEOUT_MS * 1e-3:g} s")
    except OSError as error:
        return Answer("unreachable", error.strerror or str(error))
    with remote:
        return _shake_hands(remote, key)


def _shake_hands(remote: sockets.socket, key: str) -> Answer:
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
        curve.be_client(socket, key)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        local = stack.enter_context(listener.accept()[0])
        return _forward(local, remote, monitor)


def _forward(local: sockets.socket, remote: sockets.socket, monitor: zmq.Socket[bytes]) -> Answer:
    """Forward bytes in both directions until the handshake succeeds, one side closes, or HANDSHAKE_S have passed.

    local   connection to the local ZeroMQ socket
    remote  connection to the probed ZeroMQ socket
    """
    received = 0
    deadline = time.monotonic() + HANDSHAKE_S
    with contextlib.suppress(ConnectionError):  # closed by the probed socket
        while (left := deadline - time.monotonic()) > 0.0:
            ready, _, _ = select.select([local.fileno(), remote.fileno(), monitor.fileno()], [], [], left)
            for one, other in ((local, remote), (remote, local)):
                if one.fileno() not in ready:
                    continue
                data = one.recv(CHUNK_BYTES)
                if not data:
                    return _closed(received)
                received += len(data) if one is remote else 0
                other.sendall(data)
            if monitor.poll(0):  # its only event is a successful handshake
                return Answer("open")
        # a server may keep a rejected connection open for a while
        return Answer("not_allowed" if received > GREETING_BYTES else "silent")
    with contextlib.suppress(OSError):  # read what it sent before it closed
        while data := remote.recv(CHUNK_BYTES):
            received += len(data)
    return _closed(received)


def _closed(received: int) -> Answer:
    if received < GREETING_BYTES:
        return Answer("silent")
    return Answer("wrong_key" if received == GREETING_BYTES else "not_allowed")

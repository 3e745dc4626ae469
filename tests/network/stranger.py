"""One who is not welcome: tries all sockets of a launch, and prints what it got out of them.

    python stranger.py plain|other_key|raw|silent ENDPOINT...        other_key: with a key that nobody allowed
    python stranger.py flood SECONDS ENDPOINT...        raw bytes, connection after connection
    python stranger.py crowd SECONDS ENDPOINT...        sockets with such keys, 40 at each endpoint, that never give up

Endpoints are tcp://ADDRESS:PORT#KEY, as the registry has them: a stranger may know addresses and public keys.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import time

import msgspec
import zmq

WAIT_MS = 1500


def zeromq(endpoints: list[str], own_key: bool) -> int:
    """How many of these answered anything, asked as a subscriber, as a caller and as a publisher, all at once."""
    poller = zmq.Poller()
    opened = [each for endpoint in endpoints for each in knocking(endpoint, own_key)]
    for one in opened:
        poller.register(one, zmq.POLLIN)
    got = len(poller.poll(WAIT_MS))
    for one in opened:
        one.close()
    return got


def knocking(endpoint: str, own_key: bool) -> list[zmq.Socket[bytes]]:
    """Sockets that ask at one endpoint."""
    address, _, key = endpoint.partition("#")
    context = zmq.Context.instance()
    call = msgspec.msgpack.encode({"id": 1, "call": "shutdown", "args": {}})
    command = msgspec.msgpack.encode({"mode": "effort", "name": ["arm"], "value": [0.05], "seq": 1})
    opened = []
    for kind in (zmq.SUB, zmq.DEALER, zmq.XSUB):
        one = context.socket(kind)
        one.setsockopt(zmq.LINGER, 0)
        if own_key:
            one.curve_publickey, one.curve_secretkey = zmq.curve_keypair()
            one.curve_serverkey = bytes.fromhex(key)
        if kind == zmq.SUB:
            one.setsockopt(zmq.SUBSCRIBE, b"")
        one.connect(address)
        if kind == zmq.DEALER:
            one.send(call)
        if kind == zmq.XSUB:
            one.send(b"\x01")
            one.send_multipart([b"rotary_pendulum/command", command])
        opened.append(one)
    return opened


def raw(endpoint: str, data: bytes, wait_s: float) -> bytes:
    """What a plain connection gets back beyond the greeting of ZMTP that anyone gets."""
    host, _, port = endpoint.partition("#")[0].removeprefix("tcp://").rpartition(":")
    got = b""
    with socket.create_connection((host, int(port)), timeout=2.0) as connection:
        connection.settimeout(wait_s)
        try:
            connection.sendall(data)
            while len(got) < 1 << 16 and (more := connection.recv(4096)):
                got += more
        except OSError:
            pass
    return got[64:]


def flood(endpoints: list[str], seconds: float) -> int:
    """How many connections with malformed bytes there were."""
    dice = random.Random(1)
    until = time.monotonic() + seconds
    count = 0
    while time.monotonic() < until:
        host, _, port = dice.choice(endpoints).partition("#")[0].removeprefix("tcp://").rpartition(":")
        with socket.socket() as connection:
            connection.settimeout(0.5)
            try:
                connection.connect((host, int(port)))
                connection.sendall(dice.choice((b"\xff" + bytes(8) + b"\x7f\x03", b"")) + dice.randbytes(100))
            except OSError:
                continue
        count += 1
    return count


def crowd(endpoints: list[str], seconds: float) -> int:
    """How many messages came to a crowd of subscribers whose keys nobody allowed."""
    context = zmq.Context.instance()
    poller = zmq.Poller()
    for endpoint in endpoints * 40:
        address, _, key = endpoint.partition("#")
        one = context.socket(zmq.SUB)
        one.curve_publickey, one.curve_secretkey = zmq.curve_keypair()
        one.curve_serverkey = bytes.fromhex(key)
        one.setsockopt(zmq.SUBSCRIBE, b"")
        one.setsockopt(zmq.RECONNECT_IVL, 1)
        one.setsockopt(zmq.LINGER, 0)
        one.connect(address)
        poller.register(one, zmq.POLLIN)
    return len(poller.poll(int(1e3 * seconds)))


def main(what: str, *rest: str) -> None:
    if what == "crowd":
        print(json.dumps({"got": crowd(list(rest[1:]), float(rest[0]))}))
        return
    if what == "flood":
        print(json.dumps({"connections": flood(list(rest[1:]), float(rest[0]))}))
        return
    dice = random.Random(2)
    if what != "raw":
        print(json.dumps({"got": zeromq(list(rest), own_key=what == "other_key"), "tries": len(rest)}))
        return
    knocks = (b"123456789", b"GET / HTTP/1.1\r\n\r\n", dice.randbytes(999))
    got = [len(raw(endpoint, data, 0.3)) for endpoint in rest for data in knocks]
    print(json.dumps({"got": sum(got), "tries": len(got)}))


if __name__ == "__main__":
    main(*sys.argv[1:])

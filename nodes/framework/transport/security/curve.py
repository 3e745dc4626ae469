"""CURVE on a socket: encryption and authentication with this user's key pair and the allow-list."""

from __future__ import annotations

import zmq

from nodes.framework.transport.security import allow_list, keys


def be_server(socket: zmq.Socket[bytes]) -> str:
    """Make the socket a CURVE server with this user's key pair. Returns the public key, in hexadecimal.

    CURVE applies to the addresses to which the socket is bound after this call.
    """
    own = keys.own_key()
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))
    return own.public


def be_client(socket: zmq.Socket[bytes], server_key: str) -> None:
    """Use CURVE, with this user's key pair, for the connections that the socket makes after this call.

    server_key  public key of the peer, in hexadecimal

    Raises KeysError if `server_key` is not on the allow-list.
    """
    own = keys.own_key()
    if server_key not in allow_list.allowed().values():
        raise keys.KeysError(f"key {server_key} is not allowed; allow it with 'armswing keys allow NAME {server_key}'")
    socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server_key))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(own.public))
    socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))

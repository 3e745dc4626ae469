"""Creates sockets with the project's options, and binds and connects them to permitted addresses.

Loopback and ipc addresses need no key. Any other address requires CURVE with an allow-list, and is written
tcp://ADDRESS:PORT#KEY, where KEY is the public key of the bound socket, in hexadecimal.

LINGER is 0, so that a dead peer never delays an exit. If a frame is larger than `LARGEST_FRAME`, libzmq ends the
connection before it allocates memory for the frame. A smaller frame may still exceed the limit of the codec; the
receiver counts and drops such frames.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import zmq
from zmq.backend import zmq_poll

from nodes.framework.messages.codec import MAX_BYTES
from nodes.framework.transport.security import authenticator, curve, gate, keys

LARGEST_FRAME = 4 * MAX_BYTES
HEARTBEAT_MS = 100
HEARTBEAT_TIMEOUT_MS = 300
REMOTE_HEARTBEAT_TIMEOUT_MS = 1000  # TCP repeats a lost segment after some 200 ms, or 600
CONNECT_TIMEOUT_MS = 1000  # then a new attempt: TCP's own retry intervals grow while a link is down
RECONNECT_MS = 20
REMOTE_RECONNECT_MS = 100  # a rejected peer retries at this interval; each attempt costs the authenticator time
LARGEST_PORT = 65535
LONGEST_ADDRESS = 107  # bytes of an ipc address that sockaddr_un holds
QUEUE = 10_000
REMOTE_QUEUE = 200  # messages; on a slow link, a longer queue would deliver only late messages
MORE = int(zmq.SNDMORE)  # as int: combining pyzmq's enum members costs more than the call
NOBLOCK = int(zmq.NOBLOCK)
RCVMORE = int(zmq.RCVMORE)
POLLIN = int(zmq.POLLIN)


class AddressError(ValueError):
    """Raised for an address that is invalid, not permitted or in use.

    The only argument is a one-line message for the user.
    """

    exit_code = 2


def check_address(endpoint: str) -> None:
    """Raise AddressError unless the endpoint is ipc, inproc, tcp on loopback, or tcp with a key.

    The port "*" stands for any free port.
    """
    if "\0" in endpoint:
        raise AddressError(f"address {endpoint!r} is refused: it has a zero byte")
    scheme, separator, rest = endpoint.partition("://")
    if separator and scheme == "inproc" and rest:
        return
    if separator and scheme == "ipc" and rest:
        if len(rest.encode()) > LONGEST_ADDRESS:
            raise AddressError(f"ipc path {rest!r} is too long; use a path of at most {LONGEST_ADDRESS} bytes")
        return
    rest, _, key = rest.partition("#")
    host, _, port = rest.rpartition(":")
    if separator and scheme == "tcp" and (_is_loopback(host.strip("[]")) or (_is_number(host) and key)):
        if key and not keys.KEY.fullmatch(key):
            raise AddressError(f"address {endpoint!r} is refused: after #, it must have a key of 64 hexadecimal digits")
        if port == "*" or (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) <= LARGEST_PORT):
            return
        raise AddressError(f"address {endpoint!r} is refused: port {port!r} is not a number in 1 .. {LARGEST_PORT}")
    raise AddressError(
        f"address {endpoint!r} is refused: any address except ipc and loopback needs a CURVE key; make a key with "
        f"'armswing keys new', allow the other computer's key with 'armswing keys allow NAME KEY', and write the "
        "address as tcp://10.0.0.1:17400#KEY"
    )


def _is_number(host: str) -> bool:
    """Whether `host` is a numeric IP address. Names are not permitted, because their lookup cannot be trusted."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def make_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    """Create a socket of this type with the project's options, not yet bound or connected."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_FRAME)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 10 * RECONNECT_MS)
    socket.setsockopt(zmq.SNDHWM, QUEUE)
    socket.setsockopt(zmq.RCVHWM, QUEUE)
    return socket


def no_zmq_send(_pointer: ctypes.c_void_p, _frame: bytes, _size: int, _flags: int) -> int:
    """Send nothing and return -1, as zmq_send does at an error."""
    return -1


def _zmq_send() -> Callable[[ctypes.c_void_p, bytes, int, int], int]:
    """The function zmq_send of the libzmq that pyzmq uses; `no_zmq_send` if pyzmq's module does not give access to it.

    pyzmq releases Python's global interpreter lock in each send. If another thread waits for the lock, the send then
    also takes the time for handing over the lock, and often the time for which the other thread keeps it. This function
    keeps the lock. Use it only for sockets whose sends never wait. It has no `argtypes`: the conversion of arguments by
    these would add 0.3 us to each call, and more with cold caches.
    """
    try:
        from zmq.backend.cython import _zmq  # absent where pyzmq is built with cffi

        function: Callable[[ctypes.c_void_p, bytes, int, int], int] = ctypes.PyDLL(_zmq.__file__).zmq_send
    except (ImportError, OSError, AttributeError):
        return no_zmq_send
    return function


zmq_send = _zmq_send()


def is_readable(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message has arrived, so that a receive would return at once."""
    return bool(zmq_poll([(socket, POLLIN)], 0))  # the option EVENTS costs more: pyzmq makes it a Python enum


def connect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect to an endpoint, with heartbeats on tcp. Raises AddressError for an invalid or forbidden endpoint.

    A connection to an endpoint with a key uses CURVE; the key must be on the allow-list.
    """
    check_address(endpoint)
    address, _, key = endpoint.partition("#") if endpoint.startswith("tcp://") else (endpoint, "", "")
    _tcp_options(socket, address, is_remote=bool(key))
    socket.setsockopt(zmq.RECONNECT_IVL, REMOTE_RECONNECT_MS if key else RECONNECT_MS)
    try:
        if key:
            curve.be_client(socket, key)
        socket.connect(address)
    except keys.KeysError as error:
        raise AddressError(f"cannot connect to {address!r}: {error}") from None
    except zmq.ZMQError as error:
        raise AddressError(f"cannot connect to {address!r}: {error.strerror}") from None


class BoundEndpoint:
    """A bound address.

    A lock file protects an ipc address, because a second bind would silently take over the path of the socket.

    endpoint         address for connections from this computer, with the number of the port
    remote_endpoint  second address, for connections from other computers: tcp://ADDRESS:PORT#KEY, where KEY is the
                     public CURVE key of this user; "" if the socket has no second address
    """

    def __init__(self, socket: zmq.Socket[bytes], endpoint: str, remote_endpoint: str = "", owner: str = "") -> None:
        check_address(endpoint)
        _tcp_options(socket, endpoint)
        self._socket = socket
        self._context = socket.context
        self._watched = False
        self._lock: int | None = None
        self._path = Path(endpoint.removeprefix("ipc://")) if endpoint.startswith("ipc://") else None
        if self._path is not None:
            self._lock = lock(self._path)
            if self._lock is None:
                raise AddressError(f"address {endpoint!r} is in use by a live process; stop it or use another address")
        try:
            socket.bind(endpoint)
            self.endpoint: str = socket.getsockopt_string(zmq.LAST_ENDPOINT)
            self.remote_endpoint = self._bind_remote(remote_endpoint, owner) if remote_endpoint else ""
        except zmq.ZMQError as error:
            self.release()
            raise AddressError(f"cannot bind {remote_endpoint or endpoint!r}: {error.strerror}") from None
        except AddressError:
            self.release()
            raise

    def _bind_remote(self, address: str, owner: str) -> str:
        """Bind the socket also to an address for other computers. Returns tcp://ADDRESS:PORT#KEY, the bound address.

        Call this after the bind to the local address: the socket options that this method sets apply only to later
        binds.
        """
        try:
            key = curve.be_server(self._socket)
        except keys.KeysError as error:
            raise AddressError(f"address {address!r} for other computers requires a key: {error}") from None
        check_address(f"{address}#{key}")
        _tcp_options(self._socket, address, is_remote=True)
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        try:
            listener = gate.listening(host.strip("[]"), 0 if port == "*" else int(port))
        except OSError as error:
            raise AddressError(f"cannot bind {address!r}: {error.strerror}") from None
        authenticator.watch(self._context, self._socket, owner, listener.dup())
        self._watched = True
        bound = f"tcp://{host}:{listener.getsockname()[1]}"
        self._socket.setsockopt(zmq.USE_FD, listener.detach())  # closed by the ZeroMQ socket
        self._socket.bind(bound)
        self._socket.setsockopt(zmq.USE_FD, -1)
        return f"{self._socket.getsockopt_string(zmq.LAST_ENDPOINT)}#{key}"

    def release(self) -> None:
        """Remove the ipc path and its lock file. Call this method after the socket is closed."""
        if self._watched:
            self._watched = False
            authenticator.unwatch(self._context, self._socket)
        if self._lock is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
            lock_path(self._path).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


def lock_path(path: Path) -> Path:
    """Path of the lock file beside the path of a socket."""
    return path.with_name(path.name + ".lock")


def lock(path: Path) -> int | None:
    """Lock the path of a socket. Returns the file descriptor of the lock; None if another process has the lock."""
    while True:
        descriptor = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the previous holder may have unlinked the file between open and lock
            if os.stat(lock_path(path)).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(descriptor)
            return None
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove from a folder the sockets and lock files of processes that have ended."""
    for lock_file in folder.glob("*.lock"):
        path = lock_file.with_name(lock_file.name.removesuffix(".lock"))
        descriptor = lock(path)
        if descriptor is not None:
            path.unlink(missing_ok=True)
            lock_file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _tcp_options(socket: zmq.Socket[bytes], endpoint: str, is_remote: bool = False) -> None:
    if not endpoint.startswith("tcp://"):
        return
    timeout_ms = REMOTE_HEARTBEAT_TIMEOUT_MS if is_remote else HEARTBEAT_TIMEOUT_MS
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, timeout_ms)
    socket.setsockopt(zmq.HEARTBEAT_TTL, timeout_ms)
    if is_remote:
        socket.setsockopt(zmq.SNDHWM, REMOTE_QUEUE)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS)
        socket.setsockopt(zmq.HANDSHAKE_IVL, authenticator.HANDSHAKE_MS)
    if "[" in endpoint:
        socket.setsockopt(zmq.IPV6, 1)

"""CURVE authentication: checks each handshake against the allow-list (ZAP, RFC 27), and counts and logs rejections.

Each ZeroMQ context with sockets open to other computers has one authenticator, which runs on a thread of its own.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket as sockets
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import count

import zmq

from nodes.framework.transport import background_threads
from nodes.framework.transport.rejections import LONGEST_QUIET_S, RejectionLog
from nodes.framework.transport.security import allow_list, gate, keys

log = logging.getLogger("armswing.wire")

Context = zmq.Context[zmq.Socket[bytes]]

ZAP_ADDRESS = "inproc://zeromq.zap.01"
ZAP_DOMAIN = b"armswing"
HANDSHAKE_MS = 2000  # a connection without a handshake is closed after this time
CHECK_S = 0.5  # interval of the check of the allow-list for revoked keys
FLOOD = 50  # rejections of one address within CHECK_S: more than a peer's retries cause
BLOCK_S = 5.0
LONGEST_BLOCK_S = 320.0  # for a key that offends repeatedly: 5, 10, 20 ... s
# limits for one key, burst and sustained rate: a host with 50 nodes stays below
HANDSHAKES, HANDSHAKES_PER_S = 400, 40.0
PAUSE_S = 0.02  # pause between batches of connection events, during a flood
FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
WATCHED = FAILED | zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
UNKNOWN = "a peer that disconnected at once"
UNKNOWN_KEY, NO_KEY, NO_ZMTP = "unknown_key", "no_key", "no_zmtp"  # kinds of rejected connections
REASONS = {  # event value of a failed handshake -> (kind, reason)
    errno.EPIPE: (NO_KEY, "no key"),  # the peer saw that a key is required, and disconnected
    zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH: (NO_KEY, "no key"),
    zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC: (UNKNOWN_KEY, "it was encrypted for another key than this host's"),
}

_authenticators: dict[Context, CurveAuthenticator] = {}
_guard = threading.Lock()
_numbers = count()


@dataclass
class Watched:
    """A bound socket and its connections, as reported by the socket's monitor.

    peers   {file descriptor: (address, port)} of the open connections
    fresh   file descriptors of connections without a completed handshake, oldest first
    ended   file descriptors of connections that the authenticator closed
    failed  kind and reason of failed handshakes whose connections are still open
    mixed   number of handshakes that completed while several connections were in `fresh`. Each of these handshakes was
            attributed to the oldest connection, which may be wrong
    """

    monitor: zmq.Socket[bytes]
    listener: sockets.socket
    peers: dict[int, tuple[str, int] | None] = field(default_factory=dict)
    fresh: list[int] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)
    mixed: int = 0
    failed: deque[tuple[str, str]] = field(default_factory=deque)


def watch(context: Context, socket: zmq.Socket[bytes], owner: str, listener: sockets.socket) -> None:
    """Watch the connections of a socket, and admit only peers whose keys are on the allow-list.

    Watching and admission apply to the addresses to which the socket is bound after this call.

    listener  duplicate of the TCP socket on which `socket` will listen. The authenticator uses it to block the
              addresses of peers, and closes it at the end
    """
    socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a ZAP reply the connection is rejected
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    with _guard:
        authenticator = _authenticators.get(context)
        if authenticator is None:
            authenticator = _authenticators[context] = CurveAuthenticator(context, owner)
        authenticator.watch(socket, listener)


def unwatch(context: Context, socket: zmq.Socket[bytes]) -> None:
    """Stop watching a socket that is about to close.

    If no other socket of the context is watched, close the authenticator of the context.
    """
    with _guard:
        authenticator = _authenticators[context]
        if authenticator.unwatch(socket):
            del _authenticators[context]
            authenticator.close()


def rejected(context: Context) -> int:
    """Number of connections that this context's sockets rejected because they had no authorized key."""
    return sum(rejected_by_kind(context).values())


def rejected_by_kind(context: Context) -> dict[str, int]:
    """Number of rejected connections by kind: "unknown_key", "no_key" or "no_zmtp" (not a ZeroMQ connection)."""
    authenticator = _authenticators.get(context)
    return dict.fromkeys((UNKNOWN_KEY, NO_KEY, NO_ZMTP), 0) if authenticator is None else dict(authenticator.kinds)


def block_key(context: Context, key: str) -> None:
    """Reject connections with this key for BLOCK_S seconds.

    If the key is blocked again soon after this time, the new block lasts twice as long as the previous block, at most
    LONGEST_BLOCK_S seconds.
    """
    known = _authenticators.get(context)
    if known is not None:
        known.block_key(key)


def is_authorized(context: Context, key: str) -> bool:
    """Whether a key was on the allow-list at the latest check; False for a context without authenticator."""
    known = _authenticators.get(context)
    return known is not None and known.is_authorized(key)


class CurveAuthenticator:
    """Answers ZAP requests on its own thread, closes connections of revoked keys, and blocks flooding addresses."""

    def __init__(self, context: Context, owner: str) -> None:
        self.refusals = RejectionLog(owner, "%s: rejected %d connections from %s: %s", LONGEST_QUIET_S)
        self.kinds = dict.fromkeys((UNKNOWN_KEY, NO_KEY, NO_ZMTP), 0)
        self._context = context
        self._zap = context.socket(zmq.REP)
        self._zap.setsockopt(zmq.LINGER, 0)
        self._zap.bind(ZAP_ADDRESS)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._new: list[Watched] = []
        self._watched: dict[zmq.Socket[bytes], Watched] = {}
        self._counted: dict[str, int] = {}  # {address: rejected handshakes with open connections}
        self._addresses_of: dict[str, set[str]] = {}  # {key: addresses that connected with it}
        self._known: set[str] = set()  # addresses that ever connected with an allowed key
        self._allowed = _allowed()
        self._tally: dict[str, int] = {}  # {address: rejections since the last check}
        self._blocked_keys: dict[str, tuple[float, float]] = {}  # {key: (end of the block, its length in s)}
        self._handshakes: dict[str, tuple[float, float]] = {}  # {key: (recent handshakes, time of the last)}
        self._blocked_until: dict[str, float] = {}
        self._is_deferring = False  # whether the I/O threads are deferred
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="authenticator", daemon=True)
        self._thread.start()

    def watch(self, socket: zmq.Socket[bytes], listener: sockets.socket) -> None:
        """Watch the connections of a socket. Call it on the socket's thread, before the bind."""
        address = f"inproc://armswing-monitor-{next(_numbers)}"
        socket.monitor(address, WATCHED)
        monitor = self._context.socket(zmq.PAIR)
        monitor.setsockopt(zmq.LINGER, 0)
        monitor.setsockopt(zmq.RCVHWM, 0)  # a full queue would block libzmq's I/O thread
        monitor.connect(address)
        self._watched[socket] = watched = Watched(monitor, listener)
        self._new.append(watched)
        os.eventfd_write(self._wake, 1)

    def unwatch(self, socket: zmq.Socket[bytes]) -> bool:
        """Stop watching a socket. Returns whether no watched socket remains."""
        self._watched.pop(socket).listener.close()
        with contextlib.suppress(zmq.ZMQError):  # already closed, with its monitor
            socket.monitor(None, 0)
        return not self._watched

    def is_authorized(self, key: str) -> bool:
        """Whether a key was on the allow-list at the latest check."""
        return key in self._allowed

    def block_key(self, key: str) -> None:
        """Reject connections with this key for some time. Any thread may call this method."""
        now = time.monotonic()
        until, before = self._blocked_keys.get(key, (0.0, 0.0))
        if now < until:
            return
        pause_s = min(2.0 * before, LONGEST_BLOCK_S) if now < until + 2.0 * before else BLOCK_S
        self._blocked_keys[key] = now + pause_s, pause_s
        log.warning(
            "%s: the peer with key %s exceeds its limits and is blocked for %g s", self.refusals.owner, key, pause_s
        )

    def _is_blocked(self, key: str) -> bool:
        """Count a handshake with this key, and block the key if there were too many. Returns whether it is blocked."""
        now = time.monotonic()
        if now < self._blocked_keys.get(key, (0.0, 0.0))[0]:
            return True
        count, at = self._handshakes.get(key, (0.0, now))
        count = max(count - HANDSHAKES_PER_S * (now - at), 0.0) + 1.0
        self._handshakes[key] = count, now
        if count > HANDSHAKES:
            self._handshakes[key] = 0.0, now
            self.block_key(key)
        return count > HANDSHAKES

    def close(self) -> None:
        """Stop the thread; further handshakes are rejected."""
        self._stop.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _serve(self) -> None:
        background_threads.defer_this()
        poller = zmq.Poller()
        poller.register(self._zap, zmq.POLLIN)
        poller.register(self._wake, zmq.POLLIN)
        watched: list[Watched] = []
        looked = time.monotonic()
        while not self._stop.is_set():
            awake = dict(poller.poll(int(CHECK_S * 1e3)))
            if self._wake in awake:
                os.eventfd_read(self._wake)
            while self._new:
                watched.append(self._new.pop())
                poller.register(watched[-1].monitor, zmq.POLLIN)
            # events first, ZAP reply later: after the reply the connection may end, and its address is lost
            asked = self._zap in awake
            for each in list(watched):
                if (asked or each.monitor in awake) and not self._follow(each):
                    poller.unregister(each.monitor)
                    each.monitor.close()
                    watched.remove(each)
            if asked:
                self._answer(self._zap.recv_multipart())
            if time.monotonic() - looked > CHECK_S:
                looked = time.monotonic()
                self._disconnect_revoked(watched)
                self._unblock(watched, looked)
            if self._tally:
                self._block_floods(watched)
            self._defer_io()
            if len(awake) > asked:
                self._stop.wait(PAUSE_S)
        for each in watched:
            each.monitor.close()
        self._zap.close()
        background_threads.defer_io(False)

    def _answer(self, frames: list[bytes]) -> None:
        """Accept or refuse a connection, by a reply to one ZAP request.

        For an accepted connection, the user id of the reply is the key of the peer. Frames carry this key as "User-Id";
        see module `peers`.

        frames  the request: version, request id, domain, address, identity, mechanism, credentials
        """
        if len(frames) < 6:
            self._zap.send_multipart([b"1.0", b"", b"500", b"malformed", b"", b""])
            return
        version, number, domain, address, _, mechanism, *credentials = frames
        key = credentials[0].hex() if len(credentials) == 1 else ""
        self._allowed = _allowed()
        peer = address.decode("ascii", "backslashreplace").removeprefix("::ffff:")
        known = self._allowed.get(key) if mechanism == b"CURVE" and domain == ZAP_DOMAIN else None
        if known is None:
            kind = UNKNOWN_KEY if key else NO_KEY
            if len(self._counted) < 4096:
                self._counted[peer] = self._counted.get(peer, 0) + 1
            self._reject(peer, kind, f"key {key or '(none)'} is not allowed; 'armswing keys allow NAME KEY' lets it in")
            # 300, temporary: after 400, denied, a ZeroMQ peer stops retrying, but its key may be allowed later
            self._zap.send_multipart([version, number, b"300", b"not allowed", b"", b""])
            return
        if self._is_blocked(key):
            self._counted[peer] = self._counted.get(peer, 0) + 1
            self._tally[peer] = self._tally.get(peer, 0) + 1
            self._zap.send_multipart([version, number, b"300", b"blocked for a while", b"", b""])
            return
        if len(self._addresses_of) < 4096:
            self._addresses_of.setdefault(key, set()).add(peer)
            self._known.add(peer)
        self._zap.send_multipart([version, number, b"200", b"", key.encode(), b""])

    def _follow(self, watched: Watched) -> bool:
        """Process all events of a socket's monitor. Returns False if the socket is closed."""
        while True:
            try:
                event, endpoint = watched.monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return True
            kind, value = struct.unpack("=Hi", event[:6])
            if kind == zmq.EVENT_MONITOR_STOPPED:
                return False
            if kind == zmq.EVENT_HANDSHAKE_FAILED_AUTH or not endpoint.startswith(b"tcp"):
                continue
            if kind == zmq.EVENT_ACCEPTED:
                watched.peers[value] = peer_at(value)
                watched.fresh.append(value)
            elif kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                watched.mixed += len(watched.fresh) > 1
                del watched.fresh[:1]
            elif kind == zmq.EVENT_DISCONNECTED:
                self._disconnected(watched, value)
            elif kind == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                watched.failed.append(REASONS.get(value, (NO_ZMTP, "not our protocol")))
            else:
                watched.failed.append(REASONS.get(value, (NO_ZMTP, "no handshake")))

    def _disconnected(self, watched: Watched, descriptor: int) -> None:
        """Handle the end of a connection.

        A connection without a completed handshake counts as rejected, unless the authenticator closed it.
        """
        peer = watched.peers.pop(descriptor, None)
        is_fresh = descriptor in watched.fresh
        if is_fresh:
            watched.fresh.remove(descriptor)
        if descriptor in watched.ended:
            watched.ended.remove(descriptor)
            return
        if is_fresh and self._was_counted(None if peer is None else peer[0]):
            return
        if not is_fresh and not watched.failed:
            return
        if watched.failed:
            kind, reason = watched.failed.popleft()
        else:
            if watched.mixed and peer is not None and peer[0] in self._known:
                watched.mixed -= 1  # this connection may have completed its handshake
                return
            kind, reason = NO_ZMTP, "not our protocol"
        self._reject(UNKNOWN if peer is None else peer[0], kind, reason)

    def _was_counted(self, address: str | None) -> bool:
        """Whether an ended connection has already been counted as rejected.

        A connection whose key is refused is counted at once, before the connection ends.

        address  address of the peer; None if the connection ended before its address was read
        """
        known = address if address is not None else next(iter(self._counted), "")
        if not self._counted.get(known):
            return False
        self._counted[known] -= 1
        if not self._counted[known]:
            del self._counted[known]
        return True

    def _reject(self, address: str, kind: str, reason: str) -> None:
        self.kinds[kind] += 1
        self.refusals.refuse(address, reason)
        self._tally[address] = self._tally.get(address, 0) + 1

    def _block_floods(self, watched: list[Watched]) -> None:
        """Block, in the kernel, addresses from which too many connections were rejected."""
        floods = [each for each, count in self._tally.items() if count > FLOOD and each != UNKNOWN]
        if not floods:
            return
        until = time.monotonic() + BLOCK_S
        for address in floods:
            del self._tally[address]
            self._blocked_until[address] = until
            log.warning(
                "%s: flood of connections from %s; new connections are blocked for %g s",
                self.refusals.owner,
                address,
                BLOCK_S,
            )
        self._set_filters(watched)

    def _unblock(self, watched: list[Watched], now: float) -> None:
        """Reset the counts of rejections, and unblock the addresses whose blocking time is over."""
        self._tally.clear()
        over = [address for address, until in self._blocked_until.items() if now > until]
        for address in over:
            del self._blocked_until[address]
        if over:
            self._set_filters(watched)

    def _defer_io(self) -> None:
        """Defer the I/O threads (`background_threads.defer_io`) while an address or a key is blocked.

        After the block of a key has ended, the I/O threads stay deferred for a further period as long as the block.
        """
        now = time.monotonic()
        blocks = list(self._blocked_keys.values())
        is_deferring = bool(self._blocked_until) or any(now < until + pause for until, pause in blocks)
        if is_deferring != self._is_deferring:
            self._is_deferring = is_deferring
            background_threads.defer_io(is_deferring)

    def _set_filters(self, watched: list[Watched]) -> None:
        for each in watched:
            with contextlib.suppress(OSError):  # the listener is being closed
                gate.block(each.listener, self._blocked_until)

    def _disconnect_revoked(self, watched: list[Watched]) -> None:
        """Close the connections from addresses that used a revoked key.

        Some of these connections may use another key, which is still allowed. Their peers connect again.
        """
        self._allowed = _allowed()
        revoked = [key for key in self._addresses_of if key not in self._allowed]
        addresses = {address for key in revoked for address in self._addresses_of.pop(key)}
        if not addresses:
            return
        log.warning(
            "%s: a key was revoked; closed the connections from %s", self.refusals.owner, ", ".join(sorted(addresses))
        )
        for each in watched:
            for descriptor, peer in each.peers.items():
                if peer is not None and peer[0] in addresses:
                    each.ended.add(descriptor)
                    disconnect(descriptor, peer)


def _allowed() -> dict[str, str]:
    """{key: name} of the allow-list; empty if the allow-list cannot be read."""
    try:
        return {key: name for name, key in allow_list.allowed().items()}
    except keys.KeysError as error:
        log.warning("all connections of other computers are refused, because the allow-list is unusable: %s", error)
        return {}


def peer_at(descriptor: int) -> tuple[str, int] | None:
    """Address and port of a connection's peer; None if the descriptor is closed or is not a tcp socket."""
    with contextlib.suppress(OSError), sockets.socket(fileno=os.dup(descriptor)) as found:
        name = found.getpeername()
        if isinstance(name, tuple):
            return name[0].removeprefix("::ffff:"), name[1]
    return None


def disconnect(descriptor: int, peer: tuple[str, int]) -> None:
    """Shut a connection down, unless its descriptor now belongs to another connection."""
    if peer_at(descriptor) == peer:
        with contextlib.suppress(OSError), sockets.socket(fileno=os.dup(descriptor)) as found:
            found.shutdown(sockets.SHUT_RDWR)

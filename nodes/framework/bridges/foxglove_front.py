"""Check of the connections to the Foxglove bridge: a web page must not read or steer a robot unless the user allows it.

Every browser lets any page connect to `ws://localhost`, and the server of Foxglove's SDK accepts every page. So the
front listens in its place. It reads the HTTP request with which a WebSocket begins, refuses the wrong ones with status
403, and relays the others to the server, which accepts no connection but those of the front.
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import ipaddress
import re
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
FOXGLOVE = ("https://app.foxglove.dev", "file://")  # its web app, and its desktop app, whose page is a file
ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]*")
LARGEST_REQUEST, REQUEST_S = 16_384, 5.0  # bytes of an HTTP request with its headers, time in which they have to arrive
PIECE = 1 << 18  # largest number of bytes that are relayed at a time
SO_ATTACH_FILTER = 26  # number of the socket option in Linux
MOST_REPORTED = 20  # reasons of refusals that are reported, each once


class Front:
    """Listens on 127.0.0.1 and relays permitted connections to a server, until `stop` is called.

    Raises OSError if the port cannot be used.

    port     number of the port; 0 chooses a free port
    server   listening socket of the server; the front closes it, and the server to all other connections
    origins  origins of pages that may connect, besides those of this computer and Foxglove's own
    token    value that the query `token` of the address must have; "" for none
    report   function that is called once for each reason of a refusal, with one line
    """

    def __init__(
        self, port: int, server: socket.socket, origins: Collection[str], token: str, report: Callable[[str], None]
    ) -> None:
        self._origins, self._token, self._report = {*FOXGLOVE, *origins}, token, report
        self._reported: set[str] = set()
        self._server, self._guard = server, threading.Lock()
        self._listener = socket.create_server((HOST, port))
        self.port: int = self._listener.getsockname()[1]
        accept_from(server, 0)
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Accept no further connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # of the closed listener
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Relay a connection of a client, or refuse it."""
        with client, contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.settimeout(REQUEST_S)
            request = _request(client)
            if reason := refusal(request, self._origins, self._token):
                client.sendall(f"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n{reason}\n".encode())
                self._tell(f"a connection is refused: {reason}")
                return
            with self._connected(request) as (server, reply):
                client.settimeout(None)
                client.sendall(reply)
                threading.Thread(target=_relay, args=[client, server], daemon=True).start()
                _relay(server, client)

    @contextlib.contextmanager
    def _connected(self, request: bytes) -> Iterator[tuple[socket.socket, bytes]]:
        """Context of a connection to the server: (socket, first bytes of the reply to an HTTP request)."""
        with socket.socket() as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.settimeout(REQUEST_S)
            server.bind((HOST, 0))
            with self._guard:
                accept_from(self._server, server.getsockname()[1])
                try:
                    server.connect(self._server.getsockname())
                    server.sendall(request)
                    reply = server.recv(PIECE)  # the server has accepted the connection now
                finally:
                    accept_from(self._server, 0)
            server.settimeout(None)
            yield server, reply

    def _tell(self, line: str) -> None:
        with self._guard:
            if line in self._reported or len(self._reported) == MOST_REPORTED:
                return
            self._reported.add(line)
        self._report(line)


def accept_from(listener: socket.socket, port: int) -> None:
    """Let a listening socket accept connections from one port of 127.0.0.1 alone; from none if `port` is 0.

    The kernel drops all other packets to the socket. Sockets that were accepted before keep their filter.
    """
    word, half, equal, end = 0x20, 0x28, 0x15, 0x06  # instructions of Linux's socket filters
    source = int(ipaddress.ip_address(HOST))
    program = [
        (word, 0, 0, 0xFFF00000 + 12),  # the source address of the IP header
        (equal, 0, 3, source),
        (half, 0, 0, 0),  # the source port of the TCP header
        (equal, 0, 1, port),
        (end, 0, 0, 0xFFFFFFFF),
        (end, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


def refusal(request: bytes, origins: Collection[str], token: str) -> str:
    """Reason why an HTTP request is refused, as one printable line; "" for a permitted request.

    request  request line and headers, up to the empty line
    origins  origins of pages that may connect, besides those of this computer
    token    value that the query `token` of the address must have; "" for none
    """
    line, *fields = request.decode("latin-1").split("\r\n")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (field.partition(":") for field in fields)]
    hosts = [value for name, value in headers if name == "host"]
    if len(hosts) != 1 or not _is_loopback(f"http://{hosts[0]}"):
        return f"its address is for the host {', '.join(map(_shown, hosts)) or 'of no name'}; write localhost"
    for origin in (value.lower() for name, value in headers if name == "origin"):
        if origin not in origins and not _is_loopback(origin):
            allows = f"; --origin {origin} allows it" if ORIGIN.fullmatch(origin) else ""
            return f"a page of {_shown(origin)} may not read this computer's robots{allows}"
    if token and not hmac.compare_digest(_token_of(line), token.encode()):
        return "its address has not the token of the address that the bridge has printed"
    return ""


def _request(client: socket.socket) -> bytes:
    """The HTTP request of a client, up to its empty line. Raises OSError for a longer request than LARGEST_REQUEST."""
    request = b""
    while b"\r\n\r\n" not in request:
        piece = client.recv(LARGEST_REQUEST + 1 - len(request))
        request += piece
        if not piece or len(request) > LARGEST_REQUEST:
            raise ConnectionError("no HTTP request")
    return request


def _is_loopback(origin: str) -> bool:
    """Whether an origin such as "http://localhost:8080" is on this computer."""
    try:
        parts = urlsplit(origin)
        host = parts.hostname or ""
        return parts.scheme in ("http", "https") and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def _token_of(line: str) -> bytes:
    """Query `token` of the address in the first line of an HTTP request; b"" if there is none."""
    try:
        return parse_qs(urlsplit(line.split(" ")[1]).query).get("token", [""])[0].encode()
    except (ValueError, IndexError):
        return b""


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 100 else f"{text[:100]}...")


def _relay(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes from one connection to another until one of them ends, and then end the other."""
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)

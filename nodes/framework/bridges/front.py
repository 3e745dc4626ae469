"""Check of the connections to a web server: a web page must not read or steer a robot unless the user allows it.

Every browser lets any page connect to `ws://localhost`, and the servers of Foxglove's SDK and of viser accept every
page. So the front listens in their place. It reads the HTTP request with which a connection begins, refuses the wrong
ones with status 403, and relays the others to the server, which accepts no connection but those of the front.
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import ipaddress
import os
import re
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
EVERY_ADDRESS = ("0.0.0.0", "::")
ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]*")
LARGEST_REQUEST, REQUEST_S = 16_384, 5.0  # bytes of an HTTP request with its headers, time in which they have to arrive
PIECE = 1 << 18  # largest number of bytes that are relayed at a time
SO_ATTACH_FILTER = 26  # number of the socket option in Linux
MOST_REPORTED = 20  # reasons of refusals that are reported, each once


class Access(NamedTuple):
    """Which HTTP requests a front permits.

    origins  origins of pages that may connect, besides those of this computer
    token    value that the query `token` of the address must have; "" for none
    host     name or address, besides those of the loopback interface, for which a request may be; "0.0.0.0" or "::" for
             every address, but no name
    is_page  whether the server has a page of its own. This page alone may connect, and may load nothing from elsewhere.
             The front answers a request whose address has the token with a cookie that holds the token from then on
    """

    origins: Collection[str] = ()
    token: str = ""
    host: str = HOST
    is_page: bool = False

    def is_known(self, host: str) -> bool:
        """Whether a request may be for the address that its field Host names, such as "localhost:8080"."""
        origin = f"http://{host.lower()}"
        name = _hostname(origin) if ORIGIN.fullmatch(origin) else ""
        if name and (_is_loopback(origin) or name == self.host.lower()):
            return True
        return self.host in EVERY_ADDRESS and _is_address(name)  # another page can choose a name, but no address

    def admits(self, origin: str, host: str) -> bool:
        """Whether a page of an origin may connect to the address that the field Host names."""
        if self.is_page:
            return origin == f"http://{host.lower()}"
        return origin in self.origins or _is_loopback(origin)


class Front:
    """Listens and relays permitted connections to a server, until `stop` is called.

    Raises OSError if the address or its port cannot be used.

    port     number of the port; 0 chooses a free port
    server   listening socket of the server; the front closes it, and the server to all other connections
    access   requests that are permitted; the front listens on the address `access.host`
    report   function that is called once for each reason of a refusal, with one line
    """

    def __init__(self, port: int, server: socket.socket, access: Access, report: Callable[[str], None]) -> None:
        self._access, self._report = access, report
        self._reported: set[str] = set()
        self._server, self._guard = server, threading.Lock()
        family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
        self._listener = socket.create_server((access.host, port), family=family)
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
            cookie = f"armswing_{self.port}"  # browsers send the cookies of all ports of a host
            if reason := refusal(request, self._access, cookie):
                client.sendall(answer("403 Forbidden", body=f"{reason}\n"))
                self._tell(f"a connection is refused: {reason}")
                return
            if self._access.is_page and self._access.token and _token_of(request):
                holds = f"{cookie}={self._access.token}; Path=/; HttpOnly; SameSite=Lax"
                client.sendall(answer("303 See Other", f"Location: /\r\nSet-Cookie: {holds}\r\n"))
                return
            with self._connected(request) as (server, reply):
                client.settimeout(None)
                client.sendall(_with_policy(reply, _field(request, "host")) if self._access.is_page else reply)
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


def refusal(request: bytes, access: Access, cookie: str = "") -> str:
    """Reason why an HTTP request is refused, as one printable line; "" for a permitted request.

    request  request line and headers, up to the empty line
    access   requests that are permitted
    cookie   name of the cookie that holds the token where the address has none
    """
    hosts = _fields(request, "host")
    if len(hosts) != 1 or not access.is_known(hosts[0]):
        write = "localhost" if access.host == HOST else access.host
        return f"its address is for the host {', '.join(map(_shown, hosts)) or 'of no name'}; write {write}"
    for origin in map(str.lower, _fields(request, "origin")):
        if not access.admits(origin, hosts[0]):
            is_option = ORIGIN.fullmatch(origin) and not access.is_page
            allows = f"; --origin {origin} allows it" if is_option else ""
            return f"a page of {_shown(origin)} may not read this computer's robots{allows}"
    token = _token_of(request) or (_cookie_of(request, cookie) if access.is_page else b"")
    if access.token and not hmac.compare_digest(token, access.token.encode()):
        return "its address lacks the token, or has an earlier one; open the whole address that armswing has printed"
    return ""


def answer(status: str, fields: str = "", body: str = "") -> bytes:
    """An HTTP response that ends its connection.

    status  code and reason, such as "403 Forbidden"
    fields  lines of the header, each with its end
    """
    kind = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}{kind}Connection: close\r\n\r\n{body}".encode()


def _with_policy(reply: bytes, host: str) -> bytes:
    """The first bytes of a reply, with the field that forbids its page to load anything from another server."""
    line, end, rest = reply.partition(b"\r\n")
    own = f"'self' ws://{host} blob: data:"
    policy = f"default-src {own} 'unsafe-inline' 'unsafe-eval'; frame-ancestors 'none'; form-action 'none'"
    fields = f"Content-Security-Policy: {policy}\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
    return line + end + fields.encode() + rest if end else reply


def _request(client: socket.socket) -> bytes:
    """The HTTP request of a client, up to its empty line. Raises OSError for a longer request than LARGEST_REQUEST."""
    request = b""
    while b"\r\n\r\n" not in request:
        piece = client.recv(LARGEST_REQUEST + 1 - len(request))
        request += piece
        if not piece or len(request) > LARGEST_REQUEST:
            raise ConnectionError("no HTTP request")
    return request


def _fields(request: bytes, name: str) -> list[str]:
    """Values of all header fields of an HTTP request with a name in small letters."""
    _, *fields = request.decode("latin-1").split("\r\n")
    parts = [field.partition(":") for field in fields]
    return [value.strip() for field, _, value in parts if field.strip().lower() == name]


def _field(request: bytes, name: str) -> str:
    return next(iter(_fields(request, name)), "")


def _hostname(origin: str) -> str:
    """Name or address in an origin such as "http://localhost:8080"; "" for any other text."""
    try:
        parts = urlsplit(origin)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def _is_loopback(origin: str) -> bool:
    """Whether an origin such as "http://localhost:8080" is on this computer."""
    host = _hostname(origin)
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _token_of(request: bytes) -> bytes:
    """Query `token` of the address in the first line of an HTTP request; b"" if there is none."""
    try:
        address = request.decode("latin-1").split("\r\n")[0].split(" ")[1]
        return parse_qs(urlsplit(address).query).get("token", [""])[0].encode()
    except (ValueError, IndexError):
        return b""


def _cookie_of(request: bytes, name: str) -> bytes:
    """Value of a cookie of an HTTP request; b"" if there is none."""
    try:
        found = SimpleCookie("; ".join(_fields(request, "cookie"))).get(name)
        return b"" if found is None else found.value.encode()
    except CookieError:
        return b""


def listening_socket(port: int) -> socket.socket:
    """Socket with which this process listens on a TCP port, as a new file; for a socket that a library keeps to itself.

    Raises OSError if there is none.
    """
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the file has been closed meanwhile
            if not os.readlink(file).startswith("socket:"):
                continue
            found = socket.socket(fileno=os.dup(int(file.name)))
            is_listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and found.family == socket.AF_INET and found.getsockname()[1] == port:
                return found
            found.close()
    raise OSError(f"this process does not listen on port {port}")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 100 else f"{text[:100]}...")


def _relay(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes from one connection to another until one of them ends, and then end the other."""
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)

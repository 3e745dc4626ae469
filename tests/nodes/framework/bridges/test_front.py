"""The front of web servers: which requests it relays, refuses and answers, and who reaches the server behind it."""

from __future__ import annotations

import os
import socket

import pytest

from nodes.framework.bridges.front import HOST, Access, Front, listening_socket, refusal

PAGE = Access(token="secret", is_page=True)


def asked(host: str, *fields: str, address: str = "/", access: Access = PAGE) -> str:
    """Why a request is refused by the front of a page."""
    request = "\r\n".join([f"GET {address} HTTP/1.1", f"Host: {host}", *fields, "", ""])
    return refusal(request.encode(), access, "armswing_80")


def test_a_page_is_read_with_the_token_in_its_address_or_in_the_cookie_of_its_port() -> None:
    assert asked("localhost:80", address="/?token=secret") == ""
    assert asked("localhost:80", "Cookie: other=1; armswing_80=secret") == ""
    for fields in ((), ("Cookie: armswing_81=secret",), ("Cookie: armswing_80=",), ("Cookie: =;;\x00",)):
        assert "lacks the token" in asked("localhost:80", *fields)
    assert "lacks the token" in asked("localhost:80", "Cookie: armswing_80=secret", address="/?token=wrong")


def test_only_the_page_of_the_same_address_connects_to_the_server_of_a_page() -> None:
    cookie = "Cookie: armswing_80=secret"
    assert asked("localhost:80", cookie, "Origin: http://localhost:80") == ""
    for origin in (
        "http://localhost:81",
        "https://localhost:80",
        "http://127.0.0.1:80",
        "null",
        "https://evil.example",
    ):
        line = asked("localhost:80", cookie, f"Origin: {origin}")
        assert line == f"a page of {origin!r} may not read this computer's robots"


@pytest.mark.parametrize(
    ("address", "host", "is_permitted"),
    [
        ("192.168.1.5", "192.168.1.5:8080", True),
        ("192.168.1.5", "192.168.1.6:8080", False),
        ("robot.local", "Robot.local:8080", True),
        ("0.0.0.0", "10.0.0.7:8080", True),
        ("::", "[fe80::1]:8080", True),
        ("0.0.0.0", "evil.example:8080", False),  # a name that another page has pointed at this computer
        ("0.0.0.0", "localhost:80; script-src *", False),
        ("127.0.0.1", "10.0.0.7", False),
    ],
)
def test_a_request_is_for_the_address_on_which_the_front_listens(address: str, host: str, is_permitted: bool) -> None:
    line = asked(host, address="/?token=secret", access=PAGE._replace(host=address))
    assert (line == "") is is_permitted
    assert is_permitted or "its address is for the host" in line


def test_the_token_moves_from_the_address_to_a_cookie_and_the_page_loads_nothing_from_elsewhere() -> None:
    with socket.create_server((HOST, 0)) as server:
        front = Front(0, server.dup(), PAGE, print)
        try:
            with socket.create_connection((HOST, front.port)) as client:
                client.sendall(f"GET /?token=secret HTTP/1.1\r\nHost: localhost:{front.port}\r\n\r\n".encode())
                reply = b"".join(iter(lambda: client.recv(1000), b"")).decode()
            assert reply.startswith("HTTP/1.1 303 See Other\r\nLocation: /\r\n")
            assert f"Set-Cookie: armswing_{front.port}=secret; Path=/; HttpOnly; SameSite=Lax\r\n" in reply
            with socket.create_connection((HOST, front.port)) as client:
                cookie = f"Cookie: armswing_{front.port}=secret"
                client.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{front.port}\r\n{cookie}\r\n\r\n".encode())
                accepted, _ = server.accept()
                with accepted:
                    accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                reply = b"".join(iter(lambda: client.recv(1000), b"")).decode()
            assert reply.startswith("HTTP/1.1 200 OK\r\nContent-Security-Policy: default-src 'self' ")
            assert reply.endswith("Content-Length: 2\r\n\r\nhi")
        finally:
            front.stop()


@pytest.mark.parametrize(
    ("host", "origin", "says"),
    [
        ("localhost:8765", None, ""),
        ("127.0.0.1:8765", None, ""),
        ("[::1]:9", None, ""),  # through a tunnel
        ("localhost", "http://127.0.0.1:3000", ""),
        ("localhost", "https://[::1]:3000", ""),
        ("localhost", "file://", ""),
        ("localhost", "https://app.foxglove.dev", ""),
        ("localhost", "HTTPS://Mine.example", ""),
        ("localhost", "https://mine.example:444", "--origin https://mine.example:444 allows it"),
        ("localhost", "https://app.foxglove.dev.evil.example", "a page of 'https://app.foxglove.dev.evil.example'"),
        ("localhost", "https://localhost.evil.example", "a page of"),
        ("localhost", "ftp://localhost", "a page of"),
        ("localhost", "https://embed.foxglove.dev", "a page of"),  # of any page that embeds Foxglove
        ("localhost", "null", "a page of 'null'"),
        ("localhost", "https://x\x1b[2J", "a page of 'https://x\\x1b[2j' may not read this computer's robots"),
        ("localhost", "https://app.foxglove.dev\r\nOrigin: https://evil.example", "a page of 'https://evil.example'"),
        ("evil.example:8765", None, "its address is for the host 'evil.example:8765'; write localhost"),
        ("localhost\r\nHost: evil.example", None, "for the host 'localhost', 'evil.example'"),
        ("", None, "for the host"),
    ],
)
def test_host_and_origin_decide_who_connects(host: str, origin: str | None, says: str) -> None:
    page = "" if origin is None else f"oRiGiN:{origin}\r\n"
    request = f"GET / HTTP/1.1\r\nHost: {host}\r\n{page}Upgrade: websocket\r\n\r\n".encode()
    line = refusal(request, Access({"file://", "https://app.foxglove.dev", "https://mine.example"}))
    assert (says in line) if says else line == ""
    assert line.isprintable()


def test_the_server_behind_the_front_accepts_the_front_alone() -> None:
    with socket.create_server((HOST, 0)) as server:
        front = Front(0, server.dup(), Access(), print)
        try:
            with socket.create_connection((HOST, front.port)) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nmore")
                accepted, _ = server.accept()
                with accepted:
                    assert accepted.recv(100).endswith(b"\r\n\r\nmore")
                    accepted.sendall(b"reply")
                    assert client.recv(100) == b"reply"
                    with pytest.raises(TimeoutError):
                        socket.create_connection(server.getsockname(), timeout=0.2)
                    accepted.sendall(b"again")
                    assert client.recv(100) == b"again"
                assert client.recv(100) == b""
        finally:
            front.stop()


def test_the_socket_of_a_library_is_found_by_its_port() -> None:
    with socket.create_server((HOST, 0)) as server, socket.create_server((HOST, 0)):
        before = len(os.listdir("/proc/self/fd"))
        with listening_socket(server.getsockname()[1]) as found:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert len(os.listdir("/proc/self/fd")) == before
        with socket.create_connection(server.getsockname()):
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

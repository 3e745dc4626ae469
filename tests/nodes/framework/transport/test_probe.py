"""One attempt at a socket of another computer tells what keeps it from being heard."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from zmq.utils import z85

from nodes.framework.transport.bus import Publisher
from nodes.framework.transport.security import allow_list, keys
from nodes.framework.transport.security.probe import probe
from nodes.framework.transport.sockets import AddressError

OTHER = 64 * "a"


@pytest.fixture
def publisher(tmp_path: Path, domain: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """A publisher on loopback as other computers reach it; this process has its keys, and those of another too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    allow_list.allow("desk", keys.make_key("desk").public)
    allow_list.allow("other", OTHER)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = Publisher(
        context, "node", f"ipc://{os.environ['XDG_RUNTIME_DIR']}/data", remote_endpoint="tcp://127.0.0.1:*"
    )
    yield made
    made.close()
    context.term()


def test_hands_are_shaken_where_both_keys_are_right(publisher: Publisher) -> None:
    assert probe(publisher.remote_endpoint).result == "open"


def test_a_key_that_is_not_the_others_own_is_told_from_one_of_ours_that_is_not_allowed(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _, key = publisher.remote_endpoint.partition("#")
    for _ in range(5):  # who hangs up has its bytes on the way, now sooner, now later
        assert probe(f"{address}#{OTHER}").result == "wrong_key"
    public, secret = (z85.decode(half).hex() for half in zmq.curve_keypair())
    monkeypatch.setattr(keys, "own_key", lambda: keys.OwnKey("robot", public, secret))
    for _ in range(5):
        assert probe(f"{address}#{key}").result == "not_allowed"


def test_nobody_there_is_told_from_somebody_else(publisher: Publisher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        end = f"tcp://127.0.0.1:{listener.getsockname()[1]}#{OTHER}"
        assert probe(end).result == "silent"
    assert probe(end).result == "refused"


def test_what_the_system_cannot_reach_is_said_in_its_words(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(113, "No route to host")

    monkeypatch.setattr(socket, "create_connection", fail)
    answer = probe(f"tcp://192.0.2.1:17400#{OTHER}")
    assert (answer.result, answer.detail) == ("unreachable", "No route to host")


def test_an_address_without_a_key_is_not_tried(publisher: Publisher) -> None:
    with pytest.raises(AddressError, match="has no key; write it as"):
        probe("tcp://127.0.0.1:17400")
    with pytest.raises(keys.KeysError, match="is not allowed"):
        probe(f"tcp://127.0.0.1:{publisher.remote_endpoint.partition('#')[0].rpartition(':')[2]}#{64 * 'b'}")

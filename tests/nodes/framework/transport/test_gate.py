"""A listening socket that is shut to single addresses, in the kernel, and open to all others."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from nodes.framework.transport.security import gate

Knock = Callable[[str], bool]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """On every address of loopback, a port of its own."""
    made = gate.listening("0.0.0.0", 0)
    try:
        gate.block(made, ["127.0.0.9"])
        gate.block(made, ())
    except PermissionError:
        pytest.skip("this kernel lets only root filter what a socket hears: run the tests as root")
    yield made
    made.close()


@pytest.fixture
def knock(listener: socket.socket) -> Knock:
    """Whether a connection from an address of loopback is let in; one that is shut out hears nothing."""

    def knock(address: str) -> bool:
        with socket.socket() as guest:
            guest.bind((address, 0))
            guest.settimeout(0.2)
            try:
                guest.connect(("127.0.0.1", listener.getsockname()[1]))
            except TimeoutError:
                return False
            return True

    return knock


def test_addresses_are_shut_out_one_by_one_and_let_in_again(listener: socket.socket, knock: Knock) -> None:
    all_of_them = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
    assert all(map(knock, all_of_them))
    gate.block(listener, ["127.0.0.2", "127.0.0.3"])
    assert [knock(address) for address in all_of_them] == [False, False, True]
    gate.block(listener, ["127.0.0.4"])
    assert [knock(address) for address in all_of_them] == [True, True, False]
    gate.block(listener, ())
    gate.block(listener, ())
    assert all(map(knock, all_of_them))


def test_as_many_addresses_as_the_gate_holds_are_shut_out(listener: socket.socket, knock: Knock) -> None:
    gate.block(listener, [f"127.0.1.{last}" for last in range(gate.MOST)])
    assert not knock("127.0.1.0")
    assert not knock(f"127.0.1.{gate.MOST - 1}")
    assert knock(f"127.0.1.{gate.MOST}")


def test_a_connection_that_is_there_stays_when_its_address_is_shut_out(listener: socket.socket) -> None:
    with socket.socket() as guest:
        guest.bind(("127.0.0.5", 0))
        guest.connect(("127.0.0.1", listener.getsockname()[1]))
        host, _ = listener.accept()
        gate.block(listener, ["127.0.0.5"])
        with host:
            guest.sendall(b"still here")
            host.settimeout(5.0)
            assert host.recv(100) == b"still here"

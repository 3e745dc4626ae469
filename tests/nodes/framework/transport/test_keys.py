"""Keys and the door: who may come in over an address that is neither ipc nor loopback, and who is turned away."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from nodes.cli.application import run
from nodes.framework.messages import Status
from nodes.framework.transport.bus import Context, Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import HostConfig, read_host_config
from nodes.framework.transport.registry import Registry, RegistryError
from nodes.framework.transport.security import allow_list, authenticator, keys
from nodes.framework.transport.security.probe import probe
from nodes.framework.transport.service import ServiceClient, ServiceServer
from nodes.framework.transport.sockets import AddressError, check_address, connect, make_socket

KEY = 64 * "a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of keys."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "armswing" / "keys"


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


def test_a_key_is_made_once_and_its_secret_is_its_owners_alone(folder: Path) -> None:
    made = keys.make_key("desk")
    assert keys.own_key() == made
    assert (folder / "own").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.listdir(folder) == ["own"]
    assert keys.make_key("desk") == made  # the same name again
    renamed = keys.make_key("robot")  # what others were given stays good
    assert (renamed.name, renamed.public, renamed.secret) == ("robot", made.public, made.secret)
    assert keys.own_key() == renamed
    assert (folder / "own").stat().st_mode & 0o777 == 0o600
    assert keys.make_key("desk", replace=True).public != made.public
    (folder / "own").chmod(0o644)
    with pytest.raises(keys.KeysError, match=r"is open to other users \(mode 0644\); close it with 'chmod go-rwx"):
        keys.own_key()


def test_the_allow_list_is_a_file_that_a_person_may_edit(folder: Path) -> None:
    allow_list.allow("robot", KEY.upper())
    (folder / "allowed").write_text(f"# who may come in\nrobot {KEY}\n\nlaptop {64 * 'b'}  # mine\n")
    assert allow_list.allowed() == {"robot": KEY, "laptop": 64 * "b"}
    with pytest.raises(keys.KeysError, match="another key; first revoke that key with 'armswing keys revoke robot'"):
        allow_list.allow("robot", 64 * "c")
    assert allow_list.revoke("robot") == KEY
    assert allow_list.allowed() == {"laptop": 64 * "b"}
    with pytest.raises(keys.KeysError, match="'armswing keys allow robot KEY'"):
        allow_list.key_of_host("robot")
    (folder / "allowed").write_text("robot 123\n")
    with pytest.raises(keys.KeysError, match=r"line 1 is invalid; write a name and a key of 64 hexadecimal digits"):
        allow_list.allowed()


def test_the_commands_tell_what_another_computer_needs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "new", "desk"]) == 0
    own = keys.own_key()
    assert f"armswing keys allow desk {own.public}" in capsys.readouterr().out
    assert run(["keys", "allow", "robot", KEY]) == 0
    capsys.readouterr()
    assert run(["keys", "list", "--json"]) == 0
    listed = capsys.readouterr().out
    assert json.loads(listed) == {
        "folder": str(folder),
        "own": {"name": "desk", "key": own.public},
        "allowed": [{"name": "robot", "key": KEY}],
    }
    assert run(["keys", "list"]) == 0
    assert own.secret not in listed + capsys.readouterr().out
    assert run(["keys", "new"]) == 0  # as `keys new desk`
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"the existing key is kept as 'desk' in {folder / 'own'}; ")
    assert lines[1] == f"  armswing keys allow desk {own.public}"
    assert run(["keys", "allow", "mine", own.public.upper()]) == 2
    assert (
        "this is the own key of this computer, and not that of 'mine'; 'armswing keys list' on 'mine' prints the key"
        in capsys.readouterr().err
    )
    assert run(["keys", "revoke", "robot"]) == 0
    assert allow_list.allowed() == {}


@pytest.mark.parametrize(
    "address",
    [
        "tcp://10.0.0.1:5000",
        "tcp://0.0.0.0:5000",
        "tcp://*:5000",
        "tcp://[::]:5000",
        "tcp://robot:5000",
        "udp://10.0.0.1:1",
    ],
)
def test_an_address_beyond_this_computer_is_refused_with_the_commands_that_mend_it(
    address: str, context: Context
) -> None:
    for attempt in (check_address, lambda end: connect(make_socket(context, zmq.SUB), end)):
        with pytest.raises(AddressError) as error:
            attempt(address)
        line = str(error.value)
        assert address in line
        assert "\n" not in line
        assert "'armswing keys new'" in line
        assert "'armswing keys allow NAME KEY'" in line
    with pytest.raises(AddressError, match="armswing keys new"):
        Publisher(context, "node", address)


def test_without_a_key_or_an_allowed_one_nothing_is_bound_or_connected(folder: Path, context: Context) -> None:
    with pytest.raises(AddressError, match=r"requires a key: there is no key in .*; make one with 'armswing keys new'"):
        ServiceServer(context, "node", "tcp://127.0.0.1:*", remote_endpoint="tcp://127.0.0.1:*")
    with pytest.raises(AddressError, match="make one with 'armswing keys new'"):
        connect(make_socket(context, zmq.SUB), f"tcp://10.0.0.1:5000#{KEY}")
    keys.make_key("desk")
    with pytest.raises(AddressError, match=f"key {KEY} is not allowed; allow it with 'armswing keys allow NAME {KEY}'"):
        connect(make_socket(context, zmq.SUB), f"tcp://10.0.0.1:5000#{KEY}")


def test_a_registry_for_other_hosts_is_refused_without_a_key(folder: Path, domain: int) -> None:
    with (
        pytest.raises(RegistryError, match="make one with 'armswing keys new'"),
        Registry(domain, host_config=HostConfig(host="desk", address="127.0.0.1")),
    ):
        pass
    assert read_host_config(domain) == HostConfig()
    with Registry(domain):  # and leaves nothing that is in the way of another
        pass


class Shop:
    """A service and a stream on loopback, as other hosts reach them, and the client key that is allowed."""

    def __init__(self, context: Context, folder: Path) -> None:
        keys.make_key("desk")
        allow_list.allow("desk", keys.own_key().public)  # this test is both ends
        self.context = context
        near, far = (f"ipc://{folder}/service", f"ipc://{folder}/data"), "tcp://127.0.0.1:*"
        self.service = ServiceServer(context, "node", near[0], remote_endpoint=far)
        self.publisher = Publisher(context, "node", near[1], remote_endpoint=far)

    def close(self) -> None:
        self.service.close()
        self.publisher.close()

    def serve(self) -> None:
        self.publisher.serve_subscriptions()
        while (request := self.service.receive()) is not None:
            self.service.reply(request, "served")


@pytest.fixture
def shop(folder: Path, context: Context, domain: int) -> Iterator[Shop]:
    made = Shop(context, Path(os.environ["XDG_RUNTIME_DIR"]))
    yield made
    made.close()


def test_an_allowed_key_hears_and_is_answered(shop: Shop, until: Callable[..., Any]) -> None:
    assert re.fullmatch(r"tcp://127\.0\.0\.1:\d+#[0-9a-f]{64}", shop.publisher.remote_endpoint)
    listener = Subscriber(zmq.Context.instance(), ["status"], "listener")
    feed = listener.connect("node", shop.publisher.remote_endpoint)

    def is_ready() -> bool:
        shop.serve()
        listener.receive(0.0)
        return feed.ready

    until(is_ready)
    shop.publisher.publish("status", Status(node="node", state="ready"))
    heard = until(lambda: listener.receive(0.1))
    assert heard[2].state == "ready"
    listener.close()
    assert authenticator.rejected(shop.context) == 0


def stranger(kind: int, key: str, pair: tuple[bytes, bytes] | None = None) -> zmq.Socket[bytes]:
    """A socket with the server's key, and a pair that nobody allowed."""
    made = make_socket(zmq.Context.instance(), kind)
    public, secret = pair or zmq.curve_keypair()
    made.curve_serverkey = bytes.fromhex(key)
    made.curve_publickey, made.curve_secretkey = public, secret
    return made


def test_another_key_hears_nothing_until_it_is_allowed(
    shop: Shop, until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    pair = zmq.curve_keypair()
    public = zmq.utils.z85.decode(pair[0]).hex()
    address, _, key = shop.service.remote_endpoint.partition("#")
    caller = stranger(zmq.DEALER, key, pair)
    caller.connect(address)
    caller.send(msgspec.msgpack.encode({"id": 1, "call": "status"}))

    def turned_away() -> bool:
        shop.serve()
        return authenticator.rejected(shop.context) >= 5

    until(turned_away)
    assert not caller.poll(0)
    assert f"rejected 1 connections from '127.0.0.1': key {public} is not allowed" in caplog.text
    assert len(caplog.records) < 5  # once in a while, not each time
    allow_list.allow("late", public)

    def answered() -> int:
        shop.serve()
        return caller.poll(0)

    until(answered)  # without a restart of either side
    caller.close()


def test_a_revoked_key_is_hung_up_on(shop: Shop, until: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    client = ServiceClient(shop.service.remote_endpoint)
    caller = client._socket  # the call would wait for the server, which is this thread
    caller.send(msgspec.msgpack.encode({"id": 1, "call": "status"}))

    def answered() -> int:
        shop.serve()
        return caller.poll(0)

    until(answered)
    caller.recv()
    allow_list.revoke("desk")

    def deaf() -> bool:
        shop.serve()
        return authenticator.rejected(shop.context) >= 1

    until(deaf)  # it came back, and was turned away
    assert "not our protocol" not in caplog.text
    caller.send(msgspec.msgpack.encode({"id": 2, "call": "status"}))
    shop.serve()
    assert not caller.poll(100)
    client.close()
    with pytest.raises(AddressError, match="is not allowed"):
        ServiceClient(shop.service.remote_endpoint)


def test_who_was_let_in_beside_a_stranger_is_not_taken_for_it(
    shop: Shop, until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = shop.publisher.remote_endpoint.partition("#")[0].removeprefix("tcp://").rpartition(":")
    watched = authenticator._authenticators[shop.context]._watched[shop.publisher.remote.socket]
    with socket.create_connection((host, int(port)), timeout=5.0):
        until(lambda: watched.fresh)
        assert probe(shop.publisher.remote_endpoint).result == "open"  # and hangs up
        until(lambda: len(watched.peers) == 1)
    until(lambda: not watched.peers)
    assert authenticator.rejected(shop.context) == 1
    assert "rejected 1 connections from '127.0.0.1': no handshake" in caplog.text


@pytest.mark.parametrize(
    "data", [b"123456789", b"GET / HTTP/1.1\r\n\r\n", b"\xff" + bytes(8) + b"\x7f" + bytes(500), b""]
)
def test_bytes_that_are_no_handshake_are_counted_and_reach_nobody(
    shop: Shop, until: Callable[..., Any], data: bytes
) -> None:
    for end in (shop.service.remote_endpoint, shop.publisher.remote_endpoint):
        host, _, port = end.partition("#")[0].removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5.0) as connection:
            connection.sendall(data)
    until(lambda: authenticator.rejected(shop.context) >= 2)
    assert shop.service.receive() is None
    caller = make_socket(zmq.Context.instance(), zmq.DEALER)
    connect(caller, shop.service.endpoint)
    caller.send(msgspec.msgpack.encode({"id": 1, "call": "status"}))
    until(lambda: shop.service.receive())  # ipc is as open as ever
    caller.close()


def test_strangers_are_counted_by_what_they_were(shop: Shop, until: Callable[..., Any]) -> None:
    address, _, key = shop.service.remote_endpoint.partition("#")
    host, _, port = address.removeprefix("tcp://").rpartition(":")

    def count(kind: str) -> int:
        return authenticator.rejected_by_kind(shop.context)[kind]

    with socket.create_connection((host, int(port)), timeout=5.0) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: count("no_zmtp") == 1)
    assert count("unknown_key") == count("no_key") == 0
    keyless = make_socket(zmq.Context.instance(), zmq.DEALER)
    keyless.connect(address)
    until(lambda: count("no_key") >= 1)
    keyless.close()  # perhaps before the greeting of its next attempt, which is no_zmtp then
    assert count("unknown_key") == 0
    unknown = stranger(zmq.DEALER, key)
    misled = stranger(zmq.DEALER, "11" * 32)  # that takes this host for another
    for each, least in ((unknown, 1), (misled, count("unknown_key") + 2)):
        each.connect(address)
        until(lambda least=least: count("unknown_key") >= least)
    unknown.close()
    misled.close()
    assert authenticator.rejected(shop.context) >= 4


def test_an_address_of_ipv6_is_as_good(folder: Path, context: Context, domain: int, until: Callable[..., Any]) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    keys.make_key("desk")
    allow_list.allow("desk", keys.own_key().public)
    service = ServiceServer(context, "node", ipc_endpoint(domain, "service"), remote_endpoint="tcp://[::1]:*")
    assert service.remote_endpoint.startswith("tcp://[::1]:")
    caller = make_socket(zmq.Context.instance(), zmq.DEALER)
    connect(caller, service.remote_endpoint)
    caller.send(msgspec.msgpack.encode({"id": 1, "call": "status"}))
    until(service.receive)
    caller.close()
    service.close()


def test_a_key_file_is_read_again_only_after_it_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each handshake and each refused call looks at the keys; reading the files took most of its time."""
    reads: list[str] = []
    read_text = Path.read_text

    def counted(file: Path, **how: Any) -> str:
        reads.append(file.name)
        return read_text(file, **how)

    monkeypatch.setattr(Path, "read_text", counted)
    made = keys.make_key("desk")
    allow_list.allow("robot", KEY)
    monkeypatch.setattr(keys, "SETTLED_NS", -1)  # as if the files were made long ago
    reads.clear()
    for _ in range(5):
        assert (keys.own_key(), allow_list.allowed()) == (made, {"robot": KEY})
    assert sorted(reads) == ["allowed", "own"]
    allow_list.revoke("robot")
    assert allow_list.allowed() == {}
    (folder / "own").unlink()
    with pytest.raises(keys.KeysError, match="there is no key"):
        keys.own_key()


def test_a_key_file_that_was_just_changed_is_read_each_time(folder: Path) -> None:
    """A second change within the resolution of time stamps leaves time and size as they were."""
    allow_list.allow("robot", KEY)
    file = folder / "allowed"
    before = file.stat()
    assert allow_list.allowed() == {"robot": KEY}
    file.write_text(f"robot {64 * 'b'}\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert allow_list.allowed() == {"robot": 64 * "b"}

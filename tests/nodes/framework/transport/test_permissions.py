"""Names belong to keys and processes: who asks for what is another's is refused, counted and named once in a while."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from nodes.framework.hosting.session import NodeSession
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import HostConfig, write_host_config
from nodes.framework.transport.registry import NodeEntry, Registry, RegistryClient
from nodes.framework.transport.security import allow_list, keys
from nodes.framework.transport.security.peers import Peer
from nodes.framework.transport.security.permissions import shutdown_refusal, turn_refusal
from nodes.framework.transport.service import ServiceClient, ServiceError, ServiceServer

Until = Callable[..., Any]
CALL_S = 20.0
LEASE_S = 300.0  # nobody renews here


class Holder:
    """The holder of a key on another computer, as it reaches this one over tcp."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._public, self._secret = zmq.curve_keypair()
        self.key = zmq.utils.z85.decode(self._public).hex()
        allow_list.allow(name, self.key)

    def call(self, endpoint: str, call: str, args: dict[str, Any] | None = None) -> Any:
        """The result of a call; ServiceError with the line of a refusal."""
        address, _, key = endpoint.partition("#")
        caller: Any = zmq.Context.instance().socket(zmq.DEALER)
        caller.linger = 0
        caller.curve_serverkey = bytes.fromhex(key)
        caller.curve_publickey, caller.curve_secretkey = self._public, self._secret
        caller.connect(address)
        caller.send(msgspec.msgpack.encode({"id": 1, "call": call, "args": args or {}}))
        assert caller.poll(int(1e3 * CALL_S)), f"{call}: no answer"
        answer = msgspec.msgpack.decode(caller.recv())
        caller.close()
        if not answer["ok"]:
            raise ServiceError(answer["error"])
        return answer["result"]

    def ends(self, key: str = "") -> dict[str, str]:
        return {"data": f"tcp://127.0.0.1:4001#{key or self.key}", "service": f"tcp://127.0.0.1:4002#{key or self.key}"}

    def entry(self, name: str, **more: Any) -> dict[str, Any]:
        entry = NodeEntry(name=name, pid=1, host=self.name, remote_endpoints=self.ends())
        return dict(msgspec.to_builtins(entry)) | more


class Scene:
    """A registry on the host `desk` of a plan with `sim` and `swing_up`, and holders of allowed keys."""

    def __init__(self, domain: int) -> None:
        keys.make_key("desk")
        self.own = keys.own_key().public
        self.robot, self.colleague = Holder("robot"), Holder("colleague")
        self.registry = Registry(domain, lease_s=LEASE_S, host_config=HostConfig(host="desk", address="127.0.0.1"))
        self.registry.__enter__()
        self.registry.hosts = {"sim": "desk", "swing_up": "robot"}
        self.calls = self.registry._server.remote_endpoint
        self.here = RegistryClient(domain)
        self.here.register(NodeEntry(name="sim", pid=os.getpid(), publishes=["pendulum/state"]))
        self.robot.call(self.calls, "register", self.robot.entry("swing_up"))

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.robot.call(self.calls, "nodes")
        return found

    def close(self) -> None:
        self.here.close()
        self.registry.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder of keys."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def scene(folder: None, domain: int) -> Iterator[Scene]:
    made = Scene(domain)
    yield made
    made.close()


def attempts(scene: Scene) -> list[tuple[str, dict[str, Any], str]]:
    """Calls of a colleague that are not the colleague's to make: call, arguments, what the refusal says."""
    colleague, pid = scene.colleague, os.getpid()
    mine = colleague.entry("mine")
    return [
        (
            "register",
            colleague.entry("sim", pid=pid, host="desk"),
            "key 'colleague' at .* may not register a node of host 'desk'",
        ),
        ("register", colleague.entry("sim", pid=pid), "the plan gives this node to host 'desk'"),
        (
            "register",
            colleague.entry("swing_up", host="robot"),
            "key 'colleague' at .* may not register a node of host 'robot'",
        ),
        ("register", colleague.entry("swing_up"), "the plan gives this node to host 'robot'"),
        ("register", mine | {"host": "desk"}, "key 'colleague' at .* may not register a node of host 'desk'"),
        ("register", mine | {"host": "nowhere"}, "may not register a node of host 'nowhere', because its key does not"),
        (
            "register",
            mine | {"remote_endpoints": colleague.ends(scene.robot.key)},
            "where KEY is the public key of the computer",
        ),
        (
            "register",
            mine | {"remote_endpoints": colleague.ends(scene.own)},
            "where KEY is the public key of the computer",
        ),
        (
            "register",
            mine | {"remote_endpoints": {"data": "tcp://127.0.0.1:4001"}},
            "where KEY is the public key of the computer",
        ),
        (
            "register",
            mine | {"remote_endpoints": {"data": "ipc:///tmp/x"}},
            "where KEY is the public key of the computer",
        ),
        ("register", mine | {"publishes": ["pendulum/state"]}, "topic 'pendulum/state' belongs to node 'sim'"),
        ("unregister", {"name": "sim"}, "name 'sim' belongs to host 'desk', not to key 'colleague'"),
        ("unregister", {"name": "swing_up"}, "name 'swing_up' belongs to host 'robot', not to key 'colleague'"),
        ("ready", {"name": "swing_up"}, "name 'swing_up' belongs to host 'robot'"),
    ]


def test_an_allowed_key_takes_no_name_of_another_host(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    before = scene.nodes()
    assert {node["name"] for node in before} == {"sim", "swing_up"}
    tried = attempts(scene)
    for call, args, line in tried:
        with pytest.raises(ServiceError, match=line) as refused:
            scene.colleague.call(scene.calls, call, args)
        assert "\n" not in str(refused.value)
    assert scene.nodes() == before
    assert scene.registry.refused == len(tried)
    said = [record.getMessage() for record in caplog.records]
    assert 1 <= len(said) <= 2, said  # once in a while, not each time
    assert said[0].startswith(
        "registry: refused 1 calls of \"key 'colleague' at 127.0.0.1\": register: name 'sim' is taken"
    )
    assert "; key 'colleague' at 127.0.0.1 may not register a node of host 'desk', because its key does" in said[0]


def test_an_allowed_key_has_names_of_its_own_and_gives_them_back(scene: Scene) -> None:
    colleague = scene.colleague
    assert colleague.call(scene.calls, "register", colleague.entry("mine")) == 1
    assert colleague.call(scene.calls, "register", colleague.entry("mine", state="running")) == 1
    with pytest.raises(ServiceError, match="name 'mine' is taken by the live process 1 on host 'colleague'"):
        scene.robot.call(scene.calls, "register", scene.robot.entry("mine"))
    with pytest.raises(ServiceError, match="'mine' belongs to host 'colleague', not to key 'robot'"):
        scene.robot.call(scene.calls, "unregister", {"name": "mine"})
    colleague.call(scene.calls, "ready", {"name": "mine"})
    assert [node["state"] for node in scene.nodes() if node["name"] == "mine"] == ["ready"]
    colleague.call(scene.calls, "unregister", {"name": "mine"})
    assert "mine" not in {node["name"] for node in scene.nodes()}


def test_an_allowed_key_has_a_share_of_the_registry(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.framework.transport.registry.MOST_ENTRIES", 3)
    colleague = scene.colleague
    for number in range(3):
        colleague.call(scene.calls, "register", colleague.entry(f"node_{number}"))
    with pytest.raises(ServiceError, match=r"key 'colleague' at 127\.0\.0\.1 has registered 3 nodes already"):
        colleague.call(scene.calls, "register", colleague.entry("node_3"))
    colleague.call(scene.calls, "register", colleague.entry("node_1", state="running"))


def test_turns_are_asked_for_by_the_host_of_the_simulation(folder: None) -> None:
    keys.make_key("desk")
    server, colleague = Holder("server"), Holder("colleague")
    registry = f"tcp://127.0.0.1:17400#{server.key}"
    here = Peer(uid=os.getuid(), pid=os.getpid())
    for peer, calls, granted in (
        (here, registry, True),
        (Peer(key=server.key), registry, True),
        (Peer(key=colleague.key), registry, False),
        (Peer(key=colleague.key), "", False),
        (Peer(key=keys.own_key().public), "", True),
        (Peer(uid=os.getuid() + 1, pid=4), registry, False),
        (Peer(), registry, False),
    ):
        assert (turn_refusal(peer, calls) == "") == granted, peer


ANOTHER = """
import json, os, sys
from nodes.framework.transport.registry import NodeEntry, RegistryClient, RegistryError
domain, pid = int(sys.argv[1]), int(sys.argv[2])
lines = []
with RegistryClient(domain) as client:
    for what in (
        lambda: client.register(NodeEntry(name="node", pid=pid)),
        lambda: client.register(NodeEntry(name="node", pid=os.getpid())),
        lambda: client.register(NodeEntry(name="other", pid=pid)),
        lambda: client.unregister("node"),
        lambda: client.ready("node"),
    ):
        try:
            what()
            lines.append("")
        except RegistryError as error:
            lines.append(str(error))
print(json.dumps(lines))
"""


def test_on_one_computer_a_name_is_its_processes_as_the_kernel_says(domain: int) -> None:
    with Registry(domain) as registry, RegistryClient(domain) as client:
        client.register(NodeEntry(name="node", pid=os.getpid()))
        command = [sys.executable, "-P", "-c", ANOTHER, str(domain), str(os.getpid())]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        stolen, taken, foreign, removed, ready = json.loads(done.stdout)
        assert f"may not register process {os.getpid()}; " in stolen
        assert f"name 'node' is taken by the live process {os.getpid()}" in taken
        assert f"may not register process {os.getpid()}; " in foreign
        for line in (removed, ready):
            assert f"name 'node' belongs to process {os.getpid()} on host 'localhost', not to process " in line
        assert [(node.name, node.state) for node in client.nodes()] == [("node", "starting")]
        assert registry.refused == 4


def test_a_process_enters_and_takes_out_what_it_started_and_anyone_what_is_dead(domain: int) -> None:
    with Registry(domain), RegistryClient(domain) as client:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        client.register(NodeEntry(name="child", pid=child.pid))
        client.unregister("child")
        client.register(NodeEntry(name="child", pid=child.pid))
        child.communicate(b"\n")
        client.unregister("child")
        assert client.nodes() == []


def test_who_may_end_a_node_follows_from_the_plan(folder: None, domain: int, until: Until) -> None:
    keys.make_key("desk")
    own = Holder("robot")  # whose host's launch runs at `server`
    server, colleague = Holder("server"), Holder("colleague")
    for calls, allowed, refused in (
        ("", (), (server, own, colleague)),
        (f"tcp://127.0.0.1:17400#{server.key}", (server,), (own, colleague)),
    ):
        write_host_config(domain, HostConfig(host="desk", address="127.0.0.1", calls=calls))
        context: Any = zmq.Context()
        place = NodeSession(domain, "node", context)
        for holder in (*allowed, *refused):
            answer = _asked(place, holder, until)
            line = "shutdown: only this computer and the host of the launch's server may end the nodes of this computer"
            assert answer == ("" if holder in allowed else line)
        assert place.service.refused.count == len(refused)
        assert sum(each.count for each in place.refusals) == len(refused)  # they are in the status
        with ServiceClient(place.service.endpoint, context) as near:
            near._socket.send(msgspec.msgpack.encode({"id": 1, "call": "shutdown"}))
            assert until(place.service.receive).peer.pid == os.getpid()  # a process of this computer may
        place.close()
        context.destroy(linger=0)


def _asked(place: NodeSession, holder: Holder, until: Until) -> str:
    """What a node answers a holder's shutdown: the refusal, "" where the call came through."""
    import threading

    lines: list[str] = []

    def ask() -> None:
        try:
            holder.call(place.service.remote_endpoint, "shutdown")
            lines.append("")
        except ServiceError as error:
            lines.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()

    def served() -> bool:
        while (request := place.service.receive()) is not None:
            assert request.peer.key == holder.key
            place.service.reply(request)
        return bool(lines)

    until(served)
    thread.join()
    return lines[0]


def received(connection: socket.socket, count: int) -> bytes:
    """The next `count` bytes, in as many pieces as they come; sockets with a timeout know no MSG_WAITALL."""
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, f"hung up after {len(data)} of {count} bytes"
        data += piece
    return data


def test_a_user_who_names_himself_over_ipc_is_still_the_process_that_he_is(
    folder: None, domain: int, until: Until
) -> None:
    keys.make_key("desk")
    victim = Holder("robot")
    context: Any = zmq.Context()
    service = ServiceServer(context, "node", ipc_endpoint(domain, "service"), remote_endpoint="tcp://127.0.0.1:*")
    with socket.socket(socket.AF_UNIX) as forger:
        forger.connect(service.endpoint.removeprefix("ipc://"))
        forger.settimeout(CALL_S)
        forger.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31))
        received(forger, 64)
        said = b"".join(
            bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
            for name, value in ((b"Socket-Type", b"DEALER"), (b"User-Id", victim.key.encode()))
        )
        ready = b"\x05READY" + said
        call = msgspec.msgpack.encode({"id": 1, "call": "status"})
        forger.sendall(b"\x04" + bytes([len(ready)]) + ready)
        received(forger, received(forger, 2)[1])  # its own READY
        forger.sendall(b"\x00" + bytes([len(call)]) + call)
        request = until(service.receive)
    assert (request.peer.uid, request.peer.pid, request.peer.key) == (os.getuid(), os.getpid(), "")
    assert shutdown_refusal(request.peer, f"tcp://127.0.0.1:17400#{victim.key}") == ""
    service.close()
    context.destroy(linger=0)


def test_without_keys_on_tcp_nobody_is_known(domain: int, until: Until) -> None:
    context: Any = zmq.Context()
    service = ServiceServer(context, "node", "tcp://127.0.0.1:*")
    caller: Any = context.socket(zmq.DEALER)
    caller.connect(service.endpoint)
    caller.send(msgspec.msgpack.encode({"id": 1, "call": "shutdown"}))
    peer = until(service.receive).peer
    assert (peer.is_local, peer.key) == (False, "")
    assert shutdown_refusal(peer, "")
    service.close()
    context.destroy(linger=0)


def test_strangers_at_any_socket_of_a_launch_are_in_the_servers_status(scene: Scene, domain: int, until: Until) -> None:
    context: Any = zmq.Context()
    scene.here.unregister("sim")
    server, other = NodeSession(domain, "sim", context), NodeSession(domain, "swing_up", zmq.Context())
    server.open(lambda nodes: None, [], [])
    assert server.launch_counters["rejected_connections"] == 0
    for _ in range(3):
        knock(scene.calls)
    until(lambda: server.launch_counters["rejected_connections"] == 3)
    assert server.launch_counters["rejected_connections_no_zmtp"] == 3
    assert server.launch_counters["rejected_here"]["no_zmtp"] == server.counters["rejected_connections"] == 0
    knock(server.service.remote_endpoint)
    until(lambda: server.counters["rejected_connections"] == 1)
    until(lambda: server.launch_counters["rejected_connections"] == 4)  # with the next renewal
    told = {"no_key": 5, "no_zmtp": 1, "of another version": 7}
    scene.robot.call(scene.calls, "register", scene.robot.entry("swing_up", rejected_connections=told))
    until(lambda: server.launch_counters["rejected_connections"] == 10)
    with pytest.raises(ServiceError, match="register: Expected"):
        scene.robot.call(scene.calls, "register", scene.robot.entry("swing_up", rejected_connections={"no_key": -1}))
    scene.colleague.call(scene.calls, "register", scene.colleague.entry("mine", rejected_connections={"no_key": 1000}))
    with pytest.raises(ServiceError):
        scene.colleague.call(scene.calls, "unregister", {"name": "sim"})
    until(lambda: server.launch_counters["calls_refused"] == 1)
    assert server.launch_counters["rejected_connections"] == 10
    for place in (server, other):
        place.close()
        place.context.destroy(linger=0)


def knock(endpoint: str) -> None:
    """Speak no ZeroMQ at an address."""
    host, _, port = endpoint.partition("#")[0].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=CALL_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            while connection.recv(4096):
                pass

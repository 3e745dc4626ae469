"""Who may publish what: forged messages of a node beside a launch are neither recorded nor believed, but named."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import zmq

from nodes.cli.application import run
from nodes.framework.client import Client
from nodes.framework.messages import BodyPoses, Description, Event, JointCommand, Message, RobotState, Status
from nodes.framework.messages.codec import encode
from nodes.framework.recording.reader import RecordingFile
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.registry import NodeEntry, RegistryClient, RegistryError
from nodes.framework.transport.security import allow_list, keys

ROBOT = "arm_2dof"
DOMAIN = 21  # no other test has it: registries of other hosts take TCP ports by their domain
MARK = 777.25
LAUNCH = """
domain = {domain}
{hosts}
[sim]
robot = "arm_2dof"
safe_mode = "hold"
watchdog_ms = 2000
{host}

[[nodes]]
name = "controller"
run = "nodes/controllers/position.py:JointPosition"
remap = {{ command = "raw_command" }}
params = {{ joints = ["joint_2", "joint_4"] }}

[[nodes]]
name = "guard"
run = "nodes/guard/node.py:Guard"

[nodes.params.joints.joint_2]
lower = -1.2
upper = 1.2
velocity = 2.0
acceleration = 20.0
tracking_error = 0.4
deceleration = 20.0
margin = 0.1

[nodes.params.joints.joint_4]
lower = -2.0
upper = 2.0
velocity = 3.0
acceleration = 30.0
tracking_error = 0.4
deceleration = 30.0
margin = 0.1

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "guarded.mcap" }}
"""
FORGED: dict[str, Message] = {
    f"{ROBOT}/state": RobotState(name=["joint_2"], position=[MARK], velocity=[0.0]),
    f"{ROBOT}/body_poses": BodyPoses(p=[MARK, 0.0, 0.0], quaternion=[1.0, 0.0, 0.0, 0.0]),
    f"{ROBOT}/description": Description(robot="counterfeit"),
    f"{ROBOT}/event": Event(kind="reset", detail="counterfeit"),
    f"{ROBOT}/command": JointCommand(mode="position", name=["joint_2"], value=[MARK]),
    f"{ROBOT}/raw_command": JointCommand(mode="position", name=["joint_2"], value=[MARK]),
    "status": Status(node="guard", state="failed", detail="counterfeit"),
}
REFUSALS = (
    "belongs to node",
    "but 'guard' has the actuators",
    "about node 'guard'",
    "no simulation subscribes to 'arm_2dof/raw_command'",
)
COUNTS = [40, pytest.param(1000, marks=pytest.mark.soak)]
Until = Callable[..., None]


class Visitor:
    """A node beside a launch: it registers topics that nobody owns, and publishes whatever it likes."""

    name = "visitor"

    def __init__(self, socket: Any, register: Callable[[NodeEntry], Any]) -> None:
        self._socket, self._register = socket, register
        self.seq = 0
        self.subscriptions: set[bytes] = set()

    def register(self, *topics: str) -> None:
        self._register(NodeEntry(name=self.name, pid=os.getpid(), publishes=[f"{ROBOT}/{each}" for each in topics]))

    def serve(self) -> None:
        """Confirm the subscriptions that have arrived."""
        while self._socket.poll(0):
            frame = self._socket.recv()
            self.subscriptions.add(frame[1:])
            if frame == b"\x01~":
                self._socket.send_multipart([b"~", b""])

    def say(self, topic: str, message: Message) -> None:
        self.seq += 1
        message.seq, message.timestamp = 10**6 + self.seq, 1e4
        self._socket.send_multipart([topic.encode(), encode(message, topic)])


def _start(ground: Any, until: Until, hosts: str = "") -> Any:
    file = ground.folder / "guarded.toml"
    file.write_text(LAUNCH.format(domain=DOMAIN, hosts=hosts, host='host = "desk"' if hosts else ""))
    launch = ground.start("launch", file)

    def moves() -> bool:
        assert launch.poll() is None, launch.communicate()
        try:
            with Client(DOMAIN) as client:
                return float(client.sim_status()["time"]) > 0.0
        except (LookupError, RuntimeError, ConnectionError):
            return False

    until(moves)
    return launch


def _attack(visitor: Visitor, count: int, until: Until) -> None:
    """Publish every forged message `count` times, and check that the guard and the recorder count and name them."""
    with Client(DOMAIN) as client:

        def counted(node: str) -> dict[str, int]:
            visitor.register("enable", "overlay")  # again and again, as a node does
            found: dict[str, int] = client.call(node, "status")["forged"]
            return found

        def is_heard() -> bool:
            visitor.register("enable", "overlay")
            visitor.serve()
            return {b"", f"{ROBOT}/raw_command".encode()} <= visitor.subscriptions  # of the recorder and of the guard

        until(is_heard)
        of_guard = [f"{ROBOT}/{name}" for name in ("state", "description", "event", "raw_command")]
        for sent in range(1, count + 1):
            for topic, message in FORGED.items():
                visitor.say(topic, message)
            if sent % 20 == 0:
                for node, topics in (("recorder", list(FORGED)), ("guard", of_guard)):
                    wanted = {f"{topic} from {visitor.name}": sent for topic in topics}
                    until(lambda node=node, wanted=wanted: counted(node) == wanted)
        status = client.sim_status()
        assert list(status["commands_taken"]) == ["guard"]
        assert client.call("guard", "status")["counters"]["stops"] == 0
        refusal = client.call("recorder", "status")["refusal"]
        assert refusal == "'status': from node 'visitor', about node 'guard'"


def _pid(node: str) -> int:
    with Client(DOMAIN) as client:
        return client.node(node).pid


def _ended(launch: Any, ground: Any) -> None:
    """End the launch: its summary names the forged topics, and its recording has none of the forged messages."""
    launch.send_signal(signal.SIGINT)
    out, _ = launch.communicate(timeout=30.0)
    (line,) = [line for line in out.splitlines() if "forged messages" in line and "recorder" in line]
    for topic in FORGED:
        assert f" on topic {topic} from visitor" in line
    recorded = list(RecordingFile(ground.folder / "guarded.mcap"))
    assert f"{ROBOT}/state" in {each.topic for each in recorded}
    assert [each.topic for each in recorded if b"777.25" in each.payload or b"counterfeit" in each.payload] == []


@pytest.fixture
def visitor(ground: Any) -> Iterator[Visitor]:
    """A visitor on this computer."""
    context: Any = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.XPUB_VERBOSE, 1)

    def register(entry: NodeEntry) -> None:
        endpoint = ipc_endpoint(DOMAIN, "visitor.data")
        if not socket.getsockopt(zmq.LAST_ENDPOINT):
            socket.bind(endpoint)
        with RegistryClient(DOMAIN) as client:
            client.register(msgspec.structs.replace(entry, endpoints={"data": endpoint}))

    yield Visitor(socket, register)
    context.destroy(linger=0)


@pytest.mark.parametrize("count", COUNTS)
def test_forged_topics_of_a_local_node_are_dropped_counted_and_named(
    ground: Any, visitor: Visitor, until: Until, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = _start(ground, until)
    for topic, owners in (("state", "node 'sim'"), ("event", "nodes 'guard', 'sim'"), ("raw_command", "node 'contro")):
        with pytest.raises(RegistryError, match=f"topic '{ROBOT}/{topic}' belongs to {owners}"):
            visitor.register(topic)
    with pytest.raises(RegistryError, match=f"rejects '{ROBOT}/command': 'visitor' commands, but 'guard' has the act"):
        visitor.register("command")
    for topic, message in FORGED.items():
        text = msgspec.json.encode(message).decode()
        assert run(["topic", "pub", topic, text, "-n", str(count), "--domain", str(DOMAIN)]) != 0
        printed = capsys.readouterr()
        assert "published" not in printed.out
        (line,) = printed.err.splitlines()
        assert topic in line
        assert any(each in line for each in REFUSALS), line
    _attack(visitor, count, until)
    guard = next(process for process in ground.nodes_of(launch) if process.pid == _pid("guard"))
    guard.suspend()
    with Client(DOMAIN) as client:
        until(lambda: client.sim_status()["state"] == "safe")
    with pytest.raises(RegistryError, match="'visitor' commands, but 'guard' has the actuators"):
        visitor.register("command")
    guard.resume()
    with Client(DOMAIN) as client:
        until(lambda: client.sim_status()["state"] == "running")
        assert list(client.sim_status()["commands_taken"]) == ["guard"]
    _ended(launch, ground)


@pytest.mark.parametrize("count", COUNTS)
def test_forged_topics_of_an_allowed_key_are_dropped_counted_and_named(
    ground: Any, until: Until, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(ground.folder / "config"))
    ground.environment["XDG_CONFIG_HOME"] = str(ground.folder / "config")
    own = keys.make_key("desk").public
    public, secret = zmq.curve_keypair()
    key = zmq.utils.z85.decode(public).hex()
    allow_list.allow("robot", key)
    allow_list.allow("desk", own)
    hosts = '[hosts]\ndesk = "127.0.0.1"\nrobot = "127.0.0.1"\n'
    launch = _start(ground, until, hosts)
    with zmq.Context() as context:
        socket: Any = context.socket(zmq.XPUB)
        socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        socket.linger = 0
        socket.curve_server, socket.curve_publickey, socket.curve_secretkey = True, public, secret
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        caller: Any = context.socket(zmq.DEALER)
        caller.linger = 0
        caller.curve_serverkey = bytes.fromhex(own)
        caller.curve_publickey, caller.curve_secretkey = public, secret
        caller.connect(f"tcp://127.0.0.1:{17400 + 2 * DOMAIN}")

        def register(entry: NodeEntry) -> None:
            entry.host, entry.remote_endpoints = "robot", {"data": f"tcp://127.0.0.1:{port}#{key}"}
            caller.send(msgspec.msgpack.encode({"id": 1, "call": "register", "args": msgspec.to_builtins(entry)}))
            assert caller.poll(20_000)
            reply = msgspec.msgpack.decode(caller.recv())
            if not reply["ok"]:
                raise RegistryError(reply["error"])

        visitor = Visitor(socket, register)
        with pytest.raises(RegistryError, match=f"topic '{ROBOT}/state' belongs to node 'sim' of the launch"):
            visitor.register("state")
        with pytest.raises(RegistryError, match="no grant of the simulation"):
            visitor.register("command")
        _attack(visitor, count, until)
        caller.close()
        socket.close()
    _ended(launch, ground)

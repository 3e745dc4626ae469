"""The Foxglove bridge as another client sees it: a WebSocket library, the protocol, and protobuf's decoder."""

from __future__ import annotations

import base64
import json
import re
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: pip install 'armswing[foxglove]'")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from nodes.framework.client import Client

ROBOT = "/rotary_pendulum"
PROTOCOL = "foxglove.sdk.v1"
MESSAGE, TIME, SERVICE = 1, 2, 3  # opcodes of the binary frames of a server


class Foxglove:
    """A client of the protocol: subscribes to every channel, and keeps what comes."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.server: dict[str, Any] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[tuple[int, bytes]]] = {}
        self.answers: dict[int, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.times: list[int] = []
        self.sessions = 0
        self._topics: dict[int, str] = {}
        self._call = 0

    def receive(self) -> None:
        try:
            frame = self._socket.recv(timeout=0.1)
        except TimeoutError:
            return
        if isinstance(frame, str):
            self._take(json.loads(frame))
        elif frame[0] == MESSAGE:
            subscription, stamp = struct.unpack_from("<IQ", frame, 1)
            self.messages.setdefault(self._topics[subscription], []).append((stamp, frame[13:]))
        elif frame[0] == TIME:
            self.times.append(struct.unpack_from("<Q", frame, 1)[0])
        elif frame[0] == SERVICE:
            _, call, length = struct.unpack_from("<III", frame, 1)
            assert frame[13 : 13 + length] == b"json"
            self.answers[call] = json.loads(frame[13 + length :])

    def _take(self, told: dict[str, Any]) -> None:
        match told["op"]:
            case "serverInfo":
                self.server, self.sessions = told, self.sessions + 1
            case "advertise":
                for channel in told["channels"]:
                    self.channels[channel["topic"]] = channel
                    self._topics[1000 + channel["id"]] = channel["topic"]
                ids = [{"id": 1000 + channel["id"], "channelId": channel["id"]} for channel in told["channels"]]
                self.send(op="subscribe", subscriptions=ids)
            case "advertiseServices":
                self.services |= {service["name"]: service for service in told["services"]}
            case "parameterValues":
                self.parameters |= {each["name"]: each.get("value") for each in told["parameters"]}
            case "serviceCallFailure":
                self.answers[told["callId"]] = told["message"]
            case "status":
                self.warnings.append(told["message"])
                # The SDK advertises a new channel just before it knows it: a client as quick as this one asks again.
                if unknown := re.fullmatch(r"Unknown channel ID: (\d+)", told["message"]):
                    self.send(
                        op="subscribe", subscriptions=[{"id": 1000 + int(unknown[1]), "channelId": int(unknown[1])}]
                    )

    def send(self, **told: Any) -> None:
        self._socket.send(json.dumps(told))

    def send_call(self, name: str, **args: Any) -> None:
        self._call += 1
        head = struct.pack("<BIII", 2, self.services[name]["id"], self._call, 4)
        self._socket.send(head + b"json" + json.dumps(args).encode())

    def call(self, name: str, **args: Any) -> Any:
        self.send_call(name, **args)
        self.until(lambda: self._call in self.answers)
        return self.answers[self._call]

    def until(self, done: Callable[[], object], deadline_s: float = 30.0) -> None:
        deadline = time.monotonic() + deadline_s
        while not done():
            counts = {topic: len(found) for topic, found in self.messages.items()}
            assert time.monotonic() < deadline, f"{sorted(self.channels)} advertised; {counts}; {self.warnings}"
            self.receive()

    def plain(self, topic: str) -> list[dict[str, Any]]:
        """Messages of a JSON channel."""
        assert self.channels[topic]["encoding"] == "json"
        return [json.loads(payload) for _, payload in self.messages[topic]]

    def decoded(self, topic: str) -> list[Any]:
        """Messages of a protobuf channel, by the schema that the server advertised."""
        channel = self.channels[topic]
        assert (channel["encoding"], channel["schemaEncoding"]) == ("protobuf", "protobuf")
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(channel["schema"]))
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(channel["schemaName"]))
        return [kind.FromString(payload) for _, payload in self.messages[topic]]


@contextmanager
def bridging(live: Any, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """(address that a bridge prints, its process), of a bridge with these options."""
    process = live.start("bridge", "foxglove", "--port", "0", *options)
    told = process.stdout.readline()
    found = re.search(r"ws://localhost:\d+\S*", told)
    assert found, (told, process.communicate())
    yield found[0], process
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30.0)
    assert process.returncode == 0, err
    assert re.search(r"passed on \d+ messages; 0 were lost", out)


@pytest.fixture(scope="module")
def bridge(live: Any) -> Iterator[str]:
    """Address of a bridge with services and parameters."""
    with bridging(live, "--steer") as (address, _):
        yield address


@contextmanager
def connected(address: str, origin: Any = None) -> Iterator[Foxglove]:
    # with a full queue the client reads no more, not even the answer to its closing frame, and leaves after 10 s
    unbounded: Any = {"subprotocols": [PROTOCOL], "max_size": None, "max_queue": None}
    with connect(address, origin=origin, **unbounded) as socket:
        assert socket.subprotocol == PROTOCOL
        yield Foxglove(socket)


@pytest.fixture
def foxglove(bridge: str) -> Iterator[Foxglove]:
    with connected(bridge) as client:
        client.until(lambda: client.services and len(client.messages.get(f"{ROBOT}/state", ())) > 20)
        yield client


def test_every_topic_is_a_channel_with_the_schema_of_recordings(foxglove: Foxglove) -> None:
    foxglove.until(lambda: {f"{ROBOT}/description", f"{ROBOT}/command", "/status"} <= foxglove.messages.keys())
    assert foxglove.channels[f"{ROBOT}/state"]["schemaName"] == "armswing.RobotState"
    schema = json.loads(foxglove.channels[f"{ROBOT}/state"]["schema"])
    assert schema["properties"]["position"]["items"]["type"] == "number"
    states = foxglove.plain(f"{ROBOT}/state")
    seqs = [state["seq"] for state in states]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    stamps = [stamp for stamp, _ in foxglove.messages[f"{ROBOT}/state"]]
    assert stamps == [round(state["timestamp"] * 1e9) for state in states]
    (description,) = foxglove.plain(f"{ROBOT}/description")[:1]  # latched: it came although the launch began before
    assert description["robot"] == "rotary_pendulum"


def test_the_scene_has_the_bodies_in_frames_that_the_transforms_move(foxglove: Foxglove) -> None:
    topics = {f"{ROBOT}/scene", "/tf", f"{ROBOT}/body_poses", f"{ROBOT}/description"}
    foxglove.until(lambda: topics <= foxglove.messages.keys() and len(foxglove.messages["/tf"]) > 3)
    description = foxglove.plain(f"{ROBOT}/description")[0]
    entities = {entity.id: entity for entity in foxglove.decoded(f"{ROBOT}/scene")[0].entities}
    frames = [f"rotary_pendulum/{body['name']}" for body in description["bodies"]]
    assert [*entities][1:] == frames
    assert [entity.frame_id for entity in entities.values()] == ["world", *frames]
    for body, frame in zip(description["bodies"], frames, strict=True):
        entity = entities[frame]
        kinds = [shape["kind"] for shape in body["shapes"]]
        drawn = {"box": entity.cubes, "sphere": entity.spheres, "cylinder": entity.cylinders, "line": entity.lines}
        assert {kind: len(found) for kind, found in drawn.items() if found} == {k: kinds.count(k) for k in set(kinds)}
        for shape, found in zip([s for s in body["shapes"] if s["kind"] == "cylinder"], entity.cylinders, strict=True):
            radius, length = shape["size"]
            assert (found.size.x, found.size.y, found.size.z) == (2 * radius, 2 * radius, length)
    poses = {stamp: json.loads(payload) for stamp, payload in foxglove.messages[f"{ROBOT}/body_poses"]}
    compared = 0
    for (stamp, _), moved in zip(foxglove.messages["/tf"], foxglove.decoded("/tf"), strict=True):
        for place, transform in enumerate(moved.transforms):
            assert (transform.parent_frame_id, transform.child_frame_id) == ("world", frames[place])
            assert 10**9 * transform.timestamp.seconds + transform.timestamp.nanos == stamp
            if stamp in poses:
                p, r, compared = transform.translation, transform.rotation, compared + 1
                assert [p.x, p.y, p.z] == poses[stamp]["p"][3 * place : 3 * place + 3]
                assert [r.w, r.x, r.y, r.z] == poses[stamp]["quaternion"][4 * place : 4 * place + 4]
    assert compared > 3


def test_joint_states_are_those_of_the_state(foxglove: Foxglove) -> None:
    foxglove.until(lambda: len(foxglove.messages.get(f"{ROBOT}/joint_states", ())) > 20)
    states = {stamp: json.loads(payload) for stamp, payload in foxglove.messages[f"{ROBOT}/state"]}
    stamps = [stamp for stamp, _ in foxglove.messages[f"{ROBOT}/joint_states"]]
    both = [
        (states[s], joints)
        for s, joints in zip(stamps, foxglove.decoded(f"{ROBOT}/joint_states"), strict=True)
        if s in states
    ]
    assert len(both) > 10
    for state, joints in both:
        assert [joint.name for joint in joints.joints] == state["name"]
        for field in ("position", "velocity", "effort"):
            assert [getattr(joint, field) for joint in joints.joints] == state[field]


def test_services_steer_the_simulation_and_refuse_in_one_line(foxglove: Foxglove) -> None:
    wanted = {f"/sim/{name}" for name in ("pause", "resume", "step", "reset", "speed", "snapshot", "restore")}
    assert set(foxglove.services) == wanted
    assert "no snapshot yet" in foxglove.call("/sim/restore")
    with Client(0) as client:
        paused = foxglove.call("/sim/pause")["time"]
        assert client.sim_status()["state"] == "paused"
        assert foxglove.call("/sim/snapshot")["time"] == paused
        assert foxglove.call("/sim/step", n=3)["time"] == pytest.approx(paused + 3 * 5e-3)
        assert foxglove.call("/sim/restore")["time"] == pytest.approx(paused)
        assert "step: the argument 'n' is 0; it must be a whole number of at least 1" in foxglove.call("/sim/step", n=0)
        assert "has no argument 'soon'" in foxglove.call("/sim/pause", soon=True)
        foxglove.call("/sim/speed", x=2.0)
        assert client.sim_status()["speed"] == 2.0
        foxglove.call("/sim/speed", x=1.0)
        foxglove.call("/sim/resume")
        assert client.sim_status()["state"] == "running"


def test_parameters_are_read_set_and_refused(foxglove: Foxglove) -> None:
    foxglove.send(op="getParameters", parameterNames=[], id="all")
    foxglove.until(lambda: foxglove.parameters)
    assert foxglove.parameters["damper.damping"] == 1e-3
    foxglove.send(op="setParameters", parameters=[{"name": "damper.damping", "value": 0.002}], id="set")
    with Client(0) as client:
        foxglove.until(lambda: client.call("damper", "get_parameters")["damping"] == 0.002)
        foxglove.send(op="setParameters", parameters=[{"name": "damper.damping", "value": 5.0}], id="no")
        foxglove.until(lambda: foxglove.warnings)
        assert "damper.damping" in foxglove.warnings[-1]
        assert "5; rotary_pendulum takes 1 N m s/rad at most" in foxglove.warnings[-1]
        foxglove.parameters.clear()
        foxglove.send(op="subscribeParameterUpdates", parameterNames=["damper.damping"])
        # the reply to a later request says that the bridge has the subscription
        foxglove.send(op="getParameters", parameterNames=["damper.damping"], id="subscribed")
        foxglove.until(lambda: foxglove.parameters)
        assert foxglove.parameters["damper.damping"] == 0.002
        client.call("damper", "set_parameters", damping=0.003)  # by somebody else
        foxglove.until(lambda: foxglove.parameters.get("damper.damping") == 0.003)


def test_a_reset_begins_a_new_session_with_the_time_of_the_simulation(foxglove: Foxglove) -> None:
    foxglove.until(lambda: len(foxglove.times) > 3)
    before = foxglove.sessions
    assert foxglove.times == sorted(foxglove.times)
    reset_at = len(foxglove.times)
    foxglove.call("/sim/reset")
    foxglove.until(lambda: foxglove.sessions == before + 1 and len(foxglove.times) > reset_at + 3)
    assert min(foxglove.times[reset_at:]) < 10**9


def test_a_port_in_use_is_refused_in_one_line(live: Any, bridge: str) -> None:
    port = urlsplit(bridge).port
    done = live.run("bridge", "foxglove", "--port", port)
    assert done.returncode == 2
    assert re.fullmatch(
        rf"armswing: port {port}: .*[Aa]ddress already in use.*; choose another port with --port\n", done.stderr
    )


def test_a_page_is_refused_unless_it_is_foxglove_s_or_allowed(live: Any) -> None:
    with bridging(live, "--origin", "https://mine.example") as (address, process):
        for refused in ("https://evil.example", "null"):
            with pytest.raises(InvalidStatus) as failed, connected(address, refused):
                pass
            assert failed.value.response.status_code == 403
        assert process.stderr is not None
        allows = "--origin https://evil.example allows it"
        assert process.stderr.readline() == (
            f"a connection is refused: a page of 'https://evil.example' may not read this computer's robots; {allows}\n"
        )
        for allowed in (None, "https://mine.example", "https://app.foxglove.dev", "http://localhost:8080"):
            with connected(address, allowed) as client:
                client.until(lambda client=client: client.messages.get(f"{ROBOT}/state"))


def test_without_steer_nothing_can_be_set_or_called(live: Any, bridge: str) -> None:
    with bridging(live) as (address, _), connected(address) as client, connected(bridge) as steering:
        client.until(lambda: len(client.messages.get(f"{ROBOT}/state", ())) > 20)
        assert client.server["capabilities"] == ["time"]
        assert not client.services
        steering.until(lambda: "/sim/pause" in steering.services)
        client.services = steering.services  # its numbers can be guessed
        client.send(op="setParameters", parameters=[{"name": "damper.damping", "value": 0.009}], id="set")
        client.send(op="getParameters", parameterNames=["damper.damping"], id="get")
        client.send_call("/sim/pause")
        client.until(lambda: len(client.warnings) >= 2 and client.answers)
        assert not client.parameters
        with Client(0) as launch:
            assert launch.sim_status()["state"] == "running"
            assert launch.call("damper", "get_parameters")["damping"] != 0.009


def test_steering_needs_the_token_of_the_address(bridge: str) -> None:
    for address in (bridge.partition("?")[0], bridge[:-1], f"{bridge}x"):
        with pytest.raises(InvalidStatus) as failed, connected(address):
            pass
        assert failed.value.response.status_code == 403

"""The ROS 2 bridge as another process of the graph sees it: a zenoh client of its own, and rosbags' codec."""

from __future__ import annotations

import base64
import json
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed: pip install 'armswing[ros2]'")
pytest.importorskip("rosbags", reason="rosbags is not installed: pip install 'armswing[ros2]'")

import zenoh

from nodes.framework.client import Client

ROBOT = "/rotary_pendulum"
JOINT_STATE, CLOCK, TF = "sensor_msgs/msg/JointState", "rosgraph_msgs/msg/Clock", "tf2_msgs/msg/TFMessage"
ARRAY = "std_msgs/msg/Float64MultiArray"
STATES = "give 0 (STOPPED), 1 (PLAYING) or 2 (PAUSED)"
OK = {"result": 1, "error_message": ""}
SIM = """
[sim]
robot = "rotary_pendulum"
parameters = {{ start_deg = {start_deg}, arm_damping = 0.001, torque_limit = 0.05 }}
mode = "realtime"
step_ms = {step_ms}
watchdog_ms = 200.0
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Router:
    """A zenoh router on loopback, as rmw_zenohd."""

    def __init__(self) -> None:
        self.address = f"tcp/127.0.0.1:{free_port()}"
        self._session: Any = None
        self.begin()

    def begin(self) -> None:
        config = {"mode": "router", "listen": {"endpoints": [self.address]}}
        config |= {"scouting": {"multicast": {"enabled": False}}, "timestamping": {"enabled": True}}
        patience = {
            "drop": {"wait_before_drop": 1_000_000}
        }  # us; a busy computer pauses for longer than the usual 1 ms
        config |= {"transport": {"link": {"tx": {"queue": {"congestion_control": patience}}}}}
        self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))

    def end(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class Peer:
    """The other process."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-P", str(Path(__file__).with_name("ros2_peer.py")), address]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.zid = self._answer(30.0)

    def __call__(self, do: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._answer(60.0)

    def _answer(self, deadline_s: float) -> Any:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], deadline_s)[0], "the peer does not answer"
        told = json.loads(self.process.stdout.readline())
        if "error" in told:
            raise RuntimeError(told["error"])
        return told["ok"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30.0)


class Graph:
    """A launch, the bridge, a router and a peer."""

    def __init__(
        self,
        ground: Any,
        start_deg: float = 175.0,
        step_ms: float = 2.0,
        nodes: str = "",
        plan: Path | None = None,
        count: int = 2,
    ) -> None:
        self.ground, self.router = ground, Router()
        if plan is None:
            plan = ground.folder / "ros2.toml"
            plan.write_text(SIM.format(start_deg=start_deg, step_ms=step_ms) + (nodes or ground.node("Listener")))
        self.launch = ground.start("launch", plan)
        self.bridge = self.start_bridge()
        self.peer = Peer(self.router.address)
        ground.wait_until_running(self.launch, count)

    def start_bridge(self) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = self.ground.start("bridge", "ros2", "--connect", self.router.address)
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told == f"connected to the router at {self.router.address}, ROS domain 0\n", process.communicate()
        return process

    def stop_bridge(self) -> tuple[str, str]:
        self.bridge.send_signal(signal.SIGINT)
        out, err = self.bridge.communicate(timeout=30.0)
        assert self.bridge.returncode == 0, err
        return out, err

    def close(self) -> None:
        self.peer.close()
        self.router.end()


@pytest.fixture
def graph(ground: Any) -> Iterator[Graph]:
    found = Graph(ground)
    yield found
    found.close()


def call(graph: Graph, name: str, **request: Any) -> Any:
    return graph.peer("call", name=f"/armswing/{name}", request=request)


def has(graph: Graph, *names: str) -> bool:
    known = {parts[9].replace("%", "/") for parts in graph.peer("graph") if len(parts) > 9}
    return known >= set(names)


def count(graph: Graph, topic: str, kind: str = JOINT_STATE) -> int:
    return int(graph.peer("heard", name=topic, kind=kind)["count"])


def test_a_peer_finds_topics_and_services_by_tokens_and_reads_the_states(
    graph: Graph, until: Callable[..., None]
) -> None:
    topic = f"{ROBOT}/joint_states"
    services = [f"/{node}/{leaf}_parameters" for node in ("sim", "listener") for leaf in ("list", "get", "set")]
    until(lambda: has(graph, topic, "/clock", "/tf", "/armswing/step_simulation", *services))
    tokens = graph.peer("graph")
    nodes = {parts[7] + "/" + parts[8] for parts in tokens if parts[5] == "NN"}
    assert nodes == {"%/armswing", "%/sim", "%/listener", "%rotary_pendulum/armswing"}
    assert len({parts[2] for parts in tokens}) == 1
    assert len({parts[4] for parts in tokens}) == len(tokens)
    for name, kind in ((topic, JOINT_STATE), ("/clock", CLOCK), ("/tf", TF)):
        graph.peer("listen", name=name, kind=kind)
    graph.peer("listen", name="/tf_static", kind=TF, latched=True)
    graph.peer("listen", name=f"{ROBOT}/robot_description", kind="std_msgs/msg/String", latched=True)
    until(lambda: count(graph, topic) > 200 and count(graph, "/tf", TF) > 5)
    until(lambda: count(graph, f"{ROBOT}/robot_description", "std_msgs/msg/String") == 1)
    told = graph.peer("heard", name=topic, kind=JOINT_STATE)
    assert (told["gaps"], told["publishers"]) == (0, 1)
    assert told["last"]["name"] == ["arm", "pendulum"]
    assert graph.peer("heard", name="/clock", kind=CLOCK)["gaps"] == 0
    urdf = graph.peer("heard", name=f"{ROBOT}/robot_description", kind="std_msgs/msg/String")["last"]["data"]
    assert '<joint name="pendulum" type="continuous">' in urdf
    fixed = graph.peer("heard", name="/tf_static", kind=TF)["last"]["transforms"]
    assert [each["child_frame_id"] for each in fixed] == ["rotary_pendulum/ground"]
    moving = graph.peer("heard", name="/tf", kind=TF)["last"]["transforms"]
    assert [each["child_frame_id"] for each in moving] == ["rotary_pendulum/arm", "rotary_pendulum/pendulum"]
    assert {each["header"]["frame_id"] for each in moving} == {"world"}
    with Client(0) as client:  # the numbers are those of the launch
        call(graph, "set_simulation_state", state={"state": 2})
        until(lambda: client.sim_status()["state"] == "paused")
        snapshot_time = client.sim_status()["time"]
        until(lambda: abs(stamp(graph, topic) - snapshot_time) < 1e-9)
    graph.launch.send_signal(signal.SIGINT)
    until(lambda: not has(graph, topic) and not has(graph, "/sim/get_parameters"))  # they leave with the launch
    out, err = graph.stop_bridge()
    assert err == f"{ROBOT.removeprefix('/')}: connected, its topics are in {ROBOT}\n"
    assert "0 messages were lost" in out
    assert "0 were refused, 0 were published without a router" in out


def stamp(graph: Graph, topic: str) -> float:
    at = graph.peer("heard", name=topic, kind=JOINT_STATE)["last"]["header"]["stamp"]
    return float(at["sec"] + 1e-9 * at["nanosec"])


def test_a_peer_steers_the_simulation_by_its_services(graph: Graph, until: Callable[..., None]) -> None:
    until(lambda: has(graph, f"{ROBOT}/joint_states"))
    features = call(graph, "get_simulator_features")["features"]
    assert features["features"] == [10, 11, 20, 24, 25, 26, 31, 32]
    assert "spawning" in features["custom_info"]
    assert call(graph, "get_simulation_state") == {"state": {"state": 1}, "result": OK}
    refused = call(graph, "step_simulation", steps=1)["result"]
    assert refused["result"] == 4
    assert "set_simulation_state with 2" in refused["error_message"]
    assert call(graph, "set_simulation_state", state={"state": 2})["result"] == OK
    assert call(graph, "set_simulation_state", state={"state": 2})["result"]["result"] == 101
    with Client(0) as client:
        before = client.sim_status()["tick"]
        assert call(graph, "step_simulation", steps=7)["result"] == OK
        assert client.sim_status()["tick"] == before + 7
        assert call(graph, "reset_simulation")["result"] == OK
        assert client.sim_status()["tick"] == 0
        assert call(graph, "reset_simulation", scope=1)["result"]["result"] == 0  # time alone
        assert call(graph, "set_simulation_state", state={"state": 0})["result"]["result"] in (1, 101)
        assert call(graph, "get_simulation_state")["state"] == {"state": 0}
        assert call(graph, "set_simulation_state", state={"state": 3})["result"]["result"] == 0
        unknown = call(graph, "set_simulation_state", state={"state": 99})["result"]
        assert (unknown["result"], unknown["error_message"].partition("; ")[2]) == (0, STATES)
    names = ["rotary_pendulum", "rotary_pendulum/arm", "rotary_pendulum/pendulum"]
    assert call(graph, "get_entities") == {"result": OK, "entities": names}
    assert call(graph, "get_entities", filters={"filter": "/(arm|leg)$"})["entities"] == names[1:2]
    assert call(graph, "get_entities", filters={"filter": "("})["result"]["result"] == 4
    assert call(graph, "get_entities", filters={"tags": {"tags": ["x"]}})["result"]["result"] == 0
    state = call(graph, "get_entity_state", entity="rotary_pendulum/pendulum")
    assert state["result"] == OK
    assert state["state"]["header"]["frame_id"] == "world"
    assert np.hypot(*(state["state"]["pose"]["position"][axis] for axis in "xy")) == pytest.approx(0.085, abs=1e-6)
    assert call(graph, "get_entity_state", entity="nobody")["result"]["result"] == 2
    assert call(graph, "set_entity_state", entity=names[1])["result"]["result"] == 4


def test_parameters_of_nodes_are_parameters_of_ros(graph: Graph, until: Callable[..., None]) -> None:
    until(lambda: has(graph, "/sim/set_parameters", "/listener/set_parameters"))

    def ask(node: str, leaf: str, **request: Any) -> Any:
        return graph.peer("call", name=f"/{node}/{leaf}", request=request)

    assert ask("listener", "list_parameters")["result"]["names"] == ["fails_at_start"]
    assert ask("sim", "list_parameters")["result"]["names"] == ["arm_damping", "pendulum_damping"]
    value = ask("sim", "get_parameters", names=["arm_damping", "nothing"])["values"]
    assert (value[0]["type"], value[0]["double_value"], value[1]["type"]) == (3, 0.001, 0)
    events, event = "/parameter_events", "rcl_interfaces/msg/ParameterEvent"
    graph.peer("listen", name=events, kind=event)
    change = {"name": "arm_damping", "value": {"type": 3, "double_value": 0.002}}
    assert ask("sim", "set_parameters", parameters=[change])["results"] == [{"successful": True, "reason": ""}]
    wrong = {"name": "arm_dampin", "value": {"type": 3, "double_value": 0.002}}
    told = ask("sim", "set_parameters_atomically", parameters=[change, wrong])["result"]
    assert not told["successful"]
    assert "arm_damping" in told["reason"]
    with Client(0) as client:
        assert client.call("sim", "get_parameters")["arm_damping"] == 0.002
    until(lambda: count(graph, events, event) == 1)
    told = graph.peer("heard", name=events, kind=event)["last"]
    assert (told["node"], told["new_parameters"], told["deleted_parameters"]) == ("/sim", [], [])
    assert [(each["name"], each["value"]["double_value"]) for each in told["changed_parameters"]] == [
        ("arm_damping", 0.002)
    ]
    described = ask("sim", "describe_parameters", names=["arm_damping"])["descriptors"][0]
    assert (described["type"], described["description"]) == (3, "N m s")


TWO = """
[[include]]
file = "one.toml"
namespace = "left"

[[include]]
file = "one.toml"
namespace = "right"
"""


def test_robots_of_two_namespaces_are_apart(ground: Any, until: Callable[..., None]) -> None:
    (ground.folder / "one.toml").write_text(SIM.format(start_deg=0.0, step_ms=4.0) + ground.node("Listener"))
    plan = ground.folder / "two.toml"
    plan.write_text(TWO)
    graph = Graph(ground, plan=plan, count=3)
    try:
        left, right = (f"/{side}{ROBOT}" for side in ("left", "right"))
        for topic in (f"{left}/joint_states", f"{right}/joint_states"):
            until(lambda topic=topic: has(graph, topic))
            graph.peer("listen", name=topic, kind=JOINT_STATE)
        graph.peer("listen", name="/parameter_events", kind="rcl_interfaces/msg/ParameterEvent")
        assert {"%left/listener", "%right/listener"} <= {f"{parts[7]}/{parts[8]}" for parts in graph.peer("graph")}
        names = call(graph, "get_entities")["entities"]
        assert {"left/rotary_pendulum/arm", "right/rotary_pendulum/arm"} <= set(names)

        def arm(side: str) -> float:
            last = graph.peer("heard", name=f"{side}/joint_states", kind=JOINT_STATE)["last"]
            return 0.0 if last is None else float(last["position"][0])

        def moved() -> bool:
            message = {"name": ["arm"], "effort": [0.002]}
            graph.peer("publish", name=f"{left}/joint_command", kind=JOINT_STATE, message=message)
            return arm(left) > 0.1

        until(moved)
        assert abs(arm(right)) < 1e-9
        change = {"name": "right/arm_damping", "value": {"type": 3, "double_value": 0.002}}
        done = graph.peer("call", name="/sim/set_parameters", request={"parameters": [change]})
        assert done["results"] == [{"successful": True, "reason": ""}]
        until(lambda: count(graph, "/parameter_events", "rcl_interfaces/msg/ParameterEvent") == 1)
        out, _ = graph.stop_bridge()
        assert "0 were refused" in out
    finally:
        graph.close()


@pytest.fixture(scope="module")
def gains() -> list[float]:
    """Feedback of arm, pendulum and their velocities that holds the pendulum upright."""
    from scipy.linalg import solve_continuous_are

    from armswing import assemble, build, linearize, operating_point

    system = assemble(build("rotary_pendulum", coordinates="joint"))
    point = operating_point(system, {"pendulum": np.pi})
    linear = linearize(system, (point.q, point.v), point.u)
    weights = np.array([[1e4]])
    riccati = solve_continuous_are(linear.A, linear.B, np.diag([10.0, 10.0, 0.1, 0.1]), weights)
    found: list[float] = np.linalg.solve(weights, linear.B.T @ riccati)[0].tolist()
    return found


def test_a_peer_holds_the_pendulum_upright(ground: Any, until: Callable[..., None], gains: list[float]) -> None:
    graph = Graph(ground, start_deg=179.9)
    try:
        until(lambda: has(graph, f"{ROBOT}/joint_command"))
        call(graph, "set_simulation_state", state={"state": 0})
        graph.peer("balance", robot="rotary_pendulum", gains=gains)
        call(graph, "set_simulation_state", state={"state": 1})
        until(lambda: graph.peer("balanced").get("time", 0.0) > 2.5)
        assert abs(graph.peer("balanced")["tilt"]) < 0.02
        with Client(0) as client:
            status = client.sim_status()
        assert status["commands_taken"]["ros2"] > 300
        assert "0 were refused" in graph.stop_bridge()[0]
    finally:
        graph.close()


def test_what_is_malformed_or_foreign_is_refused_and_the_launch_goes_on(
    graph: Graph, until: Callable[..., None]
) -> None:
    command = f"{ROBOT}/joint_command"
    until(lambda: has(graph, command, "/armswing/step_simulation"))
    for data in (b"", b"\x00\x01", b"\x00\x01\x00\x00" + b"\xff" * 40, bytes(range(256)) * 64):
        graph.peer("publish_bytes", name=command, kind=JOINT_STATE, data=base64.b64encode(data).decode())
    none = base64.b64encode(b"").decode()
    graph.peer("publish_bytes", name=command, kind=JOINT_STATE, data=none, attachment=none)
    for wrong in ({"name": ["leg"], "effort": [0.01]}, {"name": ["arm"], "effort": [0.01], "position": [0.1]}):
        graph.peer("publish", name=command, kind=JOINT_STATE, message=wrong)
    graph.peer("publish", name=f"{ROBOT}/effort/commands", kind=ARRAY, message={"data": [1.0, 2.0]})
    assert graph.peer("call_bytes", name="/armswing/step_simulation", data=none, timeout_s=1.0) == 0
    parts = "@ros2_lv/0/{zid}/0/9/MP/%/%/stranger/%rotary_pendulum%joint_command/sensor_msgs::msg::dds_::JointState_"
    for ending in ("RIHS01_" + 64 * "0" + "/::,7:,:,:,,", "TypeHashNotSupported/::,7:,:,:,,"):
        graph.peer("token", key=f"{parts.format(zid=graph.peer.zid)}/{ending}")
    coloured = parts.replace("stranger", "red\x1b[31m").format(zid=graph.peer.zid)
    graph.peer("token", key=f"{coloured}/TypeHashNotSupported/::,7:,:,:,,")
    graph.peer("token", key="@ros2_lv/0/x/y/z")
    small = {"name": ["arm"], "effort": [0.001]}
    graph.peer("publish", name=command, kind=JOINT_STATE, message=small, count=100_000)  # a flood
    with Client(0) as client:
        until(lambda: client.sim_status()["commands_taken"].get("ros2", 0) > 10)
        tick = client.sim_status()["tick"]
        until(lambda: client.sim_status()["tick"] > tick + 100)
    assert call(graph, "get_simulation_state")["result"] == OK
    out, err = graph.stop_bridge()
    for line in (
        "has the type hash RIHS01_0000",
        "its endpoints have no type hashes, as those of ROS 2 Humble",
        "no liveliness token",
        "'/rotary_pendulum/joint_command': sensor_msgs/msg/JointState: the payload begins with ''",
        "'/rotary_pendulum/effort/commands': 2 numbers are given; 1 are needed, for arm",
        "'/armswing/step_simulation': simulation_interfaces/srv/StepSimulation_Request: the payload begins with ''",
    ):
        assert line in err, (line, err)
    assert "Traceback" not in err
    assert "/red\\x1b[31m: its endpoints have no type hashes" in err
    assert "\x1b" not in err
    assert int(out.rpartition(" were refused")[0].rpartition(" ")[2]) >= 11
    assert int(out.rpartition(" commands on the way")[0].rpartition(" ")[2]) > 50_000  # of the flood


def test_a_router_that_is_lost_and_comes_back_costs_only_what_was_published_meanwhile(
    graph: Graph, until: Callable[..., None]
) -> None:
    topic = f"{ROBOT}/joint_states"
    until(lambda: has(graph, topic))
    graph.peer("listen", name=topic, kind=JOINT_STATE)
    until(lambda: count(graph, topic) > 50)
    graph.router.end()
    before = count(graph, topic)
    with Client(0) as client:
        tick = client.sim_status()["tick"]
        until(lambda: client.sim_status()["tick"] > tick + 100)
    graph.router.begin()
    began = time.monotonic()
    until(lambda: count(graph, topic) > before + 50)
    assert time.monotonic() - began < 5.0
    told = graph.peer("heard", name=topic, kind=JOINT_STATE)
    assert told["gaps"] > 50
    assert call(graph, "get_simulation_state")["result"] == OK
    out, _ = graph.stop_bridge()
    apart = int(out.rpartition(" were published without")[0].rpartition(" ")[2])
    assert told["gaps"] <= apart  # every topic counts there


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_minute_of_states_at_1_khz_arrives_without_a_loss(ground: Any, until: Callable[..., None]) -> None:
    graph = Graph(ground, step_ms=1.0)
    try:
        topic = f"{ROBOT}/joint_states"
        until(lambda: has(graph, topic))
        graph.peer("listen", name=topic, kind=JOINT_STATE)
        until(lambda: count(graph, topic) > 60_000, 120.0)
        told = graph.peer("heard", name=topic, kind=JOINT_STATE)
        assert (told["gaps"], told["publishers"]) == (0, 1)
        assert "0 messages were lost" in graph.stop_bridge()[0]
    finally:
        graph.close()


def test_each_side_is_found_again_after_a_restart(graph: Graph, until: Callable[..., None]) -> None:
    topic = f"{ROBOT}/joint_states"
    until(lambda: has(graph, topic))
    graph.peer("listen", name=topic, kind=JOINT_STATE)
    until(lambda: count(graph, topic) > 50)
    graph.stop_bridge()
    until(lambda: not has(graph, topic))
    graph.peer("forget", name=topic)
    graph.bridge = graph.start_bridge()
    began = time.monotonic()
    until(lambda: count(graph, topic) > 50)
    assert time.monotonic() - began < 5.0
    assert graph.peer("heard", name=topic, kind=JOINT_STATE)["gaps"] == 0
    graph.peer.close()
    graph.peer = Peer(graph.router.address)
    graph.peer("listen", name=topic, kind=JOINT_STATE)
    until(lambda: count(graph, topic) > 50)
    assert graph.peer("heard", name=topic, kind=JOINT_STATE)["gaps"] == 0


def test_without_a_router_and_for_humble_one_line_says_what_to_do(ground: Any) -> None:
    address = f"tcp/127.0.0.1:{free_port()}"
    done = ground.run("bridge", "ros2", "--connect", address)
    assert done.returncode == 1
    assert done.stderr.startswith(f"armswing: no router of ROS 2 answers at {address}; start it with 'ros2 run rmw_z")
    assert done.stderr.count("\n") == 1
    done = ground.run("bridge", "ros2", "--connect", "tcp/no.such.host.invalid:7447")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no computer has the name or address 'no.such.host.invalid'" in done.stderr
    for wrong in ("localhost", "tcp/localhost:70000"):
        done = ground.run("bridge", "ros2", "--connect", wrong)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    ground.environment["ROS_DISTRO"] = "humble"
    done = ground.run("bridge", "ros2", "--connect", address)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "use Jazzy or Kilted" in done.stderr


def test_with_listen_the_bridge_is_the_router(ground: Any, until: Callable[..., None]) -> None:
    address = f"tcp/127.0.0.1:{free_port()}"
    bridge = ground.start("bridge", "ros2", "--connect", address, "--listen")
    assert bridge.stdout.readline() == f"router at {address}, ROS domain 0\n"
    peer = Peer(address)
    told = peer("call", name="/armswing/get_simulation_state", request={})
    assert told["result"]["result"] == 4
    assert "no launch is live" in told["result"]["error_message"]
    second = ground.run("bridge", "ros2", "--connect", address, "--listen")
    assert (second.returncode, second.stderr.count("\n")) == (1, 1)
    peer.close()
    bridge.send_signal(signal.SIGINT)
    assert bridge.wait(timeout=30.0) == 0


LOCKSTEP = """
duration_s = {duration_s}
[sim]
robot = "rotary_pendulum"
parameters = {{ start_deg = 175.0, torque_limit = 0.05 }}
mode = "lockstep"
step_ms = 2.0
watchdog_ms = 0
deadline_ms = {deadline_ms}
[[nodes]]
name = "controller"
run = "nodes/ros2_controller.py:Ros2Controller"
params = {{ router = "{router}" }}
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{file}" }}
"""


def test_in_lockstep_each_step_waits_for_the_peer_and_two_runs_are_equal(ground: Any, gains: list[float]) -> None:
    from nodes.framework.recording.reader import read_recording

    router = Router()
    plan, file = ground.folder / "lockstep.toml", ground.folder / "x.mcap"
    values = {"router": router.address, "file": file.name, "duration_s": 0.6, "deadline_ms": 20_000}
    plan.write_text(LOCKSTEP.format(**values))
    recorded = []
    for _ in range(2):
        launch = ground.start("launch", plan)
        peer = Peer(router.address)
        peer("balance", robot="rotary_pendulum", gains=gains)
        out, err = launch.communicate(timeout=60.0)
        peer.close()
        assert launch.returncode == 0, (out, err)
        recorded.append(file.read_bytes())
        state = read_recording(file)["rotary_pendulum/state"]
        assert abs(state["position"][-1, 1] - np.pi) < abs(state["position"][0, 1] - np.pi)
        file.unlink()
    router.end()
    assert recorded[0] == recorded[1]


def test_in_lockstep_a_controller_that_sends_nothing_ends_the_run_at_the_deadline(ground: Any) -> None:
    router = Router()
    plan = ground.folder / "lockstep.toml"
    values = {"router": router.address, "file": "x.mcap", "duration_s": 1.0, "deadline_ms": 500}
    plan.write_text(LOCKSTEP.format(**values))
    launch = ground.start("launch", plan)
    peer = Peer(router.address)
    peer("offer", name=f"{ROBOT}/joint_command", kind=JOINT_STATE)
    out, err = launch.communicate(timeout=60.0)
    peer.close()
    router.end()
    assert launch.returncode != 0
    assert "no command on /rotary_pendulum/joint_command with the stamp 0.000000000 s arrived within 0.4 s" in out + err


ARM_FILE = Path(__file__).resolve().parents[3] / "launch/examples/ros2_arm.toml"
ARM, TRAJECTORY = "/arm_2dof", "trajectory_msgs/msg/JointTrajectory"


def test_ros2_controls_topic_interface_and_trajectories_move_the_arm(ground: Any, until: Callable[..., None]) -> None:
    plan = ground.folder / "ros2_arm.toml"
    plan.write_text(ARM_FILE.read_text())
    graph = Graph(ground, plan=plan)
    try:
        topic = f"{ARM}/joint_states"
        until(lambda: has(graph, topic, f"{ARM}/joint_command", f"{ARM}/joint_trajectory"))
        graph.peer("listen", name=topic, kind=JOINT_STATE)

        def is_at(*target: float) -> bool:
            state = graph.peer("heard", name=topic, kind=JOINT_STATE)["last"]
            return state is not None and bool(np.allclose(state["position"], target, atol=0.05))

        # as its write() does: all joints, the list of their command interface, a stamp of another clock
        stamp = {"stamp": {"sec": 1_700_000_000, "nanosec": 5}}
        command = {"header": stamp, "name": ["joint_2", "joint_4"], "position": [0.4, -0.6]}

        def commanded() -> bool:
            graph.peer("publish", name=f"{ARM}/joint_command", kind=JOINT_STATE, message=command)
            return is_at(0.4, -0.6)

        until(commanded)
        target = {"positions": [-0.3, 0.5], "time_from_start": {"sec": 0, "nanosec": 500_000_000}}
        moves = {"joint_names": ["joint_2", "joint_4"], "points": [target]}
        graph.peer("publish", name=f"{ARM}/joint_trajectory", kind=TRAJECTORY, message=moves)
        until(lambda: is_at(-0.3, 0.5))
        late = {"header": {"stamp": {"sec": 0, "nanosec": 1}}, **moves}
        graph.peer("publish", name=f"{ARM}/joint_trajectory", kind=TRAJECTORY, message=late)
        graph.peer("publish", name=f"{ARM}/cmd_vel", kind="geometry_msgs/msg/Twist", message={})
        out, err = graph.stop_bridge()
        assert "the trajectory ended at 0.5 s" in err
        assert "no node of the launch subscribes to 'arm_2dof/cmd_vel'" in err
        assert "2 were refused" in out
    finally:
        graph.close()


def test_an_actuator_of_a_node_of_the_launch_file_is_not_the_bridges(ground: Any, until: Callable[..., None]) -> None:
    graph = Graph(ground, nodes=ground.node("Damper"))
    try:
        command = f"{ROBOT}/joint_command"
        until(lambda: has(graph, command))
        with Client(0) as client:

            def is_refused() -> bool:
                graph.peer("publish", name=command, kind=JOINT_STATE, message={"name": ["arm"], "effort": [0.04]})
                return "damper" in client.sim_status()["last_refusal"]

            until(is_refused)
            taken = client.sim_status()["commands_taken"]["damper"]
            until(lambda: client.sim_status()["commands_taken"]["damper"] > taken + 100)
            assert "ros2" not in client.sim_status()["commands_taken"]
        out, err = graph.stop_bridge()
        assert "the simulation rejects 'rotary_pendulum/command'" in err
        assert "damper" in err
        assert "passed on" in out
        assert "and 0 commands;" in out
    finally:
        graph.close()


GUARD = """
[[nodes]]
name = "guard"
run = "nodes/guard/node.py:Guard"
params.joints.arm = { effort = 0.001, modes = ["effort"] }
"""


def test_commands_pass_the_guard(ground: Any, until: Callable[..., None]) -> None:
    graph = Graph(ground, start_deg=0.0, nodes=GUARD)
    try:
        command = f"{ROBOT}/joint_command"
        until(lambda: has(graph, command, "/guard/get_parameters"))

        def clamped() -> bool:
            graph.peer("publish", name=command, kind=JOINT_STATE, message={"name": ["arm"], "effort": [0.04]})
            with Client(0) as client:
                return client.guards()["guard"].clamps > 0

        until(clamped)
        with Client(0) as client:
            assert "ros2" not in client.sim_status()["commands_taken"]  # it speaks to the guard alone
        names = graph.peer("call", name="/guard/list_parameters", request={})["result"]
        assert "joints.arm.effort" in names["names"]
        assert "joints.arm" in names["prefixes"]
        values = graph.peer("call", name="/guard/get_parameters", request={"names": ["joints.arm.effort"]})["values"]
        assert values[0]["double_value"] == 0.001
        change = {"name": "joints.arm.effort", "value": {"type": 3, "double_value": 2.0}}
        told = graph.peer("call", name="/guard/set_parameters", request={"parameters": [change]})["results"][0]
        assert not told["successful"]
        assert "fixed during a run" in told["reason"]
    finally:
        graph.close()

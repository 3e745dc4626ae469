"""`armswing estop` on a real launch: simulation and driver stop, stay stopped, and go on after the release."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.client import Client

LAUNCH = """
[sim]
robot = "arm_2dof"
mode = "realtime"
step_ms = 5.0
watchdog_ms = 2000
safe_mode = "hold"
[[nodes]]
name = "damper"
run = "my_nodes.py:Damper"
params = { joint = "joint_2" }
[[nodes]]
name = "robot"
run = "my_nodes.py:Robot"
guard = { joints = { joint_2 = { effort = 10.0 } } }
[[nodes]]
name = "bare"
run = "my_nodes.py:Robot"
"""
ROBOT = """

class Robot(Node):
    subscribes = {"state": RobotState, "command": JointCommand}
    publishes = {"measured_state": RobotState}
    commands_taken = 0

    def on_message(self, name, message):
        if name == "command":
            self.commands_taken += 1
        else:
            yield "measured_state", RobotState(name=message.name, position=message.position, velocity=message.velocity)

    @property
    def counters(self):
        return {"taken": self.commands_taken}
"""


def test_without_a_launch_it_is_refused(ground: Any) -> None:
    ended = ground.run("estop")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "no launch is live in domain 0" in ended.stderr


def test_an_emergency_stop_lasts_until_it_is_released(ground: Any, until: Callable[..., Any]) -> None:
    nodes = Path(ground.folder / "my_nodes.py")
    nodes.write_text(nodes.read_text() + ROBOT)
    plan = ground.folder / "estop.toml"
    plan.write_text(LAUNCH)
    ground.wait_until_running(ground.start("launch", plan), 4)
    ended = ground.run("estop", "--reason", "a test", "--json")
    assert ended.returncode == 0, ended.stderr
    answers = {each["node"]: each["how"] for each in json.loads(ended.stdout)}
    assert answers == {
        "sim": "safe mode hold",
        "robot": "controlled stop",
        "bare": "commands are held back: the node has no guard",
    }
    with Client(0) as client:
        before, taken = client.sim_status(), client.call("bare", "status")["counters"]["taken"]
        assert before["state"] == "safe"
        topics = (message for topic, message in client.stream(timeout_s=5.0) if topic == "status")  # a late subscriber
        stops = {"sim": "", "robot": "", "bare": "", "damper": "none"}
        while "" in stops.values():
            status = next(topics)
            stops[status.node] = status.emergency or ("none" if status.node == "damper" else "")
        assert stops == {"sim": "a test", "robot": "a test", "bare": "a test", "damper": "none"}
        until(lambda: client.sim_status()["time"] > before["time"] + 0.1)
        later = client.sim_status()
        assert (later["state"], later["commands_taken"]) == ("safe", before["commands_taken"])
        assert later["commands_refused"]["damper"]["reason"] == "a test"
        assert client.call("bare", "status")["counters"]["taken"] == taken
        with pytest.raises(Exception, match="drives no robot"):
            client.call("damper", "estop")
        guards = {name: (state.stopped, state.stops, state.error) for name, state in client.guards().items()}
        assert guards == {"robot": ("a test", 1, ""), "bare": ("a test: commands are held back", 1, "")}
        assert client.sim_status()["guards"]["robot"]["stopped"] == "a test"
        assert client.call("bare", "status")["detail"] == "emergency stop: a test: commands are held back"
        status, listed = ground.run("sim", "status").stdout, ground.run("node", "list").stdout
        assert re.search(r"^guards +(bare|robot) stopped since t = [0-9.]+ s: a test", status, re.MULTILINE)
        assert re.search(r"^emergency_stop +a test$", status, re.MULTILINE)
        assert re.search(r"^robot .* stopped since t = [0-9.]+ s: a test \(stop 1\); 0", listed, re.MULTILINE)
        assert re.search(r"^damper .* -$", listed, re.MULTILINE)
        ended = ground.run("estop", "--release")
        assert ended.returncode == 0, ended.stderr
        until(lambda: client.sim_status()["state"] == "running")
        until(lambda: client.guards()["robot"].text().startswith("not stopped, 1 stops; 0 values clamped"))


def test_a_launch_that_ends_in_an_emergency_stop_has_failed(ground: Any, until: Callable[..., Any]) -> None:
    nodes = Path(ground.folder / "my_nodes.py")
    nodes.write_text(nodes.read_text() + ROBOT)
    plan = ground.folder / "estop.toml"
    plan.write_text(f"duration_s = 6.0\n{LAUNCH}")
    launch = ground.start("launch", plan, "--json", "summary.json")
    ground.wait_until_running(launch, 4)
    assert ground.run("estop", "--reason", "a test").returncode == 0
    launch.communicate(timeout=60)
    assert launch.returncode == 1
    summary = json.loads(Path(ground.folder / "summary.json").read_text())
    assert re.match(
        r"the guard of 'robot' stopped the robot at t = .*, still stopped at the end: a test; ", summary["ended"]
    )
    assert "the emergency stop of 'bare' stopped the robot at t = " in summary["ended"]
    assert summary["ended"].endswith("the emergency stop of the simulation was not released: a test")
    assert {name: (each["by"], each["reason"] != "") for name, each in summary["guard_stops"].items()} == {
        "robot": ("guard", True),
        "bare": ("estop", True),
    }

"""`armswing estop` on a real launch: simulation and driver stop, stay stopped, and go on after the release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.client import Client

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
        until(lambda: client.sim_status()["time"] > before["time"] + 0.1)
        later = client.sim_status()
        assert (later["state"], later["commands_taken"]) == ("safe", before["commands_taken"])
        assert later["commands_refused"]["damper"]["reason"] == "a test"
        assert client.call("bare", "status")["counters"]["taken"] == taken
        with pytest.raises(Exception, match="drives no robot"):
            client.call("damper", "estop")
        ended = ground.run("estop", "--release")
        assert ended.returncode == 0, ended.stderr
        until(lambda: client.sim_status()["state"] == "running")

"""The enabling switch of a guard over real sockets: by messages of another process, and by a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.framework.client import Client, GuardState

LAUNCH = """
[sim]
robot = "arm_2dof"
mode = "realtime"
step_ms = 5.0
watchdog_ms = 5000
[[nodes]]
name = "damper"
run = "my_nodes.py:Damper"
params = {{ joint = "joint_2" }}
[[nodes]]
name = "switch"
run = "my_nodes.py:Switch"
params = {{ file = "{switch}" }}
[[nodes]]
name = "by_topic"
run = "my_nodes.py:Robot"
guard = {{ enable_timeout_ms = 1000, joints = {{ joint_2 = {{ effort = 10.0 }} }} }}
[[nodes]]
name = "by_file"
run = "my_nodes.py:Robot"
guard = {{ enable_file = "{line}", joints = {{ joint_2 = {{ effort = 10.0 }} }} }}
"""
NODES = """
import msgspec
from pathlib import Path
from nodes.framework.messages import Enable


class SwitchParams(msgspec.Struct):
    file: str = ""


class Switch(Node):
    publishes = {"enable": Enable}
    Params = SwitchParams
    rate_hz = 20.0

    def on_start(self, context):
        self.file = Path(context.params.file)

    def on_tick(self, now):
        yield "enable", Enable(pressed=self.file.read_text() == "pressed")


class Robot(Node):
    subscribes = {"state": RobotState, "command": JointCommand, "enable": Enable}
    publishes = {"measured_state": RobotState}
    rate_hz = 100.0

    def on_message(self, name, message):
        if name == "state":
            yield "measured_state", RobotState(name=message.name, position=message.position, velocity=message.velocity)
"""


RESTARTED = """
[sim]
robot = "arm_2dof"
mode = "realtime"
step_ms = 5.0
watchdog_ms = 5000
[[nodes]]
name = "damper"
run = "my_nodes.py:Damper"
params = { joint = "joint_2" }
[[nodes]]
name = "robot"
run = "my_nodes.py:Robot"
restart = "on-failure"
guard = { joints = { joint_2 = { effort = 10.0 } } }
"""


def test_a_guard_whose_process_was_restarted_stops_the_robot(ground: Any, until: Callable[..., Any]) -> None:
    nodes = Path(ground.folder / "my_nodes.py")
    nodes.write_text(nodes.read_text() + NODES)
    plan = ground.folder / "restarted.toml"
    plan.write_text(RESTARTED)
    ground.wait_until_running(ground.start("launch", plan), 3)
    with Client(0) as client:
        until(lambda: client.call("robot", "status")["counters"]["passed"] > 0)
        assert client.guards()["robot"].stopped == ""
        os.kill(client.node("robot").pid, signal.SIGKILL)
        until(lambda: client.guards().get("robot", GuardState()).stopped == "the process of the guard was restarted")
        assert client.call("robot", "status")["counters"]["passed"] == 0
        client.estop(release=True)
        until(lambda: client.call("robot", "status")["counters"]["passed"] > 0)


def test_a_released_switch_stops_the_robot_until_it_is_pressed_and_the_stop_acknowledged(
    ground: Any, until: Callable[..., Any]
) -> None:
    switch, line = Path(ground.folder / "switch"), Path(ground.folder / "gpio")
    switch.write_text("pressed")
    line.write_text("1\n")
    nodes = Path(ground.folder / "my_nodes.py")
    nodes.write_text(nodes.read_text() + NODES)
    plan = ground.folder / "switch.toml"
    plan.write_text(LAUNCH.format(switch=switch, line=line))
    ground.wait_until_running(ground.start("launch", plan), 5)
    with Client(0) as client:

        def stops() -> tuple[int, int]:
            found = [client.call(node, "status")["counters"]["stops"] for node in ("by_topic", "by_file")]
            return found[0], found[1]

        def runs() -> bool:
            before = stops()
            client.estop(release=True)
            seen = client.sim_status()["time"]
            until(lambda: client.sim_status()["time"] > seen + 1.5)
            return stops() == before

        until(runs)  # both are pressed
        topic, file = stops()
        line.write_text("0\n")
        until(lambda: stops() == (topic, file + 1))
        status = client.call("by_file", "status")
        assert status["detail"] == "guard stopped: the enabling switch is released"
        assert status["guard"]["reason"] == "the enabling switch is released"
        line.write_text("1\n")
        until(runs)
        topic, file = stops()
        switch.write_text("released")
        until(lambda: stops() == (topic + 1, file))
        client.estop(release=True)
        until(lambda: stops() == (topic + 2, file))  # still released

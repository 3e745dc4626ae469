"""The example of a driver, beside a robot on a UDP port: through processes, and what the report makes of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.emulation.plant import Plant, PlantPerturbation
from nodes.hil.report.reading import read_case

ROOT = Path(__file__).resolve().parents[3]
STEPS = 5  # of the robot between two questions, 1 ms each


class Robot:
    """Motor controllers on a UDP port, with a plant that moves on as it is asked."""

    def __init__(self) -> None:
        self.port_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port_socket.bind(("127.0.0.1", 0))
        self.port = self.port_socket.getsockname()[1]
        self.commands = 0
        self._plant = Plant(SimPlan(robot="arm_2dof"), PlantPerturbation())
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            data, sender = self.port_socket.recvfrom(65536)
            if data == b"end":
                return
            message = json.loads(data)
            if message["mode"] == "ask":
                self._answer(sender)
            else:
                self.commands += 1
                assert self._plant.command(message["mode"], message["name"], message["value"]) == ""

    def _answer(self, sender: Any) -> None:
        plant = self._plant
        for _ in range(STEPS if self.commands else 0):  # until the first command its brakes hold it
            plant.step()
        rows = {"position": plant.position, "velocity": plant.velocity, "effort": plant.effort}
        said = {"name": plant.names, **{key: row.tolist() for key, row in rows.items()}}
        self.port_socket.sendto(json.dumps(said).encode(), sender)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(b"end", ("127.0.0.1", self.port))
        self._thread.join()
        self.port_socket.close()


@pytest.fixture
def robot() -> Iterator[Robot]:
    made = Robot()
    yield made
    made.close()


EXIT_CODES = {"passed": 0, "failed": 1, "not certain": 3}
PLAN = """
duration_s = 2.0
[sim]
robot = "arm_2dof"
mode = "realtime"
rate_hz = 200.0
watchdog_ms = 2000
[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
decimation = 10
params = { joints = ["joint_2", "joint_4"], kind = "minimum_jerk", waypoints = [[0.2, 0, 0], [1.6, 20, -20]] }
[[nodes]]
name = "controller"
run = "nodes/controllers/position.py:JointPosition"
params = { joints = ["joint_2", "joint_4"] }
[[nodes]]
name = "driver"
run = "launch/examples/my_driver.py:Driver"
[[nodes]]
name = "compare"
run = "nodes/hil_compare.py:HilCompare"
params = { bias_deg = 10, rms_deg = 10, max_deg = 20, delay_ms = 1000 }
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "run.mcap" }
"""


def test_the_example_of_a_driver_brings_a_robot_into_the_loop(domain: int, robot: Robot, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "nodes.cli", "launch", "plan.toml"),
            *("--set", f"driver.port={robot.port}", "--json", "summary.json"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    outcome = summary["verdicts"]["compare"]["outcome"]
    assert done.returncode == EXIT_CODES[outcome], done.stdout + done.stderr
    assert outcome == "passed" or (outcome == "not certain" and summary["skipped"]), done.stdout + done.stderr
    assert summary["figures"]["compare"]["driver_clock_uncertainty_ms"] < 100.0
    assert "; commands at the times the robot received them, " in summary["verdicts"]["compare"]["detail"]
    case = read_case(tmp_path / "run.mcap", None)
    assert case.predicted.driven
    assert robot.commands > 20
    measured, predicted = case.measured.stream, case.predicted.stream
    assert len(measured.time) > 50
    for joint in ("joint_2", "joint_4"):  # it went where it was sent, and so did its model
        ends = [stream.position[-1, stream.column(joint)] for stream in (measured, predicted)]
        assert ends[0] == pytest.approx(ends[1], abs=0.1)
        assert abs(ends[0]) > 0.2

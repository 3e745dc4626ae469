"""A controller in C on another computer than the simulation: it commands over links with keys, also after a cut."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.client import read_recording
from tests.aarch64 import sodium

COMMAND = "rotary_pendulum/command"
LAUNCH = """
[hosts]
desk = "192.168.1.10"
robot = "192.168.1.20"

[sim]
robot = "rotary_pendulum"
mode = "{mode}"
host = "desk"
step_ms = 5.0
deadline_ms = 12000
parameters = {{ start_deg = 0.0, torque_limit = 0.05 }}

[[nodes]]
name = "my_controller"
run = "{program}"
host = "{host}"
params = {{ angle_deg = 20.0 }}

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{file}" }}
"""


@pytest.fixture(scope="module", params=["here", pytest.param("aarch64", marks=pytest.mark.soak)])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controller of the client library, with keys, for this processor and for emulated aarch64."""
    if request.param == "aarch64":
        folder = tmp_path_factory.mktemp("c")
        assert run(["export", "client", "--lang", "c", "--output", str(folder)]) == 0
        if (built := sodium.build(folder, "my_controller")) is None:
            pytest.skip(f"no compiler, emulator or libsodium for aarch64: {sodium.MISSING}")
        return built
    compiler = shutil.which("cc")
    if not (shutil.which("make") and compiler):
        pytest.skip("no make or no C compiler: apt-get install make gcc libc6-dev")
    asked = subprocess.run([compiler, "-include", "sodium.h", "-E", "-xc", "/dev/null"], capture_output=True)
    if asked.returncode != 0:
        pytest.skip("no libsodium: apt-get install libsodium-dev")
    folder = tmp_path_factory.mktemp("c")
    assert run(["export", "client", "--lang", "c", "--output", str(folder)]) == 0
    make = ["make", "-C", folder, "CURVE=1", "CFLAGS=-O2 -Wall -Wextra -Werror"]
    done = subprocess.run(make, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "my_controller"


def launch_file(folder: Path, program: Path, mode: str, host: str = "robot", file: str = "c.mcap") -> Path:
    path = folder / f"{mode}_{host}.toml"
    path.write_text(LAUNCH.format(program=program, mode=mode, host=host, file=file))
    return path


def test_it_commands_from_another_computer_answers_calls_there_and_ends_with_the_launch(
    hosts: Any, program: Path, tmp_path: Path, wait_for: Callable[..., Any]
) -> None:
    desk, robot = hosts
    file = launch_file(tmp_path, program, "realtime")
    there = robot.start("launch", file, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", file, *hosts.settings(), "--json", "summary.json")
    here.says("sim running")
    wait_for(lambda: desk.sim()["commands_taken"].get("my_controller", 0) > 200)
    assert desk.sim()["commanded_by"] == "my_controller"
    told = desk.json("node", "info", "my_controller")
    assert told["status"]["state"] == "ready"
    assert told["status"]["counters"]["refused"] == 0
    assert set(told["status"]["timing"]) == {"turn_p50_s", "turn_p99_s", "turn_max_s"}
    desk.run("param", "set", "my_controller", "angle_deg", "45")
    assert "45" in robot.run("param", "get", "my_controller", "angle_deg")
    hosts.down()
    there.says("no message from host 'desk'")
    hosts.up()
    there.says("host 'desk' is back")
    taken = desk.sim()["commands_taken"]["my_controller"]
    wait_for(lambda: desk.sim()["commands_taken"]["my_controller"] > taken + 200)
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output
    summary = json.loads((desk.work / "summary.json").read_text())
    assert summary["exit_code"] in (0, 130)


def test_in_lockstep_over_keys_and_a_link_that_is_cut_its_commands_are_those_on_the_server_s_computer(
    hosts: Any, program: Path, tmp_path: Path, wait_for: Callable[..., Any]
) -> None:
    desk, robot = hosts
    duration = ("--duration", "60")  # s: 12,000 turns
    alone = launch_file(tmp_path, program, "lockstep", "desk", "alone.mcap")
    desk.run("launch", alone, *hosts.settings(), *duration)
    file = launch_file(tmp_path, program, "lockstep")
    there = robot.start("launch", file, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", file, *hosts.settings(), *duration)
    here.says("sim running")
    wait_for(lambda: desk.sim()["time"] > 1.0)
    hosts.down()
    there.says("no message from host 'desk'")
    assert here.process.poll() is None  # the server waits in a turn
    hosts.up()
    assert here.end() == 0, here.output + there.output
    assert there.end() == 0, there.output
    ours, theirs = (read_recording(desk.work / name)[COMMAND] for name in ("c.mcap", "alone.mcap"))
    assert len(ours["seq"]) == 12_000
    for key in ("seq", "timestamp", "state_seq", "value"):
        assert np.asarray(ours[key]).tobytes() == np.asarray(theirs[key]).tobytes(), key

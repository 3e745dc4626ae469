"""A stranger's robot in a file of a temporary folder: shown, launched, recorded, replayed, edited."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.client import read_recording
from nodes.framework.recording.sidecar import read_sidecar

ROBOT = """
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Y


def pendulum(length=0.5) -> Mechanism:
    rod = Body(name="rod", mass=1.0, inertia=(0.01, 0.01, 0.01, 0, 0, 0), center_of_mass=(0, 0, -length))
    return Mechanism(
        name="my_robot",
        coordinates="joint",
        bodies=(rod,),
        joints=(Joint(name="hinge", kind="revolute", child="rod", axis=Y),),
        actuators=(Actuator(name="hinge", joint="hinge", effort_limit=5.0),),
        initial_q=(1.0,),
        initial_v=(0.0,),
    )
"""
PLAN = """
duration_s = 0.5
[sim]
robot = "my_robot.py:pendulum"
mode = "lockstep"
step_ms = 5.0
parameters = { length = 0.4 }
[[nodes]]
name = "gravity"
run = "nodes/controllers/gravity_pd.py:GravityPD"
params = { stiffness = [1.0], damping = [0.1] }
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "run.mcap" }
"""
GRAVITY = "nodes/controllers/gravity_pd.py:GravityPD"


@pytest.fixture
def lab(ground: Any) -> Path:
    """The stranger's folder, which is not where commands are run."""
    made: Path = ground.folder / "lab"
    made.mkdir()
    (made / "my_robot.py").write_text(ROBOT)
    (made / "my_robot.toml").write_text(PLAN)
    return made


def test_a_robot_of_a_file_is_launched_recorded_replayed_and_edited(ground: Any, lab: Path) -> None:
    shown = json.loads(ground.run("robot", "show", "lab/my_robot.py:pendulum", "--json").stdout)
    assert shown["name"] == "my_robot"
    assert shown["takes"][0]["name"] == "length"
    launched = ground.run("launch", "lab/my_robot.toml")
    assert launched.returncode == 0, launched.stderr
    assert "pendulum, lockstep, 0.500 s in 100 steps" in launched.stdout
    recording = read_recording(ground.folder / "run.mcap")
    first = recording["pendulum/state"]["effort"]
    assert recording.description is not None
    assert recording.description.robot == recording.metadata["robot"] == "pendulum"
    assert json.loads(recording.metadata["plan"])["sim"]["robot"] == "my_robot.py:pendulum"  # and no path of this run
    assert (read_sidecar(recording.path) or {})["plan_folder"] == str(lab)
    replayed = ground.run("replay", "run.mcap", "--node", GRAVITY)
    assert (replayed.returncode, "none differs" in replayed.stdout) == (0, True), replayed.stderr
    (lab / "my_robot.py").write_text(ROBOT.replace("mass=1.0", "mass=0.1"))
    assert ground.run("launch", "lab/my_robot.toml").returncode == 0
    second = read_recording(ground.folder / "run.mcap")["pendulum/state"]["effort"]
    assert np.abs(np.array(second) - np.array(first)).max() > 0.5


def test_a_recording_without_its_robots_file_says_which_is_missing(ground: Any, lab: Path) -> None:
    assert ground.run("launch", "lab/my_robot.toml").returncode == 0
    (lab / "my_robot.py").unlink()
    assert ground.run("info", "run.mcap").returncode == 0
    replayed = ground.run("replay", "run.mcap", "--node", GRAVITY)
    assert replayed.returncode == 2
    assert replayed.stderr.startswith("armswing: robot 'my_robot.py:pendulum': no such file; tried ")
    assert replayed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "robot", "line"),
    [
        (
            ROBOT,
            "my_robot.py",
            "robot 'my_robot.py' does not refer to a function in a file; write 'path/to/file.py:function'",
        ),
        (
            ROBOT,
            "robot.py:pendulum",
            "robot 'robot.py:pendulum': no such file; tried {lab}/robot.py, {folder}/robot.py",
        ),
        ("def pendulum(:\n", "my_robot.py:pendulum", "importing {lab}/my_robot.py failed, line 1: SyntaxError: "),
        (
            ROBOT.replace("rod,)", "rot,)"),
            "my_robot.py:pendulum",
            "building it from {lab}/my_robot.py failed, line 10: ",
        ),
        (ROBOT.replace("pendulum(", "rod("), "my_robot.py:pendulum", "{lab}/my_robot.py has no function 'pendulum'; "),
        (
            ROBOT,
            "pendulum",
            "no robot 'pendulum'; did you mean 'double_pendulum' or 'lipinski_pendulum' or 'rotary_pendulum'?; one of ",
        ),
    ],
)
def test_a_launch_file_with_a_robot_that_cannot_be_is_refused_in_one_line(
    ground: Any, lab: Path, text: str, robot: str, line: str
) -> None:
    (lab / "my_robot.py").write_text(text)
    (lab / "my_robot.toml").write_text(PLAN.replace("my_robot.py:pendulum", robot))
    done = ground.run("launch", "lab/my_robot.toml")
    assert done.returncode == 2
    assert re.match(r"armswing: lab/my_robot\.toml:\d+: \[sim\]: key ", done.stderr)
    assert line.format(lab=lab, folder=ground.folder) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_launch_whose_robot_takes_too_long_to_compile_ends_with_exit_code_2_and_names_the_key(
    ground: Any, lab: Path
) -> None:
    done = ground.run(
        "launch", "lab/my_robot.toml", "--set", "sim.compile_limit_s=1e-9", "--set", "sim.parameters.length=0.37"
    )
    assert done.returncode == 2, done.stderr  # of the server or of the controller with a model, whichever is first
    assert re.search(r"'my_robot': compiling .* would take about .* s and .* GB, .*compile_limit_s", done.stderr)


def test_a_controller_is_written_for_a_robot_of_a_file(ground: Any, lab: Path) -> None:
    written = ground.run("new", "controller", "my_damper", "--robot", "lab/my_robot.py:pendulum", "--folder", "lab")
    assert written.returncode == 0, written.stderr
    done = ground.run("launch", "lab/my_damper.toml", "--duration", "0.1", "--set", "sim.mode=fast")
    assert done.returncode == 0, done.stderr
    assert "pendulum, fast" in done.stdout


ARM = (Path(__file__).resolve().parents[3] / "launch/examples/bench_arm.urdf").read_text()


def test_a_note_of_an_import_is_shown_once_in_a_launch(ground: Any) -> None:
    """The server and the controller build the robot, and the plan's check does."""
    (ground.folder / "arm.urdf").write_text(ARM.replace("</robot>", "<gazebo/></robot>"))
    plan = PLAN.replace("my_robot.py:pendulum", "arm.urdf").replace("duration_s = 0.5", "duration_s = 0.01")
    (ground.folder / "arm.toml").write_text(plan.replace("parameters = { length = 0.4 }\n", ""))
    result = ground.run("launch", "arm.toml")
    assert result.returncode == 0, result.stderr
    assert (result.stdout + result.stderr).count("line 108: <gazebo> is not read") == 1

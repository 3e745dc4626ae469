"""`armswing robot map`: its picture, its numbers, and what it refuses."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from robots.registry import build
from sim_core.analysis.held import HeldInputs
from sim_core.analysis.stability import equilibrium, measure
from sim_core.system import assemble

pytest.importorskip("matplotlib")
LAUNCH = Path(__file__).resolve().parents[3] / "launch" / "examples" / "my_controller.toml"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "nodes.cli", "robot", "map", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_a_map_is_a_picture_and_its_numbers(tmp_path: Path) -> None:
    """Of the single pendulum, whose measure has a closed form. [Schiehlen1993, eqs. 52, 53]"""
    done = run(
        tmp_path, "single_pendulum", "--over", "pivot=-2:2:12,pivot.velocity=-2:2:10", "--seconds", "60",
        "--time-unit-s", "1", "-o", "map.png",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("120 motions of 60 s about pivot = 0: ")
    assert done.stdout.splitlines()[1] == "distances in 1 rad and 1 rad per 1 s (--time-unit-s)"
    assert done.stdout.splitlines()[2] == "wrote map.png and map.npz"
    assert "done before" not in done.stderr
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    numbers = np.load(tmp_path / "map.npz")
    angle, rate = np.meshgrid(numbers["axis_pivot"], numbers["axis_pivot.velocity"])
    assert numbers["is1"].shape == (10, 12)
    tumbles = rate**2 > 2 * (1 + np.cos(angle))
    np.testing.assert_array_equal(numbers["goes_over"], tumbles)
    far = np.maximum(np.sqrt(rate**2 + 2 * (1 - np.cos(angle))), np.arccos(np.clip(np.cos(angle) - rate**2 / 2, -1, 1)))
    expected = far / np.maximum(abs(angle), abs(rate))
    np.testing.assert_allclose(numbers["is1"][~tumbles], expected[~tumbles], atol=2e-6)
    about = json.loads(str(numbers["about"]))
    assert about["lanes"] == 16
    assert about["cpu"]
    assert not about["unstable"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.npz", "map.png"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--over", "pivot=-2:2"], "expected ROW=FROM:TO:NUMBER, such as elbow=-3:3:400"),
        (["--over", "pivot=2:-2:5,pivot.velocity=-2:2:5"], "FROM must be below TO, and NUMBER must be at least 2"),
        (["--over", "pivot=-2:2:5"], "a map has two axes, not 1"),
        (["--over", "pivot=-2:2:5,pivt.velocity=-2:2:5"], "did you mean 'pivot.velocity'?"),
        (
            ["--over", "pivot=-2:2:5,pivot.velocity=-2:2:5", "--start", "pivot=1"],
            "'pivot' is given both as an axis of the map and in `start`",
        ),
        (["--over", "pivot=-2:2:5,pivot.velocity=-2:2:5", "-o", "map.jpg"], "a name that ends in .png"),
        (["--over", "pivot=-2:2:5,pivot.velocity=-2:2:5", "-o", "no/map.png"], "there is no folder 'no'"),
        (
            ["--over", "pivot=-2:2:5,pivot.velocity=-2:2:5", "--lanes", "3"],
            "lanes is 3; it must be one of 2, 4, 8, 16, 32",
        ),
        (["--over", "pivot=-2:2:90000,pivot.velocity=-2:2:90000"], "a map can have 25000000 at most"),
    ],
)
def test_bad_requests_are_refused_in_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = run(tmp_path, "single_pendulum", *arguments)
    assert done.returncode == 2
    assert line in done.stderr
    assert len([text for text in done.stderr.splitlines() if text.startswith("armswing: ")]) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("robot", "arguments", "words"),
    [
        (
            "arm_2dof",
            ["--over", "joint_1=-1:1:3,joint_2=-1:1:3", "--servo", "joint_2=3.1416"],
            ["actuator 'joint_2'", "3.1416 rad is beyond the upper limit 2.05 rad of joint 'joint_2'", "-2.05 to 2.05"],
        ),
        (
            "arm_2dof",
            ["--over", "joint_1=-1:1:3,joint_2=-1:1:3", "--servo", "joint_2=-9"],
            ["-9 rad is beyond the lower limit -2.05 rad of joint 'joint_2'"],
        ),
        (
            "rotary_pendulum",
            ["--over", "arm=-1:1:3,arm.velocity=-1:1:3"],
            ["--over arm: 'rotary_pendulum' has absolute coordinates", "add --param coordinates=joint"],
        ),
        (
            str(LAUNCH),
            ["--over", "pendulum.velocity=-1:1:3,arm.x=-1:1:3", "--seconds", "1"],
            ["--over pendulum.velocity: 'rotary_pendulum' has", "add --set sim.parameters.coordinates=joint"],
        ),
        (
            "rotary_pendulum",
            ["--over", "arm=-1:1:3,arm.velocity=-1:1:3", "--param", "coordinates=joint", "--servo", "arm=0.2"],
            ["--servo arm=0.2: actuator 'arm' of 'rotary_pendulum' has no servo that could hold a position"],
        ),
        (
            "charmie",
            ["--over", "tilt=-1:1:3,tilt.velocity=-1:1:3", "--servo", "tilt=0"],
            [
                "was found: where the search ended, the coordinate 'lift' still accelerates, by 9.8 per s^2",
                "without --servo no position is held by base_x",
            ],
        ),
    ],
)
def test_a_refused_map_names_the_joint_and_the_remedy(
    tmp_path: Path, robot: str, arguments: list[str], words: list[str]
) -> None:
    done = run(tmp_path, robot, *arguments)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert len([text for text in done.stderr.splitlines() if text.startswith("armswing: ")]) == 1
    assert not list(tmp_path.iterdir())


def test_an_unstable_equilibrium_is_told(tmp_path: Path) -> None:
    over = "pivot=-1:1:3,pivot.velocity=-1:1:3"
    done = run(tmp_path, "single_pendulum", "--over", over, "--seconds", "1", "--near", "pivot=3.1", "--step-ms", "10")
    assert done.returncode == 0, done.stderr
    assert "this equilibrium is unstable" in done.stderr
    assert "about pivot = 3.14159" in done.stdout


def test_positions_beyond_stops_and_an_equilibrium_far_from_the_one_asked_for_are_told(tmp_path: Path) -> None:
    over = (
        "--over",
        "joint_2=-3:3:3,joint_4=-1:1:3",
        "--seconds",
        "0.2",
        "--near",
        "joint_2=3.14",
        "--near",
        "joint_4=0",
    )
    done = run(tmp_path, "arm_2dof", *over)
    assert done.returncode == 0, done.stderr
    assert "2 of 3 positions of 'joint_2' lie beyond its stops at -2.05 .. 2.05, which push it back" in done.stderr
    assert re.search(r"the equilibrium that was found has joint_2 = 2\.\d+, not 3\.14 as in --near", done.stderr)
    free = run(tmp_path, "arm_2dof", *over, "--param", "limits=none")
    assert "about joint_2 = 3.14159" in free.stdout
    assert "beyond its stops" not in free.stderr
    assert "--near" not in free.stderr


def test_a_launch_is_mapped_with_its_nodes(tmp_path: Path) -> None:
    done = run(
        tmp_path, str(LAUNCH), "--set", "sim.parameters.coordinates=joint", "--near", "arm=0.5236",
        "--over", "arm=-1:1:3,arm.velocity=-2:2:2", "--seconds", "0.2", "-o", "held.png",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("6 motions of 0.2 s about arm = 0.5236, pendulum = 0: ")
    numbers = np.load(tmp_path / "held.npz")
    assert (numbers["low"] <= numbers["end"]).all()
    assert (numbers["end"] <= numbers["high"]).all()
    about = json.loads(str(numbers["about"]))
    assert (about["nodes"], about["step_s"], about["lanes"]) == (["my_controller"], 1e-3, 1)


SERVOED = """
import dataclasses
from robots.registry import build
from sim_core.mechanism import Actuator, Servo

def held(stiffness: float = 3.0):
    motor = Actuator(name="motor", joint="pivot", servo=Servo(stiffness=stiffness, damping=0.5))
    return dataclasses.replace(build("single_pendulum"), name="held", actuators=(motor,))
"""


def test_servos_hold_positions_in_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """phi'' + sin(phi) = 3 (1 - phi) - 0.5 phi' is at rest where 3 (1 - phi) = sin(phi)."""
    (tmp_path / "held.py").write_text(SERVOED)
    over = "pivot=-1:1:3,pivot.velocity=-1:1:3"
    done = run(tmp_path, "held.py:held", "--over", over, "--servo", "motor=1", "--seconds", "40", "-o", "held.png")
    assert done.returncode == 0, done.stderr
    about = json.loads(str(np.load(tmp_path / "held.npz")["about"]))
    phi = float(about["equilibrium"].removeprefix("pivot = "))
    assert 3 * (1 - phi) == pytest.approx(np.sin(phi), abs=1e-5)
    assert about["efforts"] == [pytest.approx(3 * (1 - phi), abs=1e-5)]
    assert (about["servos"], about["unstable"]) == ({"motor": 1.0}, False)
    numbers = np.load(tmp_path / "held.npz")
    angle, rate = np.meshgrid(numbers["axis_pivot"], numbers["axis_pivot.velocity"])
    monkeypatch.chdir(tmp_path)
    held = assemble(build("held.py:held"))
    at = equilibrium(held, [1.0], HeldInputs.of(held, [1.0], {"motor": "position"}).efforts)
    offsets = np.stack([angle.ravel() - at[0], rate.ravel() * about["time_unit_s"]], axis=1)
    same = measure(held, offsets, seconds=40.0, about=at, u=[1.0], modes={"motor": "position"})
    np.testing.assert_allclose(same.is1, numbers["is1"].ravel(), rtol=1e-9)  # with the same unit of time by default
    assert f"per {about['time_unit_s']:.6g} s (time_unit_s)" in str(same)
    assert f"per {about['time_unit_s']:.6g} s (--time-unit-s)" in done.stdout
    for arguments, line in (
        (["--servo", "elbow=1"], "has no actuator 'elbow'"),
        (["--servo", "motor.velocity=1"], "write --servo motor=POSITION, or map a launch file with a node that comm"),
        (
            ["--servo", "motor=1", "--step-ms", "200", "--param", "stiffness=300"],
            "the servo loops of 'held' are unstable at 200 ms",
        ),
        (["--set", "sim.step_ms=1"], "--set sim.step_ms=1: only a launch file has such keys; use --param"),
    ):
        done = run(tmp_path, "held.py:held", "--over", over, *arguments)
        assert done.returncode == 2
        assert line in done.stderr
        assert len([text for text in done.stderr.splitlines() if text.startswith("armswing: ")]) == 1


def test_after_an_interrupt_the_same_command_continues(tmp_path: Path) -> None:
    arguments = [
        *(str(LAUNCH), "--set", "sim.parameters.coordinates=joint", "--near", "arm=0.5236", "--threads", "1"),
        *("--over", "arm=-1:1:20,arm.velocity=-2:2:10", "--seconds", "0.2", "-o", "held.png"),
    ]
    command = [sys.executable, "-P", "-m", "nodes.cli", "robot", "map", *arguments]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs, deadline = tmp_path / "held.runs", time.monotonic() + 60
    while not runs.exists() or runs.read_bytes().count(b"\n") < 5:
        assert time.monotonic() < deadline
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130, said
    assert "interrupted; finished runs are in held.runs; repeat the command to continue" in said
    assert [path.name for path in tmp_path.iterdir()] == ["held.runs"]
    done = run(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    before = int(re.findall(r"(\d+) of 200 motions were done before", done.stderr)[0])
    assert 5 <= before < 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.npz", "held.png"]
    whole = run(tmp_path, *arguments[:-1], "whole.png")
    assert whole.returncode == 0, whole.stderr
    first, second = np.load(tmp_path / "held.npz"), np.load(tmp_path / "whole.npz")
    for name in ("low", "high", "end", "is1"):
        assert first[name].tobytes() == second[name].tobytes()


BALL = """
from sim_core.mechanism import Body, Joint, Mechanism

def ball_pendulum():
    bob = Body(name="bob", mass=1.0, inertia=(0.0, 0.0, 0.3, 0.0, 0.0, 0.0))
    joint = Joint(name="ball", kind="spherical", child="bob", child_point=(0, 0, 1), quaternion=(0.96, 0.28, 0, 0))
    rest = {"initial_q": (0.0,) * 3, "initial_v": (0.0,) * 3, "gravity": (0.0, 0.0, -1.0)}
    return Mechanism(name="ball_pendulum", coordinates="joint", bodies=(bob,), joints=(joint,), **rest)
"""


def test_a_robot_on_a_ball_joint_has_a_map_over_its_rotation_vector(tmp_path: Path) -> None:
    """With swings in one plane, whose measure has a closed form. [Schiehlen1993, eqs. 52, 53]"""
    (tmp_path / "ball.py").write_text(BALL)
    over = "ball.ry=-2:2:6,ball.ry.velocity=-1.5:1.5:4"
    tilt = "ball.rx,ball.ry,ball.rx.velocity,ball.ry.velocity"
    done = run(
        tmp_path, "ball.py:ball_pendulum", "--over", over, "--start", "ball.rx=0", "--start", "ball.rz=0",
        "--rows", tilt, "--seconds", "30", "-o", "map.png",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    angle_of_start = 2.0 * np.arctan2(0.28, 0.96)
    assert done.stdout.startswith(
        f"24 motions of 30 s about ball.rx = {-angle_of_start:.6f}, ball.ry = 0, ball.rz = 0: "
    )
    numbers = np.load(tmp_path / "map.npz")
    angle, rate = np.meshgrid(numbers["axis_ball.ry"], numbers["axis_ball.ry.velocity"])
    kept = rate**2 < 2 * (1 + np.cos(angle)) - 1e-3
    far = np.maximum(np.sqrt(rate**2 + 2 * (1 - np.cos(angle))), np.arccos(np.clip(np.cos(angle) - rate**2 / 2, -1, 1)))
    expected = far / np.maximum(abs(angle), abs(rate))
    np.testing.assert_allclose(numbers["is1"][kept], expected[kept], atol=2e-5)
    assert kept.sum() > 15
    assert numbers["attitudes"].shape == (4, 6, 1, 4)
    assert json.loads(str(numbers["about"]))["distances"] == tilt.split(",")
    for arguments, line in (
        (["--rows", "ball.rx"], "argument 'rows' has 'ball.rx' alone, which is no measure of an attitude"),
        (["--rows", "ball.rw"], "has no state row 'ball.rw'"),
    ):
        done = run(tmp_path, "ball.py:ball_pendulum", "--over", over, *arguments)
        assert done.returncode == 2
        assert line in done.stderr
        assert len([text for text in done.stderr.splitlines() if text.startswith("armswing: ")]) == 1

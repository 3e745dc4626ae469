"""`armswing hil excite`: a rehearsed via-point file that keeps the limits of robot and guard."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.plan.files.file import load_plan
from nodes.hil_excitation import trajectory_of
from nodes.planning.via_points import read_via_points

BENCH = Path(__file__).parents[3] / "launch/examples/bench_arm.urdf"
SMALL = "hil excite arm_2dof --seconds 3 --harmonics 3 --iterations 30"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("ARMSWING_DOMAIN", raising=False)
    monkeypatch.chdir(tmp_path)


def excited(line: str, capsys: pytest.CaptureFixture[str]) -> dict:
    assert run(f"{line} --json".split()) == 0
    return dict(json.loads(capsys.readouterr().out))


def assert_limits_held(verdict: dict) -> None:
    for joint in verdict["joints"]:
        if joint["lower_limit"] is not None:
            assert joint["lower_limit"] <= joint["lower"] <= joint["upper"] <= joint["upper_limit"]
        for quantity in ("velocity", "acceleration", "effort"):
            assert 0.0 < joint[quantity] <= joint[f"{quantity}_limit"], (joint["name"], quantity)


def test_a_file_of_the_rehearsed_motion_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = excited(f"{SMALL} -o via.csv", capsys)
    via = read_via_points(Path("via.csv"))
    assert via.joints == ["joint_2", "joint_4"]
    assert (via.times[0], via.times[-1]) == (0.0, 3.0)
    assert not np.array([via.velocities[0], via.velocities[-1]]).any()
    peak = np.abs(via.positions).max(axis=0)
    moved = [max(-joint["lower"], joint["upper"]) for joint in verdict["joints"]]
    np.testing.assert_allclose(moved, peak, rtol=0.1)
    assert_limits_held(verdict)
    assert verdict["condition"]["after"] < verdict["condition"]["start"]


def test_equal_seeds_give_equal_files_and_a_file_is_replaced_only_by_force(capsys: pytest.CaptureFixture[str]) -> None:
    excited(f"{SMALL} --seed 2 -o one.csv", capsys)
    excited(f"{SMALL} --seed 2 -o two.csv", capsys)
    before = Path("one.csv").read_bytes()
    assert before == Path("two.csv").read_bytes()
    assert run(f"{SMALL} -o one.csv".split()) == 2
    assert "'one.csv' exists; pass --force to replace it" in capsys.readouterr().err
    assert Path("one.csv").read_bytes() == before
    excited(f"{SMALL} --seed 3 -o one.csv --force", capsys)
    assert Path("one.csv").read_bytes() != before


def test_only_the_chosen_joints_move(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = excited(f"{SMALL} --joint joint_4 -o via.csv", capsys)
    assert [joint["name"] for joint in verdict["joints"]] == read_via_points(Path("via.csv")).joints == ["joint_4"]


def test_with_a_start_the_robot_first_moves_there(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = excited(f"{SMALL} --start joint_2=0.5 --start joint_4=-0.5 -o via.csv", capsys)
    via = read_via_points(Path("via.csv"))
    command = Path("via.csv").read_text().splitlines()[0].removeprefix("# armswing ")
    excited(f"{command} -o again.csv", capsys)
    assert Path("again.csv").read_bytes() == Path("via.csv").read_bytes()
    np.testing.assert_allclose([via.positions[k] for k in (0, 1, -1)], [(0.0, 0.0), (0.5, -0.5), (0.5, -0.5)])
    assert not np.array([[rows[k] for k in (0, 1, -1)] for rows in (via.velocities, via.accelerations)]).any()
    assert verdict["seconds"] == via.times[-1] == 3.0 + via.times[1]
    assert_limits_held(verdict)


def test_a_joint_that_starts_at_its_limit_is_refused_without_a_start_and_moves_with_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = f"hil excite {BENCH} --param servos=stiff --seconds 3 --harmonics 3 --iterations 10 -o via.csv"
    assert run(small.split()) == 2
    assert "joint 'lift' starts at 0; the start must be between its limits" in capsys.readouterr().err
    assert_limits_held(excited(f"{small} --start lift=0.85", capsys))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nosuch -o via.csv", "no robot 'nosuch'; its robots are "),
        ("acromonk -o via.csv", "robot 'acromonk': no actuator drives joint 'shoulder'"),
        ("rotary_pendulum -o via.csv", "actuator 'arm' has no effort limit"),
        ("gibbon -o via.csv", "robot 'gibbon' has no excitation: it has beams"),
        ("andrews_squeezer -o via.csv", "robot 'andrews_squeezer' has no excitation: "),
        ("arm_2dof --joint elbow -o via.csv", "robot 'arm_2dof' has no joint 'elbow'; its joints are joint_2, joint_4"),
        ("arm_2dof --start joint_4=5 -o via.csv", "joint 'joint_4' starts at 5; the start must be between its limits"),
        ("arm_2dof --start elbow=5 -o via.csv", "joint 'elbow' of --start is none of the joints that move"),
        (f"{BENCH} -o via.csv", "the actuator of joint 'turn' has no servo"),
        ("arm_2dof --compare hil_robot -o via.csv", "the robot of launch 'hil_robot' is 'arm_4dof'"),
        ("arm_2dof --seconds 0.1 -o via.csv", "--seconds 0.1: the duration must be in 1 .. 600 s"),
        ("arm_2dof --seconds nan -o via.csv", "--seconds nan: the duration must be in 1 .. 600 s"),
        ("arm_2dof -o via.toml", "--output 'via.toml': the ending must be .csv"),
        ("arm_2dof -o no/via.csv", "there is no folder "),
        ("arm_2dof --effort-percent 10 -o via.csv --param file=x.toml", "x.toml"),
    ],
)
def test_bad_input_is_one_line(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hil", "excite", *line.split()]) == 2
    (found,) = capsys.readouterr().err.strip().splitlines()
    assert message in found
    assert not list(Path().glob("*.csv"))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_excitation_of_four_joints_narrows_the_intervals_of_a_fit(capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.process_time()
    verdict = excited("hil excite arm_4dof --seconds 10 --compare hil_robot -o via.csv", capsys)
    assert time.process_time() - begin < 60.0
    assert_limits_held(verdict)
    assert 8.0 * verdict["condition"]["after"] <= verdict["condition"]["compared"]
    joints = [joint["name"] for joint in verdict["joints"]]
    speeds = np.abs(trajectory_of(load_plan("hil_robot"), "arm_4dof", joints)[1]).max(axis=0)
    assert (np.array([joint["reference_velocity"] for joint in verdict["joints"]]) <= 1.001 * speeds).all()

    widths = []
    for motion in ([], ["via=via.csv", "--duration", "10.5"]):
        assert run(["launch", "hil_robot", *motion, "--set", "hardware.mass.link_10=0.2"]) == 1  # beyond its limits
        capsys.readouterr()
        fitted = excited("hil fit hil_robot.mcap", capsys)
        (found,) = (each for each in fitted["parameters"] if each["name"] == "link_10/hz")
        widths.append(found["high"] - found["low"])
    assert widths[1] < 0.5 * widths[0]

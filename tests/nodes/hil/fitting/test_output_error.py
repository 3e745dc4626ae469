"""`armswing hil fit` by output error: planted errors of the emulated robot, and recordings without commands."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.writer import RecordingWriter
from nodes.framework.simulation.compose import compose
from nodes.hil.fitting.output_error import add_output_error
from nodes.hil.fitting.reading import read_fit_case
from tests.nodes.hil.fitting.output_error_results import verdict

PLAN = Path(__file__).resolve().parents[4] / "launch/hil_robot.toml"
PLANTED = {
    "encoder_zero.joint_2": 0.02,
    "gain.joint_3": -0.1,
    "command_delay_ms": 8.0,
    "friction.joint_2": 1.0,
}
EXPECTED = {"joint_2/zero": 0.02, "joint_3/gain": -0.1, "joint_2/viscous": 1.0}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ARMSWING_DOMAIN", raising=False)
    monkeypatch.chdir(tmp_path)


def recording(modes: tuple[str, ...] = ()) -> None:
    """Measured states of the arm, with a command of each of `modes` in turn."""
    random, time = np.random.default_rng(1), np.arange(0.0, 6.0, 0.01)
    names = [f"joint_{k}" for k in range(1, 5)]
    w = random.uniform(1.0, 5.0, 4)
    q, v = 0.4 * np.sin(np.outer(time, w)), 0.4 * w * np.cos(np.outer(time, w))
    plan = {"sim": {"robot": "arm_4dof", "parameters": {}}, "nodes": []}
    about = {"robot": "arm_4dof", "plan": msgspec.json.encode(plan).decode()}
    with RecordingWriter(Path("measured.mcap"), about) as writer:
        for seq, t in enumerate(time.tolist()):
            state = RobotState(timestamp=t, seq=seq + 1, name=names, position=q[seq].tolist(), velocity=v[seq].tolist())
            state.effort = (5.0 * q[seq] + v[seq]).tolist()
            writer.write("arm_4dof/measured_state", state, t)
            if modes:
                mode = modes[seq * len(modes) // len(time)]
                command = JointCommand(timestamp=t, seq=seq + 1, mode=mode, name=names, value=q[seq].tolist())
                writer.write("arm_4dof/applied_command", command, t)


@pytest.mark.soak
def test_planted_errors_of_the_emulated_robot_are_found_inside_their_intervals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = [f"hardware.{key}={value}" for key, value in PLANTED.items()]
    with compose(load_plan(PLAN, ["seed=3", "recorder.file=run.mcap", *settings])) as launch:
        launch.run()
    assert run(["hil", "fit", "run.mcap", "--params", "friction,zero,gain,delay"]) in (0, 1, 3)
    printed = capsys.readouterr().out
    found = json.loads(Path("run_fit/verdict.json").read_text())["output_error"]
    estimates = {each["name"]: each for each in found["actuation"] + found["friction"]}
    expected = EXPECTED | {f"joint_{k}/delay": 1e-3 * PLANTED["command_delay_ms"] for k in range(1, 5)}
    for name, value in expected.items():
        assert estimates[name]["low"] <= value <= estimates[name]["high"], name
        assert estimates[name]["is_found"], name
        assert f"by output error: {name} is" in printed
    assert found["outcome"] == "better"
    assert all(joint["after"] < 0.2 * joint["before"] for joint in found["joints"])
    page = Path("run_fit/index.html").read_text()
    assert "Actuation by output error" in page
    assert all(name in page for name in expected)


@pytest.mark.soak
def test_a_written_gain_leaves_nothing_to_the_second_report() -> None:
    with compose(load_plan(PLAN, ["seed=3", "recorder.file=run.mcap", "hardware.gain.joint_3=-0.1"])) as launch:
        launch.run()
    assert run(["hil", "fit", "run.mcap", "--params", "friction,zero,gain,delay", "--write", "corrected.toml"]) == 0
    assert json.loads(Path("run_fit/report/verdict.json").read_text())["outcome"] == "passed"
    page = Path("run_fit/index.html").read_text()
    assert "<strong>joint_3/gain</strong>" in page


def test_without_commands_what_only_output_error_sees_is_refused_by_name() -> None:
    recording()
    found = verdict()
    assert add_output_error(found, read_fit_case([Path("measured.mcap")]), None, ["backlash"], False, 0.3) is None
    assert found.output_error is None
    assert found.notes == ["no output error: measured.mcap has no commands on 'arm_4dof/applied_command'"]
    assert [each.what for each in found.refusals] == ["backlash"]


@pytest.mark.parametrize(
    ("modes", "options", "line"),
    [
        ((), ["--method", "output-error"], "output error is not possible: measured.mcap has no commands"),
        (("position", "effort"), ["--method", "output-error"], "output error needs one mode"),
        ((), ["--params", "friction,backlash", "--method", "inverse"], "only output error sees it"),
        ((), ["--params", "inertia,friction,backlash"], "backlash cannot be told from inertia"),
        ((), ["--method", "shooting"], "no such method; choose of auto, inverse, output-error"),
    ],
)
def test_a_method_that_is_not_possible_ends_with_one_line(
    modes: tuple[str, ...], options: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording(modes)
    assert run(["hil", "fit", "measured.mcap", *options]) == 2
    assert line in capsys.readouterr().err.replace("\n", " ")

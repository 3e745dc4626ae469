"""First steps at the command line: is this computer fit, and a first controller of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.cli.commands.setup import doctor
from nodes.framework.messages import JointCommand
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose
from robots.registry import build, names


@pytest.fixture(autouse=True)
def own_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("ARMSWING_DOMAIN", raising=False)
    monkeypatch.chdir(tmp_path)


def test_doctor_reports_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json", "--seconds", "0.2"]) == 0
    findings = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["python"]["level"] == "ok"
    assert findings["libraries"]["level"] == "ok"
    assert {"cores", "kernel", "wake-up", "priority", "sockets"} <= findings.keys()
    assert findings["wake-up"]["figures"]["late_max_s"] > 0.0
    assert run(["doctor", "--seconds", "0"]) == 2
    assert capsys.readouterr().err.strip() == "armswing: --seconds 0: expected a number in 0.1 .. 3600"


def test_doctor_compares_the_time_of_a_predictive_controller_with_that_in_lockstep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CALLS", 5)
    run(["doctor", "launch/rotary_pendulum_nmpc.toml", "--json", "--seconds", "0.1"])
    (found,) = [one for one in json.loads(capsys.readouterr().out) if one["subject"] == "plan time"]
    figures = found["figures"]
    assert 0.0 < figures["p50_ms"] <= figures["p99_ms"]
    assert (found["level"] == "ok") == (figures["p99_ms"] <= figures["solve_ms"] == 2.0)


def test_doctor_refuses_a_launch_file_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "no_such_launch", "--seconds", "0.1"]) == 2
    assert "no_such_launch" in capsys.readouterr().err


def test_doctor_looks_at_the_folder_of_the_domain_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for domain, wanted in (("46", f"{tmp_path}/armswing/46"), ("x", "ARMSWING_DOMAIN='x' is not a whole number")):
        monkeypatch.setenv("ARMSWING_DOMAIN", domain)
        (found,) = doctor._folder()
        assert wanted in found.text
    assert found.level == "fault"


def test_doctor_does_not_say_that_qt_is_there_without_the_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "QT_LIBRARIES", {})
    told = {}
    for libraries in ((), ("no_such_library",)):
        monkeypatch.setattr(doctor, "VIEWER_LIBRARIES", libraries)
        (told[libraries],) = (finding.text for finding in doctor._qt())
    assert list(told.values()) == ["all there", "those of the system are there; Qt itself comes with the viewer"]


DRIVEN = [name for name in names() if any(actuator.joint for actuator in build(name).actuators)]


@pytest.mark.parametrize("robot", DRIVEN)
def test_a_new_controller_of_a_robot_drives_its_first_joint_and_holds_the_others(robot: str, tmp_path: Path) -> None:
    assert run(["new", "controller", f"first_{robot}", "--robot", robot]) == 0
    plan = load_plan(tmp_path / f"first_{robot}.toml")
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    mechanism = build(robot)
    first = mechanism.actuators[0]
    commanded: dict[str, float] = {}

    def hear(topic: str, payload: bytes) -> None:
        if topic == f"{robot}/command":
            command = decode(topic, payload)
            assert isinstance(command, JointCommand)
            commanded.update(zip(command.name, command.value, strict=True))

    with compose(plan, hear) as composed:
        composed.step(20)
    assert set(commanded) == {first.name} | {each.name for each in mechanism.actuators if each.servo}
    text = (tmp_path / f"first_{robot}.py").read_text()
    assert f'joint: str = "{first.joint}"' in text
    assert ("rest" in [node.name for node in plan.nodes]) == any(each.servo for each in mechanism.actuators)


def test_a_new_controller_of_a_robot_that_cannot_be_driven_is_refused_with_those_that_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for robot, says in (
        ("triple_pendulum", f"choose one of the robots {', '.join(DRIVEN)}\n"),
        ("arm_4df", "'arm_4dof'?"),
    ):
        assert run(["new", "controller", "mine", "--robot", robot]) == 2
        assert says in capsys.readouterr().err
    assert not list(tmp_path.glob("mine*"))


def test_a_new_controller_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", "controller", "my_damper"]) == 0
    assert "class MyDamper(Node)" in (tmp_path / "my_damper.py").read_text()
    assert 'params = { file = "my_damper.mcap" }' in (tmp_path / "my_damper.toml").read_text()
    assert "armswing view my_damper.mcap" in capsys.readouterr().out
    assert run(["new", "controller", "my_damper"]) == 2
    assert "exists; choose another name" in capsys.readouterr().err

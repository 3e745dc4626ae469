"""Limits and margins from the worst case of a model, `armswing robot guard`, and the check of a launch's guard."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import nodes.framework.plan.node_checks
from nodes.cli.application import run
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.guard.command_guard import CommandGuard
from nodes.guard.limits import GuardParams
from nodes.guard.worst_case import HOLD, MASS, SURE, shortfalls, table_of, worst_case
from robots.registry import build
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Servo

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "launch/examples/bench_arm.urdf"
M, L, G = 2.0, 0.5, 9.81


def pendulum(effort: float = 40.0, axis: tuple[float, float, float] = (0.0, 1.0, 0.0)) -> Mechanism:
    """A point mass M at the distance L from a joint."""
    return Mechanism(
        name="pendulum",
        coordinates="joint",
        bodies=(Body(name="rod", mass=M, inertia=(1e-9, 1e-9, 1e-9, 0.0, 0.0, 0.0), center_of_mass=(L, 0.0, 0.0)),),
        joints=(Joint(name="hinge", kind="revolute", parent="ground", child="rod", axis=axis, lower=-2.0, upper=2.0),),
        actuators=(
            Actuator(
                name="motor",
                joint="hinge",
                effort_limit=effort,
                velocity_limit=1.0,
                servo=Servo(stiffness=5e3, damping=1e2),
            ),
        ),
        gravity=(0.0, 0.0, -G),
        initial_q=(0.0,),
        initial_v=(0.0,),
    )


def test_the_worst_case_of_a_pendulum_is_that_of_its_closed_form() -> None:
    delay, inertia = 0.02, M * L**2
    worst = worst_case(pendulum(), delay, {"hinge": 10.0})
    weight = (1.0 + MASS) * M * G * L
    push = SURE * (G / L + 10.0 / ((1.0 - MASS) * inertia))
    assert worst.holding == pytest.approx([weight], rel=1e-6)
    assert worst.fall == pytest.approx([SURE * G / L], rel=1e-6)
    assert worst.free_acceleration == pytest.approx([push], rel=1e-6)
    assert worst.deceleration == pytest.approx([5.0], rel=1e-6)  # from 1 rad/s in 0.2 s
    assert worst.swing == pytest.approx([SURE * (2.0 * 1.2 * inertia * 5.0 + weight) / 5e3], rel=1e-6)
    tau = math.sqrt(1.2 * inertia / 5e3)
    assert worst.velocity_margin == pytest.approx([push * delay + 0.5 * SURE * G / L * tau + 0.3], rel=1e-6)


def test_a_joint_that_gravity_does_not_load_falls_at_no_acceleration() -> None:
    worst = worst_case(pendulum(axis=(0.0, 0.0, 1.0)), 0.02)
    assert worst.fall == pytest.approx([0.0], abs=1e-6)
    assert worst.velocity_margin == pytest.approx([0.3])


def test_an_arm_whose_efforts_do_not_hold_its_weight_is_named_with_the_numbers() -> None:
    enough = HOLD * (1.0 + MASS) * M * G * L
    assert not worst_case(pendulum(1.001 * enough), 0.01).weak
    (line,) = worst_case(pendulum(0.999 * enough), 0.01).weak
    assert line == (
        "joint 'hinge' needs 11.77 N m against gravity with 20 % more mass, and 1.5 times that is 17.66 N m, but "
        "actuator 'motor' gives 17.64"
    )


def test_a_table_keeps_its_own_worst_case_and_a_smaller_one_does_not() -> None:
    mechanism = build("arm_4dof")
    table = {"joints": table_of(worst_case(mechanism, 5e-3)), "delay_ms": 5.0}
    assert not list(shortfalls(msgspec.convert(table, GuardParams), mechanism))
    table["joints"]["joint_2"]["velocity_margin"] = 0.1
    table["joints"]["joint_4"] |= {"deceleration": 500.0}
    lines = list(shortfalls(msgspec.convert(table, GuardParams), mechanism))
    assert any(line.startswith("joints.joint_2.velocity_margin is 0.1, and the worst case needs ") for line in lines)
    assert any(line.startswith("the velocities and decelerations can need the effort ") for line in lines)
    table["joints"]["joint_4"]["modes"] = ["effort"]
    lines = list(shortfalls(msgspec.convert(table, GuardParams), mechanism))
    assert any(line.startswith("joints.joint_4.free_acceleration is ") for line in lines)


def test_a_mode_that_the_table_does_not_permit_is_not_passed_on() -> None:
    limits = {"joints": {"a": {"upper": 1.0, "modes": ["velocity", "position"]}, "b": {"upper": 1.0}}}
    guard = CommandGuard(msgspec.convert(limits, GuardParams))
    guard.add_state(0.0, ["a", "b"], [0.0, 0.0], [0.0, 0.0])
    assert guard.process_command(0.0, "effort", ["b", "a"], [1.0, 1.0], 0.0) == []
    (refused,) = guard.interventions
    assert (refused.kind, refused.cause) == ("guard_rejected", "modes")
    assert guard.process_command(0.0, "effort", ["b"], [1.0], 0.0)
    assert guard.process_command(0.0, "position", ["a"], [0.1], 0.0)


LAUNCH = """
[sim]
robot = "{robot}"
mode = "lockstep"
{parameters}
[[nodes]]
name = "guard"
run = "{root}/nodes/guard/node.py:Guard"
"""
STIFF = 'parameters = { servos = "stiff" }\n'


def loaded(tmp_path: Path, table: str, robot: str = str(BENCH), parameters: str = STIFF) -> list[str]:
    """Warnings of a launch file with a guard."""
    file, warnings = tmp_path / "guarded.toml", list[str]()
    file.write_text(LAUNCH.format(robot=robot, parameters=parameters, root=ROOT) + table)
    load_plan(file, warnings=warnings)
    return [line for line in warnings if line.startswith("the guard")] + [
        line for line in warnings if "margins" in line
    ]


@pytest.mark.parametrize("robot", ["arm_2dof", str(BENCH)])
def test_the_printed_table_is_pasted_into_a_launch_file_and_passes_its_check(
    robot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["robot", "guard", robot, "--delay-ms", "20"]) == 0
    text = capsys.readouterr().out
    params = tomllib.loads(text)["nodes"]["params"]
    assert params["delay_ms"] == 20
    assert loaded(tmp_path, text, robot, STIFF if robot.endswith("urdf") else "") == []
    assert run(["robot", "guard", robot, "--delay-ms", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == params
    assert run(["robot", "guard", robot, "--delay-ms", "20", "--driver"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["nodes"]["guard"] == params


def test_limits_beyond_those_of_the_joint_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "guard", str(BENCH)]) == 0
    text = capsys.readouterr().out
    upper = tomllib.loads(text)["nodes"]["params"]["joints"]["lift"]["upper"]
    (line,) = loaded(tmp_path, text.replace(f"upper = {upper}", "upper = 12.3", 1))
    assert "joints.lift.upper is 12.3, beyond the joint's own limit" in line


def test_the_table_of_an_arm_that_is_too_weak_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    weak = tmp_path / "weak.urdf"
    weak.write_text(BENCH.read_text().replace('effort="30"', 'effort="15"'))
    assert run(["robot", "guard", str(weak)]) == 2
    assert "joint 'lift' needs 11.6 N m against gravity" in capsys.readouterr().err
    with pytest.raises(PlanError, match=r"joint 'lift' needs 11.6 N m .* but actuator 'lift' gives 15"):
        loaded(tmp_path, "[nodes.params.joints.lift]\nlower = -0.3\n", str(weak))


def test_efforts_that_the_delay_makes_unsafe_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "guard", "arm_2dof", "--delay-ms", "20", "--effort-percent", "100"]) == 2
    assert "within 20 ms, more than its velocity limit 2.14; give smaller efforts" in capsys.readouterr().err
    assert run(["robot", "guard", "arm_2dof", "--delay-ms", "2", "--effort-percent", "15", "--json"]) == 0
    joints = json.loads(capsys.readouterr().out)["joints"]
    assert joints["joint_2"]["effort"] == pytest.approx(7.5)
    assert joints["joint_2"]["free_acceleration"] > 100.0


def test_a_launch_names_the_margins_that_the_model_does_not_keep(tmp_path: Path) -> None:
    (line, *_) = loaded(tmp_path, "[nodes.params.joints.lift]\nupper = 1.5\nvelocity = 2.0\n")
    assert line.startswith("the guard 'guard': ")
    assert "joints.lift.margin is 0.02, and the worst case needs " in line
    assert "joints.lift.velocity_margin is 0.4, and the worst case needs " in line
    assert line.endswith(f"see armswing robot guard {BENCH} --delay-ms 5")
    assert loaded(tmp_path, "[nodes.params.joints.lift]\neffort = 10.0\n") == []  # it limits no motion


def test_a_guard_of_a_simulated_arm_without_servos_is_refused_with_the_remedy(tmp_path: Path) -> None:
    table = "[nodes.params.joints.lift]\nupper = 1.5\n"
    with pytest.raises(PlanError, match=r'a stop cannot brake joint \'lift\': .* parameters = { servos = "stiff" }'):
        loaded(tmp_path, table, parameters="")
    assert loaded(tmp_path, table + "servo = false\n", parameters="")


def test_without_the_packages_of_a_simulation_one_notice_tells_that_margins_are_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes.framework.plan.node_checks, "can_simulate", lambda: False)
    lines = loaded(tmp_path, "[nodes.params.joints.lift]\nupper = 1.5\n")
    assert set(lines) == {"the margins of the guard 'guard' are not checked: this needs pip install 'armswing[sim]'"}


def test_servos_sized_for_the_masses_hold_an_imported_arm_still(tmp_path: Path) -> None:
    from sim_core.servos.loops import Servos
    from sim_core.simulation import Simulation
    from sim_core.system import assemble

    arm = build(str(BENCH), servos="stiff")
    assert [actuator.modes for actuator in build(str(BENCH)).actuators] == [("effort",)] * 3
    sim, servos = Simulation(assemble(arm), step_s=1e-3), Servos(arm, 1e-3)
    names = [actuator.name for actuator in arm.actuators]
    sim.reset([0.0, 0.5, -1.0])
    servos.command("velocity", names, [0.0] * 3, sim.joints()[0])
    for _ in range(1000):
        sim.set_effort(servos.efforts(*sim.joints()[:2]))
        sim.step()
    assert np.abs(sim.joints()[0] - [0.0, 0.5, -1.0]).max() < 0.08  # the weight of 11.6 N m over the stiffness
    assert [round(a.servo.stiffness, 1) for a in arm.actuators if a.servo] == [100.0, 150.0, 56.2]  # half the effort
    assert np.abs(sim.joints()[1]).max() < 0.01


def test_robot_guard_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "guard", "--help"]) == 0
    assert "armswing robot guard arm_2dof --delay-ms 10" in capsys.readouterr().out


def test_a_robot_with_loops_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "guard", "four_bar_chain"]) == 2
    assert "the worst case of robot " in capsys.readouterr().err


def test_the_shipped_guard_passes_its_own_check() -> None:
    warnings: list[Any] = []
    load_plan(ROOT / "launch/examples/guarded_arm.toml", warnings=warnings)
    assert warnings == []

"""Servos and friction of an output-error fit in the corrected robot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.emulation.plant import Plant, PlantPerturbation
from nodes.hil.fitting.output_error_corrections import with_output_error
from nodes.hil.fitting.reading import gains_of
from robots.corrections import BodyCorrection, Corrections, JointCorrection, corrections_text, with_corrections
from robots.registry import build
from sim_core.mechanism import Actuator, Mechanism, Servo
from tests.nodes.hil.fitting.output_error_results import estimate, result


def mechanism() -> Mechanism:
    """A robot with two actuators, of which the first has a servo."""
    motor = Actuator(name="motor", joint="a", effort_limit=10.0, servo=Servo(stiffness=100.0, damping=5.0))
    return dataclasses.replace(build("arm_4dof"), actuators=(motor, Actuator(name="b", joint="b")))


def test_gain_and_stiffness_become_a_servo_and_friction_that_of_the_joint() -> None:
    found = result(
        estimate("a/gain", -0.1),
        estimate("a/stiffness", 0.2),
        estimate("b/gain", 0.3),
        estimate("a/zero", 0.02),
        estimate("a/viscous", 1.5),
        estimate("a/coulomb", 0.4),
        estimate("a/offset", 0.3),
    )
    before = Corrections(joints={"a": JointCorrection(damping=0.1, coulomb=0.1, static=0.3, armature=0.2)})
    corrections, notes = with_output_error(before, found, mechanism())
    servo = corrections.actuators["motor"]
    assert (servo.stiffness, servo.damping, servo.effort_limit, servo.gain) == pytest.approx((108.0, 4.5, 9.0, 0.9))
    assert list(corrections.actuators) == ["motor"]
    joint = corrections.joints["a"]
    assert (joint.damping, joint.coulomb, joint.load, joint.armature, joint.static) == (1.5, 0.4, -0.3, 0.2, None)
    assert joint.smoothing_velocity == 0.05
    assert notes == ["not written, a robot file has no place for it: b/gain, a/zero"]


def test_friction_stays_with_the_inertias_that_were_corrected_with_it() -> None:
    heavy = BodyCorrection(mass=1.0, center_of_mass=(0.0, 0.0, 0.0), inertia=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0))
    before = Corrections(bodies={"one": heavy}, joints={"a": JointCorrection(damping=0.1)})
    corrections, notes = with_output_error(before, result(estimate("a/viscous", 1.5)), mechanism())
    assert corrections == before
    assert "friction by output error is not written" in notes[0]


@pytest.mark.parametrize("outcome", ["not better", "not certain"])
def test_nothing_is_written_of_a_fit_that_is_not_surely_better(outcome: str) -> None:
    found = result(estimate("a/gain", -0.1), estimate("a/viscous", 1.5), outcome=outcome)
    assert with_output_error(Corrections(), found, mechanism()) == (Corrections(), [])


def test_the_corrected_servo_is_that_of_the_built_robot() -> None:
    robot = build("arm_4dof")
    motor = robot.actuators[0]
    found = result(estimate("a/gain", -0.1))
    renamed = Corrections(
        actuators={motor.name: with_output_error(Corrections(), found, mechanism())[0].actuators["motor"]}
    )
    assert with_corrections(robot, renamed).actuators[0].servo == Servo(stiffness=90.0, damping=4.5)


def test_a_robot_with_a_written_gain_shows_the_efforts_of_its_sensors_and_explains_them(tmp_path: Path) -> None:
    robot = build("arm_4dof")
    motor = robot.actuators[0]
    assert motor.servo is not None
    found = result(estimate("a/gain", -0.1))
    renamed = dataclasses.replace(motor, joint="a")
    written, _ = with_output_error(Corrections(), found, dataclasses.replace(robot, actuators=(renamed,)))
    file = tmp_path / "corrected.toml"
    file.write_text(corrections_text(written, "a test"))
    corrected = build("arm_4dof", corrections=str(file))
    assert corrected.gains([motor.joint, robot.actuators[1].joint]) == [0.9, 1.0]
    shown = []
    for given in ({}, {"corrections": str(file)}):
        plant = Plant(SimPlan(robot="arm_4dof", parameters=given), PlantPerturbation())
        plant.command("position", [motor.name], [0.1])
        plant.step()
        shown.append(plant.effort[0])
    assert shown[1] == pytest.approx(shown[0], rel=1e-9)  # the servo's efforts; those at the joint are a tenth less
    columns = {"measured_state": 0.9, "state": 1.0}
    assert {leaf: gains_of(corrected, [motor.joint], f"arm/{leaf}")[0] for leaf in columns} == columns

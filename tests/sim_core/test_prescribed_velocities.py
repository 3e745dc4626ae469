"""Velocities that inputs prescribe: reached at once with every stepper and stabilizer, by an impulse that does work."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import casadi as ca
import numpy as np
import pytest

from sim_core.errors import ConstraintGapWarning, InvalidMechanism, InvalidRequest, StartWarning
from sim_core.integrators.steppers import STEPPERS
from sim_core.mechanism import (
    Actuator,
    Body,
    ConstraintMode,
    Crossing,
    Joint,
    JointRelation,
    Mechanism,
    PrescribedMotion,
    Tunable,
    X,
)
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.stabilization.registry import stabilizer_named, stabilizers_by_name
from sim_core.stabilization.stabilizers import Stabilizer
from sim_core.system import System, assemble

CART, BOB, INERTIA, ARM = 2.0, 0.5, 0.02, 0.4
OPTIONS: dict[str, dict[str, float]] = {"man_case_2": {"phi": 0.01, "phidot": 0.1, "speed": 1.0}}


def slider(**parts: Any) -> Mechanism:
    """A cart that a motor moves along X at the commanded velocity, against gravity."""
    usual = {
        "coordinates": "joint",
        "bodies": (Body(name="cart", mass=CART, inertia=(0.1, 0.1, 0.1, 0, 0, 0)),),
        "joints": (Joint(name="x", kind="prismatic", axis=X, child="cart"),),
        "actuators": (Actuator(name="speed", unit="m/s"),),
        "constraints": (PrescribedMotion(name="motor", joint="x", input="speed"),),
        "gravity": (-3.0, -9.81, 0.0),
        "initial_q": (0.0,),
        "initial_v": (0.0,),
    }
    return Mechanism(name="slider", **(usual | parts))


def crane(angle: float, coordinates: Any = "joint") -> Mechanism:
    """The same cart with a bob that hangs from it at a distance, at the start at an angle, rad, from the vertical."""
    bob = Body(name="bob", mass=BOB, inertia=(0.02, 0.02, INERTIA, 0, 0, 0))
    place = ARM * np.sin(angle), -ARM * np.cos(angle)
    absolute = coordinates == "absolute"
    return slider(
        coordinates=coordinates,
        bodies=(*slider().bodies, bob),
        joints=(*slider().joints, Joint(name="pin", parent="cart", child="bob", child_point=(0.0, ARM, 0.0))),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.0, 0.0, 0.0, *place, angle) if absolute else (0.0, angle),
        initial_v=(0.0,) * (6 if absolute else 2),
    )


def every_stabilizer() -> list[Stabilizer]:
    return [stabilizer_named(name, **OPTIONS.get(name, {})) for name in stabilizers_by_name()]


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(slider())


@pytest.mark.parametrize("step_s", [1e-3, 1e-2])
@pytest.mark.parametrize("stepper", STEPPERS)
def test_a_commanded_velocity_is_reached_at_once_with_every_stabilizer(
    stepper: str, step_s: float, system: System
) -> None:
    commands = [1.0, 1.0, 0.0, 0.0, *np.random.default_rng(5).normal(size=6)]
    for stabilizer in every_stabilizer():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of gains and steps that do not fit
            sim = Simulation(system, step_s=step_s, stepper=stepper, stabilizer=stabilizer)
        begun, position = sim.energy(), 0.0
        for command in commands:
            sim.set_effort([command])
            sim.step()
            position += step_s * command
            assert sim.velocities[0] == pytest.approx(command, abs=1e-9), stabilizer
            assert sim.coordinates[0] == pytest.approx(position, abs=1e-9), stabilizer
            assert sim.energy_ledger.departure == pytest.approx(0.0, abs=1e-9), stabilizer
            assert sim.energy_ledger.work == pytest.approx(sim.energy() - begun, abs=1e-9), stabilizer


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_the_impulse_moves_a_load_as_newton_says(angle: float) -> None:
    """The impulse acts on the bob at the pin, about which its angular momentum does not change."""
    sim = Simulation(assemble(crane(angle)), step_s=1e-3, stabilizer="none")
    for command in (1.5, -0.5, 0.25):
        sim.reset()
        sim.set_effort([command])
        rate = -command * BOB * ARM * np.cos(angle) / (INERTIA + BOB * ARM**2)
        np.testing.assert_allclose(sim.velocities, [command, rate], atol=1e-12)
        of_bob = (command + ARM * rate * np.cos(angle)) ** 2 + (ARM * rate * np.sin(angle)) ** 2
        kinetic = 0.5 * (CART * command**2 + BOB * of_bob + INERTIA * rate**2)
        assert sim.energy_ledger.work == pytest.approx(kinetic, rel=1e-12)
        assert sim.energy_ledger.departure == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
@pytest.mark.parametrize("stabilizer", ["none", "sampled_fuzzy", "projection", "baumgarte"])
def test_a_load_moves_the_same_with_every_stabilizer(stabilizer: str, coordinates: str) -> None:
    exact = Simulation(assemble(crane(0.3)), step_s=1e-3, stepper="dopri5", stabilizer="none")
    sim = Simulation(assemble(crane(0.3, coordinates)), step_s=1e-3, stabilizer=stabilizer)
    for tick in range(300):
        for each in (exact, sim):
            each.set_effort([np.sin(0.02 * tick) + (-1) ** (tick // 50)])
            each.step()
    for ours, due in zip(sim.joints()[:2], exact.joints()[:2], strict=True):
        np.testing.assert_allclose(ours, due, atol=1e-6)
    assert sim.energy_ledger.departure == pytest.approx(0.0, abs=1e-5)  # the stabilizer's
    assert sim.take_notices() == []


def test_two_commands_at_one_tick_are_the_last_one() -> None:
    system = assemble(crane(0.3))
    sims = [Simulation(system, step_s=1e-3) for _ in range(2)]
    sims[0].set_effort([7.0])
    for sim in sims:
        sim.set_effort([0.5])
    np.testing.assert_allclose(sims[0].velocities, sims[1].velocities, atol=1e-12)
    assert sims[0].energy_ledger.work == pytest.approx(sims[1].energy_ledger.work, abs=1e-12)


@pytest.mark.parametrize("stepper", [name for name in STEPPERS if name != "adams_variable"])
def test_a_snapshot_between_command_and_step_goes_on_with_the_same_bytes(stepper: str) -> None:
    system = assemble(crane(0.3))
    sim, other = (Simulation(system, step_s=1e-3, stepper=stepper) for _ in range(2))
    sim.set_effort([1.0])
    sim.step(5)
    sim.set_effort([-2.0])
    other.restore(sim.snapshot())
    for each in (sim, other):
        each.step(7)
    assert sim.snapshot().to_plain() == other.snapshot().to_plain()


def test_a_command_that_other_constraints_contradict_is_named() -> None:
    speeds = tuple(Actuator(name=name, unit="m/s") for name in ("speed", "other"))
    motors = tuple(PrescribedMotion(name=f"motor_{each.name}", joint="x", input=each.name) for each in speeds)
    sim = Simulation(assemble(slider(actuators=speeds, constraints=motors)), step_s=1e-3)
    with pytest.warns(ConstraintGapWarning, match="do not permit the commanded velocity of 'motor_speed', missed by"):
        sim.set_effort([1.0, 0.0])
    assert [notice.kind for notice in sim.take_notices()] == ["constraint_gap"]
    sim.set_effort([2.0, 0.0])
    assert sim.take_notices() == []  # named once per run


def test_the_start_has_the_velocity_of_the_first_command() -> None:
    begun = (Actuator(name="speed", start=0.5, unit="m/s"),)
    with pytest.raises(InvalidMechanism, match=r"violates 'motor' by 0\.5"):
        Simulation(assemble(slider(actuators=begun)), step_s=1e-3)
    sim = Simulation(assemble(slider(actuators=begun)), step_s=1e-3, assemble_start=True, stabilizer="none")
    assert sim.velocities[0] == pytest.approx(0.5, abs=1e-12)
    right = Simulation(assemble(slider(actuators=begun, initial_v=(0.5,))), step_s=1e-3, stabilizer="none")
    right.step(10)
    assert right.velocities[0] == pytest.approx(0.5, abs=1e-12)


def test_a_batch_refuses_an_input_that_prescribes_a_velocity(system: System) -> None:
    with pytest.raises(InvalidRequest, match="an input prescribes the velocity of 'motor' of 'slider'"):
        system.batch(2).rollout([[0.0]], [[0.0]], [[1.0]], step_s=1e-3, steps=10)


def test_a_guard_without_impact_that_stops_a_moving_body_is_named() -> None:
    stop = PrescribedMotion(name="stop", joint="x", input="speed")
    wall = Crossing(name="wall", body="cart", axis=X, level=-0.01, engages=("stop",), impact="none")
    falling = slider(
        constraints=(stop,), guards=(wall,), constraint_modes=(ConstraintMode(name="free", constraints=()),)
    )
    for impact, warned in (("none", True), ("inelastic", False)):
        guards = (dataclasses.replace(wall, impact=impact),)
        sim = Simulation(assemble(dataclasses.replace(falling, guards=guards)), step_s=1e-3, stabilizer="none")
        if warned:
            with pytest.warns(ConstraintGapWarning, match=r"switched on 'stop' violated by 0.2\d+ m/s .* 'inelastic'"):
                sim.advance(0.2)
        else:
            sim.advance(0.2)
            assert sim.velocities[0] == pytest.approx(0.0, abs=1e-12)
        assert [notice.kind for notice in sim.take_notices()] == ["constraint_gap"] * warned


def test_a_parameter_that_shifts_a_constraint_is_named_and_the_next_start_is_checked() -> None:
    relation = JointRelation(name="hold", terms=(("x", 1.0),), offset=Tunable("offset", 0.0))
    sim = Simulation(assemble(slider(constraints=(relation,), actuators=())), step_s=1e-3)
    with pytest.warns(ConstraintGapWarning, match="new parameters of 'slider' shift 'hold' by 0.01 m at t = 0 s"):
        sim.set_parameters({"offset": 0.01})
    assert [notice.kind for notice in sim.take_notices()] == ["constraint_gap"]
    with pytest.warns(StartWarning, match="violates 'hold' by 0.01"):
        sim.reset()
    with pytest.warns(ConstraintGapWarning):
        sim.set_parameters({"offset": 0.0})
    sim.reset()


def test_a_motion_over_time_keeps_its_work() -> None:
    drive = PrescribedMotion(name="motor", joint="x", motion=lambda t: 0.3 * (1 - ca.cos(4 * t)))
    sim = Simulation(assemble(slider(constraints=(drive,), actuators=())), step_s=1e-3)
    begun = sim.energy()
    sim.advance(0.5)
    assert sim.energy_ledger.work == pytest.approx(sim.energy() - begun, abs=1e-8)


@pytest.mark.parametrize("position", [None, np.zeros(1)])
def test_a_motor_with_a_commanded_velocity_stops_in_the_safe_state(position: Any) -> None:
    """Of an emergency stop or a watchdog: it would go on for ever otherwise, as its command is no effort."""
    mechanism = slider()
    servos = Servos(mechanism, 1e-3)
    servos.command("effort", ["speed"], [2.0], np.zeros(1))
    assert servos.efforts(np.zeros(1), np.zeros(1)).tolist() == [2.0]
    servos.rest(["speed"], position)
    assert servos.efforts(np.zeros(1), np.zeros(1)).tolist() == [0.0]

"""The energy ledger: closed forms of work and heat, what is booked, departures that are marked, states as before."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import casadi as ca
import numpy as np
import pytest

import robots
from sim_core.errors import SimulationDiverged, StepTooLargeWarning
from sim_core.integrators.steppers import STEPPERS
from sim_core.integrators.workspace import POWER
from sim_core.mechanism import ORIGIN, Actuator, Body, Joint, Mechanism, PrescribedMotion, Spring, Tunable, X, Y
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import DirectCorrection
from sim_core.state import State
from sim_core.system import assemble

EXACT = {1: 3e-3, 2: 1e-4, 4: 1e-5, 5: 1e-5}  # by a stepper's order, at 1 ms of a vibration of 5 rad/s


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def rail(stiffness: float = 50.0, damping: float = 0.0, friction: float = 0.0, load: float = 0.0) -> Mechanism:
    """A mass of 2 kg on a rail, with a spring and damper to the ground, brake, load and motor."""
    spring = Spring(
        name="spring",
        body_a="ground",
        point_a=(-1.0, 0.0, 0.0),
        body_b="mass",
        point_b=ORIGIN,
        stiffness=Tunable("stiffness", stiffness),
        rest_length=1.0,
        damping=damping,
    )
    return Mechanism(
        name="rail",
        coordinates="joint",
        bodies=(Body(name="mass", mass=2.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="rail", kind="prismatic", child="mass", axis=X, damping=friction, load=load),),
        springs=(spring,),
        actuators=(Actuator(name="motor", joint="rail", unit="N"),),
        initial_q=(0.3,),
        initial_v=(0.0,),
    )


@pytest.mark.parametrize("stepper", sorted(STEPPERS))
def test_the_heat_of_a_damper_and_a_brake_is_the_energy_that_is_gone(stepper: str) -> None:
    sim = Simulation(assemble(rail(damping=2.0, friction=1.0)), step_s=1e-3, stepper=stepper)
    sim.advance(20.0)
    tolerance = EXACT[STEPPERS[stepper].order]
    assert sim.energy_ledger.work == pytest.approx(-0.5 * 50.0 * 0.3**2, rel=tolerance)
    assert sim.energy_ledger.largest < 3 * tolerance
    assert sim.take_notices() == []


@pytest.mark.parametrize("stepper", sorted(STEPPERS))
def test_a_constant_effort_and_load_work_force_times_way(stepper: str) -> None:
    sim = Simulation(assemble(rail(load=1.5)), step_s=1e-3, stepper=stepper)
    sim.set_effort([2.0])
    sim.step(700)
    way = float(sim.state.q[0]) - 0.3
    order = STEPPERS[stepper].order  # of order 1, the way is that of the velocity at one end of each step
    assert sim.energy_ledger.work == pytest.approx(3.5 * way, rel=EXACT[1] if order == 1 else 1e-9)
    assert abs(sim.energy_ledger.departure) < 10 * EXACT[order]


def test_a_dropped_mass_does_no_work_and_departs_by_rounding() -> None:
    mechanism = dataclasses.replace(rail(), gravity=(-9.81, 0.0, 0.0), springs=(), actuators=())
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    assert sim._calls.table[POWER, 0] == 0
    sim.advance(2.0)
    assert sim.energy_ledger.work == 0.0
    assert abs(sim.energy_ledger.departure) < 1e-9


@pytest.mark.parametrize("name", sorted(set(robots.names()) - {"andrews_squeezer"}))
def test_every_robot_keeps_its_ledger_at_its_usual_step(name: str) -> None:
    mechanism = robots.build(name)
    sim = Simulation(assemble(mechanism), step_s=1e-3, stepper="implicit_midpoint" if mechanism.beams else "rk4")
    effort = np.random.default_rng(4).uniform(-1.0, 1.0, len(mechanism.actuators))
    driven = [
        0.0 if not a.joint or name == "gibbon" else 0.01 * e for a, e in zip(mechanism.actuators, effort, strict=True)
    ]
    for k in range(5):
        sim.set_effort([e * (-1.0) ** k for e in driven])
        sim.step(100)
    assert sim.energy_ledger.largest < 1e-4
    assert sim.take_notices() == []


@pytest.mark.parametrize(("stiffness", "steps"), [(1e7, 100), (2e5, 12000)])
def test_a_spring_too_stiff_for_the_step_marks_1_percent_and_each_doubling(stiffness: float, steps: int) -> None:
    sim = Simulation(assemble(rail(stiffness)), step_s=1.5e-3)
    try:
        sim.step(steps)
    except SimulationDiverged:
        pytest.fail("it should end in large numbers, not in none")
    notices = [notice for notice in sim.take_notices() if notice.kind == "energy_departure"]
    assert len(notices) >= (7 if stiffness < 1e6 else 1)
    assert [notice.time for notice in notices] == sorted(notice.time for notice in notices)
    assert all("the energy departed by" in notice.line and "spring 'spring'" in notice.line for notice in notices)
    assert sim.energy_ledger.departed


def test_a_stabilizer_that_takes_energy_is_marked() -> None:
    sim = Simulation(assemble(robots.build("triple_pendulum")), step_s=2e-2, stabilizer="sampled_fuzzy")
    sim.step(3000)
    kinds = {notice.kind for notice in sim.take_notices()}
    assert "energy_departure" in kinds


def held(motion: Callable[[Any], Any]) -> Simulation:
    """A pendulum in absolute coordinates whose hinge follows a motion; it starts level, at height 0."""
    made = Mechanism(
        name="held",
        coordinates="absolute",
        bodies=(Body(name="bar", mass=1.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="pin", child="bar", child_point=(-0.5, 0.0, 0.0)),),
        constraints=(PrescribedMotion(name="motion", joint="pin", motion=motion),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.5, 0.0, 0.0),
        initial_v=(0.0, 0.0, 0.0),
    )
    return Simulation(assemble(made))


def test_what_is_held_at_rest_departs_by_rounding_which_is_no_departure() -> None:
    sim = held(lambda t: 0.0 * t)
    sim.advance(2.0)
    assert sim.take_notices() == []


@pytest.mark.parametrize(("stepper", "largest"), [("rk4", 1e-3), ("radau5", 1e-3), ("semi_implicit", 1e-2)])  # order 1
def test_a_velocity_that_an_input_prescribes_does_the_work_of_a_motor(stepper: str, largest: float) -> None:
    """The force of the stabilizer, which makes the velocity follow each new command, is the motor's."""
    made = dataclasses.replace(
        held(lambda t: 0.0 * t).system.mechanism,
        name="driven",
        actuators=(Actuator(name="speed", unit="rad/s"),),
        constraints=(PrescribedMotion(name="drive", joint="pin", input="speed"),),
    )
    sim = Simulation(assemble(made), step_s=1e-3, stepper=stepper)
    for tick in range(2000):
        sim.set_effort([3.0 * np.sin(5e-3 * tick)])
        sim.step()
    assert [notice for notice in sim.take_notices() if notice.kind == "energy_departure"] == []
    assert sim.energy_ledger.largest < largest


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit"])
@pytest.mark.parametrize(
    "stabilizer", ["sampled_fuzzy", "projection", DirectCorrection(), DirectCorrection(weight="mass")]
)
def test_a_jump_of_a_prescribed_velocity_is_work(stabilizer: Any, stepper: str) -> None:
    made = dataclasses.replace(
        held(lambda t: 0.0 * t).system.mechanism,
        name="driven",
        actuators=(Actuator(name="speed", unit="rad/s"),),
        constraints=(PrescribedMotion(name="drive", joint="pin", input="speed"),),
    )
    sim = Simulation(assemble(made), step_s=1e-3, stabilizer=stabilizer, stepper=stepper)
    for speed in (2.0, -1.0, 0.5):
        sim.set_effort([speed])
        sim.step(64)
        assert sim.state.v[2] == pytest.approx(speed, abs=1e-6)
    assert sim.take_notices() == []
    assert sim.energy_ledger.work == pytest.approx(
        sim.energy() - made.initial_q[1] * 9.81, abs=1e-4 if stepper == "rk4" else 0.01 * sim.energy()
    )


MOTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "oscillation": (
        lambda t: 0.3 * (1 - ca.cos(3e3 * t)),
        "is too fast for the step of 1 ms near t = .* at most 0.5 m",
    ),
    "between two samples": (lambda t: 0.3 * (1 - ca.cos(2e3 * np.pi * t)), "is too fast for the step of 1 ms"),
    "pulse": (lambda t: 0.3 * ca.exp(-(((t - 0.2503) / 2e-4) ** 2)), "is too fast for the step of 1 ms near t = 0.25"),
    "jump": (lambda t: ca.if_else(t < 0.1, 0.0, 0.3), "jumps in position near t = 0.099 s"),
    "corner": (lambda t: ca.fmax(t - 0.1, 0.0), "jumps in velocity near t = 0.(099|1) s"),
    "pole": (lambda t: 1 / (0.25 - t) - 4 - 16 * t, "is not finite near t = 0.2"),
}


@pytest.mark.parametrize("stabilizer", ["sampled_fuzzy", "projection"])
@pytest.mark.parametrize("case", MOTIONS)
def test_a_motion_faster_than_the_step_is_named_with_its_constraint(case: str, stabilizer: str) -> None:
    motion, said = MOTIONS[case]
    sim = Simulation(held(motion).system, step_s=1e-3, stabilizer=stabilizer)
    ends = pytest.raises(SimulationDiverged, match="constraint 'motion'") if case == "pole" else nullcontext()
    with pytest.warns(StepTooLargeWarning, match=f"motion of constraint 'motion' of 'held' ({said})"), ends:
        sim.step(300)
    assert [notice.kind for notice in sim.take_notices()].count("step_too_large") == 1


@pytest.mark.parametrize("stepper", ["rk4", "dopri5_adaptive"])
def test_a_motion_that_the_step_resolves_is_stepped_in_silence(stepper: str) -> None:
    sim = Simulation(held(lambda t: 0.3 * (1 - ca.cos(100 * t))).system, step_s=1e-3, stepper=stepper)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        for _ in range(150):
            sim.step(7)
    assert sim.take_notices() == []


def test_an_error_of_the_energy_names_the_motion_that_explains_it() -> None:
    sim = held(lambda t: 0.3 * (1 - ca.cos(1e3 * t)))
    sim.step(300)
    lines = [notice.line for notice in sim.take_notices() if notice.kind == "energy_departure"]
    assert "motion of constraint 'motion' changes much within one step" in lines[0]


def test_a_large_share_of_a_small_energy_hides_no_later_departure() -> None:
    """The stepper damps away a vibration of 10 mJ, and then one of some 25 J that a jolt of the motor began."""
    sim = Simulation(assemble(rail(stiffness=2e6)))
    sim.reset(q=[1e-4])
    sim.step(500)
    assert sim.take_notices()
    assert sim.energy_ledger.largest > 0.9
    sim.set_effort([1e4])
    sim.step()
    sim.set_effort([0.0])
    sim.step(500)
    assert [notice for notice in sim.take_notices() if notice.kind == "energy_departure"]


def test_a_set_parameter_is_booked() -> None:
    sim = Simulation(assemble(rail()), step_s=1e-3)
    sim.set_parameters({"stiffness": 100.0})
    assert sim.energy_ledger.booked == pytest.approx(0.5 * 50.0 * 0.3**2)
    sim.advance(1.0)
    assert abs(sim.energy_ledger.departure) < 1e-6


def test_an_impact_is_booked() -> None:
    """A gibbon that lets go with one hand and grips again; what its grips take is in the ledger."""
    sim = Simulation(assemble(robots.build("gibbon")), step_s=1e-3)
    releases = [1.0 if not a.joint else 0.0 for a in sim.system.mechanism.actuators]
    sim.set_effort([releases[0], *[0.0] * (len(releases) - 1)])
    sim.step(200)
    sim.set_effort([0.0] * len(releases))
    sim.step(400)
    assert sim.energy_ledger.largest < 1e-3


def test_a_restored_run_goes_on_with_its_ledger() -> None:
    sim = Simulation(assemble(rail(damping=1.0)), step_s=1e-3)
    sim.set_effort([3.0])
    sim.step(1000)
    state = sim.snapshot()
    sim.step(1000)
    other = Simulation(assemble(rail(damping=1.0)), step_s=1e-3)
    other.restore(State.from_plain(state.to_plain()))
    other.step(1000)
    assert other.state.ledger.tobytes() == sim.state.ledger.tobytes()
    assert other.state.q.tobytes() == sim.state.q.tobytes()


def test_a_state_without_a_ledger_begins_one() -> None:
    sim = Simulation(assemble(rail()), step_s=1e-3)
    sim.step(100)
    plain = sim.snapshot().to_plain()
    del plain["ledger"]
    other = Simulation(assemble(rail()), step_s=1e-3)
    other.set_effort([5.0])
    other.step(10)
    other.restore(State.from_plain(plain))
    assert other.energy_ledger.work == 0.0
    assert other.energy_ledger.departure == 0.0


def test_a_reset_begins_the_ledger_anew() -> None:
    sim = Simulation(assemble(rail(1e7)), step_s=1e-3)
    sim.step(60)
    assert sim.energy_ledger.departed
    sim.reset()
    assert (sim.energy_ledger.departed, sim.energy_ledger.departure, sim.notices) == ("", 0.0, [])


@pytest.mark.parametrize("stepper", sorted(STEPPERS))
def test_the_ledger_changes_no_state(stepper: str) -> None:
    states = []
    for booked in (True, False):
        sim = Simulation(assemble(robots.build("rotary_pendulum")), step_s=1e-3, stepper=stepper)
        if not booked:
            sim._calls.table[POWER, 0] = 0
        sim.set_effort([0.01])
        sim.step(200)
        states.append((sim.state.q.tobytes(), sim.state.v.tobytes(), sim.state.U.tobytes()))
    assert states[0] == states[1]


def test_a_driven_pendulum_gains_the_motors_work() -> None:
    body = Body(name="bob", mass=1.0, inertia=(1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0))
    joint = Joint(name="pin", child="bob", axis=Y, child_point=(-1.0, 0.0, 0.0))
    motor = Actuator(name="motor", joint="pin")
    pendulum = Mechanism(
        name="driven", coordinates="joint", bodies=(body,), joints=(joint,), actuators=(motor,),
        initial_q=(0.0,), initial_v=(0.0,),
    )  # fmt: skip
    sim = Simulation(assemble(pendulum), step_s=1e-3)
    work, angle = 0.0, 0.0
    for k in range(50):
        torque = 3.0 * np.sin(0.2 * k)
        sim.set_effort([torque])
        sim.step(20)
        now = float(sim.state.q[0])
        work, angle = work + torque * (now - angle), now
    assert sim.energy_ledger.work == pytest.approx(work, rel=1e-9)
    assert sim.energy_ledger.largest < 1e-8

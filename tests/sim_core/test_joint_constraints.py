"""Relations between joints and prescribed motions: closed forms, the car axis, reactions, work, and refusals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from robots.export import export
from sim_core.errors import InvalidMechanism, InvalidRequest, UnknownName
from sim_core.mechanism import (
    Actuator,
    Body,
    Joint,
    JointRelation,
    Mechanism,
    PrescribedMotion,
    ReactionOutput,
    Spring,
    Tunable,
    X,
    Y,
)
from sim_core.simulation import Simulation
from sim_core.system import assemble

INERTIAS = (0.02, 0.005)


def wheels(coordinates: Any = "joint", **parts: Any) -> Mechanism:
    """Two wheels on parallel axles, the first with a constant torque of 0.1 N m."""
    bodies = tuple(
        Body(name=f"wheel_{k}", mass=1.0, inertia=(0.01, 0.01, inertia, 0, 0, 0), placement=(float(k), 0.0, 0.0))
        for k, inertia in enumerate(INERTIAS)
    )
    joints = [Joint(name=f"axle_{k}", child=f"wheel_{k}", parent_point=(float(k), 0.0, 0.0)) for k in range(2)]
    joints[0] = dataclasses.replace(joints[0], load=0.1)
    start = (0.0, 0.0) if coordinates == "joint" else (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    rest = {"initial_q": start, "initial_v": tuple(0.0 for _ in start), "gravity": (0.0, 0.0, 0.0)}
    return Mechanism(name="wheels", coordinates=coordinates, bodies=bodies, joints=joints, **(rest | parts))


def geared(coordinates: Any = "joint", ratio: float = -3.0, **parts: Any) -> Mechanism:
    relation = JointRelation(name="mesh", terms=(("axle_1", 1.0), ("axle_0", -ratio)))
    outputs = (ReactionOutput(name="tooth", constraint="mesh"),)
    return wheels(coordinates, constraints=(relation,), outputs=outputs, **parts)


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
def test_a_gear_pair_turns_with_the_inertia_of_both_wheels(coordinates: str) -> None:
    ratio = -3.0
    sim = Simulation(assemble(geared(coordinates, ratio)), step_s=1e-3)
    sim.advance(2.0)
    a = 0.1 / (INERTIAS[0] + ratio**2 * INERTIAS[1])
    position, _ = sim.readings.motion()
    assert position == pytest.approx([0.5 * a * 4.0, ratio * 0.5 * a * 4.0], rel=1e-9)
    # the tooth drives the second wheel alone
    assert sim.outputs()["tooth"] == pytest.approx(INERTIAS[1] * ratio * a, rel=1e-9)
    assert abs(sim.energy_ledger.departure) < 1e-9


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
def test_a_relation_of_one_joint_holds_it_against_its_load(coordinates: Any) -> None:
    lock = JointRelation(name="lock", terms=(("axle_0", 2.0),))
    outputs = (ReactionOutput(name="brake", constraint="lock"),)
    mechanism = wheels(coordinates, constraints=(lock,), outputs=outputs)
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.advance(1.0)
    assert sim.readings.motion()[0] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert abs(sim.outputs()["brake"]) == pytest.approx(0.1 / 2.0, rel=1e-9)
    if coordinates == "joint":
        assert 'coef="2.0"' in export(mechanism, "mjcf").text
        with pytest.raises(InvalidRequest, match=r"URDF cannot express the constraints 'lock' \(JointRelation\)"):
            export(mechanism, "urdf")


def test_exports_write_a_relation_of_two_joints_as_what_they_have_for_it() -> None:
    mechanism = geared(ratio=0.5)
    relation = dataclasses.replace(mechanism.constraints[0], offset=0.2)
    mechanism = dataclasses.replace(mechanism, constraints=(relation,))
    assert '<mimic joint="axle_0" multiplier="0.5" offset="0.2"' in export(mechanism, "urdf").text
    assert 'joint1="axle_1" joint2="axle_0" polycoef="0.2 0.5 0.0 0.0 0.0"' in export(mechanism, "mjcf").text
    driven = PrescribedMotion(name="drive", joint="axle_0", motion=lambda t: 0.0 * t)
    with pytest.raises(InvalidRequest, match=r"URDF cannot express the constraints 'drive' \(PrescribedMotion\)"):
        export(dataclasses.replace(mechanism, constraints=(driven,)), "urdf")


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
def test_a_prescribed_joint_follows_its_motion_and_its_reaction_is_inertia_times_acceleration(coordinates: str) -> None:
    drive = PrescribedMotion(name="drive", joint="axle_1", motion=lambda t: 0.3 * (1 - ca.cos(4 * t)))
    outputs = (ReactionOutput(name="torque", constraint="drive"),)
    sim = Simulation(assemble(wheels(coordinates, constraints=(drive,), outputs=outputs)), step_s=1e-3)
    for _ in range(20):
        sim.advance(0.1)
        angle = 0.3 * (1 - math.cos(4 * sim.time))
        assert sim.readings.position(1) == pytest.approx(angle, abs=1e-9)
        expected = INERTIAS[1] * 0.3 * 16 * math.cos(4 * sim.time)
        assert sim.outputs()["torque"] == pytest.approx(expected, abs=1e-8)
        assert abs(sim.energy_ledger.departure) < 1e-9


def test_an_input_gives_a_prescribed_joint_its_velocity() -> None:
    drive = PrescribedMotion(name="drive", joint="axle_1", input="speed")
    speed = Actuator(name="speed", unit="rad/s")
    mechanism = wheels(constraints=(drive,), actuators=(speed,))
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.set_effort([2.0])
    sim.advance(0.1)
    begun = sim.readings.position(1)
    sim.advance(1.0)
    assert sim.state.v[1] == pytest.approx(2.0, abs=1e-9)
    assert sim.readings.position(1) - begun == pytest.approx(2.0, abs=1e-9)


def test_a_shaken_point_moves_a_pendulum_as_a_shaken_pivot_does() -> None:
    """In the frame of the pivot, the table's acceleration is a change of gravity."""
    amplitude, rate, length, mass = 0.05, 7.0, 0.4, 0.3
    table = Body(name="table", mass=2.0, inertia=(0.1, 0.1, 0.1, 0, 0, 0))
    bob = Body(name="bob", mass=mass, inertia=(1e-4, 1e-4, 1e-4, 0, 0, 0), center_of_mass=(0.0, -length, 0.0))
    shake = PrescribedMotion(name="shake", body="table", axis=X, motion=lambda t: amplitude * ca.sin(rate * t))
    mechanism = Mechanism(
        name="shaken",
        coordinates="joint",
        bodies=(table, bob),
        joints=(
            Joint(name="rail", kind="prismatic", child="table", axis=X),
            Joint(name="pivot", parent="table", child="bob"),
        ),
        constraints=(shake,),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.0, 0.2),
        initial_v=(amplitude * rate, 0.0),
    )
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    inertia = 1e-4 + mass * length**2

    def rates(t: float, y: np.ndarray) -> list[float]:
        a = -amplitude * rate**2 * math.sin(rate * t)
        return [y[1], -mass * length * (9.81 * math.sin(y[0]) + a * math.cos(y[0])) / inertia]

    sim.advance(3.0)
    theirs = solve_ivp(rates, (0.0, 3.0), [0.2, 0.0], rtol=1e-11, atol=1e-12).y[0, -1]
    assert sim.readings.position(1) == pytest.approx(theirs, abs=1e-8)


# -- the car axis -----------------------------------------------------------------------------------------------------

EPSILON, MASS, LENGTH, REST, BUMP, OMEGA = 1e-2, 10.0, 1.0, 0.5, 0.1, 10.0
# xl, yl, xr, yr at t = 3, of the Test Set for IVP Solvers, car axis
REFERENCE = (
    0.4934557842755629e-1,
    0.4969894602303324,
    0.1041742524885400e1,
    0.3739110272652214,
)


def car_axis() -> Mechanism:
    """The axle turns with its right wheel on a bumpy road; the left mass slides across it, the right one on a rod."""
    mass = MASS * EPSILON**2 / 2.0
    bodies = (
        Body(name="axle", mass=1.0, inertia=(1.0, 1.0, 1.0, 0, 0, 0)),
        Body(name="left", mass=mass, inertia=(0.0,) * 6),
        Body(name="right", mass=mass, inertia=(0.0,) * 6, center_of_mass=(LENGTH, 0.0, 0.0)),
    )
    joints = (
        Joint(name="turn", child="axle"),
        Joint(name="slide", kind="prismatic", parent="axle", child="left", axis=Y),
        Joint(name="rod", parent="left", child="right"),
    )
    road = PrescribedMotion(name="road", joint="turn", motion=lambda t: ca.asin(BUMP * ca.sin(OMEGA * t) / LENGTH))
    spring = {"stiffness": 1.0, "rest_length": REST}
    springs = (
        Spring(name="l", body_a="axle", point_a=(0, 0, 0), body_b="left", point_b=(0, 0, 0), **spring),
        Spring(name="r", body_a="axle", point_a=(LENGTH, 0, 0), body_b="right", point_b=(LENGTH, 0, 0), **spring),
    )
    # xl = 0, yl = 1/2, xr = 1, yr = 1/2; their rates: -1/2, 0, -1/2, 0; the axle turns at r omega / L = 1
    return Mechanism(
        name="car_axis",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        constraints=(road,),
        springs=springs,
        gravity=(0.0, -1.0, 0.0),
        initial_q=(0.0, REST, 0.0),
        initial_v=(BUMP * OMEGA / LENGTH, 0.0, -BUMP * OMEGA / LENGTH),
    )


def test_the_car_axis_agrees_with_its_reference() -> None:
    sim = Simulation(assemble(car_axis()), step_s=1e-4, stepper="rk4")
    sim.advance(3.0)
    places, turned = sim.system.poses(sim.time, sim.state.q, sim.state.v)
    right = places[2] + turned[2] @ (LENGTH, 0.0, 0.0)
    found = [*places[1][:2], *right[:2]]
    assert found == pytest.approx(REFERENCE, rel=1e-9)


# -- refusals ---------------------------------------------------------------------------------------------------------

LINEAR: Any = lambda t: t  # noqa: E731
REFUSED: dict[str, tuple[Any, str]] = {
    "no joint": (JointRelation(name="c", terms=()), "there are no terms; give at least one"),
    "unknown joint": (JointRelation(name="c", terms=(("axle_0", 1.0), ("axle", 1.0))), "has no moving joint 'axle'"),
    "zero": (JointRelation(name="c", terms=(("axle_0", 1.0), ("axle_1", 0.0))), "the factor of joint 'axle_1' is 0"),
    "nothing": (PrescribedMotion(name="c", motion=LINEAR), "neither a joint nor a body"),
    "both": (PrescribedMotion(name="c", joint="axle_0", motion=LINEAR, input="x"), "both a motion and an input"),
    "no motion": (PrescribedMotion(name="c", joint="axle_0"), "neither a motion nor an input"),
    "no input": (PrescribedMotion(name="c", joint="axle_0", input="speed"), "has no actuator without a joint 'speed'"),
    "text": (PrescribedMotion(name="c", joint="axle_0", motion=lambda t: "sin"), "motion returns a str"),
    "vector": (PrescribedMotion(name="c", joint="axle_0", motion=lambda t: ca.vertcat(t, t)), "returns 2 entries"),
    "other": (
        PrescribedMotion(name="c", joint="axle_0", motion=lambda t: t * ca.SX.sym("x")),
        "motion depends on 'x'; it may depend on time alone",
    ),
    "no function": (PrescribedMotion(name="c", joint="axle_0", motion=3.0), "it must be a function"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_relation_or_motion_is_refused_in_one_line(case: str) -> None:
    constraint, said = REFUSED[case]
    with pytest.raises((InvalidMechanism, UnknownName)) as refused:
        assemble(wheels(constraints=(constraint,)))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_start_off_the_prescribed_motion_is_refused_with_its_distance() -> None:
    drive = PrescribedMotion(name="drive", joint="axle_0", motion=lambda t: 0.5 + t)
    with pytest.raises(InvalidMechanism, match=r"violates 'drive' by 0\.5, 'drive' by 1 per s"):
        Simulation(assemble(wheels(constraints=(drive,))))


def test_another_motion_is_another_mechanism_and_the_same_one_written_anew_is_not() -> None:
    def driven(motion: Any) -> str:
        return wheels(constraints=(PrescribedMotion(name="d", joint="axle_0", motion=motion),)).canonical_hash

    assert driven(lambda t: ca.sin(2 * t)) == driven(lambda t: ca.sin(2 * t))
    assert driven(lambda t: ca.sin(2 * t)) != driven(lambda t: ca.sin(3 * t))


def test_the_offset_of_a_relation_can_be_tuned() -> None:
    relation = JointRelation(name="mesh", terms=(("axle_1", 1.0), ("axle_0", 1.0)), offset=Tunable("offset", 0.0))
    sim = Simulation(assemble(wheels(constraints=(relation,))), step_s=1e-3)
    sim.set_parameters({"offset": 0.01})
    sim.advance(1.0)
    position, _ = sim.readings.motion()
    assert position.sum() == pytest.approx(0.01, abs=1e-9)

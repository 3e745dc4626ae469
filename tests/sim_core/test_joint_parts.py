"""Springs, armatures and friction of joints: closed forms, MuJoCo, the energy ledger, and one line for nonsense."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import mujoco
import numpy as np
import pytest

from robots.export import export
from robots.export.native import export_files
from robots.registry import build
from sim_core.errors import InvalidMechanism, InvalidRequest, StepTooLargeWarning
from sim_core.inverse import inverse_dynamics, mass_matrix
from sim_core.mechanism import (
    Body,
    Joint,
    JointFriction,
    JointSpring,
    JointStops,
    Mechanism,
    Tunable,
    X,
    Y,
    dissipation_for,
)
from sim_core.simulation import Simulation
from sim_core.system import assemble

INERTIA, MASS, GRAVITY = 0.02, 2.0, 9.81


def wheel(coordinates: Any = "joint", **parts: Any) -> Mechanism:
    """A wheel about a fixed vertical axis, without gravity."""
    return Mechanism(
        name="wheel",
        coordinates=coordinates,
        bodies=(Body(name="wheel", mass=1.0, inertia=(0.01, 0.01, INERTIA, 0, 0, 0), free=("x", "y", "theta")),),
        joints=(Joint(name="axle", child="wheel", **parts),),
        gravity=(0.0, 0.0, 0.0),
        initial_q=(0.3,) if coordinates == "joint" else (0.0, 0.0, 0.3),
        initial_v=(0.0,) if coordinates == "joint" else (0.0, 0.0, 0.0),
    )


def block(angle: float, friction: JointFriction, speed: float = 0.0, **parts: Any) -> Mechanism:
    """A block on an incline; its joint's position grows downhill."""
    return Mechanism(
        name="block",
        coordinates="joint",
        bodies=(Body(name="block", mass=MASS, inertia=(0.01, 0.01, 0.01, 0, 0, 0)),),
        joints=(Joint(name="incline", kind="prismatic", child="block", axis=X, friction=friction, **parts),),
        gravity=(GRAVITY * math.sin(angle), 0.0, -GRAVITY * math.cos(angle)),
        initial_q=(0.0,),
        initial_v=(speed,),
    )


def dry(angle: float, mu: float, static: float | None = None, **parts: Any) -> JointFriction:
    """Friction of the block's coefficients at an incline's angle."""
    pressed = MASS * GRAVITY * math.cos(angle)
    return JointFriction(coulomb=mu * pressed, static=None if static is None else static * pressed, **parts)


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
def test_a_wheel_on_a_torsion_spring_follows_the_closed_form(coordinates: str) -> None:
    k, rest, preload, armature = 3.0, 0.1, 0.12, 0.005
    spring = JointSpring(stiffness=Tunable("k", k), rest=rest, preload=preload)
    sim = Simulation(assemble(wheel(coordinates, spring=spring, armature=armature)), step_s=1e-3)
    middle, rate = rest + preload / k, math.sqrt(k / (INERTIA + armature))
    assert sim.energy() == pytest.approx(0.5 * k * 0.2**2 - preload * 0.2, rel=1e-14)
    for _ in range(20):
        sim.advance(0.1)
        expected = middle + (0.3 - middle) * math.cos(rate * sim.time)
        assert sim.readings.position(0) == pytest.approx(expected, abs=1e-9)
    assert abs(sim.energy_ledger.departure) < 1e-9


def test_a_cubic_spring_conserves_energy_and_turns_at_the_same_angle_on_both_sides() -> None:
    sim = Simulation(assemble(wheel(spring=JointSpring(cubic=40.0))), step_s=1e-3)
    assert sim.energy() == pytest.approx(10.0 * 0.3**4, rel=1e-14)
    lowest = 0.0
    for _ in range(4000):
        sim.step()
        lowest = min(lowest, sim.readings.position(0))
    assert lowest == pytest.approx(-0.3, abs=1e-6)


def test_both_coordinate_families_move_alike_with_every_part() -> None:
    parts = {
        "armature": 0.003,
        "spring": JointSpring(stiffness=2.0, cubic=5.0, rest=-0.2, preload=0.05),
        "friction": JointFriction(coulomb=0.02, static=0.03, stribeck_velocity=0.5, smoothing_velocity=0.05),
        "stops": JointStops(stiffness=200.0, dissipation=0.3),
        "lower": -0.4,
        "upper": 0.5,
    }
    sims = [Simulation(assemble(wheel(c, **parts)), step_s=1e-4) for c in ("joint", "absolute")]
    for _ in range(10):
        for sim in sims:
            sim.advance(0.1)
        assert sims[0].readings.position(0) == pytest.approx(sims[1].readings.position(0), abs=1e-8)
        assert sims[0].energy() == pytest.approx(sims[1].energy(), abs=1e-8)
        assert abs(sims[0].energy_ledger.departure) < 1e-7


def test_the_passive_forces_and_the_mass_matrix_are_those_of_mujoco() -> None:
    arm = build("arm_6dof", limits="none")
    draw = np.random.default_rng(3)
    joints = [
        dataclasses.replace(
            joint,
            lower=None,
            upper=None,
            damping=0.1 * draw.uniform(),
            armature=0.02 * draw.uniform(),
            spring=JointSpring(stiffness=3.0 * draw.uniform(), rest=draw.normal(), preload=draw.normal()),
        )
        for joint in arm.joints
    ]
    mechanism = dataclasses.replace(arm, joints=joints)
    system, written = assemble(mechanism), export(mechanism, "mjcf")
    model = mujoco.MjModel.from_xml_string(written.text)
    data = mujoco.MjData(model)
    M = np.zeros((model.nv, model.nv))
    for q, v, a in draw.normal(size=(50, 3, system.n_q)):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(model, data)
        data.qacc[:] = a
        mujoco.mj_inverse(model, data)
        mujoco.mj_fullM(model, data, M)
        np.testing.assert_allclose(mass_matrix(system, q), M, rtol=1e-9, atol=1e-12)
        theirs = data.qfrc_inverse.copy()
        np.testing.assert_allclose(inverse_dynamics(system, q, v, a), theirs, rtol=1e-9, atol=1e-9)


def test_an_export_says_which_parts_of_joints_it_lacks() -> None:
    friction = JointFriction(coulomb=0.1, static=0.2, bristle_stiffness=100.0)
    parts = {"friction": friction, "spring": JointSpring(stiffness=1.0, cubic=1.0), "armature": 0.1, "upper": 2.0}
    mechanism = wheel(stops=JointStops(stiffness=10.0), **parts)
    notes = "\n".join(export(mechanism, "urdf").notes)
    for part in ("armature", "spring", "Stribeck friction", "friction bristle", "the stiffness of stops"):
        assert f"URDF cannot express {part}" in notes
    text, notes = export(mechanism, "mjcf").text, "\n".join(export(mechanism, "mjcf").notes)
    for attribute in ('frictionloss="0.1"', 'armature="0.1"', 'stiffness="1.0"'):
        assert attribute in text
    for part in ("cubic stiffness", "friction bristle"):
        assert f"MJCF cannot express {part}" in notes
    assert "MJCF cannot express spring" not in notes
    with pytest.raises(InvalidRequest, match=r"first-order states 'axle\.bristle'"):
        export_files(mechanism, "c")


# -- friction ---------------------------------------------------------------------------------------------------------


def test_a_block_slides_down_an_incline_with_the_acceleration_of_coulomb() -> None:
    angle, mu = 0.5, 0.3
    for friction in (dry(angle, mu), dry(angle, mu, bristle_stiffness=1e5, bristle_damping=300.0)):
        sim = Simulation(assemble(block(angle, friction, speed=0.1)), step_s=1e-3)
        sim.advance(1.0)
        speed = sim.state.v[0]  # the bristles bend first, which takes some momentum
        sim.advance(1.0)
        a = GRAVITY * (math.sin(angle) - mu * math.cos(angle))
        assert sim.state.v[0] - speed == pytest.approx(a, rel=1e-6)
        assert sim.energy_ledger.largest < 1e-3


def test_regularized_friction_creeps_at_the_speed_that_its_docstring_gives() -> None:
    angle, mu, smoothing = 0.2, 0.3, 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepTooLargeWarning)
        sim = Simulation(assemble(block(angle, dry(angle, mu, smoothing_velocity=smoothing))), step_s=1e-4)
    sim.advance(1.0)
    share = math.tan(angle) / mu
    assert sim.state.v[0] == pytest.approx(smoothing * math.atanh(share), rel=1e-6)


def test_a_block_with_bristles_creeps_less_than_a_millimetre_in_a_minute() -> None:
    angle, mu = 0.2, 0.3
    friction = dry(angle, mu, static=0.35, bristle_stiffness=1e5, bristle_damping=300.0)
    sim = Simulation(assemble(block(angle, friction)), step_s=1e-3)
    sim.advance(1.0)
    settled = sim.readings.position(0)
    sim.advance(59.0)
    assert sim.readings.position(0) < 1e-3
    assert abs(sim.readings.position(0) - settled) < 1e-12
    assert sim.readings.position(0) == pytest.approx(MASS * GRAVITY * math.sin(angle) / 1e5, rel=0.01)


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_a_block_begins_to_slip_at_the_angle_of_static_friction(share: float) -> None:
    static = 0.35
    angle = share * math.atan(static)
    friction = dry(angle, 0.3, static=static, bristle_stiffness=1e5, bristle_damping=300.0, stribeck_velocity=0.02)
    # the load is put on slowly, as by tilting the incline: a step load overshoots in the spring of the bristle
    mechanism = dataclasses.replace(block(angle, friction), gravity=(0.0, 0.0, 0.0))
    load = Tunable("pull", 0.0)
    joints = (dataclasses.replace(mechanism.joints[0], load=load),)
    sim = Simulation(assemble(dataclasses.replace(mechanism, joints=joints)), step_s=1e-3)
    whole = MASS * GRAVITY * math.sin(angle)
    for part in np.linspace(0.0, 1.0, 200):
        sim.set_parameters({"pull": float(part * whole)})
        sim.advance(0.01)
    sim.advance(10.0)
    assert (sim.readings.position(0) > 0.1) == (share > 1.0)


def test_a_snapshot_restores_the_bristle() -> None:
    friction = dry(0.2, 0.3, bristle_stiffness=1e5, bristle_damping=30.0)
    sim = Simulation(assemble(block(0.2, friction, speed=0.3)), step_s=1e-3)
    sim.advance(0.05)
    kept = sim.snapshot()
    sim.advance(0.2)
    after = sim.snapshot()
    sim.restore(kept)
    sim.advance(0.2)
    np.testing.assert_array_equal(sim.snapshot().v, after.v)
    assert sim.system.coordinate_names == ("incline", "incline.bristle")


def test_a_step_too_large_for_a_bristle_is_named() -> None:
    friction = dry(0.2, 0.3, bristle_stiffness=1e9)
    with pytest.warns(StepTooLargeWarning, match="the friction of joint 'incline'"):
        Simulation(assemble(block(0.2, friction)), step_s=1e-3)


# -- one line for nonsense --------------------------------------------------------------------------------------------

NONSENSE: dict[str, tuple[dict[str, Any], str]] = {
    "armature": ({"armature": -1.0}, "armature is -1 kg m2; it must not be negative"),
    "spring": ({"spring": JointSpring(stiffness=-2.0)}, "spring: stiffness is -2; it must not be negative"),
    "friction": ({"friction": JointFriction(coulomb=-0.1)}, "friction: coulomb is -0.1"),
    "static": ({"friction": JointFriction(coulomb=0.2, static=0.1)}, "static is 0.1; it must be at least 0.2"),
    "smoothing": (
        {"friction": JointFriction(coulomb=0.2, smoothing_velocity=0.0)},
        "smoothing_velocity is 0; it must be above 0",
    ),
    "bristle": (
        {"friction": JointFriction(coulomb=0.2, bristle_stiffness=0.0)},
        "bristle_stiffness is 0; it must be above 0",
    ),
    "no limit": ({"stops": JointStops(stiffness=1.0)}, "neither a lower nor an upper limit"),
    "exponent": ({"upper": 1.0, "stops": JointStops(stiffness=1.0, exponent=4.0)}, "exponent is 4.0; it must be 1"),
    "type": ({"spring": 3.0}, "spring is 3.0; it must be a JointSpring"),
    "fixed": ({"kind": "fixed", "spring": JointSpring(stiffness=1.0)}, "is fixed, so that it can have no spring"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_an_impossible_part_of_a_joint_is_refused_in_one_line(case: str) -> None:
    parts, said = NONSENSE[case]
    mechanism = wheel(**parts)
    if case == "fixed":
        other = Joint(name="other", child="other", axis=Y)
        bodies = (*mechanism.bodies, dataclasses.replace(mechanism.bodies[0], name="other"))
        mechanism = dataclasses.replace(mechanism, bodies=bodies, joints=(*mechanism.joints, other))
    with pytest.raises(InvalidMechanism, match="joint 'axle'") as refused:
        assemble(mechanism)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_spring_on_an_angle_that_jumps_is_refused() -> None:
    spatial = dataclasses.replace(
        wheel("absolute", spring=JointSpring(stiffness=1.0)).bodies[0], orientation="zxz", free=("theta",)
    )
    joint = Joint(name="axle", child="wheel", axis=X, spring=JointSpring(stiffness=1.0))
    mechanism = dataclasses.replace(
        wheel("absolute"), bodies=(spatial,), joints=(joint,), initial_q=(0.3,), initial_v=(0.0,)
    )
    with pytest.raises(InvalidMechanism, match=r"its angle jumps by 2 pi at \+-pi"):
        assemble(mechanism)


@pytest.mark.parametrize("exponent", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("restitution", [0.1, 0.5, 0.9, 1.0])
def test_the_dissipation_of_a_restitution_gives_it(restitution: float, exponent: float) -> None:
    speed, stiffness = 1.2, 5e3
    stops = JointStops(stiffness=stiffness, dissipation=dissipation_for(restitution, speed), exponent=exponent)
    mechanism = wheel(upper=0.5, stops=stops)
    sim = Simulation(assemble(dataclasses.replace(mechanism, initial_v=(speed,))), step_s=1e-4)
    sim.advance(1.5)
    assert sim.state.v[0] == pytest.approx(-restitution * speed, rel=1e-4)
    assert abs(sim.energy_ledger.departure) < 1e-6

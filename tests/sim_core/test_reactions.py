"""Reaction forces and torques of all joints as outputs: closed forms, both coordinate families, a closed loop."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.simulation.compose import compose
from robots.registry import build
from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.joint_loads import joint_loads, motions, postures
from sim_core.mechanism import Body, Coincidence, Joint, Mechanism, X, Y, Z, with_reactions
from sim_core.mechanism.quantities import value_of
from sim_core.system import assemble

ROOT = Path(__file__).parents[2]


def bar(name: str, mass: float, length: float) -> Body:
    """A thin bar along x from its body frame's origin, which moves in the x, y plane."""
    inertia = mass * length**2 / 12
    return Body(
        name=name, mass=mass, inertia=(inertia, inertia, inertia, 0, 0, 0), center_of_mass=(length / 2, 0, 0),
        orientation="planar",
    )  # fmt: skip


CRANK, COUPLER, ROCKER, BASE = 0.3, 0.8, 0.6, 0.9
LENGTHS = np.array([[CRANK], [COUPLER], [ROCKER]])
BARS = (bar("crank", 1.0, CRANK), bar("coupler", 2.0, COUPLER), bar("rocker", 1.5, ROCKER))
OPEN = (
    Joint(name="O", child="crank", axis=Z),
    Joint(name="A", parent="crank", child="coupler", parent_point=(CRANK, 0, 0), axis=Z),
    Joint(name="B", parent="coupler", child="rocker", parent_point=(COUPLER, 0, 0), axis=Z),
)


def closed_posture(angle: float) -> np.ndarray:
    """Absolute angles (3,) of crank, coupler and rocker at an angle of the crank."""
    angles = np.array([angle, 0.4, -1.9])
    for _ in range(50):
        along = LENGTHS * np.column_stack([np.cos(angles), np.sin(angles)])
        J = np.column_stack([[-y, x] for x, y in along[1:]])
        angles[1:] -= np.linalg.solve(J, along.sum(axis=0) - np.array([BASE, 0.0]))
    return angles


def test_a_four_bar_linkage_has_the_same_reactions_in_both_coordinates() -> None:
    angles = closed_posture(0.7)
    ends = np.cumsum(LENGTHS * np.column_stack([np.cos(angles), np.sin(angles)]), axis=0)
    common: dict[str, Any] = {"name": "four_bar", "bodies": BARS, "gravity": (0.0, -9.81, 0.0)}
    closure = Coincidence(
        name="C", body_a="rocker", point_a=(ROCKER, 0, 0), body_b="ground", point_b=(BASE, 0, 0), directions=(X, Y)
    )
    q = np.array([angles[0], angles[1] - angles[0], angles[2] - angles[1]])
    joint = Mechanism(
        coordinates="joint", joints=OPEN, constraints=(closure,), initial_q=tuple(q), initial_v=(0.0,) * 3, **common
    )
    origins = [(0.0, 0.0), ends[0], ends[1]]
    start = np.ravel([[*origin, angle] for origin, angle in zip(origins, angles, strict=True)])
    last = Joint(name="C", child="rocker", parent_point=(BASE, 0, 0), child_point=(ROCKER, 0, 0), axis=Z)
    absolute = Mechanism(
        coordinates="absolute", joints=(*OPEN, last), initial_q=tuple(start), initial_v=(0.0,) * 9, **common
    )
    ours = assemble(with_reactions(joint)).outputs(0.0, q, np.zeros(3))
    theirs = assemble(with_reactions(absolute)).outputs(0.0, start, np.zeros(9))
    assert {name: theirs[name] for name in ours} == pytest.approx(ours, abs=1e-6)
    assert abs(ours["reaction_O_fx"]) > 1.0
    assert theirs["reaction_C_tz"] == pytest.approx(0.0, abs=1e-9)


def test_reactions_of_an_arm_are_those_of_the_newton_euler_recursion() -> None:
    mechanism = build("arm_6dof")
    system = assemble(with_reactions(mechanism))
    rng = np.random.default_rng(3)
    q, v = rng.normal(size=(2, system.n_q)) * 0.5
    a, _, _ = system.acceleration(0.0, q, v, np.zeros(system.n_u))
    found = system.outputs(0.0, q, v)
    loads = joint_loads(mechanism, motions(mechanism, postures(mechanism, q), v, a))
    for joint in mechanism.joints:
        expected = [*loads[joint.child].force, *loads[joint.child].torque]
        ours = [found[f"reaction_{joint.name}_{end}"] for end in ("fx", "fy", "fz", "tx", "ty", "tz")]
        np.testing.assert_allclose(ours, np.array(expected, dtype=float), rtol=1e-8, atol=1e-8)


def test_one_joint_alone_and_unknown_joints() -> None:
    mechanism = build("rotary_pendulum")
    name = mechanism.joints[0].name
    extended = with_reactions(mechanism, [name, name])
    assert len(extended.outputs) == len(mechanism.outputs) + 1
    with pytest.raises(UnknownName, match="has no joint 'wrist'"):
        with_reactions(mechanism, ["wrist"])


def test_a_driven_joint_that_closes_a_loop_is_refused() -> None:
    last = Joint(name="C", child="rocker", parent_point=(BASE, 0, 0), child_point=(ROCKER, 0, 0), axis=Z, damping=0.1)
    loop = Mechanism(
        name="four_bar", coordinates="absolute", bodies=BARS, joints=(*OPEN, last), initial_q=(0.0,) * 9,
        initial_v=(0.0,) * 9,
    )  # fmt: skip
    with pytest.raises(InvalidMechanism, match="make joint 'C' passive"):
        with_reactions(loop)
    assert with_reactions(dataclasses.replace(loop, joints=OPEN))


def test_a_launch_file_asks_for_reactions_and_states_carry_them() -> None:
    """The parent of a pendulum at rest carries its weight; a joint that the robot does not have is refused."""
    override = ["sim.mode=lockstep", 'sim.reactions=["arm"]']
    plan = load_plan(ROOT / "launch/rotary_pendulum.toml", override)
    states = []

    def carry(topic: str, payload: bytes) -> None:
        if topic == "rotary_pendulum/state":
            states.append(decode(topic, payload))

    with compose(plan, carry) as run:
        run.step(1)
        masses = [body.mass for body in run.server.simulation.system.mechanism.bodies]
    weight = 9.81 * sum(float(value_of(mass)) for mass in masses)
    force = [states[0].outputs[f"reaction_arm_{end}"] for end in ("fx", "fy", "fz")]
    assert np.linalg.norm(force) == pytest.approx(weight, rel=1e-6)
    with pytest.raises(PlanError, match=r"key 'reactions': .* has no joint 'elbow'"):
        load_plan(ROOT / "launch/rotary_pendulum.toml", ['sim.reactions=["elbow"]'])

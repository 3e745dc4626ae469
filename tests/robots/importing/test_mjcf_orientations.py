"""Springs, damping, armatures and ranges of ball and free joints: as in MuJoCo, read, written and read again."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from armswing import build
from robots.export import export
from sim_core.errors import DescriptionWarning, InvalidRequest, StepTooLargeWarning
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import Body, Joint, JointSpring, Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.same import assert_same
from tests.robots.importing.test_mjcf_import import qpos_of, worst_miss

Write = Callable[..., str]
RELATIVE = 1e-9

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]


SPRUNG = """
<worldbody>
  <body name="trunk" pos="0.1 0.2 0.9" quat="0.5 0.5 -0.5 0.5">
    <joint name="root" type="free" stiffness="7" damping="0.3" armature="0.2"/>
    <inertial pos="0.05 0 0.02" mass="2" diaginertia="0.02 0.03 0.025"/>
    <body name="arm" pos="0.1 0.2 0.3" quat="0.6 0 0.8 0">
      <joint name="shoulder" type="ball" pos="0.02 -0.03 0.05" damping="0.4" stiffness="3" armature="0.05"
             range="0 50"/>
      <inertial pos="0 0.1 -0.2" mass="0.8" diaginertia="0.01 0.012 0.008"/>
      <body name="hand" pos="0.1 0 -0.3">
        <joint name="wrist" axis="0 1 0" damping="0.3" stiffness="1.5"/>
        <inertial pos="0 0 -0.1" mass="0.4" diaginertia="0.002 0.003 0.0015"/>
      </body>
    </body>
  </body>
</worldbody>
<keyframe>
  <key name="turned" qpos="1 2 3 0 0.6 0 0.8 0.6 0 0 0.8 0.5" qvel="1 2 3 4 5 6 7 8 9 10"/>
</keyframe>
"""


def test_passive_forces_and_armatures_are_those_of_mujoco(write_mjcf: Write) -> None:
    assert worst_miss(write_mjcf(SPRUNG), 100) < RELATIVE


def test_the_stop_of_a_ball_joint_begins_and_pushes_where_the_limit_of_mujoco_does(write_mjcf: Write) -> None:
    path = write_mjcf(SPRUNG)
    stopped, free = build(path), build(path, limits="none")
    stops = stopped.joint("shoulder").stops
    assert stops is not None
    assert stopped.joint("shoulder").upper == pytest.approx(np.radians(50.0))
    assert free.joint("shoulder").stops is None
    systems, model = [assemble(each) for each in (stopped, free)], mujoco.MjModel.from_xml_path(path)
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    data, random, touched = mujoco.MjData(model), np.random.default_rng(3), 0
    for _ in range(60):
        q, still = np.zeros(10), np.zeros(10)
        e = random.normal(size=(2, 4))
        p = (e / np.linalg.norm(e, axis=1, keepdims=True)).ravel()
        data.qpos[:], data.qvel[:] = qpos_of(list(stopped.joints), q, p), 0.0
        mujoco.mj_forward(model, data)
        of_stop = np.subtract(*[-inverse_dynamics(system, q, still, still, p) for system in systems])
        rows = np.flatnonzero(data.efc_type == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT)
        expected = np.zeros(10)
        if len(rows):
            touched += 1
            J = data.efc_J.reshape(-1, 10)[rows[0]]
            expected = float(stops.stiffness) * (-data.efc_pos[rows[0]]) ** stops.exponent * J  # type: ignore[arg-type]
        np.testing.assert_allclose(of_stop, expected, atol=1e-9 * float(stops.stiffness))  # type: ignore[arg-type]
    assert 10 < touched < 60


def test_a_file_that_is_read_written_and_read_again_is_the_same_mechanism(write_mjcf: Write, tmp_path: Path) -> None:
    first = build(write_mjcf(SPRUNG), keyframe="turned")
    file = tmp_path / "again.xml"
    file.write_text(export(first, "mjcf").text)
    again = build(str(file))
    assert_same(again, first)
    assert (again.initial_q, again.initial_v, again.orientations) == (
        first.initial_q,
        first.initial_v,
        first.orientations,
    )
    assert worst_miss(str(file), 20) < RELATIVE
    model = mujoco.MjModel.from_xml_path(str(file))
    assert model.jnt_range[model.joint("shoulder").id].tolist() == pytest.approx([0.0, np.radians(50.0)])


def ball(joint: Joint, **changes: object) -> Mechanism:
    """A body on a spherical or free joint."""
    n = len(joint.coordinates)
    fields: dict[str, object] = {"initial_q": (0.0,) * n, "initial_v": tuple(0.1 * k for k in range(n))}
    bob = Body(name="bob", mass=1.0, inertia=(0.02, 0.03, 0.04, 0.0, 0.0, 0.0), center_of_mass=(0.1, 0.2, 0.3))
    fields |= {"bodies": (bob,), "joints": (joint,)}
    return Mechanism(name="ball", coordinates="joint", **(fields | changes))  # type: ignore[arg-type]


def test_rest_orientations_and_starts_with_an_orientation_are_written_for_mujoco() -> None:
    rest = (0.5, -0.5, 0.5, 0.5)
    turned = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    spherical = Joint(
        name="ball",
        kind="spherical",
        child="bob",
        parent_point=(0.1, 0.2, 0.3),
        child_point=(0.0, 0.1, -0.2),
        rotation=turned,
        quaternion=(0.6, 0.0, 0.0, 0.8),
        spring=JointSpring(stiffness=3.0, rest_quaternion=rest),
    )
    free = dataclasses.replace(spherical, kind="free", child_point=(0.0, 0.0, 0.0))
    for joint in (spherical, free):
        made = ball(joint, initial_q=(0.0, 0.0, 0.0) if joint is spherical else (1.0, 2.0, 3.0, 0.0, 0.0, 0.0))
        model = mujoco.MjModel.from_xml_string(export(made, "mjcf").text)
        data, system = mujoco.MjData(model), assemble(made)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        mujoco.mj_forward(model, data)
        q, v = np.array(made.initial_q), np.array(made.initial_v)
        places, rotations = system.poses(0.0, q, v)
        np.testing.assert_allclose(places[0], data.body("bob").xpos, atol=1e-13)
        np.testing.assert_allclose(rotations[0].ravel(), data.body("bob").xmat, atol=1e-13)
        assert system.energy(0.0, q, v)[0] == pytest.approx(_kinetic(model, data), rel=1e-12)
        # at rest, with the rotation moved into the quaternion: the same forces
        state = Simulation(assemble(dataclasses.replace(made, initial_v=(0.0,) * system.n_q))).state
        data.qvel[:] = 0.0
        mujoco.mj_forward(model, data)
        tau = inverse_dynamics(system, state.q, 0.0 * q, 0.0 * q, state.p)
        np.testing.assert_allclose(tau, data.qfrc_bias - data.qfrc_passive, atol=1e-11)


def _kinetic(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    return float(0.5 * data.qvel @ M @ data.qvel)


@pytest.mark.parametrize(
    ("joint", "form", "line"),
    [
        (
            Joint(name="hip", kind="spherical", child="bob"),
            "urdf",
            "joint 'hip' is spherical, which URDF cannot express",
        ),
        (
            Joint(name="hip", kind="free", child="bob", child_point=(0.1, 0.0, 0.0)),
            "mjcf",
            "free joint 'hip' has the child_point 0.1 0.0 0.0; .* choose the child_point 0 0 0",
        ),
        (
            Joint(
                name="hip",
                kind="spherical",
                child="bob",
                upper=1.0,
                spring=JointSpring(stiffness=1.0, rest_quaternion=(0.0, 1.0, 0.0, 0.0)),
            ),
            "mjcf",
            "the spring of spherical joint 'hip' is at rest at the quaternion 0.0 1.0 0.0 0.0; .* choose the rest_quat",
        ),
    ],
)
def test_a_joint_that_the_format_cannot_express_is_refused_by_name(joint: Joint, form: str, line: str) -> None:
    with pytest.raises(InvalidRequest, match=line) as refused:
        export(ball(joint), form)
    assert "\n" not in str(refused.value)


def test_a_free_joint_between_two_bodies_is_refused_for_mjcf_and_written_as_urdf(tmp_path: Path) -> None:
    free = Joint(
        name="tether",
        kind="free",
        damping=0.3,
        parent="bob",
        child="other",
        parent_point=(0.1, 0.2, 0.3),
        rotation=((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    )
    bodies = tuple(Body(name=name, mass=1.0, inertia=(0.02, 0.03, 0.04, 0, 0, 0)) for name in ("bob", "other"))
    both = ball(
        Joint(name="base", kind="free", child="bob"),
        bodies=bodies,
        joints=(Joint(name="ground_to_bob", kind="free", child="bob"), free),
        initial_q=(0.0,) * 12,
        initial_v=(0.0,) * 12,
    )
    with pytest.raises(InvalidRequest, match="free joint 'tether' moves body 'other' relative to 'bob'"):
        export(both, "mjcf")
    file = tmp_path / "floating.urdf"
    file.write_text(export(both, "urdf").text)
    again = build(str(file))
    assert again.joints == both.joints
    assert again.canonical_hash == dataclasses.replace(both, gravity=again.gravity).canonical_hash


def test_parts_that_urdf_cannot_express_are_noted() -> None:
    joint = Joint(name="base", kind="free", child="bob", damping=0.1, spring=JointSpring(stiffness=1.0))
    assert "URDF cannot express spring; left out is that of the joints 'base'" in export(ball(joint), "urdf").notes


def test_a_range_of_half_a_turn_limits_nothing_and_is_noted(write_mjcf: Write) -> None:
    path = write_mjcf(SPRUNG.replace('range="0 50"', 'range="0 180"'))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DescriptionWarning)
        mechanism = build(path)
    assert mechanism.joint("shoulder").upper is None
    assert any("the range of the ball joint reaches 180 degrees" in str(each.message) for each in caught)


RUBBING = SPRUNG.replace('range="0 50"', 'frictionloss="0.2"').replace('type="free"', 'type="free" frictionloss="0.1"')


def test_friction_of_a_ball_or_free_joint_that_slides_is_that_of_mujoco_along_each_axis(write_mjcf: Write) -> None:
    path = write_mjcf(RUBBING)
    mechanisms = [build(path, limits="none", friction=each) for each in ("bristles", "ignore")]
    systems, model = [assemble(each) for each in mechanisms], mujoco.MjModel.from_xml_path(path)
    data, random = mujoco.MjData(model), np.random.default_rng(4)
    for v in random.uniform(0.3, 3.0, (20, 10)) * random.choice([-1.0, 1.0], (20, 10)):
        e = random.normal(size=(2, 4))
        q, p = np.zeros(10), (e / np.linalg.norm(e, axis=1, keepdims=True)).ravel()
        data.qpos[:], data.qvel[:] = qpos_of(list(mechanisms[0].joints), q, p), v
        mujoco.mj_forward(model, data)
        of_friction = np.subtract(*[-inverse_dynamics(system, q, v, 0.0 * v, p) for system in systems])
        np.testing.assert_allclose(of_friction, data.qfrc_constraint, atol=1e-9)
        np.testing.assert_allclose(of_friction[:6], -0.1 * np.sign(v[:6]), atol=1e-9)
        np.testing.assert_allclose(of_friction[6:], [*(-0.2 * np.sign(v[6:9])), 0.0], atol=1e-9)


SPINNING = """
<option gravity="0 0 0" timestep="1e-4"/>
<worldbody>
  <body name="ball" pos="0 0 1">
    <joint name="socket" type="ball" frictionloss="0.02"/>
    <inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
  </body>
</worldbody>
<keyframe><key name="start" qpos="1 0 0 0" qvel="1.1 -2.1 4.1"/></keyframe>
"""


def test_a_spinning_ball_joint_stops_about_one_axis_after_another_as_in_mujoco(write_mjcf: Write) -> None:
    """With the same moment of inertia about all axes, each component of the angular velocity decays by itself."""
    path = write_mjcf(SPINNING)
    model = mujoco.MjModel.from_xml_path(path)
    data, sim = mujoco.MjData(model), Simulation(assemble(build(path)), step_s=1e-3)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    friction, energy, start = sim.system.mechanism.joint("socket").friction, sim.energy(), sim.state.v.copy()
    assert friction is not None
    creep = float(friction.smoothing_velocity)  # type: ignore[arg-type]
    for _ in range(25):
        sim.advance(0.1)
        mujoco.mj_step(model, data, 1000)
        expected = np.sign(start) * np.maximum(np.abs(start) - 0.02 / 0.01 * sim.time, 0.0)
        np.testing.assert_allclose(sim.state.v, expected, atol=creep)
        np.testing.assert_allclose(data.qvel, expected, atol=creep)
        assert sim.energy() <= energy
        energy = sim.energy()
    assert energy < 1e-9
    assert sim.energy_ledger.largest < 1e-6


def test_friction_of_a_ball_joint_has_no_bristles_and_is_left_out_on_request(write_mjcf: Write) -> None:
    path = write_mjcf(RUBBING)
    with pytest.warns(DescriptionWarning, match="frictionloss of a ball joint has no bristles: a loaded joint creeps"):
        mechanism = build(path)
    assert mechanism.joint("shoulder").friction.coulomb == 0.2  # type: ignore[union-attr]
    assert not mechanism.first_order_states
    with pytest.warns(DescriptionWarning, match="frictionloss is left out, as friction=ignore asks"):
        assert build(path, friction="ignore").joint("shoulder").friction is None


def test_friction_of_light_balls_is_smooth_enough_for_a_step_of_1_ms(write_mjcf: Write) -> None:
    light = SPINNING.replace("0.01 0.01 0.01", "1e-5 1e-5 2e-5").replace('timestep="1e-4"', "")
    with pytest.warns(DescriptionWarning, match="joint 'socket' is smoothed at speeds below 2 .*; friction=ignore"):
        mechanism = build(write_mjcf(light))
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(mechanism), step_s=1e-3)
        sim.advance(0.1)
    assert np.abs(sim.state.v).max() < 1e-9
    assert "the friction of joint 'socket'" in too_large(mechanism, 5e-3)


def too_large(mechanism: Mechanism, step_s: float) -> str:
    """The warning of a simulation with too large a step."""
    with pytest.warns(StepTooLargeWarning) as caught:
        Simulation(assemble(mechanism), step_s=step_s).advance(0.1)
    return str(caught[0].message)

"""Dry friction of robots from files: a step of 1 ms resolves it, however little the joints move."""

from __future__ import annotations

import dataclasses
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from armswing import build
from robots.smoothing import (
    BRISTLE_RATE,
    DEFAULT,
    RATE,
    smoothing_velocities,
    with_bristles,
    with_resolved_friction,
    without_bristles,
)
from sim_core.errors import DescriptionWarning, StepTooLargeWarning
from sim_core.inverse import forward_dynamics, inverse_dynamics, mass_matrix
from sim_core.mechanism import Body, Joint, JointFriction, JointRelation, Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.parts import joint, link
from tests.robots.importing.robot_files import needs_files, robot_files

AXES = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0))


def chain(masses: tuple[float, ...], coulomb: float = 1.0, relations: tuple[JointRelation, ...] = ()) -> Mechanism:
    """Bodies on revolute joints with dry friction, one behind another."""
    bodies, joints, parent = [], [], "ground"
    for k, mass in enumerate(masses):
        moment = 0.4 * mass * 0.05**2
        bodies.append(Body(name=f"b{k}", mass=mass, inertia=(moment,) * 3 + (0.0,) * 3, center_of_mass=(0.05, 0, 0)))
        joints.append(
            Joint(
                name=f"j{k}",
                parent=parent,
                child=f"b{k}",
                parent_point=(0.1, 0, 0) if k else (0, 0, 0),
                axis=AXES[k % 3],
                friction=JointFriction(coulomb=coulomb),
            )
        )
        parent = f"b{k}"
    still = (0.0,) * len(masses)
    return Mechanism(
        name="chain",
        coordinates="joint",
        bodies=bodies,  # type: ignore[arg-type]
        joints=joints,  # type: ignore[arg-type]
        constraints=relations,
        initial_q=still,
        initial_v=still,
    )


def test_a_heavy_joint_keeps_the_default_and_light_ones_slow_down_at_the_rate() -> None:
    assert not smoothing_velocities(chain((800.0,), coulomb=1e-3))
    light = chain((0.02,))
    inertia = 0.4 * 0.02 * 0.05**2 + 0.02 * 0.05**2
    assert smoothing_velocities(light) == {"j0": pytest.approx(1.0 / (RATE * inertia), rel=5e-3)}


def test_all_joints_together_slow_down_at_no_more_than_the_rate() -> None:
    light = chain((1.0, 0.2, 0.05, 0.01))
    found = smoothing_velocities(light)
    M = assemble(light).terms(0.0, np.zeros(4), np.zeros(4))[0]
    dampers = np.array([1.0 / found.get(f"j{k}", DEFAULT) for k in range(4)])
    rates = np.linalg.eigvals(np.linalg.solve(M, np.diag(dampers))).real
    assert 0.5 * RATE < rates.max() < 1.02 * RATE


def test_joints_that_follow_each_other_count_together() -> None:
    alone = smoothing_velocities(chain((0.5, 0.001)))
    follows = JointRelation(name="follow", terms=(("j1", 1.0), ("j0", -1.0)))
    together = smoothing_velocities(chain((0.5, 0.001), relations=(follows,)))
    assert together["j1"] < 0.1 * alone["j1"]


LIGHT = (
    '<robot name="light">'
    + "".join(link(name, mass) for name, mass in (("base", 2.0), ("arm", 0.5), ("tip", 0.004)))
    + joint("shoulder", "base", "arm", axis="0 1 0", more='<dynamics damping="0.01" friction="0.5"/>')
    + joint("wrist", "arm", "tip", axis="1 0 0", more='<dynamics damping="0.01" friction="0.5"/>')
    + "</robot>"
).replace('ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001"', 'ixx="2e-5" iyy="3e-5" izz="2.5e-5" ixy="0"')


def test_a_file_with_light_links_falls_at_1_ms_and_the_smoothing_is_said(tmp_path: Path) -> None:
    file = tmp_path / "light.urdf"
    file.write_text(LIGHT)
    with pytest.warns(DescriptionWarning, match=r"Coulomb friction of the joints 'shoulder', 'wrist' is smoothed at"):
        mechanism = build(str(file), friction="regularized")
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(mechanism), step_s=1e-3)
        sim.advance(2.0)
    assert np.isfinite(sim.state.q).all()
    assert sim.energy_ledger.largest < 0.01


def test_a_loaded_light_joint_creeps_at_the_documented_speed_and_sticks_on_bristles() -> None:
    """Half the Coulomb friction on one joint; the regularized speed is v_0 artanh(1/2)."""
    light = chain((0.02,), coulomb=0.05)
    loaded = dataclasses.replace(light, joints=(dataclasses.replace(light.joints[0], load=0.025),))
    moved = []
    with pytest.warns(
        DescriptionWarning, match="at which a loaded joint creeps; .* with friction=bristles loaded joints stick"
    ):
        smooth = with_resolved_friction(loaded, "robot 'chain'")
    for mechanism in (smooth, with_bristles(loaded, "robot 'chain'")):
        sim = Simulation(assemble(mechanism), step_s=1e-3)
        sim.advance(1.0)
        settled = sim.joints()[0][0]
        sim.advance(9.0)
        moved.append(abs(float(sim.joints()[0][0] - settled)))
        assert sim.energy_ledger.largest < 0.01
    creep = smoothing_velocities(loaded)["j0"] * math.atanh(0.5)
    assert moved[0] == pytest.approx(9.0 * creep, rel=1e-3)
    assert moved[0] > 1.0
    assert moved[1] < 1e-9


def test_joints_on_their_bristles_vibrate_no_faster_than_the_rate() -> None:
    sticking = with_bristles(chain((1.0, 0.2, 0.05, 0.01), coulomb=1e-4), "robot 'chain'")
    M = assemble(chain((1.0, 0.2, 0.05, 0.01))).terms(0.0, np.zeros(4), np.zeros(4))[0]
    stiffness = [joint.friction.bristle_stiffness for joint in sticking.joints]  # type: ignore[union-attr]
    squares = np.linalg.eigvals(np.linalg.solve(M, np.diag(np.array(stiffness, dtype=float)))).real
    assert 0.3 * BRISTLE_RATE < np.sqrt(squares.max()) < 1.02 * BRISTLE_RATE


def test_a_file_with_light_links_falls_on_bristles_at_1_ms(tmp_path: Path) -> None:
    file = tmp_path / "light.urdf"
    file.write_text(LIGHT)
    with pytest.warns(DescriptionWarning, match=r"friction of the joint 'wrist' \(0.068 rad\) is large for the little"):
        mechanism = build(str(file))
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(mechanism), step_s=1e-3)
        sim.advance(2.0)
    assert [joint.bristle for joint in mechanism.moving_joints] == ["shoulder.bristle", "wrist.bristle"]
    assert np.isfinite(sim.state.q).all()
    assert sim.energy_ledger.largest < 0.01


def test_without_bristles_the_friction_of_an_import_is_that_of_the_smooth_one(tmp_path: Path) -> None:
    file = tmp_path / "light.urdf"
    file.write_text(LIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        sticking, smooth = build(str(file)), build(str(file), friction="regularized")
    assert without_bristles(sticking) == smooth
    q, v = [0.3, -0.2], [0.5, 1.0]
    M = mass_matrix(assemble(smooth), q)
    assert M.shape == (2, 2)
    np.testing.assert_array_equal(mass_matrix(assemble(sticking), q), M)
    tau = inverse_dynamics(assemble(sticking), q, v, [1.0, 2.0])
    np.testing.assert_allclose(forward_dynamics(assemble(sticking), q, v, tau), [1.0, 2.0], rtol=1e-9)
    sim = Simulation(assemble(sticking), step_s=1e-3)
    sim.reset(q, v)
    np.testing.assert_array_equal(sim.joints()[:2], [q, v])


FINGER = """<robot name="finger">
  <link name="palm"/>
  <link name="tip"><inertial><origin xyz="0.02 0 0"/><mass value="0.01"/>
    <inertia ixx="1e-6" iyy="1e-6" izz="1e-6" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j" type="continuous"><parent link="palm"/><child link="tip"/><axis xyz="0 1 0"/>
    <dynamics friction="0.01"/></joint>
</robot>"""
FINGERS = """<mujoco><worldbody>
  <body name="a"><joint name="ja" axis="0 1 0" frictionloss="0.01"/>
    <geom type="sphere" size="0.005" pos="0.02 0 0" mass="0.01"/></body>
  <body name="b"><joint name="jb" axis="0 1 0" frictionloss="0.01"/>
    <geom type="sphere" size="0.005" pos="0.02 0 0" mass="0.01"/></body>
</worldbody><equality><connect body1="a" body2="b" anchor="0.02 0 0"/></equality></mujoco>"""


@pytest.mark.parametrize(("text", "kind"), [(FINGER, "urdf"), (FINGERS, "xml")])
@pytest.mark.parametrize("step_s", [5e-4, 1e-3])
def test_friction_above_the_load_holds_a_joint_by_default(tmp_path: Path, text: str, kind: str, step_s: float) -> None:
    """Dry friction of 0.01 N m and a load of 0.002 N m, of one finger and of two that a loop connects."""
    file = tmp_path / f"finger.{kind}"
    file.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(
            assemble(build(str(file), contacts="ignore") if kind == "xml" else build(str(file))), step_s=step_s
        )
        sim.advance(2.0)
    assert np.abs(sim.joints()[0]).max() < 0.003
    assert np.abs(sim.joints()[1]).max() < 1e-6


@pytest.mark.soak
@needs_files
@pytest.mark.parametrize("name", [name for name in robot_files() if "talos" in name])
def test_talos_falls_at_1_ms_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        mechanism = build(str(robot_files()[name]), meshes="boxes")
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(mechanism), step_s=1e-3)
        sim.advance(2.0)
    assert sim.energy_ledger.largest < 0.01

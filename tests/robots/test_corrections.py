"""Corrections of robots whose joints stick."""

from __future__ import annotations

from pathlib import Path

import pytest

from robots.registry import build
from sim_core.mechanism import JointFriction, Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble

URDF = """<robot name="rods">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 -0.2"/><mass value="1"/>
    <inertia ixx="0.02" iyy="0.02" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="fore"><inertial><origin xyz="0 0 -0.1"/><mass value="0.5"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <dynamics damping="0.05" friction="0.1"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="fore"/><axis xyz="0 1 0"/>
    <origin xyz="0 0 -0.4"/><dynamics friction="0.02"/></joint>
</robot>
"""


def corrected(folder: Path, corrections: str) -> Mechanism:
    (folder / "rods.urdf").write_text(URDF)
    (folder / "fitted.toml").write_text(corrections)
    return build(str(folder / "rods.urdf"), start="shoulder=0.3, elbow=0.2", corrections=str(folder / "fitted.toml"))


def test_a_joint_that_sticks_sticks_with_its_corrected_friction(tmp_path: Path) -> None:
    mechanism = corrected(tmp_path, '[joints."shoulder"]\ncoulomb = 3.0\nsmoothing_velocity = 0.1\n')
    simulation = Simulation(assemble(mechanism), step_s=1e-4)
    simulation.advance(2.0)
    assert simulation.joints()[0][0] == pytest.approx(0.3, abs=5e-3)  # 3 N m hold it, 0.1 N m do not


def test_friction_that_is_corrected_to_none_takes_its_state_along(tmp_path: Path) -> None:
    mechanism = corrected(tmp_path, '[joints."shoulder"]\ncoulomb = 0.0\n')
    assert [joint.friction is None for joint in mechanism.moving_joints] == [True, False]
    assert mechanism.initial_q == (0.3, 0.2, 0.0)
    assert assemble(mechanism).coordinate_names == ("shoulder", "elbow", "elbow.bristle")


def test_a_joint_without_bristles_gets_smooth_friction(tmp_path: Path) -> None:
    mechanism = corrected(tmp_path, '[joints."elbow"]\ncoulomb = 0.2\nsmoothing_velocity = 0.1\n')
    elbow = mechanism.moving_joints[1].friction
    assert elbow is not None
    assert elbow.coulomb == 0.2
    smooth = build(str(tmp_path / "rods.urdf"), friction="regularized", corrections=str(tmp_path / "fitted.toml"))
    assert smooth.moving_joints[1].friction == JointFriction(coulomb=0.2, smoothing_velocity=0.1)

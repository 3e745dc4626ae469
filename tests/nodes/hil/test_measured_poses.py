"""Poses of the measured robot: the model's bodies where the measured joints are, in every choice of coordinates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodes.framework.messages import RobotState
from nodes.hil.prediction.measured_poses import MeasuredPoses
from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.system import assemble


def moved(robot: str, **parameters: float | str) -> Simulation:
    """A robot that has moved for 0.2 s from its start."""
    simulation = Simulation(assemble(build(robot, **parameters)), step_s=1e-3)
    simulation.advance(0.2)
    return simulation


def measured(simulation: Simulation, time: float) -> RobotState:
    frames = [number for pose, _ in simulation.frames().values() for number in pose.tolist()]
    position, velocity, _ = simulation.joints()
    names = [joint.name for joint in simulation.system.mechanism.moving_joints]
    return RobotState(timestamp=time, name=names, position=position.tolist(), velocity=velocity.tolist(), frames=frames)


@pytest.mark.parametrize(
    ("robot", "parameters"),
    [("rotary_pendulum", {}), ("triple_pendulum", {}), ("launch/examples/tumbler.py:tumbler", {})],
    ids=lambda v: str(v),
)
def test_the_bodies_stand_where_the_measured_joints_are(robot: str, parameters: dict[str, float | str]) -> None:
    simulation = moved(robot, **parameters)
    poses = MeasuredPoses(build(robot, **parameters), 60.0).at(measured(simulation, 0.2))
    assert poses is not None
    p, quaternion = simulation.poses()
    np.testing.assert_allclose(np.reshape(poses.p, (-1, 3)), p, atol=1e-8)
    turned = np.abs((np.reshape(poses.quaternion, (-1, 4)) * quaternion).sum(axis=1))  # q and -q are one rotation
    np.testing.assert_allclose(turned, 1.0, atol=1e-12)


CART = """<robot name="cart"><link name="world"/>
<link name="cart"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="floor" type="planar"><axis xyz="0 0 1"/><parent link="world"/><child link="cart"/></joint></robot>"""


def test_the_body_of_a_planar_joint_stands_where_it_was_measured(tmp_path: Path) -> None:
    (tmp_path / "cart.urdf").write_text(CART)
    robot = str(tmp_path / "cart.urdf")
    simulation = Simulation(assemble(build(robot)), step_s=1e-3)
    simulation.reset([0.4, -0.2, 1.3], [0.1, 0.2, 0.3])
    poses = MeasuredPoses(build(robot), 60.0).at(measured(simulation, 0.2))
    assert poses is not None
    np.testing.assert_allclose(np.reshape(poses.p, (-1, 3)), simulation.poses()[0], atol=1e-12)
    turned = (np.reshape(poses.quaternion, (-1, 4)) * simulation.poses()[1]).sum(axis=1)
    np.testing.assert_allclose(np.abs(turned), 1.0, atol=1e-12)


def test_a_joint_that_is_not_measured_stands_as_in_the_model() -> None:
    simulation = moved("rotary_pendulum")
    state = measured(simulation, 0.2)
    found = MeasuredPoses(build("rotary_pendulum"), 60.0)
    found.add_state(state)
    part = RobotState(timestamp=0.2, name=state.name[:1], position=[state.position[0]])
    poses = found.at(part)
    assert poses is not None
    np.testing.assert_allclose(np.reshape(poses.p, (-1, 3)), simulation.poses()[0], atol=1e-8)


def test_poses_come_at_the_rate_of_the_plan_and_again_after_a_reset() -> None:
    found = MeasuredPoses(build("rotary_pendulum"), 50.0)
    times = [0.001 * tick for tick in range(100)]
    said = [time for time in times if found.at(RobotState(timestamp=time)) is not None]
    np.testing.assert_allclose(said, [0.0, 0.02, 0.04, 0.06, 0.08], atol=1e-12)
    assert found.at(RobotState(timestamp=0.0)) is not None

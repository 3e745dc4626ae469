"""Frames on /tf and /tf_static are the link frames of robot_description, as pinocchio computes them from its URDF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed: pip install 'armswing[ros2]'")

from nodes.framework.bridges.ros2.conversion import Sensors, ros_time, transforms
from nodes.framework.bridges.ros2.model import model_of, robot_model
from nodes.framework.messages import BodyPoses, Description, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import PLAN_FILE, Plan, save_plan
from nodes.framework.ros2.interfaces.geometry_msgs import TransformStamped

SENSED = """
from armswing.mechanism import AccelerometerOutput, Body, ForceTorqueOutput, GyroscopeOutput, Joint, Mechanism, Y


def sensed() -> Mechanism:
    bar = Body(name="bar", mass=1.0, inertia=(0.1, 0.1, 0.01, 0, 0, 0), center_of_mass=(0, 0, -0.5))
    return Mechanism(
        name="sensed",
        coordinates="joint",
        bodies=(bar,),
        joints=(Joint(name="hinge", child="bar", child_point=(0.0, 0.0, 0.2), axis=Y),),
        initial_q=(0.3,),
        initial_v=(1.0,),
        outputs=(
            AccelerometerOutput(name="imu", body="bar", point=(0.1, 0, 0.05)),
            GyroscopeOutput(name="imu", body="bar"),
            GyroscopeOutput(name="gyro", body="bar"),
            ForceTorqueOutput(name="wrist", joint="hinge"),
        ),
    )
"""


def matrix(each: TransformStamped) -> Any:
    import pinocchio as pin

    p, q = each.transform.translation, each.transform.rotation
    return pin.SE3(pin.Quaternion(q.w, q.x, q.y, q.z), np.array([p.x, p.y, p.z]))


def in_world(frame: str, tree: dict[str, TransformStamped]) -> Any:
    """Pose of a frame in the world, along the tree of transforms."""
    import pinocchio as pin

    pose = pin.SE3.Identity()
    while frame != "world":
        each = tree[frame]
        pose, frame = matrix(each) * pose, each.header.frame_id
    return pose


@pytest.mark.parametrize("robot", ["rotary_pendulum", "arm_6dof", "charmie"])
def test_the_frames_are_those_of_the_urdf(
    robot: str, started: Callable[[Plan], tuple[Any, Any]], tmp_path: Path
) -> None:
    pin = pytest.importorskip("pinocchio")
    file = tmp_path / "plan.toml"
    file.write_text(f'[sim]\nrobot = "{robot}"\n')
    plan = load_plan(file)
    save_plan(plan, tmp_path / PLAN_FILE)
    server, ear = started(plan)
    for _ in range(30):
        server.step()
    server.publish_state()
    state, description = ear.all(RobotState)[-1], ear.all(Description)[0]
    poses = next(p for p in reversed(ear.all(BodyPoses)) if p.timestamp == state.timestamp)
    model = robot_model(tmp_path, robot)
    frames = [model.frame(robot, body.name) for body in description.bodies]
    moving = transforms(frames, poses, ros_time(poses.timestamp)).transforms
    tree = {each.child_frame_id: each for each in [*model.fixed, *moving]}
    assert len(tree) == len(model.fixed) + len(moving)  # no frame has two parents
    urdf = pin.buildModelFromXML(model.urdf)
    q = pin.neutral(urdf)
    for name, value in zip(state.name, state.position, strict=True):
        if urdf.existJointName(name):
            joint = urdf.joints[urdf.getJointId(name)]
            unbounded = joint.nq == 2
            q[joint.idx_q : joint.idx_q + joint.nq] = [np.cos(value), np.sin(value)] if unbounded else [value]
    data = urdf.createData()
    pin.framesForwardKinematics(urdf, data, q)
    for body in description.bodies:
        place = data.oMf[urdf.getFrameId(body.name, pin.FrameType.BODY)]
        np.testing.assert_allclose(in_world(f"{robot}/{body.name}", tree).homogeneous, place.homogeneous, atol=1e-6)


def test_imus_and_wrenches_are_found_and_have_frames(
    started: Callable[[Plan], tuple[Any, Any]], tmp_path: Path
) -> None:
    (tmp_path / "sensed.py").write_text(SENSED)
    file = tmp_path / "plan.toml"
    file.write_text('[sim]\nrobot = "sensed.py:sensed"\n')
    plan = load_plan(file)
    server, ear = started(plan)
    server.publish_state()
    state, description = ear.state(), ear.all(Description)[0]
    sensors = Sensors.of(description)
    assert sensors.imus == {"imu": (True, True), "gyro": (False, True)}
    assert sensors.wrenches == ("wrist",)
    stamp = ros_time(0.0)
    imu = sensors.imu("imu", "sensed/imu", state, stamp)
    assert imu.angular_velocity.y == pytest.approx(1.0)
    reading = imu.linear_acceleration
    assert [reading.x, reading.y, reading.z] == [state.outputs[f"imu_a{axis}"] for axis in "xyz"]
    assert imu.orientation_covariance[0] == -1.0
    gyro = sensors.imu("gyro", "sensed/gyro", state, stamp)
    assert (gyro.linear_acceleration_covariance[0], gyro.angular_velocity_covariance[0]) == (-1.0, 0.0)
    wrench = sensors.wrench("wrist", "sensed/wrist", state, stamp).wrench
    assert [wrench.force.z, wrench.torque.y] == [state.outputs["wrist_fz"], state.outputs["wrist_ty"]]
    model = model_of(plan.sim.make_mechanism(), "sensed")
    tree = {each.child_frame_id: each for each in model.fixed}
    assert model.shifted == {"bar"}
    assert tree["sensed/imu"].header.frame_id == "sensed/bar.origin"
    assert tree["sensed/imu"].transform.translation.x == 0.1
    assert tree["sensed/wrist"].transform.translation.z == 0.2
    assert tree["sensed/bar"].transform.translation.z == 0.2


def test_a_robot_that_urdf_cannot_express_has_frames_but_no_description() -> None:
    from robots.registry import build

    model = model_of(build("launch/examples/tumbler.py:tumbler"), "tumbler")
    assert model.urdf == ""
    assert "spherical" in model.note
    assert model.free.keys() == {"trunk"}

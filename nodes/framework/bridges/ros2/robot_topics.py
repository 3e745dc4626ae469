"""The topics of ROS 2 that one robot of a launch publishes."""

from __future__ import annotations

from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.conversion import (
    Sensors,
    frame_of,
    joint_state,
    ros_time,
    transforms,
)
from nodes.framework.bridges.ros2.model import RobotModel
from nodes.framework.bridges.ros2.session import RosNode, RosPublisher
from nodes.framework.messages import BodyPoses, Description, RobotState
from nodes.framework.ros2.interfaces.builtin_interfaces import Time
from nodes.framework.ros2.interfaces.geometry_msgs import WrenchStamped
from nodes.framework.ros2.interfaces.sensor_msgs import Imu, JointState
from nodes.framework.ros2.interfaces.std_msgs import String

KEPT_STATES = 4096  # latest states that a command may answer by their stamps


class RobotTopics:
    """Publishes a robot's joint states, transforms and sensors under the namespace of its name.

    description  description of the robot
    state        latest state; None before the first state
    poses        latest poses; None before the first poses
    earlier      poses before the latest poses, or None
    model        model of the robot; None until `publish_model` was called, or if it is unknown

    tf  publisher of /tf
    """

    def __init__(self, node: RosNode, tf: RosPublisher, description: Description) -> None:
        self.description = description
        self.model: RobotModel | None = None
        self.state: RobotState | None = None
        self.poses: BodyPoses | None = None
        self.earlier: BodyPoses | None = None
        self.namespace = f"/{graph.ros_name(description.robot)}"
        self._seqs: dict[int, int] = {}  # {stamp, ns: seq of the state}
        self._tf, self._node = tf, node
        self._frames: list[str] | None = None  # of the bodies, as soon as the model is known
        self._joints = node.publisher(f"{self.namespace}/joint_states", JointState)
        self._sensors = Sensors.of(description)
        self._imus = {name: node.publisher(self._topic(name, "imu"), Imu) for name in self._sensors.imus}
        self._wrenches = {
            name: node.publisher(self._topic(name, "wrench"), WrenchStamped) for name in self._sensors.wrenches
        }

    def _topic(self, name: str, leaf: str) -> str:
        return f"{self.namespace}/{graph.ros_name(name)}/{leaf}"

    def publish_model(self, model: RobotModel | None) -> None:
        """Publish the robot's URDF, latched, if it has one. Poses are published from now on."""
        self.model = model
        if model is not None and model.urdf:
            publisher = self._node.publisher(f"{self.namespace}/robot_description", String, graph.LATCHED)
            publisher.publish(String(model.urdf))
        robot, bodies = self.description.robot, [body.name for body in self.description.bodies]
        self._frames = [frame_of(robot, name) if model is None else model.frame(robot, name) for name in bodies]

    def publish_state(self, state: RobotState, stamp: Time) -> None:
        """Publish a state, and the readings of the sensors."""
        self.state = state
        self._seqs[round(state.timestamp * 1e9)] = state.seq
        if len(self._seqs) > KEPT_STATES:
            del self._seqs[next(iter(self._seqs))]
        self._joints.publish(joint_state(state, stamp))
        robot = self.description.robot
        for name, publisher in self._imus.items():
            publisher.publish(self._sensors.imu(name, frame_of(robot, name), state, stamp))
        for name, publisher in self._wrenches.items():
            publisher.publish(self._sensors.wrench(name, frame_of(robot, name), state, stamp))

    def publish_poses(self, poses: BodyPoses) -> None:
        """Publish the poses of the bodies on /tf."""
        if self.poses is None or poses.timestamp > self.poses.timestamp:
            self.earlier = self.poses
        elif poses.timestamp < self.poses.timestamp:
            self.earlier = None
        self.poses = poses
        if self._frames is not None:
            self._tf.publish(transforms(self._frames, poses, ros_time(poses.timestamp)))

    def close(self) -> None:
        """Undeclare the robot's node and topics."""
        self._node.close()

    def answered(self, stamp_ns: int) -> int | None:
        """Sequence number of the state with this stamp; None for another stamp, as that of another clock, and for 0."""
        return self._seqs.get(stamp_ns) if stamp_ns else None

    def forget_states(self) -> None:
        """Forget the states, after the simulation time was set back."""
        self._seqs.clear()
        self.earlier = None

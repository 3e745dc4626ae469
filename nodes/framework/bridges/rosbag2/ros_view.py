"""Messages of a recording as messages of ROS 2, on the topics that the live bridge to ROS 2 uses."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.framework.bridges.ros2.conversion import Sensors, frame_of, joint_state, ros_time, transforms
from nodes.framework.bridges.ros2.graph import ros_name
from nodes.framework.bridges.ros2.model import RobotModel
from nodes.framework.messages import (
    BodyPoses,
    Description,
    JointCommand,
    JointReference,
    Message,
    RobotState,
    Twist,
)
from nodes.framework.ros2.interface import RosMessage
from nodes.framework.ros2.interfaces.builtin_interfaces import Time
from nodes.framework.ros2.interfaces.geometry_msgs import Twist as RosTwist
from nodes.framework.ros2.interfaces.geometry_msgs import Vector3
from nodes.framework.ros2.interfaces.rosgraph_msgs import Clock
from nodes.framework.ros2.interfaces.sensor_msgs import JointState
from nodes.framework.ros2.interfaces.std_msgs import Header, String
from nodes.framework.ros2.interfaces.tf2_msgs import TFMessage
from nodes.framework.ros2.interfaces.trajectory_msgs import JointTrajectory, JointTrajectoryPoint

LATCHED = ("tf_static", "robot_description")  # topics whose latest message later subscribers receive
_JOINT_STATES = {"state": "joint_states", "measured_state": "measured_joint_states"}
_COMMANDS = {
    "command": "joint_commands",
    "raw_command": "raw_joint_commands",
    "applied_command": "applied_joint_commands",
}

Named = tuple[str, RosMessage]  # topic and message


class RosView:
    """Converts the messages of a recording in the order of the file. Messages without a ROS type have no result.

    models  {robot: its model}, as far as it is known
    """

    def __init__(self, models: dict[str, RobotModel]) -> None:
        self._models = models
        self._frames: dict[str, list[str]] = {}  # {robot: frames of its bodies}
        self._sensors: dict[str, Sensors] = {}
        self._clock_ns = -1

    def convert(self, topic: str, message: Message, time_ns: int) -> Iterator[Named]:
        """Yield (topic, message) of ROS for a message of the recording with its log time."""
        robot, _, leaf = topic.rpartition("/")
        name, stamp = f"/{ros_name(robot)}", ros_time(message.timestamp)
        if isinstance(message, RobotState) and leaf in _JOINT_STATES:
            if leaf == "state":
                yield from self._of_state(robot, name, message, stamp, time_ns)
            yield f"{name}/{_JOINT_STATES[leaf]}", joint_state(message, stamp)
        elif isinstance(message, BodyPoses) and leaf == "body_poses" and robot in self._frames:
            yield "/tf", transforms(self._frames[robot], message, stamp)
        elif isinstance(message, JointCommand) and leaf in _COMMANDS:
            yield f"{name}/{_COMMANDS[leaf]}", joint_command(message, stamp)
        elif isinstance(message, JointReference):
            yield f"{name}/{leaf}", joint_trajectory(message, stamp)
        elif isinstance(message, Twist):
            yield f"{name}/{leaf}", RosTwist(Vector3(*message.linear), Vector3(*message.angular))
        elif isinstance(message, Description) and robot not in self._frames:
            yield from self._of_description(robot, name, message)

    def _of_description(self, robot: str, name: str, description: Description) -> Iterator[Named]:
        model = self._models.get(robot)
        bodies = [body.name for body in description.bodies]
        self._frames[robot] = [frame_of(robot, body) if model is None else model.frame(robot, body) for body in bodies]
        self._sensors[robot] = Sensors.of(description)
        if model is not None:
            if model.urdf:
                yield f"{name}/robot_description", String(model.urdf)
            yield "/tf_static", TFMessage([each for known in self._models.values() for each in known.fixed])

    def _of_state(self, robot: str, name: str, state: RobotState, stamp: Time, time_ns: int) -> Iterator[Named]:
        if time_ns != self._clock_ns:
            self._clock_ns = time_ns
            yield "/clock", Clock(ros_time(time_ns / 1e9))
        if (sensors := self._sensors.get(robot)) is None:
            return
        for sensor in sensors.imus:
            yield f"{name}/{ros_name(sensor)}/imu", sensors.imu(sensor, frame_of(robot, sensor), state, stamp)
        for sensor in sensors.wrenches:
            yield f"{name}/{ros_name(sensor)}/wrench", sensors.wrench(sensor, frame_of(robot, sensor), state, stamp)


def joint_command(command: JointCommand, stamp: Time) -> JointState:
    """A command as the joint state that has the values in the list of the command's mode; the other lists are empty."""
    return JointState(Header(stamp), name=command.name, **{command.mode: command.value})


def joint_trajectory(reference: JointReference, stamp: Time) -> JointTrajectory:
    """A reference as a trajectory of one point, to be reached at once."""
    point = JointTrajectoryPoint(reference.position, reference.velocity, reference.acceleration)
    return JointTrajectory(Header(stamp), reference.name, [point])

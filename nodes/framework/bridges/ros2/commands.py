"""The topics of ROS 2 on which one robot of a launch receives commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nodes.framework.bridges.ros2.command_conversion import (
    MODES,
    Actuators,
    Mode,
    array_command,
    base_velocity,
    joint_commands,
)
from nodes.framework.bridges.ros2.commander import Commander
from nodes.framework.bridges.ros2.conversion import nanoseconds
from nodes.framework.bridges.ros2.graph import Attachment
from nodes.framework.bridges.ros2.robot_topics import RobotTopics
from nodes.framework.bridges.ros2.session import RosNode
from nodes.framework.bridges.ros2.trajectories import Trajectory, trajectory_of
from nodes.framework.messages import JointCommand, JointReference, RobotState
from nodes.framework.ros2.interface import RosMessage
from nodes.framework.ros2.interfaces.geometry_msgs import Twist
from nodes.framework.ros2.interfaces.sensor_msgs import JointState
from nodes.framework.ros2.interfaces.std_msgs import Float64MultiArray
from nodes.framework.ros2.interfaces.trajectory_msgs import JointTrajectory


class RobotCommands:
    """Subscribes to a robot's commands, and hands them to the commander.

    topics  the robot's topics, which have its description and latest state

    A command whose stamp is that of a state answers this state; any other command answers none.
    """

    def __init__(self, node: RosNode, topics: RobotTopics, commander: Commander) -> None:
        self._topics, self._commander, self._node = topics, commander, node
        self._robot = topics.description.robot
        self._actuators = Actuators.of(topics.description)
        self._trajectory: Trajectory | None = None
        self._subscribe("joint_command", JointState, self._take_joints)
        for mode in MODES:
            if self._actuators.accepting(mode):
                self._subscribe(f"{mode}/commands", Float64MultiArray, partial(self._take_array, mode))
        self._subscribe("joint_trajectory", JointTrajectory, self._take_trajectory)
        self._subscribe("cmd_vel", Twist, self._take_velocity)

    @property
    def lost(self) -> int:
        """Number of commands lost on the way to the bridge."""
        return self._node.lost

    def follow_trajectory(self, state: RobotState) -> None:
        """Publish the reference of the present trajectory at the time of a state, until the trajectory has ended."""
        trajectory = self._trajectory
        if trajectory is None or state.timestamp < trajectory.times[0]:
            return
        reference = trajectory.at(state.timestamp)
        reference.timestamp = state.timestamp
        try:
            topic, message = self._routed(reference, state)
            self._commander.put(topic, message)
        except ValueError as error:
            self._node.refuse(f"{self._topics.namespace}/joint_trajectory", str(error))
            self._trajectory = None
        if state.timestamp >= trajectory.end and self._trajectory is trajectory:
            self._trajectory = None

    def _subscribe(self, leaf: str, kind: type[RosMessage], take: Callable[[Any], None]) -> None:
        def receive(message: Any, attachment: Attachment) -> None:
            if self._topics.state is None:
                raise ValueError("the robot has no state yet")
            take(message)

        self._node.subscribe(f"{self._topics.namespace}/{leaf}", kind, receive)

    def _take_joints(self, message: JointState) -> None:
        stamp_ns = nanoseconds(message.header.stamp)
        commands = joint_commands(message, self._actuators)
        self._trajectory = None
        for command in commands:
            self._send(command, stamp_ns)

    def _take_array(self, mode: Mode, message: Float64MultiArray) -> None:
        command = array_command(message.data, mode, self._actuators)
        self._trajectory = None
        self._send(command, 0)

    def _take_velocity(self, message: Twist) -> None:
        velocity = base_velocity(message)
        assert self._topics.state is not None
        velocity.timestamp = self._topics.state.timestamp
        self._commander.put(self._commander.routed(f"{self._robot}/cmd_vel"), velocity)

    def _take_trajectory(self, message: JointTrajectory) -> None:
        state = self._topics.state
        assert state is not None
        if not message.points:
            self._trajectory = None  # stops the present one, as in ros2_control
            return
        stamp_ns = nanoseconds(message.header.stamp)
        start = 1e-9 * stamp_ns if stamp_ns else state.timestamp
        rows = zip(state.name, state.position, state.velocity, strict=True)
        trajectory = trajectory_of(message, start, {name: (q, v) for name, q, v in rows})
        if trajectory.end < state.timestamp:
            raise ValueError(
                f"the trajectory ended at {trajectory.end:g} s and it is {state.timestamp:g} s: stamp it with "
                "simulation time (use_sim_time), or leave the stamp at 0 to begin now"
            )
        self._routed(trajectory.at(state.timestamp), state)  # raises for a robot that cannot follow it
        self._trajectory = trajectory

    def _routed(self, reference: JointReference, state: RobotState) -> tuple[str, JointReference | JointCommand]:
        """The topic and message by which the robot follows a reference.

        A controller of the launch that subscribes to references gets it; otherwise the servos of the joints do.
        """
        commander, topic = self._commander, f"{self._robot}/reference"
        if commander.has_subscriber(topic):
            return topic, reference
        names = [self._actuators.of_joint(name) for name in reference.name]
        for name in names:
            if "position" not in self._actuators.modes[name]:
                raise ValueError(
                    f"no controller of the launch subscribes to {topic!r}, and actuator {name!r} accepts no positions"
                )
        command = JointCommand(mode="position", name=names, value=reference.position, state_seq=state.seq)
        command.timestamp = state.timestamp
        return commander.routed(f"{self._robot}/command"), command

    def _send(self, command: JointCommand, stamp_ns: int) -> None:
        state = self._topics.state
        assert state is not None
        command.state_seq = self._topics.answered(stamp_ns)
        command.timestamp = state.timestamp if command.state_seq is None else 1e-9 * stamp_ns
        self._commander.put(self._commander.routed(f"{self._robot}/command"), command)

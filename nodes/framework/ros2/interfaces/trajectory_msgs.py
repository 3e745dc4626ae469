"""Messages of the ROS package trajectory_msgs."""

from __future__ import annotations

from msgspec import field

from nodes.framework.ros2.interface import RosMessage
from nodes.framework.ros2.interfaces.builtin_interfaces import Duration
from nodes.framework.ros2.interfaces.std_msgs import Header


class JointTrajectoryPoint(RosMessage):
    """A point of a trajectory: one entry per joint, or none, and the time since the trajectory's start."""

    positions: list[float] = []
    velocities: list[float] = []
    accelerations: list[float] = []
    effort: list[float] = []
    time_from_start: Duration = field(default_factory=Duration)


class JointTrajectory(RosMessage):
    """A motion of joints."""

    header: Header = field(default_factory=Header)
    joint_names: list[str] = []
    points: list[JointTrajectoryPoint] = []

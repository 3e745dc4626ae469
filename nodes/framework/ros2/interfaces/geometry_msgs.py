"""Messages of the ROS package geometry_msgs."""

from __future__ import annotations

from msgspec import field

from nodes.framework.ros2.interface import RosMessage
from nodes.framework.ros2.interfaces.std_msgs import Header


class Vector3(RosMessage):
    """A vector."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0


class Point(RosMessage):
    """A point, m."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0


class Quaternion(RosMessage):
    """A rotation as a unit quaternion."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    w: float = 1.0


class Pose(RosMessage):
    """Position and orientation."""

    position: Point = field(default_factory=Point)
    orientation: Quaternion = field(default_factory=Quaternion)


class PoseStamped(RosMessage):
    """A pose with time and frame."""

    header: Header = field(default_factory=Header)
    pose: Pose = field(default_factory=Pose)


class Transform(RosMessage):
    """Position and orientation of one frame in another one."""

    translation: Vector3 = field(default_factory=Vector3)
    rotation: Quaternion = field(default_factory=Quaternion)


class TransformStamped(RosMessage):
    """Transform of the frame `child_frame_id` in the frame of the header."""

    header: Header = field(default_factory=Header)
    child_frame_id: str = ""
    transform: Transform = field(default_factory=Transform)


class Twist(RosMessage):
    """Linear velocity, m/s, and angular velocity, rad/s."""

    linear: Vector3 = field(default_factory=Vector3)
    angular: Vector3 = field(default_factory=Vector3)


class TwistStamped(RosMessage):
    """A twist with time and frame."""

    header: Header = field(default_factory=Header)
    twist: Twist = field(default_factory=Twist)


class Accel(RosMessage):
    """Linear acceleration, m/s^2, and angular acceleration, rad/s^2."""

    linear: Vector3 = field(default_factory=Vector3)
    angular: Vector3 = field(default_factory=Vector3)


class Wrench(RosMessage):
    """Force, N, and torque, N m."""

    force: Vector3 = field(default_factory=Vector3)
    torque: Vector3 = field(default_factory=Vector3)


class WrenchStamped(RosMessage):
    """A wrench with time and frame."""

    header: Header = field(default_factory=Header)
    wrench: Wrench = field(default_factory=Wrench)

"""Messages of the ROS package sensor_msgs."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from nodes.framework.ros2.interface import RosMessage, UInt8s, UInt32
from nodes.framework.ros2.interfaces.geometry_msgs import Quaternion, Vector3
from nodes.framework.ros2.interfaces.std_msgs import Header


def _unknown_covariance() -> list[float]:
    return [0.0] * 9


class JointState(RosMessage):
    """Positions, velocities and efforts of joints: one entry per name, or none."""

    header: Header = field(default_factory=Header)
    name: list[str] = []
    position: list[float] = []
    velocity: list[float] = []
    effort: list[float] = []


class Imu(RosMessage):
    """Measurement of an inertial measurement unit; covariances are 3 x 3, all 0 if unknown."""

    header: Header = field(default_factory=Header)
    orientation: Quaternion = field(default_factory=Quaternion)
    orientation_covariance: Annotated[list[float], 9] = field(default_factory=_unknown_covariance)
    angular_velocity: Vector3 = field(default_factory=Vector3)
    angular_velocity_covariance: Annotated[list[float], 9] = field(default_factory=_unknown_covariance)
    linear_acceleration: Vector3 = field(default_factory=Vector3)
    linear_acceleration_covariance: Annotated[list[float], 9] = field(default_factory=_unknown_covariance)


class Image(RosMessage):
    """A picture of `height` rows with `step` bytes each."""

    header: Header = field(default_factory=Header)
    height: UInt32 = 0
    width: UInt32 = 0
    encoding: str = ""
    is_bigendian: Annotated[int, "uint8"] = 0
    step: UInt32 = 0
    data: UInt8s = b""

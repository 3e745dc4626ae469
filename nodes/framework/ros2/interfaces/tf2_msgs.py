"""Messages of the ROS package tf2_msgs."""

from __future__ import annotations

from nodes.framework.ros2.interface import RosMessage
from nodes.framework.ros2.interfaces.geometry_msgs import TransformStamped


class TFMessage(RosMessage):
    """Transforms between frames."""

    transforms: list[TransformStamped] = []

"""Messages of the ROS package rosgraph_msgs."""

from __future__ import annotations

from msgspec import field

from nodes.framework.ros2.interface import RosMessage
from nodes.framework.ros2.interfaces.builtin_interfaces import Time


class Clock(RosMessage):
    """Simulation time."""

    clock: Time = field(default_factory=Time)

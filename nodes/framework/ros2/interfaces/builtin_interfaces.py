"""Messages of the ROS package builtin_interfaces."""

from __future__ import annotations

from nodes.framework.ros2.interface import Int32, RosMessage, UInt32


class Time(RosMessage):
    """A time: seconds, and nanoseconds of the next second."""

    sec: Int32 = 0
    nanosec: UInt32 = 0


class Duration(RosMessage):
    """A duration: seconds, and nanoseconds of the next second."""

    sec: Int32 = 0
    nanosec: UInt32 = 0

"""Messages of the ROS package std_msgs."""

from __future__ import annotations

from msgspec import field

from nodes.framework.ros2.interface import RosMessage, UInt32
from nodes.framework.ros2.interfaces.builtin_interfaces import Time


class Header(RosMessage):
    """Time and coordinate frame of a message."""

    stamp: Time = field(default_factory=Time)
    frame_id: str = ""


class Empty(RosMessage):
    """A message without fields."""


class Bool(RosMessage):
    """A truth value."""

    data: bool = False


class String(RosMessage):
    """A text."""

    data: str = ""


class Float64(RosMessage):
    """A number."""

    data: float = 0.0


class MultiArrayDimension(RosMessage):
    """A dimension of an array: its name, length and stride."""

    label: str = ""
    size: UInt32 = 0
    stride: UInt32 = 0


class MultiArrayLayout(RosMessage):
    """The dimensions of an array."""

    dim: list[MultiArrayDimension] = []
    data_offset: UInt32 = 0


class Float64MultiArray(RosMessage):
    """An array of numbers."""

    layout: MultiArrayLayout = field(default_factory=MultiArrayLayout)
    data: list[float] = []

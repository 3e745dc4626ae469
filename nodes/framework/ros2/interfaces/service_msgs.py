"""Messages of the ROS package service_msgs."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from nodes.framework.ros2.interface import Int64, RosMessage, UInt8
from nodes.framework.ros2.interfaces.builtin_interfaces import Time


class ServiceEventInfo(RosMessage):
    """What happened to a request or a response of a service, when, and of which client."""

    event_type: UInt8 = 0
    stamp: Time = field(default_factory=Time)
    client_gid: Annotated[bytes, "uint8", 16] = bytes(16)
    sequence_number: Int64 = 0

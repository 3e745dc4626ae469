"""Definitions in the format of bags are read by rosbags as the same types."""

from __future__ import annotations

from typing import Any

from nodes.framework.ros2.definition import SEPARATOR, definition
from nodes.framework.ros2.interface import RosMessage, type_name
from nodes.framework.ros2.interfaces.sensor_msgs import JointState


def test_the_definition_of_a_joint_state() -> None:
    assert definition(JointState) == (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n"
        f"{SEPARATOR}\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n"
        f"{SEPARATOR}\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
    )


def test_rosbags_reads_a_definition_as_the_type_that_it_has(message: type[RosMessage], store: Any) -> None:
    from rosbags.typesys import get_types_from_msg

    name = type_name(message).replace("/srv/", "/msg/")
    for read, (_, fields) in get_types_from_msg(definition(message) or "\n", name).items():
        _, known = store.fielddefs[type_name(message) if read == name else read]
        assert fields == [each for each in known if each[0] != "structure_needs_at_least_one_member"]

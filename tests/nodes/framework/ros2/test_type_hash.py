"""Type hashes: equal to those that ROS 2 prints and to those of rosbags; definitions equal to those of ROS."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from nodes.framework.ros2.interface import Int64, RosMessage, RosService, fields, type_name
from nodes.framework.ros2.type_hash import type_hash

# As printed by `ros2 topic info --verbose`, metadata.yaml of rosbag2 and liveliness tokens of rmw_zenoh, Jazzy or later
PUBLISHED = {
    "std_msgs/msg/String": "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
    "std_msgs/msg/Header": "RIHS01_f49fb3ae2cf070f793645ff749683ac6b06203e41c891e17701b1cb597ce6a01",
    "sensor_msgs/msg/JointState": "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
    "sensor_msgs/msg/Image": "RIHS01_d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47",
    "sensor_msgs/msg/Imu": "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b",
    "rosgraph_msgs/msg/Clock": "RIHS01_692f7a66e93a3c83e71765d033b60349ba68023a8c689a79e48078bcb5c58564",
    "tf2_msgs/msg/TFMessage": "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087",
    "rcl_interfaces/msg/ParameterEvent": "RIHS01_043e627780fcad87a22d225bc2a037361dba713fca6a6b9f4b869a5aa0393204",
    "rcl_interfaces/srv/GetParameters": "RIHS01_bf9803d5c74cf989a5de3e0c2e99444599a627c7ff75f97b8c05b01003675cbc",
    "rcl_interfaces/srv/ListParameters": "RIHS01_3e6062bfbb27bfb8730d4cef2558221f51a11646d78e7bb30a1e83afac3aad9d",
}


class AddTwoInts(RosService):
    """A service of the ROS package example_interfaces, whose hash the design document of rmw_zenoh has."""

    class Request(RosMessage):
        a: Int64 = 0
        b: Int64 = 0

    class Response(RosMessage):
        sum: Int64 = 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_hash_is_the_one_that_ros_2_prints(name: str) -> None:
    package, _, kind = name.split("/")
    interface = getattr(importlib.import_module(f"nodes.framework.ros2.interfaces.{package}"), kind)
    assert type_name(interface) == name
    assert type_hash(interface) == PUBLISHED[name]


def test_the_hash_of_a_service_is_the_one_in_the_design_document(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (AddTwoInts, AddTwoInts.Request, AddTwoInts.Response):
        monkeypatch.setattr(each, "__module__", "example_interfaces")
    monkeypatch.setitem(sys.modules, "example_interfaces", sys.modules[__name__])
    expected = "RIHS01_e118de6bf5eeb66a2491b5bda11202e7b68f198d6f67922cf30364858239c81a"
    assert type_hash(AddTwoInts) == expected


def test_the_hash_is_the_one_of_rosbags(message: type[RosMessage], store: Any) -> None:
    assert type_hash(message) == store.hash_rihs01(type_name(message))


def test_fields_are_those_of_ros(message: type[RosMessage], store: Any) -> None:
    ours = [each.name for each in fields(message)]
    theirs = [name for name, _ in store.fielddefs[type_name(message)][1]]
    assert ours == [name for name in theirs if name != "structure_needs_at_least_one_member"]


def test_constants_are_those_of_ros(message: type[RosMessage], store: Any) -> None:
    ours = {name: value for name, value in vars(message).items() if name.isupper()}
    theirs = {name: value for name, _, value in store.fielddefs[type_name(message)][0]}
    assert ours.items() <= theirs.items()

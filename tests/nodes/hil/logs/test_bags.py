"""Bags of ROS and MCAP files with JSON: topics become tables, messages of several publishers are kept apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mcap.writer import Writer
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

from nodes.hil.logs.bags import read_bag
from nodes.hil.logs.columns import Channels, Columns, TimeColumn
from nodes.hil.logs.files import read_tables
from nodes.hil.logs.importing import import_log
from nodes.hil.logs.tables import LogError

STORE = get_typestore(Stores.ROS2_HUMBLE)
TIMES = 1.7e9 + 0.01 * np.arange(50)


def write_bag(path: Path, storage: StoragePlugin) -> None:
    """Joint states of an arm at 100 Hz and, on the same topic, of a gripper at 50 Hz."""
    JointState = STORE.types["sensor_msgs/msg/JointState"]
    Header, Time = STORE.types["std_msgs/msg/Header"], STORE.types["builtin_interfaces/msg/Time"]
    with BagWriter(path, version=9, storage_plugin=storage) as writer:
        topic = writer.add_connection("/joint_states", JointState.__msgtype__, typestore=STORE)
        for number, time in enumerate(TIMES):
            publishers = [(["arm", "pendulum"], [np.sin(number), 2.0])] + [(["gripper"], [0.5])] * (number % 2)
            for names, position in publishers:
                stamp = Time(sec=int(time), nanosec=round(time % 1.0 * 1e9))
                values = np.array(position)
                message = JointState(
                    header=Header(stamp=stamp, frame_id=""),
                    name=names,
                    position=values,
                    velocity=10.0 * values,
                    effort=np.array([]),
                )
                data = STORE.serialize_cdr(message, JointState.__msgtype__)
                writer.write(topic, round(time * 1e9) + 5_000_000, data)


@pytest.mark.parametrize("storage", list(StoragePlugin))
def test_a_rosbag2_becomes_a_log_by_the_names_of_its_joints(storage: StoragePlugin, tmp_path: Path) -> None:
    write_bag(tmp_path / "bag", storage)
    arm, gripper = read_tables(tmp_path / "bag")
    assert (arm.name, gripper.name) == ("/joint_states", "/joint_states#2")
    np.testing.assert_allclose(arm.columns["stamp"], TIMES, atol=1e-6)
    np.testing.assert_allclose(arm.columns["time"] - arm.columns["stamp"], 0.005, atol=1e-6)
    assert len(gripper.columns["position[gripper]"]) == 25
    joints = {
        name: Channels(position=f"position[{name}]", velocity=f"velocity[{name}]") for name in ("arm", "pendulum")
    }
    columns = Columns(
        robot="rotary_pendulum", parameters={"coordinates": "joint"}, time=TimeColumn(column="stamp"), joints=joints
    )
    log = import_log([arm, gripper], columns)
    np.testing.assert_allclose(log.channels["position"][:, 0], np.sin(np.arange(50)))
    assert log.note.shift_s == pytest.approx(1.7e9)
    assert log.note.missing["effort"] == ["arm"]  # the pendulum has no motor


def test_a_single_mcap_file_of_a_bag_is_read_without_its_folder(tmp_path: Path) -> None:
    write_bag(tmp_path / "bag", StoragePlugin.MCAP)
    (file,) = (tmp_path / "bag").glob("*.mcap")
    (tmp_path / "alone.mcap").write_bytes(file.read_bytes())
    assert [table.name for table in read_bag(tmp_path / "alone.mcap")] == ["/joint_states", "/joint_states#2"]


def test_an_mcap_file_with_json_needs_no_ros(tmp_path: Path) -> None:
    with (tmp_path / "log.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("state", "jsonschema", b"{}")
        channel = writer.register_channel("state", "json", schema)
        for number in range(5):
            content = {"motor": {"angle": 0.1 * number, "ok": True}, "text": "x", "list": [1, 2]}
            writer.add_message(channel, number * 10_000_000, json.dumps(content).encode(), number * 10_000_000)
        writer.finish()
    (table,) = read_bag(tmp_path / "log.mcap")
    np.testing.assert_allclose(table.columns["time"], 0.01 * np.arange(5))
    np.testing.assert_allclose(table.columns["motor.angle"], 0.1 * np.arange(5))
    assert set(table.columns) == {"time", "motor.angle", "motor.ok", "list[0]", "list[1]"}


@pytest.mark.parametrize("name", ["broken.mcap", "broken.db3", "broken.bag", "broken.npy", "broken.csv"])
def test_a_file_that_is_no_log_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x93\xff\x00 nothing")
    with pytest.raises(LogError, match=name) as found:
        read_tables(tmp_path / name)
    assert "\n" not in str(found.value)

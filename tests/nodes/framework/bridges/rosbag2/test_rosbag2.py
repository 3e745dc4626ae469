"""Bags of ROS 2: read by rosbags they equal the recording to the last bit, and imported they are the same recording."""

from __future__ import annotations

import random
import resource
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

rosbags = pytest.importorskip("rosbags")
from rosbags.highlevel import AnyReader  # noqa: E402
from rosbags.rosbag2 import StoragePlugin, Writer  # noqa: E402
from rosbags.typesys import Stores, get_typestore  # noqa: E402

from nodes.cli.application import run  # noqa: E402
from nodes.framework.bridges.rosbag2.export import export_rosbag2  # noqa: E402
from nodes.framework.bridges.rosbag2.restore import BagError, restore  # noqa: E402
from nodes.framework.messages import (  # noqa: E402
    BodyPoses,
    Description,
    Event,
    JointCommand,
    JointReference,
    PlotValues,
    RobotState,
    Status,
    Twist,
)
from nodes.framework.messages.codec import AnyMessage, decode  # noqa: E402
from nodes.framework.plan.launch_plan import Plan, SimPlan  # noqa: E402
from nodes.framework.recording.reader import Recorded, RecordingFile  # noqa: E402
from nodes.framework.recording.writer import RecordingWriter  # noqa: E402
from nodes.framework.simulation.compose import compose  # noqa: E402

STORAGES = ("mcap", "sqlite3")
ROBOT = "rotary_pendulum"
STORE = get_typestore(Stores.ROS2_JAZZY)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in lockstep with the messages of users, commands, a reset, and numbers that JSON cannot express."""
    path = tmp_path_factory.mktemp("recorded") / "run.mcap"
    sim = SimPlan(robot=ROBOT, mode="lockstep", parameters={"coordinates": "joint"})
    plan = Plan(name="fall", folder=".", sim=sim, nodes=[])
    metadata = {"robot": ROBOT, "plan": msgspec.json.encode({"sim": msgspec.to_builtins(sim)}).decode()}
    source = random.Random(3)
    with RecordingWriter(path, metadata) as writer:

        def carry(topic: str, payload: bytes) -> None:
            message = decode(topic, payload)
            writer.write(topic, message, message.timestamp)
            if isinstance(message, RobotState):
                add_others(writer, message.timestamp, source)

        with compose(plan, carry) as composition:
            composition.run(0.1)
        writer.write(f"{ROBOT}/event", Event(timestamp=0.0, kind="reset"), 0.0)
        with compose(plan, carry) as composition:
            composition.run(0.05)
    return path


@pytest.fixture
def file(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recording in a folder of its own."""
    return Path(shutil.copy(recorded, tmp_path))


def add_others(writer: RecordingWriter, t: float, source: random.Random) -> None:
    for mode in ("effort", "velocity", "position"):
        value = [source.gauss(0.0, 1.0), float("nan")]
        command = JointCommand(timestamp=t, mode=mode, name=["arm", "ä"], value=value, state_seq=3)  # type: ignore[arg-type]
        writer.write(f"{ROBOT}/command", command, t)
    reference = JointReference(timestamp=t, name=["arm"], position=[source.random()], velocity=[-0.0])
    writer.write(f"{ROBOT}/reference", reference, t)
    writer.write(f"{ROBOT}/cmd_vel", Twist(timestamp=t, linear=[source.random(), 1e-300, 0.1]), t)
    measured = RobotState(timestamp=t, name=["arm"], position=[source.random()], velocity=[0.1], clock="driver")
    writer.write(f"{ROBOT}/measured_state", measured, t)
    writer.write(f"{ROBOT}/hold/plot", PlotValues(timestamp=t, values={"error": [1.0, float("inf")]}), t)
    writer.write(f"{ROBOT}/gait phase", AnyMessage(timestamp=t, content={"timestamp": t, "phase": "stance", "n": 3}), t)
    writer.write(f"{ROBOT}/gait_phase", AnyMessage(timestamp=t, content={"timestamp": t, "phase": [0.1]}), t)
    writer.write("status", Status(timestamp=t, node="a", counters={"sent": 1}), max(t - 0.003, 0.0))


def content_of(path: Path) -> tuple[list[Recorded], dict[str, str], dict[str, str]]:
    recording = RecordingFile(path)
    return list(recording), recording.metadata, recording.channels


def read_bag(folder: Path) -> Iterator[tuple[str, str, int, Any]]:
    with AnyReader([folder]) as reader:
        for connection, time, data in reader.messages():
            yield connection.topic, connection.msgtype, time, reader.deserialize(data, connection.msgtype)


def bits(values: Any) -> bytes:
    return struct.pack(f"{len(values)}d", *values)


@pytest.mark.parametrize("storage", STORAGES)
def test_an_exported_bag_is_imported_as_the_same_recording(storage: str, file: Path, tmp_path: Path) -> None:
    bag, again = tmp_path / "bag", tmp_path / "again.mcap"
    assert run(["export", str(file), "--rosbag2", "-o", str(bag), "--storage", storage]) == 0
    assert run(["import", str(bag), "-o", str(again)]) == 0
    messages, metadata, channels = content_of(file)
    assert len(messages) > 1000
    assert len({each.topic for each in messages}) == 13
    assert content_of(again) == (messages, metadata, channels)
    assert RecordingFile(again).scan().warning == ""


@pytest.mark.parametrize("storage", STORAGES)
def test_rosbags_reads_every_number_of_the_recording_to_the_last_bit(storage: str, file: Path, tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    assert run(["export", str(file), "--rosbag2", "-o", str(bag), "--storage", storage]) == 0
    found: dict[str, list[Any]] = {}
    for topic, kind, time, message in read_bag(bag):
        assert message.__msgtype__ == kind
        found.setdefault(topic, []).append((time, message))
    compared = 0
    shift = 0
    for recorded in RecordingFile(file):
        message = recorded.message()
        robot, _, leaf = recorded.topic.rpartition("/")
        if isinstance(message, Event) and message.kind == "reset":
            shift = 100_000_000  # the second run begins where the first one has ended
        stamp_ns = round(message.timestamp * 1e9) if message is not None else 0
        if isinstance(message, RobotState):
            names = {"state": "joint_states", "measured_state": "measured_joint_states"}
            time, joints = found[f"/{robot}/{names[leaf]}"].pop(0)
            assert joints.name == message.name
            assert bits(joints.position) == bits(message.position)
            assert bits(joints.velocity) == bits(message.velocity)
            assert bits(joints.effort) == bits(message.effort)
            assert joints.header.stamp.sec * 10**9 + joints.header.stamp.nanosec == stamp_ns
            assert time == recorded.time_ns + shift
            if leaf == "state":
                (clock_time, clock) = found["/clock"].pop(0)
                assert clock_time == time
                assert clock.clock.sec * 10**9 + clock.clock.nanosec == recorded.time_ns
        elif isinstance(message, JointCommand):
            _, joints = found[f"/{robot}/joint_commands"].pop(0)
            assert joints.name == message.name
            assert {mode for mode in ("effort", "velocity", "position") if len(getattr(joints, mode))} == {message.mode}
            assert bits(getattr(joints, message.mode)) == bits(message.value)
        elif isinstance(message, JointReference):
            _, trajectory = found[f"/{robot}/reference"].pop(0)
            (point,) = trajectory.points
            assert trajectory.joint_names == message.name
            assert bits(point.positions) == bits(message.position)
            assert bits(point.velocities) == bits(message.velocity)
        elif isinstance(message, Twist):
            _, twist = found[f"/{robot}/cmd_vel"].pop(0)
            assert bits([twist.linear.x, twist.linear.y, twist.linear.z]) == bits(message.linear)
        elif isinstance(message, BodyPoses):
            _, transforms = found["/tf"].pop(0)
            p = [each.transform.translation for each in transforms.transforms]
            q = [each.transform.rotation for each in transforms.transforms]
            assert bits([x for point in p for x in (point.x, point.y, point.z)]) == bits(message.p)
            assert bits([x for turn in q for x in (turn.w, turn.x, turn.y, turn.z)]) == bits(message.quaternion)
            assert {each.header.frame_id for each in transforms.transforms} == {"world"}
        else:
            continue
        compared += 1
    assert compared > 1000
    left = {topic for topic, rows in found.items() if rows and not topic.startswith("/armswing/")}
    assert left == {f"/{ROBOT}/robot_description", "/tf_static"}
    (_, urdf), *_ = found[f"/{ROBOT}/robot_description"]
    assert f'<robot name="{ROBOT}"' in urdf.data


def test_readings_of_sensors_are_imu_and_wrench_messages(tmp_path: Path) -> None:
    source, bag = tmp_path / "run.mcap", tmp_path / "bag"
    endings = {"m/s2": "a", "rad/s": "w", "N": "f", "N m": "t"}
    names = {f"{'hand' if letter in 'aw' else 'foot'}_{letter}{axis}": unit for unit, letter in endings.items()
             for axis in "xyz"}  # fmt: skip
    description = Description(robot="dog", outputs=list(names), output_units=list(names.values()))
    generator = random.Random(7)
    rows = [{name: generator.gauss(0.0, 1.0) for name in names} for _ in range(20)]
    with RecordingWriter(source, {}) as writer:
        writer.write("dog/description", description, 0.0)
        for number, row in enumerate(rows):
            state = RobotState(timestamp=0.001 * number, name=["a"], position=[0.0], velocity=[0.0], outputs=row)
            writer.write("dog/state", state, state.timestamp)
    assert run(["export", str(source), "--rosbag2", "-o", str(bag)]) == 0
    found: dict[str, list[Any]] = {}
    for topic, *_, message in read_bag(bag):
        found.setdefault(topic, []).append(message)
    assert len(found["/dog/hand/imu"]) == len(found["/dog/foot/wrench"]) == len(rows)
    for row, imu, wrench in zip(rows, found["/dog/hand/imu"], found["/dog/foot/wrench"], strict=True):
        vectors = {"hand_a": imu.linear_acceleration, "hand_w": imu.angular_velocity}
        vectors |= {"foot_f": wrench.wrench.force, "foot_t": wrench.wrench.torque}
        for name, vector in vectors.items():
            assert bits([vector.x, vector.y, vector.z]) == bits([row[f"{name}{axis}"] for axis in "xyz"])
        assert imu.orientation_covariance[0] == -1.0  # not measured
        assert imu.header.frame_id == "dog/hand"


@pytest.mark.parametrize("storage", STORAGES)
def test_the_metadata_names_types_hashes_and_quality_of_service(storage: str, file: Path, tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    assert run(["export", str(file), "--rosbag2", "-o", str(bag), "--storage", storage]) == 0
    about = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert about["version"] == 9
    assert about["storage_identifier"] == storage
    assert about["relative_file_paths"] == [f"bag.{'mcap' if storage == 'mcap' else 'db3'}"]
    assert (bag / about["relative_file_paths"][0]).is_file()
    topics = {row["topic_metadata"]["name"]: row["topic_metadata"] for row in about["topics_with_message_count"]}
    for row in topics.values():
        assert row["type_description_hash"] == STORE.hash_rihs01(row["type"])
    latched = {name for name, row in topics.items() if row["offered_qos_profiles"][0]["durability"] != "volatile"}
    assert latched == {"/armswing/recording", "/tf_static", f"/{ROBOT}/robot_description"}
    assert topics["/clock"]["type"] == "rosgraph_msgs/msg/Clock"


def test_two_exports_of_a_recording_have_the_same_bytes(file: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert run(["export", str(file), "--rosbag2", "-o", str(tmp_path / name / "bag")]) == 0
    for part in ("bag.mcap", "metadata.yaml"):
        assert (tmp_path / "a/bag" / part).read_bytes() == (tmp_path / "b/bag" / part).read_bytes()


def exported(file: Path) -> Path:
    bag = file.parent / "bag"
    assert run(["export", str(file), "--rosbag2", "-o", str(bag)]) == 0
    return bag


def empty_folder(file: Path) -> Path:
    (file.parent / "notes").mkdir()
    (file.parent / "notes/letter.txt").write_text("dear")
    return file.parent / "notes"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (lambda file: [file, "--rosbag2", "-o", exported(file)], "exists; pass --force to replace it"),
        (lambda file: [file, "--rosbag2", "--force", "-o", empty_folder(file)], "is no bag, and is not replaced"),
        (lambda file: [file, "--rosbag2", "--force", "-o", file], "is no bag, and is not replaced"),
        (lambda file: [file, "--rosbag2", "-o", file.parent / "no/bag"], "there is no folder"),
        (lambda file: [file, "--rosbag2", "--storage", "mcpa"], "expected mcap or sqlite3; did you mean 'mcap'?"),
        (lambda file: [file, "--rosbag2", "--run", "1"], "--rosbag2 always writes all runs"),
        (lambda file: [file, "--csv", file.parent / "csv", "--force"], "--force works only with --rosbag2"),
        (lambda file: [file.parent / "rnu.mcap", "--rosbag2"], "no recording"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    options: Callable[[Path], list[Any]], says: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", *map(str, options(file))]
    before = sorted(file.parent.rglob("*"))
    capsys.readouterr()
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert sorted(file.parent.rglob("*")) == before


def test_a_bag_is_replaced_when_asked_and_kept_after_an_error(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = exported(file)
    assert run(["export", str(file), "--rosbag2", "-o", str(bag), "--force", "--storage", "sqlite3"]) == 0
    assert sorted(each.name for each in bag.iterdir()) == ["bag.db3", "metadata.yaml"]
    before = {each: each.read_bytes() for each in bag.iterdir()}
    broken = tmp_path / "broken.mcap"
    broken.write_bytes(b"nothing")
    assert run(["export", str(broken), "--rosbag2", "-o", str(bag), "--force"]) == 2
    assert {each: each.read_bytes() for each in bag.iterdir()} == before
    assert not list(tmp_path.glob(".*"))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may become larger, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_disk_that_refuses_the_bag_leaves_no_part_of_it(
    storage: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with largest_file(100_000):
        code = run(["export", str(file), "--rosbag2", "-o", str(tmp_path / "bag"), "--storage", storage])
    assert code == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"armswing: {tmp_path / 'bag'}: ")
    assert line.endswith("this file was not written")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_disk_that_refuses_the_recording_leaves_no_part_of_it(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag, again = exported(file), tmp_path / "again.mcap"
    before = sorted(tmp_path.rglob("*"))
    with largest_file(100_000):
        assert run(["import", str(bag), "-o", str(again)]) == 2
    assert f"{str(again)!r} cannot be written" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_export_that_is_interrupted_leaves_no_part_of_it(file: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))

    def interrupt(done: int, of: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_rosbag2(file, tmp_path / "bag", progress=interrupt)
    assert sorted(tmp_path.rglob("*")) == before


def test_messages_that_the_recording_lacks_are_named_at_export_and_import(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    bag, again = tmp_path / "bag", tmp_path / "again.mcap"
    assert run(["export", str(file), "--rosbag2", "-o", str(bag)]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert "missing" in line
    assert run(["import", str(bag), "-o", str(again)]) == 1
    assert f"the exported recording was damaged: {line}" in capsys.readouterr().err
    messages, metadata, _ = content_of(file)
    assert content_of(again)[0] == messages
    assert content_of(again)[1] == {**metadata, "damage": line}


def without(bag: Path, target: Path, left_out: str) -> None:
    """Copy a bag without a topic, and every tenth message of the others, as a filter of ROS does."""
    with AnyReader([bag]) as reader, Writer(target, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        connections = {
            each.id: writer.add_connection(each.topic, each.msgtype, typestore=STORE)
            for each in reader.connections
            if each.topic != left_out
        }
        for number, (connection, time, data) in enumerate(reader.messages()):
            if connection.topic != left_out and (number % 10 != 9 or connection.topic == "/armswing/recording"):
                writer.write(connections[connection.id], time, data)


def test_messages_removed_from_a_bag_are_counted(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag, less, again = tmp_path / "bag", tmp_path / "less", tmp_path / "again.mcap"
    assert run(["export", str(file), "--rosbag2", "-o", str(bag)]) == 0
    without(bag, less, f"/armswing/topics/{ROBOT}/state")
    assert run(["import", str(less), "-o", str(again)]) == 1
    error = capsys.readouterr().err
    messages, kept = content_of(file)[0], content_of(again)[0]
    assert f"{len(messages) - len(kept)} messages of the exported recording are not in the bag" in error
    assert len(kept) < 0.95 * len([each for each in messages if not each.topic.endswith("/state")])
    position = iter(messages)
    assert all(each in position for each in kept)  # in the order of the recording


def damaged(file: Path) -> Path:
    bag = exported(file)
    data = bag / "bag.mcap"
    data.write_bytes(data.read_bytes()[:-3000])
    return bag


def of_ros(file: Path, text: str | None = None) -> Path:
    """A bag with one text on the topic of the heading, or without that topic."""
    bag = file.parent / "other"
    with Writer(bag, version=9) as writer:
        topic = "/chatter" if text is None else "/armswing/recording"
        connection = writer.add_connection(topic, "std_msgs/msg/String", typestore=STORE)
        message = STORE.types["std_msgs/msg/String"](data=text or "hello")
        writer.write(connection, 0, STORE.serialize_cdr(message, "std_msgs/msg/String"))
    return bag


@pytest.mark.parametrize(
    ("bag", "says"),
    [
        (damaged, "cannot be read as a bag of ROS"),
        (of_ros, "give --columns FILE.toml, or --guess ROBOT"),
        (lambda file: of_ros(file, "no JSON"), "cannot be read: JSON is malformed"),
        (lambda file: of_ros(file, '{"format": 2, "messages": 1}'), "has format 2 of a later version"),
        (lambda file: of_ros(file, '{"format": 1, "messages": "a"}'), "cannot be read: Expected `int`"),
        (empty_folder, "is a folder without metadata.yaml, and no bag of ROS"),
        (lambda file: file, "give --columns FILE.toml, or --guess ROBOT"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    bag: Callable[[Path], Path], says: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = bag(file), tmp_path / "again.mcap"
    capsys.readouterr()
    assert run(["import", str(source), "-o", str(target)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not target.exists()


def test_a_recording_without_plan_or_messages_is_exported(file: Path, tmp_path: Path) -> None:
    for name, messages in (("empty", []), ("bare", [Description(robot="a", timestamp=0.5)])):
        source, bag, again = tmp_path / f"{name}.mcap", tmp_path / name, tmp_path / f"{name}_again.mcap"
        with RecordingWriter(source, {}) as writer:
            for message in messages:
                writer.write("a/description", message, message.timestamp)
        assert run(["export", str(source), "--rosbag2", "-o", str(bag)]) == 0
        assert run(["import", str(bag), "-o", str(again)]) == 0
        assert content_of(again) == content_of(source)


def test_the_bag_opens_without_armswing_files_beside_it(file: Path, tmp_path: Path) -> None:
    bag = exported(file)
    moved = tmp_path / "elsewhere.mcap"
    shutil.move(bag / "bag.mcap", moved)
    again = tmp_path / "again.mcap"
    assert run(["import", str(moved), "-o", str(again)]) == 0
    assert content_of(again) == content_of(file)


def small_bag(folder: Path) -> bytes:
    """The MCAP file of a bag with a few messages."""
    source = folder / "small.mcap"
    with RecordingWriter(source, {"robot": "a"}) as writer:
        for number in range(8):
            state = RobotState(timestamp=0.1 * number, name=["j"], position=[0.1], velocity=[0.2])
            writer.write("a/state", state, state.timestamp)
    export_rosbag2(source, folder / "small")
    return (folder / "small/small.mcap").read_bytes()


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.soak)])
def test_a_damaged_bag_is_refused_or_read(count: int, tmp_path: Path) -> None:
    """Restoring ends with BagError or with a readable recording, whatever the bytes are."""
    whole, source = small_bag(tmp_path), random.Random(11)
    path, target = tmp_path / "damaged.mcap", tmp_path / "again.mcap"
    texts = [place for place in range(len(whole)) if whole.startswith((b'"index"', b'"format"', b'"log_time'), place)]
    refusals: list[str] = []
    for number in range(count):
        content = bytearray(whole)
        for _ in range(source.randrange(1, 4)):  # in the archive every other time, otherwise anywhere
            place = source.choice(texts) + source.randrange(60) if number % 2 else source.randrange(len(content))
            content[place % len(content)] = source.choice(b'\x00\xff{}[]",:-9e.1')
        path.write_bytes(content)
        try:
            restore(path, target)
            assert RecordingFile(target).scan().warning == ""
        except BagError as error:
            refusals.append(str(error))
    assert len(refusals) > count // 4
    assert not [each for each in refusals if "\n" in each]

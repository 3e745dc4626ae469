"""Recordings that other programs wrote or rewrote: read as they are, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from nodes.cli.application import run as armswing
from nodes.framework.messages import RobotState
from nodes.framework.messages.protocol import PROTOCOL
from nodes.framework.recording.reader import (
    RecordingError,
    RecordingFile,
    RecordingWarning,
    RecordingWriter,
    read_recording,
)
from nodes.framework.simulation.replay import replay as replays

STATE = "arm/state"
PLAN = '{"name":"x","sim":{"robot":"rotary_pendulum","mode":"lockstep","step_ms":1.0},"nodes":[]}'


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.mcap"
    with RecordingWriter(path, {"plan": PLAN}, chunk_s=0.02) as writer:
        for tick in range(100):
            writer.write(STATE, RobotState(timestamp=tick * 1e-3, seq=tick, position=[0.1 * tick]), tick * 1e-3)
    return path


def rewritten(path: Path, without: int = -1, **options: Any) -> Path:
    """A copy that another program writes: without check records, with other chunks, and without one message."""
    copy = path.with_name("copy.mcap")
    with path.open("rb") as source, copy.open("wb") as target:
        reader, writer = make_reader(source), Writer(target, **options)
        writer.start(profile="", library="another program")
        for metadata in reader.iter_metadata():
            writer.add_metadata(metadata.name, metadata.metadata)
        known: dict[int, int] = {}
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            assert schema is not None
            if channel.id not in known:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                known[channel.id] = writer.register_channel(channel.topic, "json", number, channel.metadata)
            if message.sequence != without:
                data, time = message.data, message.log_time
                writer.add_message(known[channel.id], time, data, time, message.sequence)
        writer.finish()
    return copy


@pytest.mark.parametrize(
    "options",
    [
        {"compression": CompressionType.NONE},
        {"compression": CompressionType.ZSTD, "chunk_size": 500},
        {"enable_crcs": False},
        {"use_chunking": False},
    ],
    ids=["other chunks", "small and compressed", "without checksums", "without chunks"],
)
def test_a_rewritten_recording_has_its_plan_and_messages_and_is_not_called_damaged(
    options: dict[str, Any], arm: Path
) -> None:
    copy = rewritten(arm, **options)
    recording, whole = read_recording(copy), read_recording(arm)
    assert (recording.warning, recording.metadata, recording.holes) == ("", whole.metadata, [])
    np.testing.assert_array_equal(recording[STATE]["position"], whole[STATE]["position"])


def test_a_rewritten_recording_still_shows_its_holes(arm: Path) -> None:
    copy = rewritten(arm, without=40, use_chunking=False)
    with pytest.warns(RecordingWarning, match=r"1 message is missing, arm/state 1"):
        assert len(read_recording(copy)[STATE]["seq"]) == 99


def foreign(path: Path, rows: Iterable[tuple[str, str, str, int, bytes]]) -> Path:
    """A file of another program, with (topic, schema, encoding, log time in ns, payload) of each message."""
    with path.open("wb") as target:
        writer = Writer(target)
        writer.start(profile="", library="another program")
        writer.add_metadata("armswing", {"plan": PLAN, "protocol": str(PROTOCOL)})
        for topic, schema, encoding, time_ns, payload in rows:
            number = writer.register_schema(schema, "jsonschema", b"{}")
            channel = writer.register_channel(topic, encoding, number)
            writer.add_message(channel, time_ns, payload, time_ns)
        writer.finish()
    return path


def state_of(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("/joints", "sensor_msgs/msg/JointState", "cdr", 10**18, b"\x00\x01"), "its messages are not JSON"),
        ((STATE, "armswing.RobotState", "json", 2**63, state_of(seq=1)), r"is above 9e\+09 s"),
        ((STATE, "armswing.RobotState", "json", 5, b"{"), r"arm/state: the message at t = 5e-09 s cannot be read"),
        ((STATE, "armswing.RobotState", "json", 5, b"[1]"), "cannot be read"),
        ((STATE, "armswing.RobotState", "json", 5, b"[" * 100_000), "cannot be read"),
        ((STATE, "armswing.RobotState", "json", 5, state_of(position="far")), "cannot be read"),
        ((STATE, "armswing.RobotState", "json", 5, state_of(position=[None, {}])), "cannot be read"),
        (("arm/other", "their.Message", "json", 5, b'"text"'), "cannot be read"),
        (("arm/other", "their.Message", "json", 5, b'{"a": "\xff"}'), "cannot be read"),
    ],
)
def test_messages_that_cannot_be_read_are_refused_in_one_line(
    row: tuple[str, str, str, int, bytes], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = foreign(tmp_path / "their.mcap", [row])
    with pytest.raises(RecordingError, match=reason) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    for command in (["info", path], ["export", path, "--csv", tmp_path / "csv"], ["compare", path, path]):
        assert armswing([str(part) for part in command]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)


def test_topics_of_another_encoding_are_left_out_and_named(tmp_path: Path) -> None:
    rows = [
        (STATE, "armswing.RobotState", "json", 0, state_of(seq=1, position=[0.5])),
        ("/image", "sensor_msgs/msg/Image", "cdr", 0, b"\x00"),
    ]
    path = foreign(tmp_path / "both.mcap", rows)
    with pytest.warns(RecordingWarning, match=r"topics that are not JSON, which are ignored \(/image in 'cdr'\)"):
        assert read_recording(path).topics == [STATE]


def test_numbers_of_any_size_are_read(tmp_path: Path) -> None:
    rows = [("arm/other", "their.Message", "json", 0, b'{"a": %d, "b": 1e300}' % n) for n in (2**64 - 1, 3)]
    recording = read_recording(foreign(tmp_path / "large.mcap", rows))
    assert recording["arm/other"]["a"].tolist() == [float(2**64 - 1), 3.0]


def test_a_replay_does_not_step_through_an_endless_gap(tmp_path: Path) -> None:
    rows = [
        ("rotary_pendulum/state", "armswing.RobotState", "json", time_ns, state_of(timestamp=time_ns / 1e9, seq=seq))
        for seq, time_ns in enumerate((0, 9 * 10**18))
    ]
    command = state_of(name=["arm"], value=[0.0])
    rows.insert(1, ("rotary_pendulum/command", "armswing.JointCommand", "json", 0, command))
    path = foreign(tmp_path / "gap.mcap", rows)
    lines, metadata = replays.read_lines(path)
    plan = replays.plan_of(metadata, path)
    run = "nodes/controllers/swing_up.py:SwingUp"
    node_plan = replays.NodePlan(name="swing_up", run=run)
    with pytest.raises(RecordingError, match=r"no message from t = 0 to 9e\+09 s"):
        replays.replay(lines, plan, node_plan, replays.Tolerances())


def test_the_messages_of_a_file_without_messages_are_none(tmp_path: Path) -> None:
    assert list(RecordingFile(foreign(tmp_path / "none.mcap", []))) == []

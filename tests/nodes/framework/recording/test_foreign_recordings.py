"""Odd recordings of other programs: each command says one line, and reads everything that can be read.

`make test` runs a seeded sample, `make soak` a hundred.
"""

from __future__ import annotations

import csv
import json
import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.writer import CompressionType, Writer

from nodes.cli.application import run as armswing
from nodes.framework.recording.csv import export_csv
from nodes.framework.recording.integrity.holes import UNREADABLE
from nodes.framework.recording.reader import RecordingError, RecordingWarning, describe, read_recording
from nodes.node import Context
from nodes.player import Player

EPOCH_NS = 1_740_566_235_453_000_000
TOPICS = [
    "arm/state", "/arm/state", "arm/command", "arm/event", "arm/description", "arm/body_poses", "status", "/tf", "tf",
    "arm/joint", "arm.joint", "arm/arm/plot", ".", "..", "/", "//", "holes", "a" * 300, "größe/m²", "\x1b[31m", "%2E",
]  # fmt: skip
TYPES = {"state": "RobotState", "command": "JointCommand", "event": "Event", "description": "Description"}
STATE = {"timestamp": 0.5, "seq": 3, "name": ["a"], "position": [0.5], "velocity": [0.1], "effort": [0.0]}
READABLE: list[Any] = [
    STATE, {}, {"v": 1}, {"v": 1.5, "w": None}, {"v": [1, 2, 3]}, {"v": [[1], [2, 3]]}, {"v": {"a": 1}, "v.a": 2},
    {"log_time": "noon"}, {"v": 2**64}, {"v": 10**30}, {"v": -(2**63)}, {"v": [10**30]}, {"v": True}, {"v": "text"},
    {"v": [True, None]}, {"": 1}, {"a\nb": 1, ",": '"'}, {"v": {}}, {"v": []}, {"v": [{}]}, {"v": {"w": {"x": [1]}}},
    {"name": "a", "position": 1}, {"name": ["a", "b"], "position": [1.0]}, {"timestamp": "late"}, {"v": "\x1b[31m"},
]  # fmt: skip
UNREADABLE_PAYLOADS = [
    b"",
    b"{",
    b'{"v": NaN}',
    b'{"v": Infinity}',
    b"[1]",
    b'"text"',
    b"null",
    b'{"v": "\xff"}',
    b"[" * 9999,
]


def write_odd(path: Path, chosen: random.Random) -> tuple[Counter[str], Counter[str]]:
    """Write a file of another program; returns the numbers of readable and unreadable JSON messages by topic."""
    readable, unreadable = Counter[str](), Counter[str]()
    options: dict[str, Any] = {
        "compression": chosen.choice([CompressionType.NONE, CompressionType.ZSTD, CompressionType.LZ4]),
        "chunk_size": chosen.choice([200, 1 << 20]),
        "use_chunking": chosen.random() < 0.8,
        "enable_crcs": chosen.random() < 0.8,
    }
    with path.open("wb") as target:
        writer = Writer(target, **options)
        writer.start(profile=chosen.choice(["", "ros2"]), library="another program")
        start_ns = chosen.choice([0, 5, EPOCH_NS])
        for topic in chosen.sample(TOPICS, chosen.randrange(1, 8)):
            type_name = TYPES.get(topic.rpartition("/")[2], "") if chosen.random() < 0.7 else ""
            schema = writer.register_schema(
                f"armswing.{type_name}" if type_name else "their.Message", "jsonschema", b"{}"
            )
            encoding = "json" if chosen.random() < 0.9 else "cdr"
            channel = writer.register_channel(topic, encoding, chosen.choice([schema, 0]))
            for number in range(chosen.choice([0, 1, 2, 20])):
                time_ns = start_ns + number * chosen.choice([0, 1, 10**6, 10**9])
                is_bad = chosen.random() < 0.2
                payload = json.dumps(chosen.choice(READABLE[: chosen.choice([1, len(READABLE)])])).encode()
                if is_bad and chosen.random() < 0.5:
                    time_ns = chosen.choice([2**64 - 10**9, 2**63])
                elif is_bad:
                    payload = chosen.choice(UNREADABLE_PAYLOADS)
                writer.add_message(channel, time_ns, payload, time_ns, number)
                if encoding == "json":
                    (unreadable if is_bad else readable)[topic] += 1
        writer.finish()
    return readable, unreadable


@pytest.mark.parametrize("seed", range(12))
def test_an_odd_recording_is_read_as_far_as_possible_and_named_in_one_line(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_odd(seed, tmp_path, capsys)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12, 112))
def test_an_odd_recording_is_read_as_far_as_possible_and_named_in_one_line_in_full(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_odd(seed, tmp_path, capsys)


@pytest.fixture(autouse=True)
def without_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")


def check_odd(seed: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "their.mcap"
    readable, unreadable = write_odd(path, random.Random(seed))
    try:
        recording = read_recording(path, warn=False)
    except RecordingError as error:
        recording, refusal = None, str(error)
    if recording is None:
        assert refusal.startswith(str(path))
        assert "\n" not in refusal
    else:
        read = Counter({topic: len(table["log_time"]) for topic, table in recording.items()})
        lost = Counter[str]()
        for hole in recording.holes:
            assert hole.cause == UNREADABLE
            lost.update(hole.messages)
        # a readable JSON object may not be a message of its topic's type
        assert read + lost == readable + unreadable
        assert all(read[topic] <= count for topic, count in readable.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for command in commands(path, folder):
            code = armswing(command)
            out, err = capsys.readouterr()
            assert "Traceback" not in out + err
            if code == 2:  # warnings of holes, and one line with the reason
                assert all(line.startswith("armswing: ") for line in err.splitlines()), (command, err)
                assert err.count("\n") <= 3, (command, err)
            assert code in ((0, 1, 2) if recording is not None else (2,)), (command, err)
    if recording is not None:
        for table in (folder / "csv").glob("*.csv"):
            assert not table.name.startswith(".")
            if table.name != "holes.csv":
                assert len(list(csv.reader(table.open(newline="")))) > 1
        assert len(list((folder / "csv").iterdir())) == len(recording.topics) + bool(recording.holes)
        play(path)


def commands(path: Path, folder: Path) -> list[list[str]]:
    file = str(path)
    return [
        ["info", file],
        ["info", file, "--json"],
        ["export", file, "--csv", str(folder / "csv")],
        ["export", file, "--rerun", str(folder / "their.rrd")],
        ["export", file, "--foxglove", str(folder / "fox.mcap")],
        ["compare", file, file],
        ["replay", file, "--node", "nodes/controllers/swing_up.py:SwingUp"],
        ["view", file, "--png", str(folder / "their.png")],
    ]


def play(path: Path) -> None:
    """Play the file to its end; a player refuses a file without robot topics in one line."""
    player, refusal = Player(), ""
    try:
        player.on_start(
            Context("play", "arm", 1e-3, Player.Params(file=str(path), speed=1e3), np.random.default_rng(0))
        )
    except ValueError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if not refusal:
        for second in range(5):
            list(player.on_tick(1e7 * second))
        assert player.on_request("playback", {})["done"]


def write_rows(path: Path, rows: list[tuple[str, int, bytes]], empty: tuple[str, ...] = ()) -> Path:
    """Write a file of another program with (topic, log time in ns, payload) of each message, and topics without any."""
    with path.open("wb") as target:
        writer = Writer(target)
        writer.start()
        schema = writer.register_schema("X", "jsonschema", b"{}")
        channels = {
            topic: writer.register_channel(topic, "json", schema) for topic in [*(row[0] for row in rows), *empty]
        }
        for topic, time_ns, payload in rows:
            writer.add_message(channels[topic], time_ns, payload, time_ns)
        writer.finish()
    return path


def test_messages_that_cannot_be_read_are_a_hole_of_their_own_kind_and_the_rest_is_read(tmp_path: Path) -> None:
    payloads = [b'{"v":%d}' % number for number in range(6)]
    payloads[2], payloads[3] = b'{"v":2,"w":{"x":[1,NaN]}}', b"[]"
    rows = [("arm/joint", number * 10**9, payload) for number, payload in enumerate(payloads)]
    rows += [("other", 2**64 - 10**9, b'{"v":0}'), ("other", 6 * 10**9, b'{"v":1}')]
    path = write_rows(tmp_path / "their.mcap", rows)
    with pytest.warns(RecordingWarning) as warned:
        recording = read_recording(path)
    assert recording["arm/joint"]["v"].tolist() == [0, 1, 4, 5]
    assert recording["other"]["v"].tolist() == [1]
    text = str(warned[0].message)
    assert (
        "t = 1.000 .. 4.000 s (unreadable): 2 messages are missing, arm/joint 2 (the message at t = 2 s cannot" in text
    )
    assert "cannot be read: w.x[1] is NaN, which is no number in JSON)" in text
    assert "the beginning .. 6.000 s (unreadable): 1 message is missing, other 1 (the time 1.84467e+10 s" in text


def test_each_topic_has_a_table_of_its_own_that_is_not_hidden(tmp_path: Path) -> None:
    topics = ["arm/joint", "arm.joint", "/tf", "tf", ".", "holes", "a%2Eb", "a.b"]
    path = write_rows(tmp_path / "their.mcap", [(topic, n, b'{"v":%d}' % n) for n, topic in enumerate(topics)])
    written = export_csv(read_recording(path), tmp_path)
    assert [table.name for table in written] == [
        "arm.joint.csv", "arm%2Ejoint.csv", "tf.csv", "%tf.csv", "%2E.csv", "%holes.csv", "a%252Eb.csv", "a%2Eb.csv",
    ]  # fmt: skip
    assert [table.read_text().splitlines()[1].split(",")[1] for table in written] == list("01234567")


def test_wall_clock_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    rows = [("arm", EPOCH_NS + 100 * number, b'{"log_time":%d}' % number) for number in range(6)]
    recording = read_recording(write_rows(tmp_path / "epoch.mcap", rows))
    (table,) = export_csv(recording, tmp_path)
    assert table.read_text().splitlines()[:3] == [
        "log_time,log_time (2)",
        "1740566235.453000000,0",
        "1740566235.453000100,1",
    ]
    times = recording["arm"].log_time_ns
    assert times is not None
    assert times.tolist() == [time_ns for _, time_ns, _ in rows]


def test_info_lists_topics_without_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "their.mcap", [("arm", 0, b"{}")], empty=("quiet",))
    assert [(row["topic"], row["count"]) for row in describe(path)["topics"]] == [("arm", 1), ("quiet", 0)]
    assert armswing(["info", str(path)]) == 0
    assert "quiet  X        0      -" in capsys.readouterr().out


@pytest.mark.parametrize("topic", ["/motor/current", "/state"])
def test_a_recording_without_messages_of_a_robot_is_not_played(
    topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "their.mcap", [(topic, 0, b'{"value":1.0}')])
    assert armswing(["play", str(path)]) == 2
    assert capsys.readouterr().err.endswith(
        "has no messages of a robot, such as ROBOT/state; choose a recording of a launch\n"
    )


def test_a_topic_of_a_robot_with_messages_of_another_type_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "their.mcap", [("arm/state", 0, b'{"v":1}')])
    assert armswing(["play", str(path)]) == 2
    assert "such as ROBOT/state (its 'arm/state' has messages of another type, '" in capsys.readouterr().err

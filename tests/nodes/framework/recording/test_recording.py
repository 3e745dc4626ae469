"""Recordings: what goes in comes out, equal runs give equal bytes, and a cut costs no more than the last flush."""

from __future__ import annotations

import csv
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from mcap.reader import make_reader

from nodes.framework.messages import (
    Description,
    JointCommand,
    JointDescription,
    JointReference,
    Message,
    RobotState,
    Status,
    Verdict,
)
from nodes.framework.messages import structs as messages
from nodes.framework.messages.topics import known_topics
from nodes.framework.recording import writer as recording_writer
from nodes.framework.recording.csv import export_csv
from nodes.framework.recording.reader import (
    Recording,
    RecordingError,
    RecordingFile,
    RecordingWriter,
    describe,
    read_recording,
)
from nodes.framework.recording.schema import decode_json, json_schema
from nodes.framework.recording.writer import keep_unfinished, sidecar_path

STATE = "arm/state"
MESSAGE_TYPES = [row.message for row in known_topics().values()]


def state(tick: int) -> RobotState:
    return RobotState(
        timestamp=tick * 1e-3,
        seq=tick,
        name=["shoulder", "elbow"],
        position=[0.1 * tick, 1.0],
        velocity=[1.0, -0.5],
        effort=[0.25, 0.0],
        phi=1e-9,
        phidot=float("nan") if tick == 3 else 1e-7,
        energy=2.5,
        outputs={"height": 0.5 * tick},
    )


def write_run(path: Path, ticks: int = 200, **options: object) -> None:
    with RecordingWriter(path, {"plan": "{}", "parameters": "{}"}, **options) as writer:  # type: ignore[arg-type]
        writer.write("arm/description", Description(robot="arm", joints=[JointDescription(name="shoulder")]), 0.0)
        for tick in range(ticks):
            writer.write(STATE, state(tick), tick * 1e-3)
            if tick % 10 == 0:
                writer.write("arm/command", JointCommand(name=["shoulder"], value=[0.5], state_seq=tick), tick * 1e-3)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    write_run(path)
    return path


def test_arrays_come_back_by_topic_and_field(run: Path) -> None:
    recording = read_recording(run)
    assert recording.topics == ["arm/description", STATE, "arm/command"]
    columns = recording[STATE]
    np.testing.assert_array_equal(columns["timestamp"], np.arange(200) * 1e-3)
    np.testing.assert_array_equal(columns["position"], [[0.1 * tick, 1.0] for tick in range(200)])
    assert columns["seq"].dtype == np.int64
    assert columns["name"][-1].tolist() == ["shoulder", "elbow"]
    np.testing.assert_array_equal(columns["outputs.height"], 0.5 * np.arange(200))
    assert recording["arm/command"]["state_seq"].tolist() == list(range(0, 200, 10))
    assert recording.metadata == {"plan": "{}", "parameters": "{}"}
    assert recording.description is not None
    assert recording.description.joints[0].name == "shoulder"
    assert not recording.truncated


def test_nan_is_null_in_the_file_and_nan_again_in_arrays_and_messages(run: Path) -> None:
    payloads = [recorded.payload for recorded in RecordingFile(run) if recorded.topic == STATE]
    assert json.loads(payloads[3])["phidot"] is None
    assert np.isnan(read_recording(run)[STATE]["phidot"]).nonzero()[0].tolist() == [3]
    played = [recorded.message() for recorded in RecordingFile(run) if recorded.topic == STATE]
    assert isinstance(played[3], RobotState)
    assert np.isnan(played[3].phidot)
    assert played[3].position == state(3).position


def test_null_stays_none_where_a_field_may_be_none() -> None:
    joint = JointDescription(name="shoulder", lower=None, upper=float("nan"))
    sent = Description(robot="arm", joints=[joint], parameters={"mass": float("nan")}, gravity=[0.0, 0.0, float("inf")])
    back = decode_json(Description, msgspec.json.encode(sent))
    assert isinstance(back, Description)
    assert back.joints[0].lower is None
    assert np.isnan(back.parameters["mass"])
    assert np.isnan(back.gravity[2])


@pytest.mark.parametrize("kind", MESSAGE_TYPES)
def test_schemas_are_plain_enough_for_readers_without_unions(kind: type[Message]) -> None:
    """What Foxglove's reader asks: one type per field, properties of every object, one type per array's items."""

    def check(schema: dict[str, object]) -> None:
        assert isinstance(schema["type"], str)
        if schema["type"] == "object":
            properties = schema["properties"]
            assert isinstance(properties, dict)
            for field in properties.values():
                check(field)
        if schema["type"] == "array":
            items = schema["items"]
            assert isinstance(items, dict)
            check(items)

    schema = json.loads(json_schema(kind))
    check(schema)
    assert set(schema["properties"]) == set(kind.__struct_fields__)


@pytest.mark.parametrize("kind", MESSAGE_TYPES)
def test_every_number_of_a_schema_may_be_null(kind: type[Message]) -> None:
    schema = json.loads(json_schema(kind))
    assert schema["definitions"]["number_or_null"] == {"type": ["number", "null"]}

    def check(part: object) -> None:
        if isinstance(part, dict):
            if part.get("type") == "number":
                assert part["$ref"] == "#/definitions/number_or_null"
            for item in part.values():
                check(item)

    check(schema["properties"])


def test_a_foreign_reader_finds_topics_schemas_and_simulation_time(run: Path) -> None:
    with run.open("rb") as file:
        found = list(make_reader(file).iter_messages(topics=[STATE]))
    schema, channel, message = found[7]
    assert schema is not None
    assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
    assert schema.name == "armswing.RobotState"
    assert message.log_time == 7_000_000
    assert json.loads(message.data)["position"] == [0.1 * 7, 1.0]


def test_equal_runs_give_equal_bytes_wherever_and_whenever_they_are_written(tmp_path: Path) -> None:
    paths = [tmp_path / "a.mcap", tmp_path / "elsewhere" / "b.mcap"]
    paths[1].parent.mkdir()
    for path in paths:
        write_run(path, ticks=1200)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_host_versions_and_hours_are_in_the_sidecar_only(run: Path) -> None:
    sidecar = json.loads(sidecar_path(run).read_bytes())
    assert sidecar["started"] <= sidecar["ended"]
    assert set(sidecar["versions"]) == {"armswing", "mcap", "msgspec", "numpy"}
    content = run.read_bytes()
    assert b"mcap-python" not in content
    assert str(run.parent).encode() not in content


def test_chunks_are_cut_by_simulation_time(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    write_run(path, ticks=1000, chunk_s=0.25)
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert [chunk.message_start_time for chunk in summary.chunk_indexes] == [0, 250_000_000, 500_000_000, 750_000_000]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_recordings_read_the_same(tmp_path: Path, compression: str) -> None:
    pytest.importorskip({"lz4": "lz4", "zstd": "zstandard"}[compression])
    path = tmp_path / "run.mcap"
    write_run(path, compression=compression)
    assert len(read_recording(path)[STATE]["seq"]) == 200


def test_a_recording_cut_at_any_place_reads_up_to_the_cut(tmp_path: Path) -> None:
    whole = tmp_path / "whole.mcap"
    write_run(whole, ticks=60, chunk_s=0.01)
    content = whole.read_bytes()
    cut = tmp_path / "cut.mcap"
    kept = -1
    for size in (*range(97, len(content), 97), len(content) - 1):
        cut.write_bytes(content[:size])
        recording = read_recording(cut)
        assert recording.truncated
        count = len(recording[STATE]["seq"]) if STATE in recording else 0
        assert count >= kept
        assert count % 10 == 0
        if count:
            np.testing.assert_array_equal(recording[STATE]["seq"], np.arange(count))
        assert describe(cut)["truncated"]
        kept = count
    assert kept == 60


def test_a_damaged_chunk_is_left_out_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    write_run(path, ticks=60, chunk_s=0.01)
    content = bytearray(path.read_bytes())
    place = content.index(b'"seq":25')
    content[place + 6 : place + 8] = b"99"
    path.write_bytes(content)
    recording = read_recording(path)
    assert recording.truncated
    assert recording[STATE]["seq"].tolist() == [*range(20), *range(30, 60)]


def test_a_file_that_is_no_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a recording")
    for wrong in (path, tmp_path / "missing.mcap"):
        with pytest.raises(RecordingError) as caught:
            read_recording(wrong)
        assert str(wrong) in str(caught.value)
        assert "\n" not in str(caught.value)


WRITE_UNTIL_KILLED = """
import itertools, sys, time
from nodes.framework.messages import RobotState
from nodes.framework.recording.reader import RecordingWriter
with RecordingWriter(sys.argv[1], {}, chunk_s=None, flush_s=0.1) as writer:
    under_way, start = False, time.monotonic()
    for seq in itertools.count():
        message = RobotState(timestamp=seq * 1e-3, seq=seq, sent_ns=time.time_ns(), position=[1.0] * 20)
        writer.write("arm/state", message, message.timestamp)
        if not under_way and time.monotonic() - start > 0.3:
            under_way = True
            print("well under way", flush=True)
"""


def test_kill_9_loses_at_most_the_last_flush_interval(tmp_path: Path) -> None:
    path = tmp_path / "killed.mcap"
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "well under way\n"
        killed_ns = time.time_ns()
        os.kill(process.pid, signal.SIGKILL)
    recording = read_recording(path)
    assert recording.truncated
    seq = recording[STATE]["seq"]
    np.testing.assert_array_equal(seq, np.arange(len(seq)))
    # 0.1 s between flushes; the rest is for a loaded machine that let the writer wait
    assert killed_ns - recording[STATE]["sent_ns"][-1] < 0.5e9
    assert describe(path)["topics"][0]["count"] == len(seq)


def test_a_full_disk_is_reported_and_nothing_is_lost_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mcap"
    real, full = os.write, False

    def limited(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:1000])

    monkeypatch.setattr(recording_writer.os, "write", limited)
    with RecordingWriter(path, {}, chunk_s=None) as writer:
        for tick in range(300):
            full = 100 <= tick < 200
            writer.write(STATE, state(tick), tick * 1e-3)
            if tick == 150:
                with pytest.raises(OSError, match="No space left"):
                    writer.flush()
        writer.flush()
    recording = read_recording(path)
    assert not recording.truncated
    assert recording[STATE]["seq"].tolist() == list(range(300))


def test_what_waits_for_a_full_disk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_writer, "MAX_BACKLOG_BYTES", 20_000)
    writer = RecordingWriter("/dev/full", {}, chunk_s=0.01, sidecar=None)
    refused = 0
    for tick in range(1000):
        try:
            writer.write(STATE, state(tick), tick * 1e-3)
        except OSError:
            refused += 1
    assert refused > 500
    assert writer.messages < 200
    with pytest.raises(OSError, match="No space left"):
        writer.close()


@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), -1.0, 1e12])
def test_a_time_no_file_can_hold_is_refused(tmp_path: Path, time_s: float) -> None:
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer, pytest.raises(ValueError, match="it must be in 0"):
        writer.write(STATE, state(0), time_s)


def test_an_unfinished_recording_is_moved_aside_and_a_finished_one_is_not(run: Path) -> None:
    assert keep_unfinished(run) is None
    run.write_bytes(run.read_bytes()[:-20])
    kept = keep_unfinished(run)
    assert kept is not None
    assert kept.name == "run.cut-1.mcap"
    assert not run.exists()
    assert len(read_recording(kept)[STATE]["seq"]) == 200
    assert sidecar_path(kept).exists()


def test_ragged_fields_are_lists_and_growing_names_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("arm/reference", JointReference(name=["a"], position=[1.0]), 0.0)
        writer.write("arm/reference", JointReference(name=["a", "b"], position=[1.0, 2.0]), 0.1)
        writer.write("status", Status(node="sim", counters={"lost": 1}), 0.1)
        writer.write("status", Status(node="arm", counters={"refused": 2}, verdict=Verdict("failed", "late")), 0.1)
    recording = read_recording(path)
    assert recording["arm/reference"]["position"].tolist() == [[1.0], [1.0, 2.0]]
    assert recording["arm/reference"]["name"].tolist() == [["a"], ["a", "b"]]
    np.testing.assert_array_equal(recording["status"]["counters.lost"], [1.0, np.nan])
    assert recording["status"]["verdict.outcome"].tolist() == [None, "failed"]


def test_describe_counts_rates_and_size(run: Path) -> None:
    found = describe(run)
    rows = {row["topic"]: row for row in found["topics"]}
    assert rows[STATE]["count"] == 200
    assert rows[STATE]["rate_hz"] == pytest.approx(1000.0)
    assert rows["arm/description"]["rate_hz"] is None
    assert found["duration_s"] == pytest.approx(0.199)
    assert found["size_bytes"] == run.stat().st_size
    assert found["sidecar"]["host"]


def test_csv_has_one_file_per_topic_and_joint_names_in_its_headings(run: Path, tmp_path: Path) -> None:
    written = export_csv(read_recording(run), tmp_path / "csv")
    assert [path.name for path in written] == ["arm.description.csv", "arm.state.csv", "arm.command.csv"]
    with written[1].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 200
    assert float(rows[7]["position[shoulder]"]) == 0.1 * 7
    assert rows[3]["phidot"] == ""
    assert rows[7]["outputs.height"] == "3.5"


def test_unknown_topics_are_named_with_those_there_are(run: Path) -> None:
    recording: Recording = read_recording(run, topics=[STATE])
    assert recording.topics == [STATE]
    with pytest.raises(KeyError, match="arm/state"):
        recording["arm/energy"]


def test_messages_of_every_type_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    sent = [kind(timestamp=0.5, seq=index) for index, kind in enumerate(MESSAGE_TYPES)]
    with RecordingWriter(path, {}) as writer:
        for topic, message in zip(known_topics(), sent, strict=True):
            writer.write(topic.replace("<robot>", "arm"), message, message.timestamp)
    assert [recorded.message() for recorded in RecordingFile(path)] == sent
    kinds = [kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, messages.Message)]
    assert {type(message) for message in sent} == {*kinds} - {messages.Message}


def test_garbage_is_not_collected_while_a_recording_is_read_and_is_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "long.mcap"
    with RecordingWriter(path, {}) as writer:
        for tick in range(5_000):
            state = RobotState(timestamp=tick * 1e-3, seq=tick, name=["a"], position=[0.1 * tick], velocity=[1.0])
            writer.write("robot/state", state, state.timestamp)
    passes: list[str] = []

    def count(phase: str, _info: dict[str, int]) -> None:
        passes.append(phase)

    gc.collect()
    gc.callbacks.append(count)
    try:
        assert len(read_recording(path)["robot/state"]["seq"]) == 5_000
        assert len(passes) <= 2  # start and stop of one pass over new objects, when collection begins again
        assert gc.isenabled()
        with pytest.raises(RecordingError):
            read_recording(tmp_path / "missing.mcap")
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(count)

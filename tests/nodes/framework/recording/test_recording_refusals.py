"""What a reader says of a file that is no recording, of a field that is not there, and of how long it lasted."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcap.writer import Writer

from nodes.cli.application import run
from nodes.framework.messages import Description, RobotState, Status
from nodes.framework.messages.protocol import PROTOCOL
from nodes.framework.recording.reader import RecordingError, RecordingWriter, describe, read_recording

STATE = "arm/state"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello\n", "is not an MCAP file"),
        (b"\x89MCAP1\r\n", "is not an MCAP file"),
        (b"", "is empty"),
        (b"\x89MCA", "is empty"),
        (b"\x89MCAP0\r\n", "is empty"),
    ],
)
def test_a_file_shorter_than_any_recording_is_not_called_cut_off(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.mcap"
    path.write_bytes(content)
    for read in (read_recording, describe):
        with pytest.raises(RecordingError, match=words):
            read(path)


def test_a_robots_file_in_place_of_a_recording_or_launch_file_is_told_how_to_let_it_fall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text("<robot name='arm'/>")
    for words in (["info", str(path)], ["launch", str(path)]):
        assert run(words) == 2
        assert f"`armswing launch fall --set sim.robot={path}` lets fall" in capsys.readouterr().err


def test_the_duration_is_of_what_was_said_while_recording_not_of_what_was_said_again(tmp_path: Path) -> None:
    path = tmp_path / "late.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("arm/description", Description(robot="arm"), 0.0)
        writer.write("status", Status(node="sim"), 3.5)
        for tick in (3819, 9000, 10187):
            writer.write(STATE, RobotState(timestamp=tick * 1e-3), tick * 1e-3)
        writer.write("status", Status(node="sim"), 10.5)
    found = describe(path)
    assert (found["start_s"], found["end_s"]) == (3.819, 10.187)
    assert found["duration_s"] == pytest.approx(6.368)


def test_a_mistyped_field_is_named_with_the_nearest_and_all_there_are(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write(STATE, RobotState(position=[1.0]), 0.0)
    with pytest.raises(
        KeyError, match=r"no field 'positon'; the fields are log_time.*velocity.*; did you mean 'position'\?"
    ):
        read_recording(path)[STATE]["positon"]
    assert "positon" not in read_recording(path)[STATE]


def test_a_recording_with_the_names_of_an_earlier_version_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "earlier.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(library="armswing")
        writer.add_metadata("armswing", {"plan": "{}", "parameters": "{}"})  # says no version, as before there was one
        channel = writer.register_channel(
            STATE, "json", writer.register_schema("armswing.RobotState", "jsonschema", b"{}")
        )
        writer.add_message(channel, 0, b'{"timestamp":0.0,"seq":1}', 0, 1)
        writer.finish()
    wanted = f"recording {str(path)!r} uses protocol 1, this armswing protocol {PROTOCOL}: it is of older software"
    for read in (read_recording, describe):
        with pytest.raises(RecordingError) as refused:
            read(path)
        assert str(refused.value) == f"{wanted}; read it with the version of armswing that wrote it"
    assert run(["info", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1

"""A recording is cut into runs where time was put back: rates, spans, arrays, tables and playing go by them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.messages import Description, Event, JointCommand, Message, RobotState, Status
from nodes.framework.recording.reader import RecordingError, RecordingWriter, describe, read_recording
from nodes.player import PlayerParams, _timed_messages

STATE = "arm/state"
SPANS = [("", 1.8, 15.7), ("reset", 0.0, 3.0), ("restore", 2.0, 2.5), ("server restarted", 0.0, 0.25)]


def said() -> Iterator[tuple[str, Message]]:
    """Four runs at 100 Hz: from a late start, after a reset, after a restore, and of a server started anew."""
    yield "arm/description", Description(robot="arm")
    seq = 0
    for number, (began, start, end) in enumerate(SPANS):
        if began in ("reset", "restore"):
            yield "arm/event", Event(kind=began, timestamp=start)
        seq = 0 if began == "server restarted" else seq
        for tick in range(round(start * 100), round(end * 100) + 1):
            seq += 1
            state = RobotState(timestamp=tick / 100, seq=seq, name=["elbow"], position=[float(number)])
            yield STATE, state
            if tick == round(start * 100) and number == 1:  # of the run before, written late
                yield "arm/command", JointCommand(timestamp=15.69, name=["elbow"], value=[9.0])
            if tick % 10 == 0:
                yield "arm/command", JointCommand(timestamp=tick / 100, name=["elbow"], value=[float(number)])
                yield "status", Status(timestamp=tick / 100, node="sim")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "runs.mcap"
    with RecordingWriter(path, {}, sidecar=None) as writer:
        for topic, message in said():
            writer.write(topic, message, message.timestamp)
    return path


def test_each_run_is_found_with_what_began_it(file: Path) -> None:
    found = describe(file)
    assert [(one["began"], one["start_s"], one["end_s"]) for one in found["runs"]] == SPANS
    assert found["duration_s"] == pytest.approx(sum(end - start for _, start, end in SPANS))


def test_rates_go_by_the_sum_of_the_runs(file: Path) -> None:
    rates = {row["topic"]: row["rate_hz"] for row in describe(file)["topics"]}
    assert rates[STATE] == pytest.approx(100.0)
    assert rates["arm/command"] == pytest.approx(10.0, rel=0.02)


def test_info_says_one_line_per_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        "run 1: 1.8 .. 15.7 s",
        "run 2: 0.0 .. 3.0 s (reset)",
        "run 3: 2.0 .. 2.5 s (restore)",
        "run 4: 0.0 .. 0.2 s (server restarted)",
    ]
    assert " in 4 runs, " in lines[0]


def test_info_says_which_part_an_event_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RecordingWriter(tmp_path / "swing.mcap", {}, sidecar=None) as writer:
        for hand in ("hand_a", "hand_b"):
            writer.write("arm/event", Event(kind="release", timestamp=0.5, part=hand), 0.5)
    assert run(["info", str(tmp_path / "swing.mcap")]) == 0
    shown = capsys.readouterr().out
    for hand in ("hand_a", "hand_b"):
        assert f"release: t = 0.500 s  {hand}\n" in shown


@pytest.mark.parametrize(("number", "index"), [(1, 0), (2, 1), (3, 2), (4, 3), (-1, 3)])
def test_one_run_is_read_with_what_belongs_to_it(file: Path, number: int, index: int) -> None:
    recording = read_recording(file, run=number)
    state, command = recording[STATE], recording["arm/command"]
    assert set(state["position"][:, 0]) == {float(index)}
    assert (state["timestamp"][0], state["timestamp"][-1]) == SPANS[index][1:]
    assert set(command["value"][:, 0]) == ({0.0, 9.0} if index == 0 else {float(index)})
    assert recording.description is not None
    assert recording.run == index + 1


def test_without_a_number_all_runs_are_read_as_they_stand(file: Path) -> None:
    times = read_recording(file)[STATE]["timestamp"]
    assert np.count_nonzero(np.diff(times) < 0.0) == 3
    with pytest.raises(RecordingError, match=r"there is no run 5; its runs are 1 \.\. 4"):
        read_recording(file, run=5)


def test_a_table_is_of_the_run_that_is_asked_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(file), "--csv", str(file.parent / "all")]) == 0
    assert "4 runs one after the other, time decreases between them; --run N writes one" in capsys.readouterr().out
    assert run(["export", str(file), "--csv", str(file.parent / "one"), "--run", "2"]) == 0
    rows = list(csv.DictReader((file.parent / "one/arm.state.csv").open()))
    assert (len(rows), rows[0]["timestamp"], rows[-1]["timestamp"]) == (301, "0.0", "3.0")
    assert run(["export", str(file), "--csv", str(file.parent / "one"), "--run", "7"]) == 2
    assert capsys.readouterr().err.endswith("there is no run 7; its runs are 1 .. 4\n")


def test_runs_are_played_one_after_the_other_with_their_own_spacing(file: Path) -> None:
    due = [(when, message) for when, _, message in _timed_messages(PlayerParams(file=str(file)))]
    states = np.array([(when, message.timestamp) for when, message in due if isinstance(message, RobotState)])
    steps, stamps = np.diff(states[:, 0]), np.diff(states[:, 1])
    within = stamps > 0.0
    assert steps[within][1:] == pytest.approx(stamps[within][1:])
    assert np.all(steps >= 0.0)


def test_info_lists_what_was_done_to_the_run_and_of_many_alike_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.mcap"
    with RecordingWriter(path, {}, sidecar=None) as writer:
        events = [Event(timestamp=0.5, kind="set", node="pd", key="gain", old="1.0", new="2.5")]
        events += [Event(timestamp=0.6, kind="pause"), Event(timestamp=0.7, kind="speed", old="1", new="0.5")]
        events += [Event(timestamp=float(i), kind="safe", node="pd", detail="'pd' is gone") for i in range(1, 26)]
        events.append(Event(timestamp=26.0, kind="grip", part="hand_b"))
        for event in events:
            writer.write("arm/event", event, event.timestamp)
    assert run(["info", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "set: t = 0.500 s  pd.gain 1.0 -> 2.5" in lines
    assert "pause: t = 0.600 s" in lines
    assert "speed: t = 0.700 s  1 -> 0.5" in lines
    assert "safe: t = 20.000 s  'pd' is gone" in lines
    assert "safe: t = 21.000 s  'pd' is gone" not in lines
    assert "grip: t = 26.000 s  hand_b" in lines
    assert lines[-1] == "safe: 5 more"

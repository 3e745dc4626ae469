"""A recording that is read in pieces is, at its end, the recording that is read at once."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.framework.messages import Description, Event, Message, PlotValues, Polylines, RobotState
from nodes.framework.recording.columns import Columns, columns, is_constant
from nodes.framework.recording.growing import GrowingColumns, GrowingRecording, pieces
from nodes.framework.recording.reader import RecordingError, RecordingFile, RecordingWriter, read_recording

NUMBERS = st.one_of(st.none(), st.integers(-5, 5), st.floats(-1.0, 1.0))
FIELDS = {
    "count": st.integers(-5, 5),
    "value": NUMBERS,
    "word": st.text("ab", max_size=3),
    "perhaps": st.one_of(st.none(), st.text("ab", max_size=3)),
    "is_on": st.booleans(),
    "name": st.sampled_from([["arm", "rod"], ["arm", "longer"], ["arm"], []]),
    "position": st.lists(NUMBERS, min_size=2, max_size=2),
    "points": st.lists(NUMBERS, max_size=3),
    "outputs": st.dictionaries(st.sampled_from(["x", "y"]), NUMBERS, max_size=2),
    "vectors": st.dictionaries(st.sampled_from(["v"]), st.lists(NUMBERS, min_size=2, max_size=2)),
}
ROWS = st.sets(st.sampled_from(sorted(FIELDS)), min_size=1).flatmap(
    lambda names: st.lists(st.fixed_dictionaries({name: FIELDS[name] for name in sorted(names)}), max_size=6)
)


def assert_equal(one: Columns, other: Columns) -> None:
    assert set(one) == set(other)
    for name, values in one.items():
        assert values.dtype == other[name].dtype, name
        np.testing.assert_array_equal(values, other[name], err_msg=name)
    assert set(one.present) == set(other.present)
    for name, mask in one.present.items():
        np.testing.assert_array_equal(mask, other.present[name], err_msg=name)


@settings(max_examples=300, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_columns_that_grow_are_the_columns_of_all_rows(parts: list[list[dict[str, Any]]]) -> None:
    grown = GrowingColumns()
    for rows in filter(None, parts):
        grown.extend(pickle.loads(pickle.dumps(columns(np.zeros(len(rows)), rows))))
    every = [row for rows in parts for row in rows]
    if every:
        assert_equal(columns(np.zeros(len(every)), every), grown.columns())


def test_columns_taken_before_stay_valid_when_rows_are_added() -> None:
    grown = GrowingColumns()
    before = []
    for number in range(20):
        grown.extend(columns(np.array([float(number)]), [{"x": number, "name": ["a", "b"]}]))
        before.append(grown.columns())
    for number, found in enumerate(before):
        assert found["x"].tolist() == list(range(number + 1))
        assert is_constant(found["name"])


def state(now: float, seq: int) -> RobotState:
    return RobotState(
        timestamp=now, seq=seq, name=["yaw"], position=[now], velocity=[1.0], effort=[0.0], outputs={"height": now}
    )


def record(path: Path, resets: int = 0) -> Path:
    """Two seconds per run, of messages whose fields come and go."""
    with RecordingWriter(path, {"plan": "{}"}, chunk_s=0.05) as writer:

        def write(topic: str, message: Message, now: float) -> None:
            writer.write(topic, msgspec.structs.replace(message, timestamp=now), now)

        write("swing/description", Description(robot="swing"), 0.0)
        for run in range(resets + 1):
            if run:
                write("swing/event", Event(kind="reset", node="sim"), 0.0)
            for tick in range(200):
                now = 0.01 * tick
                write("swing/state", state(now, tick), now)
                values: dict[str, Any] = {"error": now} if tick < 120 else {"error": now, "late": [1.0, 2.0]}
                write("swing/plot", PlotValues(values=values), now)
                if tick % 7 == 0:
                    count = 1 + tick % 3
                    write("swing/lines", Polylines(name=["a"], count=[count], points=[now] * (3 * count)), now)
                if tick == 150:
                    write("swing/event", Event(kind="late", node="sim", detail="a longer text"), now)
    return path


def damage(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    middle = int(share * len(content))
    content[middle : middle + 2000] = bytes(byte ^ 0x55 for byte in content[middle : middle + 2000])
    path.write_bytes(content)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("length", [1, 20_000, 10**9])
@pytest.mark.parametrize(("resets", "run"), [(0, -1), (2, -1), (2, 1), (2, 2)])
@pytest.mark.parametrize("spoil", [lambda _path: None, lambda path: damage(path, 0.4), cut], ids=["", "damaged", "cut"])
def test_all_pieces_together_are_the_recording(
    spoil: Callable[[Path], None], resets: int, run: int, length: int, tmp_path: Path
) -> None:
    path = record(tmp_path / "run.mcap", resets)
    spoil(path)
    growing = GrowingRecording(path, run)
    shares, count = [], 0
    for piece in pieces(path, length):
        growing.add(piece)
        shares.append(growing.share)
        count += 1
    try:
        expected = read_recording(path, run=run, warn=False)
    except RecordingError as error:  # the run was in the part that was cut off
        with pytest.raises(RecordingError, match=str(error).rpartition(": ")[2]):
            growing.recording()
        return
    found = growing.recording()
    assert shares[-1] == 1.0
    assert growing.whole
    assert (count == 1) == (length == 10**9)
    assert found.topics == expected.topics
    for topic in expected:
        assert_equal(expected[topic], found[topic])
    for name in ("metadata", "truncated", "description", "runs", "run", "holes", "cut_off", "warning"):
        assert getattr(found, name) == getattr(expected, name), name


def test_holes_are_known_as_soon_as_the_messages_after_them_are_read(tmp_path: Path) -> None:
    path = record(tmp_path / "run.mcap")
    damage(path, 0.4)
    (hole,) = read_recording(path, warn=False).holes
    before_whole = []
    for piece in pieces(path, 10_000):
        later = bool(piece.runs) and hole.end_s is not None and piece.runs[-1].end_s > hole.end_s + 0.2
        if not piece.whole:
            before_whole.append(piece.holes)
            assert piece.holes == ([hole] if later else piece.holes)
        assert piece.warning == "" or piece.whole
    assert before_whole[0] == []
    assert before_whole[-1] == [hole]


def test_the_pieces_of_a_scanned_recording_have_the_holes_of_the_whole_file(tmp_path: Path) -> None:
    path = record(tmp_path / "run.mcap")
    damage(path, 0.7)
    scanned = RecordingFile(path).scan()
    assert len(scanned.holes) == 1
    found = list(pieces(path, 10_000, scanned))
    assert len(found) > 5
    assert all(piece.holes == scanned.holes for piece in found)
    assert [piece.warning for piece in found] == [""] * (len(found) - 1) + [scanned.warning]


def test_the_stream_of_a_process_ends_with_a_line_for_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "other.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("swing/state", state(0.0, 0), 0.0)
    path.write_bytes(b"not a recording" + bytes(200))
    command = [sys.executable, "-P", "-m", "nodes.framework.recording.piece_stream", str(path), "1000"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.dumps(pickle.loads(done.stdout)).count("is not an MCAP file") == 1

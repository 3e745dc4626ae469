"""Damaged and cut recordings: every value that is read is one that was written, every hole is named, nobody is blamed.

`make test` runs a seeded sample of each, `make soak` all of them.
"""

from __future__ import annotations

import csv
import json
import os
import random
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.stream_reader import StreamReader

from nodes.cli.application import run as armswing
from nodes.framework.messages import Description, Event, JointCommand, RobotState
from nodes.framework.messages.protocol import PROTOCOL
from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.compare import compare
from nodes.framework.recording.integrity import checks as checks
from nodes.framework.recording.integrity.holes import CUT_OFF, DAMAGED, NOT_WRITTEN, Hole
from nodes.framework.recording.places import sidecar_path
from nodes.framework.recording.reader import (
    RecordingError,
    RecordingFile,
    RecordingWarning,
    RecordingWriter,
    read_recording,
)
from nodes.framework.simulation.compose import compose
from nodes.node import Context
from nodes.player import Player

LAUNCH = Path(__file__).resolve().parents[4] / "launch"
STATE, ROBOT_STATE = "arm/state", "rotary_pendulum/state"
SWING_UP = "nodes/controllers/swing_up.py:SwingUp"
Row = tuple[str, str, int, bytes]


RUNS = {
    "short": ("rotary_pendulum_lockstep", 0.2),
    "long": ("rotary_pendulum_lockstep", 5.0),
    "robot_short": ("hil_robot", 0.2),
    "robot_long": ("hil_robot", 5.0),
}


class Runs(dict[str, Path]):
    """Lockstep runs, made when first asked for: of a controller, and of a healthy robot beside its model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        launch, seconds = RUNS[name]
        path = self[name] = self._folder / f"{name}.mcap"
        with compose(load_plan(LAUNCH / f"{launch}.toml", [f"recorder.file={path}"])) as composition:
            composition.run(seconds)
        return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return Runs(tmp_path_factory.mktemp("runs"))


def rows_of(path: Path) -> tuple[RecordingFile, list[Row]]:
    file = RecordingFile(path)
    return file, [(each.topic, each.schema, each.time_ns, each.payload) for each in file]


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def check_rows(
    path: Path, whole: RecordingFile, written: list[Row], flips: int = 1, is_one_run: bool = True
) -> RecordingFile | None:
    """Read the file: what is read was written, in that order, and what is missing is counted in its holes.

    After one flip it is always counted; several may damage all that counts it, and then the hole says so. In a file of
    several runs, whose times overlap, a time tells no place.
    """
    try:
        file, read = rows_of(path)
    except RecordingError:
        return None
    remaining = iter(written)
    assert all(row in remaining for row in read), "a message is not what was written"
    assert file.metadata == ({} if file.metadata_damaged else whole.metadata) or file.cut_off
    lost = Counter(written) - Counter(read)
    if not file.cut_off:
        counted = Counter[str]()
        for hole in file.holes:
            assert hole.counted or flips > 1, hole
            counted.update(hole.messages)
        missing = Counter(row[0] for row in lost.elements())
        if all(hole.counted for hole in file.holes):
            assert counted == missing, file.warning
        else:
            assert counted <= missing, file.warning
    for topic, _, time_ns, _ in lost:
        if not topic.endswith("/description"):
            assert any(
                covers(hole, topic, time_ns / 1e9) if is_one_run else hole.covers(topic) for hole in file.holes
            ), (topic, time_ns, file.warning)
    return file


def covers(hole: Hole, topic: str, time_s: float) -> bool:
    start = -1.0 if hole.start_s is None else hole.start_s
    end = 1e99 if hole.end_s is None else hole.end_s
    return hole.covers(topic) and start - 1e-9 <= time_s <= end + 1e-9


def spans_of_records(content: bytes) -> dict[int, list[tuple[int, int]]]:
    """{opcode: [(start, end)]} of the records outside of chunks, heads included."""
    found: dict[int, list[tuple[int, int]]] = {}
    position = 8
    while position < len(content) - 8:
        opcode, length = struct.unpack_from("<BQ", content, position)
        found.setdefault(opcode, []).append((position, position + 9 + length))
        position += 9 + length
    return found


def test_a_flipped_bit_in_any_kind_of_record_changes_no_value_and_is_named(
    recordings: dict[str, Path], tmp_path: Path
) -> None:
    content = recordings["short"].read_bytes()
    whole, written = rows_of(recordings["short"])
    assert whole.warning == ""
    chosen = random.Random(1)
    places = {0: [(0, 8), (len(content) - 8, len(content))], **spans_of_records(content)}
    assert set(places) >= {0, 1, 2, 3, 4, 6, 7, 8, 11, 12, 13, 14, 15, checks.OPCODE}
    for opcode, spans in places.items():
        for start, end in spans[:3]:
            heads = [8 * start + bit for bit in chosen.sample(range(9 * 8 if opcode else 8 * 8), 4)]
            bodies = [chosen.randrange(8 * start, 8 * end) for _ in range(3)]
            for bit in (*heads, *bodies):
                damaged = tmp_path / "damaged.mcap"
                damaged.write_bytes(flipped(content, bit))
                file = check_rows(damaged, whole, written)
                assert file is not None, (opcode, bit)
                assert file.warning, (opcode, bit)
                assert not file.cut_off, (opcode, bit)


def test_messages_whose_schema_is_damaged_everywhere_are_missing_or_have_it(
    recordings: dict[str, Path], tmp_path: Path
) -> None:
    content = recordings["robot_short"].read_bytes()
    whole, written = rows_of(recordings["robot_short"])
    spans = spans_of_records(content)
    in_summary = flipped(content, 8 * spans[3][0][1] - 3)
    assert len(spans[6]) > 1
    for intact in spans[6]:
        damaged = in_summary
        for chunk in spans[6]:
            damaged = damaged if chunk == intact else flipped(damaged, 8 * (chunk[1] - 20))
        (tmp_path / "damaged.mcap").write_bytes(damaged)
        file = check_rows(tmp_path / "damaged.mcap", whole, written, flips=2)
        assert file is not None, intact
        assert file.warning


@pytest.mark.parametrize("length", ["short", "long"])
@pytest.mark.parametrize("flips", [1, 3])
def test_flipped_bits_anywhere_change_no_value_and_are_named(
    length: str, flips: int, recordings: dict[str, Path], tmp_path: Path
) -> None:
    read_with_flips(recordings[length], tmp_path, 25 if length == "short" else 8, flips)


@pytest.mark.soak
@pytest.mark.parametrize("length", ["short", "long", "robot_short", "robot_long"])
@pytest.mark.parametrize("flips", [1, 5])
def test_flipped_bits_anywhere_change_no_value_and_are_named_in_full(
    length: str, flips: int, recordings: dict[str, Path], tmp_path: Path
) -> None:
    read_with_flips(recordings[length], tmp_path, 500, flips)


def read_with_flips(path: Path, folder: Path, count: int, flips: int) -> None:
    content = path.read_bytes()
    whole, written = rows_of(path)
    chosen = random.Random(flips)
    for _ in range(count):
        changed = content
        bits = [chosen.randrange(8 * len(content)) for _ in range(flips)]
        for bit in bits:
            changed = flipped(changed, bit)
        (folder / "damaged.mcap").write_bytes(changed)
        file = check_rows(folder / "damaged.mcap", whole, written, flips)
        assert file is None or file.warning, bits


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_flipped_bit_in_a_compressed_recording_changes_no_value(compression: str, tmp_path: Path) -> None:
    pytest.importorskip({"lz4": "lz4", "zstd": "zstandard"}[compression])
    path = tmp_path / "run.mcap"
    write_arm(path, compression=compression)
    content = path.read_bytes()
    whole, written = rows_of(path)
    chosen = random.Random(2)
    for _ in range(60):
        (tmp_path / "damaged.mcap").write_bytes(flipped(content, chosen.randrange(8 * len(content))))
        check_rows(tmp_path / "damaged.mcap", whole, written)


@pytest.mark.parametrize("length", ["short", "long"])
def test_a_cut_at_any_length_is_a_cut_and_no_damage(length: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    read_cut(recordings[length], tmp_path, 12)


@pytest.mark.soak
@pytest.mark.parametrize("length", ["short", "long", "robot_short", "robot_long"])
def test_a_cut_at_any_length_is_a_cut_and_no_damage_in_full(
    length: str, recordings: dict[str, Path], tmp_path: Path
) -> None:
    read_cut(recordings[length], tmp_path, 100)


def read_cut(path: Path, folder: Path, count: int) -> None:
    content = path.read_bytes()
    whole, written = rows_of(path)
    chosen = random.Random(3)
    for size in [*(chosen.randrange(9, len(content)) for _ in range(count)), len(content) - 1, len(content) - 9]:
        (folder / "cut.mcap").write_bytes(content[:size])
        file = check_rows(folder / "cut.mcap", whole, written)
        assert file is not None
        assert (file.cut_off, file.truncated) == (True, True)
        if size < spans_of_records(content)[15][0][1]:
            assert [hole.cause for hole in file.holes] == [CUT_OFF]
        else:  # the messages end before
            assert (file.holes, file.damage) == ([], ["its closing index"])


# -- whole pieces of a file removed, moved, repeated or overwritten


def groups_of(content: bytes) -> list[tuple[int, int]]:
    """(start, end) of each chunk with its index and its check record."""
    spans = spans_of_records(content)
    starts = [start for start, _ in spans[6]]
    return list(zip(starts, [*starts[1:], spans[15][0][0]], strict=True))


def without(content: bytes, chosen: random.Random) -> bytes:
    start, end = chosen.choice([*groups_of(content), *spans_of_records(content)[6]])
    return content[:start] + content[end:]


def without_the_last_chunk(content: bytes, chosen: random.Random) -> bytes:
    start, end = groups_of(content)[-1]
    return content[:start] + content[end:]


def exchanged(content: bytes, chosen: random.Random) -> bytes:
    spans = chosen.choice([groups_of(content), spans_of_records(content)[6]])
    one, two = sorted(chosen.sample(spans, 2))
    return b"".join(
        content[start:end] for start, end in [(0, one[0]), two, (one[1], two[0]), one, (two[1], len(content))]
    )


def repeated(content: bytes, chosen: random.Random) -> bytes:
    spans = chosen.choice([groups_of(content), spans_of_records(content)[6]])
    one, two = sorted(chosen.choices(spans, k=2))
    return content[: two[1]] + content[slice(*one)] + content[two[1] :]


def overwritten(content: bytes, chosen: random.Random) -> bytes:
    one, two = chosen.sample(groups_of(content), 2)
    length = min(one[1] - one[0], two[1] - two[0])
    return content[: two[0]] + content[one[0] : one[0] + length] + content[two[0] + length :]


def with_zero_pages(content: bytes, chosen: random.Random) -> bytes:
    changed = bytearray(content)
    for page in chosen.sample(range(0, len(content), 4096), 2):
        changed[page : page + 4096] = bytes(len(changed[page : page + 4096]))
    return bytes(changed)


def without_a_part(content: bytes, chosen: random.Random) -> bytes:
    start, end = sorted(chosen.sample(range(len(content)), 2))
    return content[:start] + content[end:]


def without_beginning(content: bytes, chosen: random.Random) -> bytes:
    return content[chosen.randrange(9, len(content)) :]


def with_more_bytes(content: bytes, chosen: random.Random) -> bytes:
    place = chosen.randrange(len(content))
    return content[:place] + chosen.randbytes(chosen.choice([1, 512, 4096])) + content[place:]


def twice(content: bytes, chosen: random.Random) -> bytes:
    return content + content


def cut_and_again(content: bytes, chosen: random.Random) -> bytes:
    return content[: chosen.randrange(9, len(content))] + content


REARRANGED = [
    without, without_the_last_chunk, exchanged, repeated, overwritten, with_zero_pages, without_a_part,
    without_beginning, with_more_bytes, twice, cut_and_again,
]  # fmt: skip
Rearrange = Callable[[bytes, random.Random], bytes]


def write_two_arms(path: Path, compression: str) -> None:
    """Three runs of two robots in namespaces."""
    with RecordingWriter(path, {"plan": "{}"}, chunk_s=0.02, compression=compression) as writer:
        for robot in ("left/arm", "right/arm"):
            writer.write(f"{robot}/description", Description(robot="arm"), 0.0)
        for number in range(300):
            time_s = number % 100 * 1e-3
            for robot in ("left/arm", "right/arm"):
                if time_s == 0.0 and number:
                    writer.write(f"{robot}/event", Event(kind="reset"), 0.0)
                state = RobotState(timestamp=time_s, seq=number, position=[0.1 * number])
                writer.write(f"{robot}/state", state, time_s)


@pytest.mark.parametrize("rearrange", REARRANGED, ids=lambda each: each.__name__)
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_pieces_removed_moved_or_repeated_change_no_value_and_are_named(
    compression: str, rearrange: Rearrange, tmp_path: Path
) -> None:
    if compression != "none":
        pytest.importorskip({"lz4": "lz4", "zstd": "zstandard"}[compression])
    path = tmp_path / "run.mcap"
    write_two_arms(path, compression)
    read_rearranged(path, rearrange, tmp_path, 20, is_one_run=False)


@pytest.mark.parametrize("rearrange", REARRANGED, ids=lambda each: each.__name__)
def test_a_rare_message_that_was_moved_is_missing_where_it_was(rearrange: Rearrange, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {"plan": "{}"}, chunk_s=0.02) as writer:
        for number in range(400):
            if number % 90 == 45:
                writer.write("arm/event", Event(kind="mark", timestamp=1e-3 * number), 1e-3 * number)
            state = RobotState(timestamp=1e-3 * number, seq=number, position=[0.1 * number])
            writer.write("arm/state", state, 1e-3 * number)
    read_rearranged(path, rearrange, tmp_path, 20)


@pytest.mark.soak
@pytest.mark.parametrize("rearrange", REARRANGED, ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", ["long", "robot_long"])
def test_pieces_removed_moved_or_repeated_change_no_value_and_are_named_in_full(
    name: str, rearrange: Rearrange, recordings: dict[str, Path], tmp_path: Path
) -> None:
    read_rearranged(recordings[name], rearrange, tmp_path, 50)


def read_rearranged(path: Path, rearrange: Rearrange, folder: Path, count: int, is_one_run: bool = True) -> None:
    content = path.read_bytes()
    whole, written = rows_of(path)
    chosen = random.Random(6)
    for _ in range(count):
        damaged = rearrange(content, chosen)
        if damaged == content:
            continue
        (folder / "damaged.mcap").write_bytes(damaged)
        file = check_rows(folder / "damaged.mcap", whole, written, 2, is_one_run)
        assert file is not None
        assert file.warning
        assert all(hole.cause != NOT_WRITTEN for hole in file.holes), file.warning  # the recorder is not to blame


def test_of_two_recordings_in_one_file_the_first_is_read(arm: Path, tmp_path: Path) -> None:
    """The second continues no run of the first, although its messages are numbered as if it did."""
    whole, written = rows_of(arm)
    for length in (arm.stat().st_size, arm.stat().st_size // 2):
        longer = tmp_path / "longer.mcap"
        write_arm(longer, 400)
        first = arm.read_bytes()[:length]
        longer.write_bytes(first + longer.read_bytes())
        file = check_rows(longer, whole, written)
        assert file is not None
        assert f"another recording at byte {length}, which is ignored" in file.warning
        assert file.cut_off == (length != arm.stat().st_size)


# -- all tools


class Tools:
    """Each way to read a recording, given a damaged file and what the whole one says."""

    def __init__(self, whole: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.whole, self.folder, self._capsys = whole, folder, capsys
        self.file, self.written = rows_of(whole)
        self.arrays = read_recording(whole)
        self.robot = self.file.metadata["robot"]
        self.measures = f"{self.robot}/measured_state" in self.arrays

    def command(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, what was printed, and the error stream, of a command that may not end in a traceback."""
        code = armswing([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def check(self, path: Path, *, pictures: bool) -> None:
        """All tools on one file."""
        file = check_rows(path, self.file, self.written)
        if file is None:
            for command in (["info", path], ["export", path, "--csv", self.folder / "csv"]):
                assert self.command(*command)[0] == 2
            return
        self.check_arrays(path, file)
        self.check_info(path, file)
        self.check_export(path, file)
        self.check_play(path, file)
        self.check_view(path, file, pictures)
        if self.measures:
            self.check_report(path, file)
        else:
            self.check_replay(path, file)

    def check_arrays(self, path: Path, file: RecordingFile) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = read_recording(path)
        assert [str(each.message) for each in caught if each.category is RecordingWarning] == (
            [file.warning] if file.warning else []
        )
        assert found.holes == file.holes
        for topic, columns in found.items():
            reference = self.arrays[topic]
            rows = np.searchsorted(reference["seq"], columns["seq"])
            for field, values in columns.items():
                np.testing.assert_array_equal(values, reference[field][rows])

    def check_info(self, path: Path, file: RecordingFile) -> None:
        code, _, err = self.command("info", path)
        assert code == 0
        for hole in file.holes:
            assert hole.text() in err
        assert ("cut off" in err) == file.cut_off
        plain = json.loads(self.command("info", path, "--json")[1])
        assert plain["metadata"] == file.metadata
        assert msgspec.convert(plain["holes"], list[Hole]) == file.holes

    def check_export(self, path: Path, file: RecordingFile) -> None:
        folder = self.folder / "csv"
        code, _, err = self.command("export", path, "--csv", folder)
        assert code == (1 if any(hole.cause != CUT_OFF for hole in file.holes) else 0)
        assert (file.warning in err) if file.warning else err == ""
        assert (folder / "holes.csv").is_file() == bool(file.holes)
        state = f"{self.robot}/state"
        if any(row[0] == state for row in self.written) and (folder / f"{self.robot}.state.csv").is_file():
            with (folder / f"{self.robot}.state.csv").open(newline="") as table:
                exported = {row["seq"]: row["energy"] for row in csv.DictReader(table)}
            energy = dict(zip(self.arrays[state]["seq"].tolist(), self.arrays[state]["energy"].tolist(), strict=True))
            assert all(float(value) == energy[int(seq)] for seq, value in exported.items())
        for each in folder.iterdir():
            each.unlink()

    def check_play(self, path: Path, file: RecordingFile) -> None:
        player = Player()
        params = Player.Params(file=str(path))
        context = Context("play", self.robot, 1e-3, params, np.random.default_rng(0))
        try:
            player.on_start(context)
        except ValueError:  # there is nothing to play
            assert not any(row[0].startswith(self.robot) for row in rows_of(path)[1])
            return
        assert any(file.warning in line for _, line in context.log) == bool(file.warning)
        list(player.on_tick(0.0))
        said = list(player.on_tick(100.0))
        assert len(said) <= len(self.written)

    def check_view(self, path: Path, file: RecordingFile, pictures: bool) -> None:
        signals = pytest.importorskip("viewer.data.signals")
        found = signals.from_recording(read_recording(path, run=-1, warn=False))
        inner = [hole for hole in file.holes if hole.cause != CUT_OFF and hole.covers(f"{self.robot}/state")]
        if (column := found.column("energy", "energy")) is not None:
            times, values = column
            gaps = int(np.isnan(values).sum())
            assert gaps == len(found.holes) <= len(inner)
            assert found.states == len(times) - gaps
        if pictures:
            code, _, err = self.command("view", path, "--png", self.folder / "view.png")
            assert code in (0, 1)  # 1: no motion in it
            assert not file.warning or file.warning in err

    def check_replay(self, path: Path, file: RecordingFile) -> None:
        code, _, err = self.command("replay", path, "--node", SWING_UP)
        if any(hole.cause != CUT_OFF for hole in file.holes) or file.metadata_damaged:
            assert (code, file.warning in err) == (2, True)
        else:
            assert code == 0 or file.cut_off, err
            assert code != 1 or "nothing could be compared" in err

    def check_report(self, path: Path, file: RecordingFile) -> None:
        from nodes.hil.alignment.streams import StreamError
        from nodes.hil.report.reading import read_case
        from nodes.hil.report.verdict import Compared, limits_of

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RecordingWarning)
                case = read_case(path, None)
                verdict = Compared(case, limits_of(case, {})).verdict
        except (StreamError, RecordingError):
            assert file.holes or file.metadata_damaged
            return
        assert not any(hole.cause != CUT_OFF for hole in file.holes)
        assert [finding for finding in verdict.findings if finding.failed] == []


@pytest.fixture
def tools(recordings: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Tools]:
    return lambda name: Tools(recordings[name], tmp_path, capsys)


def attacked(whole: Path, folder: Path, flips: int, cuts: int, seed: int) -> Iterator[Path]:
    """The file with one flipped bit, and cut off, so many times; half of the flips outside of the messages."""
    content = whole.read_bytes()
    chosen = random.Random(seed)
    others = [span for opcode, spans in spans_of_records(content).items() if opcode != 6 for span in spans]
    path = folder / "attacked.mcap"
    for number in range(flips):
        start, end = chosen.choice(others) if number % 2 else (0, len(content))
        path.write_bytes(flipped(content, chosen.randrange(8 * start, 8 * end)))
        yield path
    for _ in range(cuts):
        path.write_bytes(content[: chosen.randrange(1, len(content))])
        yield path


@pytest.mark.parametrize("name", ["short", "robot_short"])
def test_no_tool_reads_a_wrong_value_or_blames_anybody(
    name: str, tools: Callable[[str], Tools], tmp_path: Path
) -> None:
    each = tools(name)
    for path in attacked(each.whole, tmp_path, flips=6, cuts=3, seed=4):
        each.check(path, pictures=False)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["short", "long", "robot_short", "robot_long"])
def test_no_tool_reads_a_wrong_value_or_blames_anybody_in_full(
    name: str, tools: Callable[[str], Tools], tmp_path: Path
) -> None:
    each = tools(name)
    for number, path in enumerate(attacked(each.whole, tmp_path, flips=125, cuts=25, seed=5)):
        each.check(path, pictures=number % 20 == 0 and "QT_QPA_PLATFORM" in os.environ)


# -- single cases


def write_arm(path: Path, ticks: int = 200, **options: Any) -> None:
    with RecordingWriter(path, {"plan": '{"sim":{"step_ms":1.0}}'}, chunk_s=0.02, **options) as writer:
        writer.write("arm/description", Description(robot="arm"), 0.0)
        for tick in range(ticks):
            writer.write(STATE, RobotState(timestamp=tick * 1e-3, seq=tick, position=[0.1 * tick]), tick * 1e-3)
            if tick == 150:
                writer.write("arm/event", Event(timestamp=tick * 1e-3, kind="grip"), tick * 1e-3)


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.mcap"
    write_arm(path)
    return path


def test_a_damaged_first_chunk_costs_its_own_messages_alone(arm: Path) -> None:
    """Schemas and channels stand in it; the check record behind it has the channels once more."""
    content = arm.read_bytes()
    arm.write_bytes(flipped(content, 8 * content.index(b'"seq":7')))
    for missing in (b"", b"its check record as well"):
        if missing:
            content = arm.read_bytes()
            second = content.index(checks.MAGIC, content.index(checks.MAGIC) + 8)
            arm.write_bytes(flipped(content, 8 * second + 200))
        with pytest.warns(RecordingWarning, match="21 messages are missing, arm/state 20, arm/description 1"):
            recording = read_recording(arm)
        assert recording[STATE]["seq"].tolist() == list(range(20, 200))
        (hole,) = recording.holes
        assert (hole.cause, hole.messages) == (DAMAGED, {STATE: 20, "arm/description": 1})
        assert hole.end_s == 0.02


def test_a_topic_that_is_lost_altogether_is_named(arm: Path) -> None:
    content = arm.read_bytes()
    arm.write_bytes(flipped(content, 8 * content.index(b'"grip"')))
    file, _ = rows_of(arm)
    assert [hole.messages for hole in file.holes] == [{STATE: 20, "arm/event": 1}]


def test_metadata_survives_one_flip_and_is_left_out_after_two(arm: Path) -> None:
    content = arm.read_bytes()
    first = content.index(b"step_ms")
    once = flipped(content, 8 * (first + 10))
    arm.write_bytes(once)
    file, _ = rows_of(arm)
    assert file.metadata == {"plan": '{"sim":{"step_ms":1.0}}'}
    assert (file.metadata_damaged, file.holes) == (False, [])
    assert file.damage == ["one of the two copies of its run's metadata"]
    arm.write_bytes(flipped(once, 8 * (content.index(b"step_ms", first + 1) + 10)))
    file, _ = rows_of(arm)
    assert (file.metadata, file.metadata_damaged) == ({}, True)
    with pytest.raises(RecordingError, match="plan and parameters in the file are damaged"):
        compare(arm, arm)


def test_a_hole_of_the_recorder_is_told_from_damage(arm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dropped.mcap"
    full, write = False, os.write

    def limited(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("nodes.framework.recording.writer.os.write", limited)
    monkeypatch.setattr("nodes.framework.recording.writer.MAX_BACKLOG_BYTES", 4000)
    with RecordingWriter(path, {}, chunk_s=0.01) as writer:
        for tick in range(300):
            full = 50 <= tick < 200
            try:
                writer.write(STATE, RobotState(timestamp=tick * 1e-3, seq=tick), tick * 1e-3)
            except OSError:
                assert full
        kept = writer.messages
    file, rows = rows_of(path)
    (hole,) = file.holes
    assert (hole.cause, hole.messages) == (NOT_WRITTEN, {STATE: 300 - len(rows)})
    assert len(rows) <= kept < 300
    assert hole.end_s == 0.2


def test_a_gap_in_what_came_over_the_wire_is_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        for tick in (0, 1, 2, 50, 51):
            writer.write(STATE, RobotState(timestamp=tick * 1e-3, seq=tick), tick * 1e-3)
    file, rows = rows_of(path)
    assert (len(rows), file.warning) == (5, "")


def test_a_damaged_sidecar_is_left_out_and_named(arm: Path) -> None:
    sidecar = sidecar_path(arm)
    content = sidecar.read_bytes()
    chosen = random.Random(6)
    from nodes.framework.recording.sidecar import read_sidecar, sidecar_is_damaged

    whole = read_sidecar(arm)
    assert whole is not None
    assert "crc32" not in whole
    for _ in range(200):
        sidecar.write_bytes(flipped(content, chosen.randrange(8 * len(content))))
        assert read_sidecar(arm) in (None, whole)
        assert sidecar_is_damaged(arm) == (read_sidecar(arm) is None)
    for damaged in (content[: len(content) // 2], b"", b"null", b'{"a":' * 5000):
        sidecar.write_bytes(damaged)
        assert read_sidecar(arm) is None
        assert sidecar_is_damaged(arm)
    del whole["nodes_elsewhere" if "nodes_elsewhere" in whole else "host"]
    sidecar.write_text(json.dumps(whole))  # as an earlier version wrote it
    assert read_sidecar(arm) == whole


def test_other_readers_open_a_recording_with_check_records(arm: Path) -> None:
    with arm.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == 202
        assert len(list(reader.iter_messages(topics=[STATE]))) == 200
        assert [metadata.name for metadata in reader.iter_metadata()] == ["armswing"]
    with arm.open("rb") as file:
        kinds = Counter(type(record).__name__ for record in StreamReader(file, validate_crcs=True).records)
    assert kinds["Message"] == 202


def test_a_recording_of_another_writer_is_read_outside_of_chunks_too(tmp_path: Path) -> None:
    from mcap.writer import Writer

    for chunked in (True, False):
        path = tmp_path / f"foreign_{chunked}.mcap"
        with path.open("wb") as file:
            writer = Writer(file, use_chunking=chunked)
            writer.start()
            channel = writer.register_channel("x/state", "json", writer.register_schema("S", "jsonschema", b"{}"))
            for tick in range(50):
                writer.add_message(channel, tick, b'{"seq":%d}' % (2 * tick), tick, 2 * tick)
            writer.add_metadata("other", {"a": "b"})
            writer.add_attachment(0, 0, "note", "text/plain", b"hello")
            writer.finish()
        found, rows = rows_of(path)
        assert [row[2] for row in rows] == list(range(50))
        assert (found.warning, found.metadata) == ("", {})


def write_as_before(path: Path, protocol: str = str(PROTOCOL)) -> None:
    """A recording of an earlier version: no check records, and `sequence` is the publisher's seq."""
    from mcap.writer import CompressionType, Writer

    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start(library="armswing")
        writer.add_metadata("armswing", {"protocol": protocol, "plan": '{"sim":{"step_ms":1.0}}'})
        channel = writer.register_channel(
            STATE, "json", writer.register_schema("armswing.RobotState", "jsonschema", b"{}")
        )
        for tick in range(200):
            state = RobotState(timestamp=tick * 1e-3, seq=2 * tick, position=[0.1 * tick])
            writer.add_message(channel, tick * 10**6, msgspec.json.encode(state), tick * 10**6, 2 * tick)
            if tick % 20 == 19:
                writer.flush()
        writer.finish()


def test_a_recording_of_an_earlier_version_is_checked_as_far_as_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "earlier.mcap"
    write_as_before(path)
    content = path.read_bytes()
    whole, written = rows_of(path)
    assert (whole.warning, whole.metadata) == ("", {"plan": '{"sim":{"step_ms":1.0}}'})
    metadata = range(*(8 * place for place in spans_of_records(content)[12][0]))
    chosen = random.Random(7)
    bits = [bit for bit in (chosen.randrange(8 * len(content)) for _ in range(150)) if bit not in metadata]
    for bit in bits:
        path.write_bytes(flipped(content, bit))
        check_rows(path, whole, written)
    for place in (b'"seq":8,', b'"seq":200,'):  # the first chunk, with the channel in it, and another one
        path.write_bytes(flipped(content, 8 * content.index(place)))
        file = check_rows(path, whole, written)
        assert file is not None
        assert [hole.messages for hole in file.holes] == [{STATE: 20}]
    path.write_bytes(flipped(path.read_bytes(), 8 * content.index(b'"seq":300,')))
    file, _ = rows_of(path)
    assert [(hole.counted, hole.cause) for hole in file.holes] == [(False, DAMAGED)] * 2
    path.write_bytes(content[: len(content) // 2])
    file, _ = rows_of(path)
    assert (file.cut_off, [hole.cause for hole in file.holes]) == (True, [CUT_OFF])


def test_a_hole_leaves_the_rate_of_a_topic_as_it_was(arm: Path) -> None:
    from nodes.framework.recording.reader import describe

    content = arm.read_bytes()
    arm.write_bytes(flipped(content, 8 * content.index(b'"seq":77,')))
    rates = {row["topic"]: row["rate_hz"] for row in describe(arm)["topics"]}
    assert rates[STATE] == pytest.approx(1000.0)


def test_the_last_instant_of_a_cut_run_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever spoke after the cut at that instant is not said to have been silent."""
    path = tmp_path / "run.mcap"
    with compose(load_plan(LAUNCH / "rotary_pendulum_lockstep.toml", [f"recorder.file={path}"])) as composition:
        composition.run(0.1)
    _, rows = rows_of(path)
    metadata = RecordingFile(path).scan().metadata
    kinds = {"state": RobotState, "command": JointCommand}
    last = max(i for i, row in enumerate(rows) if row[0].endswith("/command"))
    writer = RecordingWriter(tmp_path / "cut.mcap", metadata, chunk_s=None)
    file = RecordingFile(path)
    for number, recorded in enumerate(file):
        if number < last and (message := recorded.message()) is not None:
            writer.write(recorded.topic, message, recorded.time_ns / 1e9)
    writer.flush()  # and never closed
    assert set(kinds) <= {row[0].rpartition("/")[2] for row in rows}
    assert armswing(["replay", str(tmp_path / "cut.mcap"), "--node", SWING_UP]) == 0
    assert "cut off" in capsys.readouterr().err

"""Files of a sweep that are damaged, on a full disk, or changed by chance: nothing is read that was not written."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodes.cli.application import run
from nodes.research.journal import Journal, JournalError, append, encode_line, read_lines
from nodes.research.maps.kept_runs import KeptRuns
from nodes.research.sweeps.boundary import PROBES, Probe
from nodes.research.sweeps.cells import Row, values_text
from nodes.research.sweeps.design import Sweep, SweepError
from nodes.research.sweeps.folder import JOURNAL, MARKER, SweepJournal, claim, read_rows, read_sweep
from nodes.research.workers import Loss, Pool
from sim_core.support.shown import printable
from tests.nodes.research.sweeps.conftest import rows_of

FLIPS = 300


def row_of(number: int) -> Row:
    figures: dict[str, float | int | str | None] = {"energy": 0.1 * number, "tick": 100, "note": "ü"}
    return Row(cell=number, seed=3, result="passed", figures=figures, wall_s=0.25)


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def test_no_flipped_bit_of_the_journal_is_read_as_a_row(tmp_path: Path) -> None:
    with SweepJournal(tmp_path) as journal:
        for number in range(3):
            journal.add(row_of(number))
    path, chance = tmp_path / JOURNAL, random.Random(1)
    written, data = read_rows(tmp_path), path.read_bytes()
    assert written == {number: row_of(number) for number in range(3)}
    refused = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(data, chance))
        try:
            found = read_rows(tmp_path)
        except JournalError:
            refused += 1
            continue
        assert found.keys() == {0, 1}  # the end of the last line is lost, and its run is repeated
        assert all(found[number] == written[number] for number in found)
    assert refused > 0.95 * FLIPS
    path.write_bytes(b"x" + data)
    for _ in range(2):  # the journal is not left locked
        with pytest.raises(
            JournalError, match="line 1 is damaged: its content does not have its checksum; delete this"
        ):
            SweepJournal(tmp_path)


def test_no_flipped_bit_of_the_definition_is_read_as_a_sweep(tmp_path: Path) -> None:
    sweep = Sweep(launch="/a.toml", cwd="/b", axes=[], repeat=2, seconds=0.5, files={"a": "17"})
    claim(tmp_path / "s", sweep)
    assert read_sweep(tmp_path / "s") == sweep
    path, chance = tmp_path / "s" / MARKER, random.Random(2)
    data = path.read_bytes()
    for _ in range(FLIPS):
        path.write_bytes(changed := flipped(data, chance))
        if changed.split() == data.split():  # white space
            continue
        with pytest.raises(SweepError, match=r"is damaged|is not a sweep that this version can read"):
            read_sweep(tmp_path / "s")


def test_a_line_that_is_half_written_is_left_out_and_one_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / PROBES
    lines = [encode_line(Probe("node.gain", 0.5 * number, row_of(number))) for number in range(3)]
    path.write_bytes(b"".join(lines)[:-9])
    assert [probe.row.cell for probe in read_lines(path, Probe)] == [0, 1]
    with Journal(path, Probe, "busy") as journal:
        assert [probe.row.cell for probe in journal.lines] == [0, 1]
    assert path.read_bytes() == lines[0] + lines[1]
    path.write_bytes(lines[0] + lines[1].replace(b"0.5", b"0.7") + lines[2])
    with pytest.raises(JournalError, match=r"boundary\.jsonl, line 2 is damaged"):
        list(read_lines(path, Probe))
    path.write_bytes(lines[0][:-1] + lines[1])
    with pytest.raises(JournalError, match=r"boundary\.jsonl, line 1 is damaged"):
        list(read_lines(path, Probe))
    path.write_bytes(encode_line(row_of(1)))
    with pytest.raises(JournalError, match="line 1 is not a line that this version can read"):
        list(read_lines(path, Probe))


def test_no_flipped_bit_of_the_runs_of_a_map_is_read_as_a_run(tmp_path: Path) -> None:
    path, chance = tmp_path / "map.runs", random.Random(3)
    with KeptRuns(path, "one", 5, 3) as runs:
        for number in (0, 3, 4):
            runs.keep(number, np.array([0.1 * number, np.nan, -1.0]))
    data, refused = path.read_bytes(), 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(data, chance))
        try:
            with KeptRuns(path, "one", 5, 3) as runs:
                assert runs.done.tolist() == [True, False, False, True, False]  # the end of the last line is lost
        except JournalError:
            refused += 1
    assert refused > 0.95 * FLIPS
    path.write_bytes(data)
    with KeptRuns(path, "one", 5, 3) as runs:
        assert runs.done.tolist() == [True, False, False, True, True]
        assert runs.rows[3].tobytes() == np.array([0.1 * 3, np.nan, -1.0]).tobytes()


def test_a_write_that_fails_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = os.open(tmp_path / "lines", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    append(file, b"first\n")
    write = os.write

    def full(number: int, data: bytes) -> int:
        if len(data) < 6:
            raise OSError(28, "No space left on device")
        return write(number, data[:3])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        append(file, b"second\n")
    monkeypatch.undo()
    append(file, b"third\n")
    os.close(file)
    assert (tmp_path / "lines").read_bytes() == b"first\nthird\n"


def test_on_a_full_disk_the_finished_runs_are_kept(
    launch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A limit of the journal's size stands for the disk."""
    folder = tmp_path / "out"
    arguments = ["sweep", str(launch), "--over", "node.gain=1:6:6", "--workers", "1", "--no-page", "-o", str(folder)]

    def append_to_full(file: int, data: bytes) -> None:
        if os.fstat(file).st_size + len(data) > 2000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(file, data)

    monkeypatch.setattr("nodes.research.journal.append", append_to_full)
    assert run(arguments) == 1
    done = len(read_rows(folder))
    assert 1 <= done < 6
    line = f"armswing: {folder} cannot be written: No space left on device; {done} of 6 runs are done and kept; "
    assert capsys.readouterr().err.splitlines()[-1] == f"{line}repeat the command to continue"
    monkeypatch.undo()
    assert run(arguments) == 0
    assert f"{done} of 6 runs were done before" in capsys.readouterr().err
    assert len(rows_of(folder)) == len((folder / JOURNAL).read_bytes().splitlines()) == 6


class Garbled:
    """A job whose results cannot be decoded for the task 1."""

    def encode(self, task: int) -> bytes:
        return msgspec.json.encode(task)

    def do(self, task: bytes) -> bytes:
        return b"?" if task == b"1" else task

    def decode(self, result: bytes) -> object:
        return msgspec.json.decode(result)

    def lost(self, task: int, loss: Loss) -> object:
        return loss


def test_a_result_that_cannot_be_read_is_lost_and_takes_no_other_with_it() -> None:
    with Pool(Garbled(), 1, 20.0) as pool:
        found = dict(pool.results([0, 1, 2], lambda: None))
    assert (found[0], found[2]) == (0, 2)
    assert isinstance(found[1], Loss)
    assert found[1].reason.startswith("the result of its process cannot be read: ")


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31m\nbü") == r"a\x1b[31m\nbü"
    assert values_text({"node.text": "two\nlines", "node.gain": 0.1}) == r"node.text=two\nlines, node.gain=0.1"

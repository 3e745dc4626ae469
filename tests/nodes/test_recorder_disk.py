"""What the recorder says at its end of messages that no file holds: when they were, how many, and where the rest is."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run as armswing
from nodes.framework.messages import Description, RobotState
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording import writer as recording_writer
from nodes.framework.recording.lock import FileInUseError, require_unlocked
from nodes.framework.recording.reader import RecordingFile, read_recording
from nodes.framework.simulation.compose import compose
from nodes.node import Context
from nodes.recorder import Recorder

STATE = "arm/state"


def started(path: Path, **params: Any) -> tuple[Recorder, Context]:
    recorder = Recorder()
    context = Context("recorder", "arm", 1e-3, Recorder.Params(file=str(path), **params), np.random.default_rng(0))
    recorder.on_start(context)
    return recorder, context


def tell(recorder: Recorder, first: int, end: int) -> None:
    for tick in range(first, end):
        recorder.on_message(STATE, RobotState(timestamp=tick * 1e-3, seq=tick))
        if tick % 50 == 0:
            recorder.on_tick(tick * 1e-2)  # a flush each time


@pytest.fixture
def file_size_limit() -> Iterator[Any]:
    """Sets how large a file of this process may become; lifted at the end."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (usual[0] if size is None else size, usual[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_disk_that_stays_full_is_the_verdict(tmp_path: Path, file_size_limit: Any) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 101)
    assert recorder.verdict is None
    file_size_limit(path.stat().st_size + 10)
    tell(recorder, 101, 500)
    lacks = "failed: {} lacks t = 0.101 .. {} s ({} of {} messages): File too large, the rest is in {}"
    assert str(recorder.verdict) == lacks.format(path, "0.499", 399, 500, path)
    recorder.on_stop()
    assert str(recorder.verdict) == lacks.format(path, "0.499", 399, 500, path)
    file_size_limit(None)
    found = RecordingFile(path)
    assert [each.seq for each in found] == list(range(101))
    assert (found.cut_off, found.holes[-1].start_s) == (True, 0.1)


def test_a_disk_that_has_room_again_is_no_verdict(tmp_path: Path, file_size_limit: Any) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 101)
    file_size_limit(path.stat().st_size + 10)
    tell(recorder, 101, 300)
    assert str(recorder.verdict).startswith("failed")
    file_size_limit(None)
    tell(recorder, 300, 400)
    recorder.on_stop()
    assert recorder.verdict is None
    assert read_recording(path)[STATE]["seq"].tolist() == list(range(400))


def test_messages_that_found_no_room_to_wait_stay_missing(
    tmp_path: Path, file_size_limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_writer, "MAX_BACKLOG_BYTES", 20_000)
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 101)
    file_size_limit(path.stat().st_size + 10)
    tell(recorder, 101, 600)
    file_size_limit(None)
    tell(recorder, 600, 700)
    recorder.on_stop()
    found = RecordingFile(path)
    seqs = [each.seq for each in found]
    (hole,) = found.holes
    lost = 700 - len(seqs)
    first = seqs[-100] - lost
    assert (hole.cause, hole.messages) == ("not written", {STATE: lost})
    assert str(recorder.verdict) == (
        f"failed: {path} lacks t = {first / 1e3:.3f} .. {(first + lost - 1) / 1e3:.3f} s ({lost} of 700 messages): "
        f"File too large, the rest is in {path}"
    )


def test_a_file_that_is_deleted_begins_anew_with_the_description(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, context = started(path)
    recorder.on_message("arm/description", Description(robot="arm"))
    tell(recorder, 0, 120)
    path.unlink()
    tell(recorder, 120, 300)
    recorder.on_stop()
    assert any("a new recording is started" in line for _, line in context.log)
    found = read_recording(path)
    assert found.description is not None
    assert found[STATE]["seq"].tolist() == list(range(151, 300))
    why = f"{path} was deleted, replaced or cut at t = 0.150 s while it was recorded"
    count = "(152 of 301 messages)"
    assert str(recorder.verdict) == f"failed: {path} lacks t = 0.000 .. 0.150 s {count}: {why}, the rest is in {path}"


def test_a_file_that_is_deleted_after_the_last_flush_is_noticed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 120)
    path.unlink()
    recorder.on_stop()
    assert str(recorder.verdict).startswith(f"failed: {path} lacks t = 0.000 .. 0.119 s (all 120 messages)")


def test_a_file_that_another_put_in_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 120)
    other = tmp_path / "other"
    other.write_bytes(b"somebody's")
    other.replace(path)
    tell(recorder, 120, 300)
    recorder.on_stop()
    assert path.read_bytes() == b"somebody's"
    assert str(recorder.verdict).endswith(f"the rest is in {tmp_path / 'run.recorder.mcap'}")
    assert read_recording(tmp_path / "run.recorder.mcap")[STATE]["seq"].tolist() == list(range(151, 300))


def test_a_file_that_is_moved_is_closed_there_and_begins_anew(tmp_path: Path) -> None:
    path, moved = tmp_path / "run.mcap", tmp_path / "moved.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 120)
    path.rename(moved)
    tell(recorder, 120, 300)
    recorder.on_stop()
    first, second = (RecordingFile(each) for each in (moved, path))
    assert [each.seq for each in (*first, *second)] == list(range(300))
    assert (first.warning, second.warning) == ("", "")
    assert str(recorder.verdict) == (
        f"failed: {path}: {path} was moved to {moved}, which holds the messages so far, at t = 0.150 s while it was "
        f"recorded, no message is missing: the rest is in {path}"
    )


def test_a_file_that_is_cut_while_it_is_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 120)
    os.truncate(path, 100)
    tell(recorder, 120, 300)
    recorder.on_stop()
    assert path.stat().st_size == 100
    assert str(recorder.verdict).startswith(
        f"failed: {path} lacks t = 0.000 .. 0.150 s (151 of 300 messages): {path} was"
    )


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_takes_no_file_costs_what_was_heard_until_it_does(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, usual = tmp_path / "run.mcap", os.open
    refuses = True

    def refuse(file: Any, flags: int, *more: Any, **named: Any) -> int:
        if refuses and flags & os.O_CREAT and Path(file).parent == tmp_path:
            raise OSError(number, os.strerror(number), str(file))
        return usual(file, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    recorder, context = started(path)
    assert any(
        f"{os.strerror(number)}; nothing is recorded until the file can be opened" in line for _, line in context.log
    )
    tell(recorder, 0, 120)
    everything = f"failed: {path} lacks t = 0.000 .. 0.119 s (all 120 messages): {os.strerror(number)}"
    assert str(recorder.verdict) == f"{everything}, nothing of this run is recorded"
    refuses = False
    tell(recorder, 120, 200)
    recorder.on_stop()
    assert read_recording(path)[STATE]["seq"].tolist() == list(range(151, 200))
    lacks = f"failed: {path} lacks t = 0.000 .. 0.150 s (151 of 200 messages): {os.strerror(number)}"
    assert str(recorder.verdict) == f"{lacks}, the rest is in {path}"


def test_two_recorders_of_a_plan_on_one_file_write_two(tmp_path: Path) -> None:
    file = tmp_path / "run.mcap"
    nodes = [
        NodePlan(name=name, run="nodes/recorder.py:Recorder", params={"file": str(file)}) for name in ("one", "two")
    ]
    sim = SimPlan(robot="rotary_pendulum", mode="lockstep")
    with compose(Plan(name="two", folder=str(tmp_path), sim=sim, nodes=nodes)) as composition:
        composition.run(0.05)
        recorders: list[Any] = [composition.nodes[name].node for name in ("one", "two")]
    assert recorders[0].verdict is None
    beside = tmp_path / "run.two.mcap"
    why = "node 'one' writes it too, no message is missing"
    assert str(recorders[1].verdict) == f"failed: {file}: {why}: the rest is in {beside}"
    lengths = [len(read_recording(path)["rotary_pendulum/state"]["seq"]) for path in (file, beside)]
    assert lengths == [51, 51]


def test_a_file_that_another_process_writes_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    read, write = os.pipe()
    ends, end = os.pipe()
    child = os.fork()
    if child == 0:
        recorder, _ = started(path)
        tell(recorder, 0, 10)
        os.write(write, b"x")
        os.read(ends, 1)
        os._exit(0)
    try:
        os.read(read, 1)
        with pytest.raises(FileInUseError, match=f"another recorder writes it, process {child}"):
            require_unlocked(path)
        written = path.read_bytes()
        recorder, _ = started(path)
        tell(recorder, 0, 60)
        recorder.on_stop()
        assert path.read_bytes() == written
        assert str(recorder.verdict) == (
            f"failed: {path}: another recorder writes it, process {child}, no message is missing: "
            f"the rest is in {tmp_path / 'run.recorder.mcap'}"
        )
    finally:
        os.write(end, b"x")
        os.waitpid(child, 0)
    require_unlocked(path)


def test_a_recording_without_its_closing_index_is_the_verdict(tmp_path: Path, file_size_limit: Any) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 101)
    file_size_limit(path.stat().st_size + 10)
    recorder.on_stop()
    assert str(recorder.verdict) == f"failed: {path}: File too large, no message is missing: the rest is in {path}"


def test_a_command_whose_output_finds_no_room_says_so(
    tmp_path: Path, file_size_limit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    tell(recorder, 0, 101)
    recorder.on_stop()
    file_size_limit(1000)
    code = armswing(["export", str(path), "--csv", str(tmp_path / "csv")])
    file_size_limit(None)
    assert code == 1
    told = f"armswing: {tmp_path}/csv/arm.state.csv: File too large; this file was not written\n"
    assert capsys.readouterr().err == told
    assert armswing(["export", str(path), "--csv", "/sys/csv"]) == 1
    assert capsys.readouterr().err.startswith("armswing: /sys/csv: ")


def test_of_a_recorder_only_the_time_between_flushes_changes_while_it_runs(tmp_path: Path) -> None:
    recorder, context = started(tmp_path / "run.mcap")
    recorder.on_parameters(Recorder.Params(file=context.params.file, flush_s=0.1))
    for more in ({"file": "other.mcap"}, {"file": context.params.file, "compression": "lz4"}):
        with pytest.raises(ValueError, match=r"a recorder reads its parameter .* once, at the start"):
            recorder.on_parameters(Recorder.Params(**more))
    recorder.on_stop()


def test_a_recording_is_synced_at_its_interval_and_at_its_end_and_a_failing_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced, now = tmp_path / "run.mcap", list[str](), [0.0]
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    monkeypatch.setattr(recording_writer.time, "monotonic", lambda: now[0])
    recorder, _ = started(path)
    for tick in range(200):
        now[0] = 0.1 * tick
        recorder.on_message(STATE, RobotState(timestamp=now[0], seq=tick))
        recorder.on_tick(now[0])
    assert synced == [str(path), str(tmp_path), str(path), str(path)]  # 20 s, every 5 s; the folder once
    assert recorder.verdict is None

    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    recorder.on_stop()
    assert recorder.verdict is not None
    assert "fsync reported Input/output error, so that written messages may be lost" in recorder.verdict.reason

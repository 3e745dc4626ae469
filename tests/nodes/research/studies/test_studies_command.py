"""`armswing reproduce` as a command: it can be interrupted at any moment, and spoils no folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from nodes.cli.application import run as command
from nodes.cli.progress import ProgressBar


@pytest.fixture
def simulating(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A full study whose workers are at their longest runs; its folder is tmp_path/page."""
    line = [sys.executable, "-P", "-m", "nodes.cli", "reproduce", "man", "--workers", "2", "--output", "page"]
    process = subprocess.Popen(
        line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for said in process.stderr:
        if said.startswith("simulating"):
            break
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also what it may have left behind
    process.communicate()


@pytest.mark.parametrize(
    ("signals", "to_group", "code"),
    [
        ((signal.SIGINT,), True, 130),
        ((signal.SIGINT, signal.SIGINT), True, 130),
        ((signal.SIGTERM,), False, 143),
        ((signal.SIGKILL,), False, -9),
    ],
    ids=["one Ctrl-C", "two Ctrl-C", "SIGTERM", "SIGKILL"],
)
def test_an_interrupted_study_ends_with_its_workers_and_writes_nothing(
    simulating: subprocess.Popen[str], tmp_path: Path, signals: tuple[int, ...], to_group: bool, code: int
) -> None:
    workers = psutil.Process(simulating.pid).children(recursive=True)
    assert len(workers) >= 2
    for number in signals:
        (os.killpg if to_group else os.kill)(simulating.pid, number)
    assert simulating.wait(60) == code
    gone, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    assert len(gone) == len(workers)
    if code != -9:
        assert simulating.stderr is not None
        assert simulating.stderr.read() == "armswing: interrupted; nothing written\n"
        assert not list(tmp_path.iterdir())


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line by which `reproduce` refuses, before anything is computed."""
    assert command(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def test_a_folder_with_files_of_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "notes.txt" in refusal(["man", "--output", str(tmp_path)], capsys)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_results_of_another_study_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"study": "nada", "files": ["study.json"]}))
    assert "holds the results of 'nada'" in refusal(["man", "--output", str(tmp_path)], capsys)


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "afile").write_text("mine")
    error = refusal(["man", "--output", str(tmp_path / "afile" / "sub")], capsys)
    assert f"{str(tmp_path / 'afile')!r} is a file" in error
    assert "there is no folder" in refusal(["man", "--output", str(tmp_path / "no" / "sub")], capsys)
    assert "too long" in refusal(["man", "--output", str(tmp_path / ("x" * 300))], capsys)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert "No space left on device" in refusal(["man", "--output", str(tmp_path / "new")], capsys)
    assert not (tmp_path / "new").exists()


def test_without_a_terminal_the_progress_says_what_began_and_now_and_then_how_much_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    instants = iter([0.0, 13.0, 20.0, 34.0, 40.0, 55.0])
    bar = ProgressBar(clock=lambda: next(instants))
    for done in (0, 2, 5, 6, 9):
        bar.show("simulating", done, 17)
    assert capsys.readouterr().err.splitlines() == [
        "simulating 17 runs (begun after 13 s)",
        "simulating: 5 of 17 done (34 s)",
        "simulating: 9 of 17 done (55 s)",
    ]

"""Commands in surroundings that fail: a deleted working folder, and an error stream that takes no more lines."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from nodes.cli.application import run as armswing
from nodes.launching.display import Display


def test_a_deleted_working_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert armswing(["info", "run.mcap"]) == 2
    line = "armswing: the working folder does not exist any more; change to another folder\n"
    assert capsys.readouterr() == ("", line)


class FullStream(io.StringIO):
    """A text stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_error_stream_does_not_end_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display.__new__(Display)
    display.log, display._live = None, None
    monkeypatch.setattr("sys.stderr", FullStream())
    display.print_line("t = 1.0 s: sim running")

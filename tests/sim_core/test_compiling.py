"""What is said while kernels and loops are compiled."""

from __future__ import annotations

import time

import pytest

from sim_core.kernels import native


def test_a_long_compilation_says_so_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A launch gives up a process that is silent for a minute, and people give up earlier."""
    monkeypatch.setattr(native, "REMINDER_S", 0.05)
    monkeypatch.setattr(native.log, "hasHandlers", lambda: False)
    with native.compiling("the loop of 'slow'"):
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("compiling the loop of 'slow', a few seconds, once")
    assert any("s so far" in line for line in lines[1:-1])
    assert lines[-1].startswith("compiled the loop of 'slow' in ")
    time.sleep(0.2)
    assert capsys.readouterr().err == ""

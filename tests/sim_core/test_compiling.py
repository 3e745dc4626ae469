"""What is said while kernels and loops are compiled."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from sim_core.integrators.workspace import Memory
from sim_core.kernels.compiled import inlined, inner, loop
from sim_core.kernels.machine_code import native


@inner
def first_entry(m):  # type: ignore[no-untyped-def]
    return m.state[0, 0] if m.scalars[0] > 0.0 else 0.0


@inlined
def sum_of_first_entries(m, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for _ in range(n):
        total += first_entry(m)
    return total


def test_a_stepping_loop_counts_no_references_to_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts are atomic instructions at each call with a Memory, and took most of the time of a step."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # code from a cache could not be read here
    memory = Memory(*(np.ones(2 if k in (3, 6, 8, 9) else (2, 2)) for k in range(len(Memory._fields))))

    def advance(m, n):  # type: ignore[no-untyped-def]
        return sum_of_first_entries(m, n)

    compiled = loop(advance)
    assert compiled(memory, 3) == 3.0
    (text,) = compiled.inspect_llvm().values()
    assert "first_entry" in text or "fadd" in text
    assert "NRT_" not in text.split("define")[1]


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

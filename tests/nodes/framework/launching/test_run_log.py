"""The log of a run beside its recording: levels, nodes, and rotation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.framework.launching import logs
from nodes.framework.launching.display import Display
from nodes.framework.launching.logs import RunLog


def test_each_line_has_time_level_and_node(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    display = Display(None)
    display.log = RunLog(path)
    for name, line in (
        ("launch", "t = 1.0 s: sim running"),
        ("left/hold", "WARNING hold: late"),
        ("left/hold", "ERROR hold: not loaded"),
        ("left/hold", "Traceback (most recent call last):"),
        ("sim", "warning: a step that is too large"),
        ("sim", "error: diverged"),
        ("left/hold", "INFO hold: loaded"),
    ):
        display.print_line(line, name)
    display.log.close()
    lines = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "", line) for line in path.read_text().splitlines()]
    assert lines == [
        "INFO launch: t = 1.0 s: sim running",
        "WARNING left/hold: late",
        "ERROR left/hold: not loaded",
        "ERROR left/hold: Traceback (most recent call last):",
        "WARNING sim: a step that is too large",
        "ERROR sim: diverged",
        "INFO left/hold: loaded",
    ]


def test_a_long_log_is_rotated(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "run.log")
    line = "x" * 1000
    for _ in range(6 * logs.LARGEST_RUN_LOG_BYTES // 1000):
        log.add("sim", line)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["run.log", "run.log.1", "run.log.2", "run.log.3"]
    assert all(file.stat().st_size <= logs.LARGEST_RUN_LOG_BYTES for file in files)


def test_a_file_that_is_no_log_of_a_run_is_kept(tmp_path: Path) -> None:
    """Also `armswing launch live.toml > live.log`, with live.mcap as its recording."""
    notes = tmp_path / "run.log"
    notes.write_text("gain 3 is too much\n")
    with pytest.raises(FileExistsError, match=r"run\.log is not the log of an earlier run; move it"):
        RunLog(notes)
    assert notes.read_text() == "gain 3 is too much\n"
    program = (
        "import sys, pathlib; from nodes.framework.launching.logs import RunLog; RunLog(pathlib.Path(sys.argv[1]))"
    )
    with (tmp_path / "live.log").open("wb") as output:
        command = [sys.executable, "-P", "-c", program, str(tmp_path / "live.log")]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert "live.log is not the log of an earlier run" in done.stderr


def test_the_log_of_a_launch_begins_anew(tmp_path: Path) -> None:
    for text in ("first launch", "second launch"):
        log = RunLog(tmp_path / "run.log")
        log.add("sim", text)
        log.close()
    (line,) = (tmp_path / "run.log").read_text().splitlines()
    assert line.endswith("sim: second launch")

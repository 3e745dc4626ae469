"""The viewer as a program: which run of a recording it shows, and how Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nodes.cli.application import run
from nodes.framework.messages import Event, RobotState
from nodes.framework.recording.reader import RecordingWriter
from viewer.recorded import read_signals

pytest.importorskip("pyqtgraph", exc_type=ImportError)  # also where Qt's system libraries are missing

# The viewer says that it is up by a line once its event loop runs.
VIEWER = """
import sys
from nodes.cli.application import run
from pyqtgraph.Qt import QtCore
QtCore.QTimer.singleShot(0, lambda: print("up", flush=True))
sys.exit(run(["view", *sys.argv[1:]]))
"""


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    path = tmp_path / "two.mcap"
    with RecordingWriter(path, {}, sidecar=None) as writer:
        for length in (50, 20):
            for tick in range(length):
                state = RobotState(timestamp=tick / 10, seq=tick + 1, name=["elbow"], position=[0.1 * length])
                writer.write("arm/state", state, state.timestamp)
            writer.write("arm/event", Event(kind="reset"), 0.0) if length == 50 else None
    return path


@pytest.mark.parametrize(
    ("number", "states", "which"), [(None, 20, "run 2 of 2 (reset)"), (1, 50, "run 1 of 2"), (2, 20, "run 2 of 2")]
)
def test_the_last_run_is_shown_unless_another_is_asked_for(
    number: int | None, states: int, which: str, two_runs: Path
) -> None:
    signals, subtitle, _ = read_signals(str(two_runs), (), number)
    assert signals.states == states
    assert which in subtitle


def test_a_run_that_is_not_there_is_refused(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view", str(two_runs), "--run", "3", "--png", str(two_runs.with_suffix(".png"))]) == 2
    assert capsys.readouterr().err == f"armswing: {two_runs}: there is no run 3; its runs are 1 .. 2\n"


@pytest.mark.parametrize("shown", ["a recording", "a live domain"])
def test_ctrl_c_closes_the_viewer_without_a_word(shown: str, two_runs: Path, tmp_path: Path) -> None:
    arguments = [str(two_runs)] if shown == "a recording" else ["--domain", "3"]
    viewer = subprocess.Popen(
        [sys.executable, "-P", "-c", VIEWER, *arguments],
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert viewer.stdout is not None
    assert viewer.stdout.readline() == "up\n"
    psutil.Process(viewer.pid).send_signal(signal.SIGINT)
    _, said = viewer.communicate(timeout=20.0)
    assert (viewer.returncode, said) == (130, "")

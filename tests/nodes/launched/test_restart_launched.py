"""A launch of real processes continues a recorded one, and a live launch is set to a time of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.cli.application import run as command_line
from nodes.framework.client import read_recording
from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.reader import RecordingFile
from nodes.framework.recording.writer import is_complete

ROOT = Path(__file__).resolve().parents[3]
PLAN = """
duration_s = 1.0
[sim]
robot = "rotary_pendulum"
parameters = { start_deg = 170.0, torque_limit = 0.05 }
mode = "lockstep"
snapshot_s = 0.25
[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
decimation = 10
params = { joints = ["arm"], amplitude_deg = 45.0, period_s = 1.0 }
[[nodes]]
name = "swing_up"
run = "nodes/controllers/swing_up.py:SwingUp"
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "run.mcap" }
"""


def launch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "plan.toml", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def lines(file: Path) -> list[tuple[str, int, bytes]]:
    return [(each.topic, each.time_ns, each.payload) for each in RecordingFile(file) if "/" in each.topic]


def test_a_launch_continues_a_recorded_one_with_the_same_messages(domain: int, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    first = launch(tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    again = launch(tmp_path, "--set", "recorder.file=again.mcap", "--from", "run.mcap", "--at", "0.6")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "continues run.mcap at t = 0.6 s, from its snapshot of t = 0.499 s" in again.stderr
    description, *rest = lines(tmp_path / "again.mcap")
    assert description[0] == "rotary_pendulum/description"
    assert rest[0][:2] == ("rotary_pendulum/state", 600_000_000)
    assert rest == lines(tmp_path / "run.mcap")[-len(rest) :]


def test_a_run_that_would_replace_the_recording_it_continues_is_refused(domain: int, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    assert launch(tmp_path).returncode == 0
    recorded = (tmp_path / "run.mcap").read_bytes()
    again = launch(tmp_path, "--from", "run.mcap", "--at", "0.6")  # its recording is kept as run.before.mcap
    assert again.returncode == 0, again.stdout + again.stderr
    refused = launch(tmp_path, "--from", "run.before.mcap", "--at", "0.4")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "armswing: run.before.mcap would be replaced, because 'recorder' keeps its previous file run.mcap under this "
        "name; rename one of the two first\n"
    )
    assert (tmp_path / "run.before.mcap").read_bytes() == recorded


def test_a_live_launch_goes_to_a_time_of_a_recording(
    run: Callable[..., Any], until: Callable[..., Any], tmp_path: Path, domain: int, capsys: Any
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    file = tmp_path / "whole.mcap"
    plan = load_plan(tmp_path / "plan.toml", [f"recorder.file={tmp_path / 'live.mcap'}"])
    plan.domain = domain
    whole = load_plan(tmp_path / "plan.toml", [f"recorder.file={file}"])
    from nodes.framework.simulation.compose import compose

    with compose(whole) as composition:
        composition.run()
    live = run(plan)
    live.call("sim", "step", n=100)
    live.until(tick=100)
    assert command_line(["sim", "restore", str(file), "--at", "0.6", "--domain", str(domain)]) == 0, (
        capsys.readouterr().err
    )
    assert "paused at t = 0.600 s, step 600" in capsys.readouterr().out
    live.call("sim", "resume")
    live.until(state="stopped")
    live.call("recorder", "shutdown")
    until(lambda: is_complete(tmp_path / "live.mcap"))
    live.close()
    recorded = read_recording(tmp_path / "live.mcap", run=2)["rotary_pendulum/state"]
    known = read_recording(file)["rotary_pendulum/state"]
    assert recorded["timestamp"].tolist() == known["timestamp"][600:].tolist()
    assert recorded["position"].tobytes() == known["position"][600:].tobytes()
    assert recorded["effort"].tobytes() == known["effort"][600:].tobytes()

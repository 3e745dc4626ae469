"""Recordings of real launches are replayed through the nodes that made them, in lockstep and in real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLAN = """
duration_s = 1.0
[sim]
robot = "rotary_pendulum"
mode = "{mode}"
[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
params = {{ joints = ["arm"], amplitude_deg = 45.0, period_s = 1.0 }}
[[nodes]]
name = "swing_up"
run = "nodes/controllers/swing_up.py:SwingUp"
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "run.mcap" }}
"""


def armswing(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "nodes.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_a_launch_is_replayed_through_its_nodes(mode: str, domain: int, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.format(mode=mode))
    launched = armswing(tmp_path, "launch", "plan.toml")
    assert launched.returncode == 0, launched.stdout + launched.stderr
    for run, least in (("nodes/controllers/swing_up.py:SwingUp", 900), ("nodes/trajectory.py:Trajectory", 90)):
        done = armswing(tmp_path, "replay", "run.mcap", "--node", run, "--json")
        outcome: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode, outcome["differing"], outcome["mode"]) == (0, 0, mode), done.stdout
        assert outcome["compared"] >= least

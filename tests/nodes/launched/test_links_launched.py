"""Lockstep launches whose messages take time and get lost: the same bytes in every run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from mcap.reader import make_reader

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose

ROOT = Path(__file__).parents[3]
FILE = f"""duration_s = 3.0

[sim]
robot = "rotary_pendulum"
parameters = {{ coordinates = "joint", start_deg = 30.0 }}
mode = "lockstep"
watchdog_ms = 50

[[nodes]]
name = "hold"
run = "{ROOT}/launch/examples/my_controller.py:HoldArm"
link = {{ delay_ms = 5.0, jitter_ms = 20.0, loss = 0.05 }}
compute_ms = 2.0

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "run.mcap" }}
"""


def launched(folder: Path) -> bytes:
    """The recording of a launch of the file."""
    (folder / "timed.toml").write_text(FILE)
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "timed.toml"]
    with tempfile.TemporaryDirectory(prefix="as") as runtime:
        env = os.environ | {"XDG_RUNTIME_DIR": runtime}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"dropped by emulated links +hold (\d+) of (\d+) messages", done.stdout)
    assert found, done.stdout
    assert 0.02 < int(found[1]) / int(found[2]) < 0.09
    return (folder / "run.mcap").read_bytes()


def test_a_run_over_sockets_has_the_delays_of_one_in_this_process(tmp_path: Path) -> None:
    assert launched(tmp_path) == launched(tmp_path)
    with (tmp_path / "run.mcap").open("rb") as file:
        recorded = [
            (channel.topic, message.data)
            for _, channel, message in make_reader(file).iter_messages(topics=["rotary_pendulum/command"])
        ]
    composed: list[tuple[str, bytes]] = []
    with compose(load_plan(tmp_path / "timed.toml"), lambda topic, payload: composed.append((topic, payload))) as run:
        run.run()
    commands = [payload for topic, payload in composed if topic.endswith("/command")]
    assert 1000 < len(commands) < 2900
    assert len(recorded) == len(commands)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_20_runs_under_load_give_the_same_bytes(tmp_path: Path) -> None:
    burn = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            burner = stack.enter_context(subprocess.Popen(burn))
            stack.callback(burner.kill)
        first = launched(tmp_path)
        assert all(launched(tmp_path) == first for _ in range(19))

"""armswing on an aarch64 computer: `make aarch64`, on a Debian or Ubuntu with qemu-user and a network to fetch from.

Not among the tests of `make test`, which fetch nothing: some 200 MB are fetched once, and kernels compile under the
emulator, 20 times as slowly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT

import numpy as np
import pytest

from nodes.framework.client import Recording, read_recording
from tests.aarch64.computer import ROOT, Computer, made

pytestmark = pytest.mark.timeout(900)

STEPS = """
import json, platform, sys
from robots.registry import build
from sim_core import Simulation, assemble
sim = Simulation(assemble(build(sys.argv[1])), step_s=1e-3, stepper=sys.argv[2])
sim.advance(0.1)
state = sim.state
print(json.dumps([platform.machine(), state.q.tolist(), state.v.tolist(), sim.energy()]))
"""
LAUNCH = """
duration_s = 900.0

[sim]
robot = "arm_4dof"
rate_hz = 50
watchdog_ms = 2000

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "run.mcap" }
"""
PARAMS = "--param=stiffness=[30.0]", "--param=damping=[2.0]"
READY_S = 600.0  # its kernels compile under the emulator


@pytest.fixture(scope="session")
def computer() -> Computer:
    return made()


@pytest.mark.parametrize(
    ("robot", "stepper"),
    [("rotary_pendulum", "rk4"), ("triple_pendulum", "implicit_midpoint"), ("arm_6dof", "dopri5_adaptive")],
)
def test_a_simulation_ends_where_it_ends_here(robot: str, stepper: str, computer: Computer) -> None:
    machine, q, v, energy = json.loads(computer.run("-c", STEPS, robot, stepper))
    assert machine == "aarch64"
    here = subprocess.run(
        [sys.executable, "-c", STEPS, robot, stepper], cwd=ROOT, capture_output=True, text=True, check=True
    )
    _, expected_q, expected_v, expected_energy = json.loads(here.stdout)
    np.testing.assert_allclose(q, expected_q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(v, expected_v, rtol=0, atol=1e-8)
    assert energy == pytest.approx(expected_energy, abs=1e-8)


def test_it_has_no_qt(computer: Computer) -> None:
    assert not [path.name for path in computer.site.iterdir() if path.name.lower().startswith(("pyqt", "sip"))]


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A live simulation on this computer that writes run.mcap; the environment of its domain."""
    (tmp_path / "server.toml").write_text(LAUNCH)
    with tempfile.TemporaryDirectory(prefix="arm-", dir="/tmp") as runtime:
        domain = {"XDG_RUNTIME_DIR": runtime}
        command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "server.toml"]
        here = {**os.environ, **domain, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, cwd=tmp_path, env=here, stdout=PIPE, stderr=STDOUT, text=True) as process:
            assert process.stdout is not None
            try:
                while "sim running" not in process.stdout.readline():
                    assert process.poll() is None
                yield domain
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)


def test_its_controller_carries_an_arm_that_is_simulated_here(
    computer: Computer, launched: dict[str, str], tmp_path: Path
) -> None:
    command = ["-m", "nodes.cli", "run", "nodes/controllers/gravity_pd.py:GravityPD", *PARAMS]
    environment = computer.environment(**launched)
    deadline = time.monotonic() + READY_S
    with subprocess.Popen([*computer.python, *command], env=environment, cwd=tmp_path) as process:
        try:
            while (recording := commanded(tmp_path)) is None:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.5)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
    command, state = recording["arm_4dof/command"], recording["arm_4dof/state"]
    assert set(command["state_seq"].astype(int)) <= set(state["seq"].astype(int))
    assert np.abs(command["value"]).max() > 1.0  # N m: it carries the arm's weight


def commanded(folder: Path) -> Recording | None:
    """The recording so far, once it holds the commands of a second."""
    recording = read_recording(folder / "run.mcap")
    return recording if len(recording.get("arm_4dof/command", {"timestamp": ()})["timestamp"]) > 50 else None

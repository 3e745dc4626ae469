"""Every launch file runs with real processes, does what it is there for, and leaves no process behind."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from nodes.framework.client import read_recording
from nodes.framework.plan.files.file import load_plan
from robots.registry import build

ROOT = Path(__file__).resolve().parent.parent
# those that span computers run in tests/network, on two
LAUNCH_FILES = [
    file for file in sorted((ROOT / "launch").rglob("*.toml")) if "[hosts]" not in file.read_text().splitlines()
]
ATTEMPTS = 3
DURATION_S = 7.0  # for milestones: the pendulum is up after 3; a busy machine may need another swing
SHORT_S = {"realtime": 1.0, "lockstep": 1.6}  # without milestones
READ_S = {"arm_4dof_nmpc": 3.0, "lipinski": 2.0}  # of which a test reads more, as where the hand is past the sphere


@dataclass(frozen=True)
class Ended:
    """A launch that ended with exit code 0: its summary, its folder with its recording, and processes left behind."""

    summary: dict[str, Any]
    folder: Path
    left_behind: list[str]


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Ended]:
    """launched(file) runs a launch file; several tests of one file share its run.

    Each run has a domain of its own, in a folder whose path is short: that of a socket has at most 107 characters.
    """

    @cache
    def launch(file: Path) -> Ended:
        folder = tmp_path_factory.mktemp(file.stem)
        with tempfile.TemporaryDirectory(prefix="launch-", dir="/tmp") as runtime_folder:
            summary = run(file, folder, Path(runtime_folder))
            return Ended(summary, folder, left_behind(Path(runtime_folder)))

    return launch


def run(file: Path, folder: Path, runtime_folder: Path) -> dict[str, Any]:
    """The summary of a run of the launch file, started from `folder`; the test fails on another exit code than 0.

    A run in realtime that fails while the computer falls behind tells of the computer: it is repeated.
    """
    plan = load_plan(file)
    longest_s = DURATION_S if plan.milestones else READ_S.get(file.stem) or SHORT_S.get(plan.sim.mode, DURATION_S)
    duration_s = min(longest_s, plan.duration_s or longest_s)
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(file), "--json", "summary.json"]
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [*command, "--duration", str(duration_s)],
            cwd=folder,
            env=os.environ | {"XDG_RUNTIME_DIR": str(runtime_folder)},
            capture_output=True,
            text=True,
            timeout=100,
        )
        if done.returncode == 0 or "this computer fell behind" not in done.stdout:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert summary["time"] == pytest.approx(duration_s)
    assert summary["method"] == plan.sim.method_text()
    return summary


def left_behind(runtime_folder: Path) -> list[str]:
    """Command lines of living processes that work in this runtime folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("XDG_RUNTIME_DIR") == str(runtime_folder):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


@pytest.mark.parametrize("file", LAUNCH_FILES, ids=lambda file: file.stem)
def test_a_launch_file_reaches_its_milestones_and_leaves_no_process(
    file: Path, launched: Callable[[Path], Ended]
) -> None:
    ended = launched(file)
    summary = ended.summary
    assert set(summary["milestones"]) == {milestone.name for milestone in load_plan(file).milestones}
    assert None not in summary["milestones"].values()
    sim = load_plan(file).sim
    robot = build(sim.robot, **sim.parameters)
    assert set(summary["loads"]) == {actuator.name for actuator in robot.actuators if actuator.joint}  # no switches
    for load in summary["loads"].values():
        assert 0.0 <= load["rms"] <= load["peak"] <= (load["limit"] or math.inf)
    assert not ended.left_behind


def test_the_lockstep_run_records_every_message_and_follows_the_reference(launched: Callable[[Path], Ended]) -> None:
    ended = launched(ROOT / "launch/rotary_pendulum_lockstep.toml")
    recording = read_recording(ended.folder / "lockstep.mcap")
    state, command = recording["rotary_pendulum/state"], recording["rotary_pendulum/command"]
    reference = recording["rotary_pendulum/reference"]
    assert not recording.truncated
    answered = command["state_seq"].astype(int)
    assert list(answered) == list(state["seq"][: len(answered)])
    assert len(state["seq"]) - len(answered) <= 1  # the last state may come after the last step
    assert reference["timestamp"][1:] - reference["timestamp"][:-1] == pytest.approx(0.01)
    late = state["timestamp"] > 4.9
    assert state["position"][late, 0] == pytest.approx(reference["position"][-1, 0], abs=0.05)


def test_the_hand_passes_its_first_via_point_and_stays_out_of_the_sphere(launched: Callable[[Path], Ended]) -> None:
    file = ROOT / "launch/arm_4dof_nmpc.toml"
    params = load_plan(file).nodes[0].params
    state = read_recording(launched(file).folder / "arm_4dof_nmpc.mcap")["arm_4dof/state"]
    places = np.column_stack([state[f"outputs.claw_{axis}"] for axis in "xyz"])
    at, *via = params["point_waypoints"][1]
    assert np.linalg.norm(places[np.searchsorted(state["timestamp"], at)] - via) < 0.01
    (sphere,) = params["spheres"]
    distances = np.linalg.norm(places - sphere[:3], axis=1)
    assert sphere[3] <= distances.min() < sphere[3] + 0.02  # the straight way leads through it
    assert np.abs(state["velocity"]).max() <= 2.14


def test_the_squeezers_recording_ends_at_its_published_angles(launched: Callable[[Path], Ended]) -> None:
    ended = launched(ROOT / "launch/examples/squeezer.toml")
    state = read_recording(ended.folder / "squeezer.mcap")["andrews_squeezer/state"]
    assert state["timestamp"][-1] == pytest.approx(0.03)
    lines = (ROOT / "robots/benchmarks/SOURCES.md").read_text().splitlines()
    _, what, values, *_ = next(line for line in lines if line.startswith("| angles after 30 ms: ")).split("|")
    names = what.partition(": ")[2].strip().split(", ")
    assert len(names) == 7
    published = dict(zip(names, map(float, values.split(",")), strict=True))
    assert {name: state[f"outputs.{name}"][-1] for name in names} == pytest.approx(published, rel=1e-9)


def test_a_beam_is_recorded_as_it_is_deflected(launched: Callable[[Path], Ended]) -> None:
    ended = launched(ROOT / "launch/examples/lipinski.toml")
    recording = read_recording(ended.folder / "lipinski.mcap")
    state, lines = recording["lipinski_pendulum/state"], recording["lipinski_pendulum/lines"]
    assert state["timestamp"][-1] == pytest.approx(2.0)
    assert len(lines["timestamp"]) == len(recording["lipinski_pendulum/body_poses"]["timestamp"]) > 100
    points = lines["points"].reshape(len(lines["timestamp"]), -1, 3)
    at = np.searchsorted(state["timestamp"], lines["timestamp"] - 1e-9)
    middle = -points[:, points.shape[1] // 2, 2]
    np.testing.assert_allclose(middle, state["outputs.midspan"][at], rtol=0, atol=1e-6)

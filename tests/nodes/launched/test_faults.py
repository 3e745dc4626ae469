"""What may go wrong on one computer while a launch runs: it goes on, and nothing that was on disk is lost."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from nodes.framework.client import Client, NotLiveError, UnknownNameError, read_recording
from nodes.framework.messages import RobotState

RECORDER = """
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
restart = "on-failure"
params = { file = "run.mcap", flush_s = 0.1 }
"""
HELD_ARM = """
[sim]
robot = "arm_4dof"
mode = "realtime"
step_ms = 2.0
watchdog_ms = 200
safe_mode = "hold"

[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
decimation = 5

[nodes.params]
kind = "minimum_jerk"
joints = ["joint_1", "joint_2", "joint_3", "joint_4"]
waypoints = [[0.1, 0, 0, 0, 0], [0.9, 50, 45, -40, -55]]

[[nodes]]
name = "controller"
run = "nodes/controllers/gravity_pd.py:GravityPD"
restart = "on-failure"
params = { stiffness = [30.0], damping = [2.0] }
"""
STEP_S, GOAL_DEG = 2e-3, (50.0, 45.0, -40.0, -55.0)
ROBOT = "rotary_pendulum"


class Launched:
    """A launch with a recorder, its children by name, and a client of it."""

    def __init__(self, ground: Any, plan: Path, *options: str, count: int) -> None:
        self.folder = ground.folder
        self.process = ground.start("launch", plan, *options, "--json", "summary.json")
        ground.wait_until_running(self.process, count)
        self.client = Client(0)

    def child(self, name: str) -> psutil.Process:
        return psutil.Process(self.client.node(name).pid)

    def viewer(self, until: Callable[..., None]) -> psutil.Process:
        """The viewer, once it has connected to the registry's news and to who speaks."""
        (process,) = [
            child for child in psutil.Process(self.process.pid).children() if "'view'" in str(child.cmdline())
        ]
        until(lambda: len(process.net_connections("unix")) > 3)
        return process

    def counters(self, name: str) -> dict[str, int]:
        found: dict[str, int] = self.client.call(name, "status")["counters"]
        return found

    def recording(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.call("recorder", "recording")
        return found

    def is_again(self, name: str, before: psutil.Process) -> bool:
        """Whether another process of this name is ready."""
        try:
            entry = self.client.node(name)
        except (NotLiveError, UnknownNameError):
            return False
        return entry.pid != before.pid and entry.state not in ("starting", "failed")

    def end(self) -> dict[str, Any]:
        """Ctrl-C; the summary."""
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        self.said = self.process.communicate(timeout=20.0)[1]
        assert self.process.returncode == 130, self.said
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return found


def test_a_disk_that_is_full_is_reported_and_the_simulation_goes_on(ground: Any, until: Callable[..., None]) -> None:
    launch = Launched(ground, ground.launch_file(RECORDER + ground.node("Damper")), count=3)
    until(lambda: launch.recording()["frames_written"] > 100)
    pid = launch.child("recorder").pid
    usual = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, ((ground.folder / "run.mcap").stat().st_size + 1, usual[1]))
    until(lambda: launch.recording()["write_failures"] > 2)
    full = launch.recording()
    assert full["failure"] == "File too large"
    time, damped = launch.client.sim_status()["time"], launch.counters("damper")["sent"]
    until(lambda: launch.client.sim_status()["time"] > time + 0.5)
    assert launch.counters("damper")["sent"] > damped
    resource.prlimit(pid, resource.RLIMIT_FSIZE, usual)
    until(lambda: launch.recording()["failure"] == "")
    summary = launch.end()
    assert "cannot write run.mcap: File too large; unwritten messages are kept and written later" in launch.said
    assert summary["nodes"]["recorder"]["restarts"] == 0
    found = read_recording(ground.folder / "run.mcap")
    assert not found.truncated
    seq = found[f"{ROBOT}/state"]["seq"]
    assert len(seq) + summary["nodes"]["recorder"]["lost"] >= seq[-1] - seq[0] + 1  # no hole where the disk was full


def test_a_recorder_that_is_killed_begins_anew_beside_what_was_on_disk(ground: Any, until: Callable[..., None]) -> None:
    launch = Launched(ground, ground.launch_file(RECORDER + ground.node("Damper")), count=3)
    until(lambda: launch.recording()["frames_written"] > 200)
    file, recorder = ground.folder / "run.mcap", launch.child("recorder")
    recorder.suspend()
    until(lambda: recorder.status() == psutil.STATUS_STOPPED)
    on_disk = file.read_bytes()
    recorder.kill()
    until(lambda: launch.is_again("recorder", recorder))
    until(lambda: launch.recording()["kept"] and launch.recording()["frames_written"] > 100)
    summary = launch.end()
    assert "[recorder] ended with exit code 137; restart 1 of 3" in launch.said
    assert summary["nodes"]["damper"]["restarts"] == 0
    kept = ground.folder / "run.cut-1.mcap"
    assert kept.read_bytes() == on_disk
    first, second = (read_recording(path)[f"{ROBOT}/state"]["timestamp"] for path in (kept, file))
    assert len(first) > 10
    assert first[-1] < second[0] < second[-1]
    assert not read_recording(file).truncated


@pytest.mark.parametrize("name", ["viewer", "listener"])
def test_who_watches_may_be_stopped_and_the_run_does_not_notice(
    name: str, ground: Any, until: Callable[..., None]
) -> None:
    viewed = name == "viewer"
    if viewed:
        pytest.importorskip("pyqtgraph", exc_type=ImportError)  # also where Qt's system libraries are missing
        ground.environment["QT_QPA_PLATFORM"] = "offscreen"
    plan = ground.launch_file(RECORDER + ground.node("Damper") + ground.node("Listener"))
    # other work may hold the damper up for the usual 100 ms; who waited for a stopped process would wait for good
    options = ["--set", "sim.watchdog_ms=1000", *["--view"] * viewed]
    launch = Launched(ground, plan, *options, count=4 + viewed)
    process = launch.viewer(until) if viewed else launch.child(name)
    process.suspend()
    until(lambda: process.status() == psutil.STATUS_STOPPED)
    began = launch.client.sim_status()
    until(lambda: launch.client.sim_status()["time"] > began["time"] + 2.0)
    ended = launch.client.sim_status()
    process.resume()
    summary = launch.end()
    assert ended["watchdog_trips"] == began["watchdog_trips"]
    assert ended["state"] == "running"
    assert summary["nodes"]["recorder"]["lost"] == 0


def is_at_rest(client: Client) -> bool:
    """Whether the arm rests where its trajectory ends: whoever carries it then does so with the same efforts."""
    for _, state in client.stream("arm_4dof/state", timeout_s=1.0):
        assert isinstance(state, RobotState)
        off = np.abs(np.array(state.position[:4]) - np.radians(GOAL_DEG)).max()
        return bool(off < 0.01 and np.abs(state.velocity).max() < 1e-3)
    return False


def test_a_controller_that_is_killed_takes_over_without_a_jump(ground: Any, until: Callable[..., None]) -> None:
    plan = ground.folder / "held.toml"
    plan.write_text(HELD_ARM + RECORDER)
    launch = Launched(ground, plan, count=4)
    until(lambda: launch.recording()["kept"] and is_at_rest(launch.client))
    controller, before = launch.child("controller"), launch.client.sim_status()
    controller.kill()
    until(lambda: launch.client.sim_status()["watchdog_trips"] > before["watchdog_trips"])
    until(lambda: launch.is_again("controller", controller))
    until(lambda: launch.client.sim_status()["state"] == "running")
    until(lambda: launch.client.call("controller", "status")["counters"]["received"] > 200)  # so it commands as well
    until(lambda: is_at_rest(launch.client))
    launch.end()
    found = read_recording(ground.folder / "run.mcap")
    event, state = found["arm_4dof/event"], found["arm_4dof/state"]
    made_safe = event["timestamp"][(event["kind"] == "safe") & (event["timestamp"] >= before["time"])]
    assert len(made_safe) >= 1
    command = found["arm_4dof/command"]
    (gap,) = np.flatnonzero(np.diff(command["seq"]) < 0)  # the new process counts from one again
    last, first = command["timestamp"][[gap, gap + 1]]
    assert ((last < made_safe) & (made_safe < first)).any()
    late = state["timestamp"] > first - 0.1
    effort, tick = state["effort"][late], np.rint(state["timestamp"][late] / STEP_S)
    assert np.abs(effort).max() > 1.0  # N m: it carries its weight
    per_step = np.abs(np.diff(effort, axis=0)) / np.diff(tick)[:, None]  # the recorder of a busy computer may miss some
    assert per_step.max() < 0.2  # from the servos that held it to the controller that goes on

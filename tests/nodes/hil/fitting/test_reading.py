"""What a fit reads: efforts that are recorded as seldom as their commands come, and times without motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodes.framework.messages.structs import JointCommand
from nodes.framework.recording.reader import read_recording
from nodes.framework.recording.writer import RecordingWriter
from nodes.hil.fitting.reading import FitCase, ripple_of
from nodes.hil.fitting.verdict import _standstill
from robots.registry import build
from sim_core.identification.signals import Recorded

ROBOT, STEP_S, PERIOD_S = "arm_4dof", 1e-3, 4e-3


@pytest.mark.parametrize("mode", ["position", "velocity", "effort"])
def test_a_step_of_the_commands_changes_the_effort_by_the_gain_of_its_mode(mode: str, tmp_path: Path) -> None:
    mechanism = build(ROBOT)
    actuator = mechanism.actuators[1]
    assert actuator.servo is not None
    gain = {"position": actuator.servo.stiffness, "velocity": actuator.servo.damping, "effort": 1.0}[mode]
    names, times = [joint.name for joint in mechanism.moving_joints], np.arange(0.0, 2.0, PERIOD_S)
    with RecordingWriter(tmp_path / "run.mcap", {"robot": ROBOT}) as writer:
        for seq, t in enumerate(times.tolist(), 1):
            command = JointCommand(timestamp=t, seq=seq, mode=mode, name=[actuator.name], value=[float(np.sin(t))])
            writer.write(f"{ROBOT}/command", command, t)
    recording = read_recording(tmp_path / "run.mcap", warn=False)
    found = ripple_of(recording, f"{ROBOT}/state", mechanism, names, times, STEP_S)
    assert found is not None
    wanted = np.zeros_like(found)
    wanted[:, names.index(actuator.joint)] = gain * PERIOD_S * np.cos(times)
    np.testing.assert_allclose(found[1:-1], wanted[1:-1], atol=1e-4 * gain * PERIOD_S)
    for step_s in (0.0, PERIOD_S):  # not simulated; a command for each step
        assert ripple_of(recording, f"{ROBOT}/state", mechanism, names, times, step_s) is None
    every = np.arange(0.0, 2.0, STEP_S)
    assert ripple_of(recording, f"{ROBOT}/state", mechanism, names, every, STEP_S) is None


def test_a_standstill_is_named_with_its_times() -> None:
    time = np.arange(0.0, 20.0, 0.01)
    q = np.where(time < 8.0, np.sin(time) ** 2, np.sin(8.0) ** 2)[:, None] * np.ones(3)
    mechanism = build("ricmonk")
    names = tuple(joint.name for joint in mechanism.moving_joints)
    recordings = (Recorded(time, q, np.zeros((len(time), 3))),)
    case = FitCase("ricmonk", {}, mechanism, names, recordings, {"a/log.mcap": "ricmonk/measured_state"}, (), {}, ())
    (line,) = _standstill(case)
    assert line.startswith("log.mcap: the joints stand still for 11.")
    assert "left out: 8." in line
    assert line.endswith("to 20 s")

"""Ripple of efforts that are recorded as seldom as their commands come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodes.framework.messages.structs import JointCommand
from nodes.framework.recording.reader import read_recording
from nodes.framework.recording.writer import RecordingWriter
from nodes.hil.fitting.reading import ripple_of
from robots.registry import build

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

"""Robot in the loop over a network: the robot, emulated, on one computer, its model and the comparison on another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.hil.reading import read_case
from nodes.hil.report import Compared, limits_of

LAUNCH_FILE = Path(__file__).resolve().parents[2] / "launch/hil_robot.toml"
HOSTS = '[hosts]\ndesk = "10.77.0.1"\nrobot = "10.77.0.2"\n'


def test_a_robot_on_another_computer_is_compared_in_one_time(hosts: Any, wait_for: Callable[..., Any]) -> None:
    text = LAUNCH_FILE.read_text()
    text = text.replace('mode = "lockstep"', 'mode = "realtime"\nhost = "desk"\nwatchdog_ms = 500')
    text = text.replace('name = "hardware"', 'host = "robot"\nname = "hardware"').replace("[sim]", f"{HOSTS}\n[sim]", 1)
    hosts.exchange_keys()
    for host in hosts:
        (host.work / "hil_robot.toml").write_text(text)
    before = [host.bytes() for host in hosts]
    clock = ("--set", "hardware.clock_offset_s=5.0", "--set", "hardware.encoder_zero.joint_2=0.05")
    there = hosts.robot.start("launch", "hil_robot.toml", *hosts.settings(), *clock, "--host", "robot")
    here = hosts.desk.start("launch", "hil_robot.toml", *hosts.settings(), *clock, "--json", "summary.json")
    assert here.end() == 1, here.output + there.output
    assert there.end() == 0, there.output
    summary = json.loads((hosts.desk.work / "summary.json").read_text())
    assert summary["verdicts"]["compare"].startswith("failed: ")
    assert summary["figures"]["compare"]["hardware_clock_offset_s"] == pytest.approx(5.0, abs=0.05)
    case = read_case(hosts.desk.work / "hil_robot.mcap", None)
    verdict = Compared(case, limits_of(case, {})).verdict
    assert verdict.paired > 500
    assert verdict.measured.clock is not None
    assert verdict.measured.clock.uncertainty_s < 5e-3
    bias = {joint.name: joint.bias for joint in verdict.joints}
    # commands that reach the robot late move it by some thousandths more
    assert bias["joint_2"] == pytest.approx(0.05, abs=0.01)
    assert max(abs(bias[joint]) for joint in ("joint_1", "joint_3", "joint_4")) < 0.01
    for host, (received, sent) in zip(hosts, before, strict=True):
        now = host.bytes()
        assert min(now[0] - received, now[1] - sent) > 100_000

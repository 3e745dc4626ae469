"""A launch that spans two computers, over a real network stack, with keys on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/hil_controller.toml"


def test_a_controller_on_another_host_balances_the_pendulum(hosts: Any) -> None:
    hosts.exchange_keys()
    desk, robot = hosts
    before = [host.bytes() for host in hosts]
    there = robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", LAUNCH_FILE, *hosts.settings(), "--duration", "8", "--json", "summary.json")
    assert here.end() == 0, here.output + there.output
    assert there.end() == 0, there.output
    summary = json.loads((desk.work / "summary.json").read_text())
    assert summary["milestones"]["upright"] is not None
    assert summary["time"] == pytest.approx(8.0)
    assert (desk.work / "hil_controller.mcap").is_file()
    for host, (received, sent) in zip(hosts, before, strict=True):
        now_received, now_sent = host.bytes()
        assert now_received - received > 100_000  # 8,000 states one way, 8,000 commands the other
        assert now_sent - sent > 100_000


def test_another_plan_on_the_other_host_is_said_in_a_line(hosts: Any) -> None:
    hosts.exchange_keys()
    other = ("--set", "swing_up.torque_limit=0.04")
    there = hosts.robot.start("launch", LAUNCH_FILE, *hosts.settings(), *other, "--host", "robot")
    here = hosts.desk.start("launch", LAUNCH_FILE, *hosts.settings())
    there.says("the plan here is not that of host 'desk': node 'swing_up' differs; give all hosts the same launch file")
    here.says("sim running")
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output

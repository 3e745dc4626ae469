"""A launch that spans two computers, over a real network stack, with keys on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/hil_controller.toml"


def test_a_controller_on_another_host_balances_the_pendulum(hosts: Any) -> None:
    desk, robot = hosts
    before = [host.bytes() for host in hosts]
    there = robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", LAUNCH_FILE, *hosts.settings(), "--duration", "8", "--json", "summary.json")
    code = here.end()
    summary = json.loads((desk.work / "summary.json").read_text())
    if summary["real_time_factor"] > 0.95:  # a computer that falls behind loses the commands of whole swings
        assert code == 0, here.output + there.output
        assert summary["milestones"]["upright"] is not None
    else:
        assert code == 0 or summary["ended"] == "missed: upright", here.output + there.output
    assert there.end() == 0, there.output
    assert summary["time"] == pytest.approx(8.0)
    assert (desk.work / "hil_controller.mcap").is_file()
    for host, (received, sent) in zip(hosts, before, strict=True):
        now_received, now_sent = host.bytes()
        assert now_received - received > 100_000  # 8,000 states one way, 8,000 commands the other
        assert now_sent - sent > 100_000


def test_another_plan_on_the_other_host_is_refused_in_a_line(hosts: Any) -> None:
    other = ("--set", "swing_up.torque_limit=0.04")
    there = hosts.robot.start("launch", LAUNCH_FILE, *hosts.settings(), *other, "--host", "robot")
    here = hosts.desk.start("launch", LAUNCH_FILE, *hosts.settings())
    there.says("the plan here is not that of host 'desk': node 'swing_up' differs; give all hosts the same launch file")
    assert there.end() == 2, there.output
    again = hosts.robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    here.says("sim running")
    assert here.stop() == 130, here.output
    assert again.end() == 0, again.output


def test_through_two_megabits_a_second_a_controller_holds_at_250_states_a_second(
    hosts: Any, wait_for: Callable[..., Any]
) -> None:
    hosts.rate("2mbit")
    options = [*hosts.settings(), "--set", "sim.rate_hz=250"]
    there = hosts.robot.start("launch", LAUNCH_FILE, *options, "--host", "robot")
    here = hosts.desk.start("launch", LAUNCH_FILE, *options)
    here.says("sim running")
    wait_for(lambda: hosts.desk.sim()["milestones"]["upright"] is not None)
    assert hosts.shaped()[0]["overlimits"] > 0  # packets did wait for their turn
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output


def test_what_a_link_is_too_narrow_for_is_dropped_and_counted(hosts: Any, wait_for: Callable[..., Any]) -> None:
    hosts.rate("2mbit")  # 1,000 states a second are 3 and more
    there = hosts.robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    here = hosts.desk.start("launch", LAUNCH_FILE, *hosts.settings(), "--json", "summary.json")
    here.says("sim running")

    def lost() -> int:
        return int(hosts.robot.json("node", "info", "swing_up")["status"]["counters"]["lost"])

    wait_for(lambda: lost() > 200)  # states waited until there was no room for more
    refused = wait_for(lambda: hosts.desk.sim()["commands_refused"].get("swing_up"))
    assert "replies to a state" in refused["reason"]  # what waits that long is too old, and the server says so
    assert hosts.desk.sim()["state"] == "safe"
    hosts.rate("1gbit")
    wait_for(lambda: hosts.desk.sim()["state"] == "running")
    taken = hosts.desk.sim()["commands_taken"]["swing_up"]
    wait_for(lambda: hosts.desk.sim()["commands_taken"]["swing_up"] > taken + 200)
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output
    assert json.loads((hosts.desk.work / "summary.json").read_text())["nodes"]["swing_up"]["lost"] > 200

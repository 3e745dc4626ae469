"""A host that waits for the server's launch says what keeps them apart, and costs it little meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/hil_controller.toml"


def test_each_reason_to_wait_is_told_from_the_others(hosts: Any) -> None:
    desk, robot = hosts
    own = {host.name: host.json("keys", "list")["own"]["key"] for host in hosts}
    robot.run("keys", "revoke", "desk")
    robot.run("keys", "allow", "desk", 64 * "a")
    desk.run("keys", "revoke", "robot")
    desk.run("keys", "allow", "robot", 64 * "b")

    hosts.down()
    there = robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    there.says(f"waits for host 'desk' at {desk.address}, which cannot be reached: ")
    hosts.up()
    there.says(f"waits for host 'desk' at {desk.address}: the computer replies, but no launch runs")
    assert there.stop() == 130, there.output

    there = robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", LAUNCH_FILE, *hosts.settings(), "--json", "summary.json")
    there.says("the launch there has another key than aaaaaaaaaaaa..., the one allowed on this computer as 'desk'")
    robot.run("keys", "revoke", "desk")
    there.says("waits: no key of host 'desk' is allowed")
    robot.run("keys", "allow", "desk", own["desk"])
    there.says(f"it does not allow this computer's key, {own['robot'][:12]}...")
    here.says(f"connections from '{robot.address}': key {own['robot']} is not allowed")
    desk.run("keys", "revoke", "robot")
    desk.run("keys", "allow", "robot", own["robot"])
    there.says("joined host 'desk'")
    here.says("sim running")
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output
    assert 1 < json.loads((desk.work / "summary.json").read_text())["rejected_connections"] < 30

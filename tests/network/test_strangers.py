"""Who has no key that is allowed gets nothing in or out of a launch that spans computers, and is counted and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/hil_controller.toml"
STRANGER = Path(__file__).with_name("stranger.py")


@pytest.fixture
def live(hosts: Any) -> Any:
    """Two hosts with a launch that runs, `here` and `there`."""
    hosts.there = hosts.robot.start("launch", LAUNCH_FILE, *hosts.settings(), "--host", "robot")
    hosts.here = hosts.desk.start("launch", LAUNCH_FILE, *hosts.settings(), "--json", "summary.json")
    hosts.here.says("sim running")
    return hosts


def endpoints(hosts: Any) -> list[str]:
    """Every tcp address of the launch, as a stranger may have learnt them."""
    found = [
        end for node in hosts.robot.json("node", "list") if node["host"] == "desk" for end in node["endpoints"].values()
    ]
    key = hosts.desk.json("keys", "list")["own"]["key"]
    return [*found, *(f"tcp://{hosts.desk.address}:{port}#{key}" for port in (17400, 17401))]


def names(hosts: Any) -> list[str]:
    """The nodes that the registry has."""
    with hosts.desk.client() as client:
        return [node.name for node in client.nodes()]


def rejected_connections(hosts: Any) -> int:
    """How often the server turned one away."""
    return int(hosts.desk.sim()["rejected_connections"])


@pytest.mark.parametrize("kind", ["plain", "other_key", "raw"])
def test_a_stranger_gets_nothing_and_is_counted_and_named(live: Any, kind: str, wait_for: Callable[..., Any]) -> None:
    wanted = endpoints(live)
    assert len(wanted) == 2 * 3 + 2  # sim, trajectory, recorder: data and service; the registry: calls and news
    assert all(end.startswith(f"tcp://{live.desk.address}:") for end in wanted)
    stranger = live.robot.python(STRANGER, kind, *wanted)
    assert stranger.end() == 0, stranger.output
    told = json.loads(stranger.output)
    assert told["got"] == 0
    assert told["tries"] >= len(wanted)
    wait_for(lambda: rejected_connections(live) >= 2)
    live.here.says("[sim] WARNING sim: rejected ")
    live.here.says("registry: rejected ")
    if kind != "raw":  # who hangs up at once may be gone before its address is asked for
        live.here.says(f"connections from '{live.robot.address}'")
    assert live.desk.sim()["state"] == "running"
    assert live.here.stop() == 130
    summary = json.loads((live.desk.work / "summary.json").read_text())
    assert summary["rejected_connections"] >= 4
    what = {"plain": "no_key", "other_key": "unknown_key", "raw": "no_zmtp"}[kind]
    assert sum(summary["rejected_connections_by_kind"].values()) == summary["rejected_connections"]
    # some end before they say their key
    assert summary["rejected_connections_by_kind"][what] > 0.8 * summary["rejected_connections"]
    assert live.there.end() == 0


def test_a_key_that_is_revoked_is_hung_up_on_and_one_allowed_again_comes_back(
    live: Any, wait_for: Callable[..., Any]
) -> None:
    key = live.desk.json("keys", "revoke", "robot")["key"]
    live.here.says("a key was revoked; closed the connections")
    live.there.says("no message from host 'desk'")
    wait_for(lambda: "swing_up" not in names(live))
    # what it says is heard no more either: the server let go of it too
    assert live.desk.sim()["commanded_by"] != "swing_up"
    live.desk.run("keys", "allow", "robot", key)
    live.there.says("host 'desk' is back")
    wait_for(lambda: "swing_up" in names(live))
    taken = live.desk.sim()["commands_taken"].get("swing_up", 0)
    wait_for(lambda: live.desk.sim()["commands_taken"].get("swing_up", 0) > taken)

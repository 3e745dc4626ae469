"""A launch begins when every node has what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodes.framework.client import Client

WAITER = """
from pathlib import Path

from nodes.node import Node

FILE = Path(__file__).with_name("plugged_in")


class Waiter(Node):
    rate_hz = 50.0

    @property
    def waits_for(self):
        return "" if FILE.exists() else str(FILE)

    def on_tick(self, now):
        return None
"""


def states() -> dict[str, str]:
    """The nodes of the live launch and their states; none where there is no launch yet."""
    try:
        with Client(0) as client:
            return {entry.name: entry.state for entry in client.nodes()}
    except (LookupError, RuntimeError, ConnectionError):
        return {}


def test_time_stands_still_until_what_a_node_waits_for_is_there(ground: Any, until: Callable[..., None]) -> None:
    (ground.folder / "waiting.py").write_text(WAITER)
    waiter = '[[nodes]]\nname = "waiter"\nrun = "waiting.py:Waiter"\n'
    process = ground.start("launch", ground.launch_file(ground.node("Damper") + waiter), "--duration", "0.5")
    until(lambda: states() == {"sim": "paused", "damper": "ready", "waiter": "starting"})
    with Client(0) as client:
        assert client.sim_status()["time"] == 0.0
    (ground.folder / "plugged_in").touch()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "0.500 s in 100 steps" in said

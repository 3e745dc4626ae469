"""A node that cannot keep up with its messages still answers calls, such as an emergency stop, between two of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.client import Client

HANDLING_S = 0.03
SLOW = f"""

class Slow(Node):
    subscribes = {{"state": RobotState}}

    def on_message(self, name, state):
        end = time.monotonic() + {HANDLING_S}
        while time.monotonic() < end:
            time.sleep(1e-3)
"""


def test_a_call_waits_for_one_message_and_not_for_all(ground: Any, until: Callable[..., None]) -> None:
    nodes = Path(ground.folder / "my_nodes.py")
    nodes.write_text("import time\n" + nodes.read_text() + SLOW)
    ground.wait_until_running(ground.start("launch", ground.launch_file(ground.node("Slow"))), 2)
    with Client(0) as client:
        until(lambda: client.call("slow", "status", timeout_s=10.0)["counters"]["received"] > 20)  # a backlog by now
        waited = []
        for _ in range(15):
            began = time.monotonic()
            client.call("slow", "status", timeout_s=10.0)
            waited.append(time.monotonic() - began)
    assert np.quantile(waited, 0.8) < 4.0 * HANDLING_S  # with a backlog in between it is 0.4 s

"""`armswing launch --timing-from` with a recording that a launch in real time has made."""

from __future__ import annotations

import re
from typing import Any

RECORDED = """
[[nodes]]
name = "clocks"
run = "nodes/clock_watch.py:ClockWatch"
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "%s.mcap" }
"""


def test_a_lockstep_launch_prints_the_links_of_a_recorded_one(ground: Any) -> None:
    nodes = ground.node("Damper") + RECORDED
    real = ground.launch_file(nodes % "real")
    ended = ground.run("launch", real, "--duration", "3")
    assert ended.returncode == 0, ended.stderr
    timed = ground.launch_file(nodes % "timed", mode="lockstep")
    ended = ground.run("launch", timed, "--duration", "0.5", "--timing-from", "real.mcap")
    assert ended.returncode == 0, ended.stderr
    # a busy computer may take longer than a step
    assert re.search(
        r"damper: (no link, because its messages take less than a time step|delay .*) \(median .* round trips",
        ended.stderr,
    )
    assert "recorder: " not in ended.stderr  # it receives every message when it is published
    ended = ground.run("launch", timed, "--duration", "0.5", "--timing-from", "timed.mcap")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "timed.mcap was recorded in mode 'lockstep', in which the network delays no messages" in ended.stderr
    ended = ground.run("launch", timed, "--duration", "0.5", "--timing-from", "none.mcap")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "key 'timing_from': no such file 'none.mcap'" in ended.stderr

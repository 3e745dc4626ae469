"""Links of a lockstep run taken from a recorded run between two computers, whose packets a relay delays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.recorded_links import with_recorded_links

DELAY_MS, JITTER_MS = 10.0, 8.0  # of the relay, uniform in delay +- jitter
SECONDS = 40.0  # some 100 round trips
HOLD = Path(__file__).parents[2] / "launch/examples/my_controller.py"
LAUNCH = f"""duration_s = {SECONDS}
[hosts]
desk = "192.168.1.10"
robot = "192.168.1.20"

[sim]
robot = "rotary_pendulum"
mode = "realtime"
host = "desk"
step_ms = 2.0
rate_hz = 20.0
watchdog_ms = 2000

[[nodes]]
name = "hold"
run = "{HOLD}:HoldArm"
host = "robot"

[[nodes]]
name = "clocks"
run = "nodes/clock_watch.py:ClockWatch"

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "real.mcap" }}
"""


@pytest.mark.soak
def test_the_link_of_a_relay_is_that_of_the_lockstep_run(hosts: Any, tmp_path: Path) -> None:
    file = tmp_path / "held.toml"
    file.write_text(LAUNCH)
    hosts.delay(DELAY_MS, JITTER_MS)
    desk, robot = hosts
    there = robot.start("launch", file, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", file, *hosts.settings())
    assert here.end(SECONDS + 60.0) == 0, here.output
    assert there.end() == 0, there.output
    recording = desk.work / "real.mcap"
    plan, lines = with_recorded_links(load_plan(file, ["sim.mode=lockstep", f'timing_from="{recording}"']))
    print(*lines, sep="\n")
    link = plan.node("hold").link
    # the relay keeps all packets in order, and processes at both ends add some ms
    lowest, highest = DELAY_MS - JITTER_MS, DELAY_MS + JITTER_MS
    assert lowest <= link.delay_ms <= 0.5 * (lowest + highest)
    assert highest - 3.0 <= link.delay_ms + link.jitter_ms <= highest + 6.0
    assert link.loss < 0.01
    assert plan.node("clocks").link.delay_ms == 0.0

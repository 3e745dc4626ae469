"""`armswing hil check` on real launches: a table of a check that ran to its end, one line of one that did not."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from nodes.hil_check import SETTLE_S

DRIVER = """
from nodes.hardware import Hardware as Right


class Starts(Right):
    def on_start(self, context):
        raise RuntimeError("no robot on the bus")


class Ends(Right):
    def on_message(self, name, message):
        if message.timestamp > 0.5:
            raise RuntimeError("the bus is gone")
        return super().on_message(name, message)


class Silent(Right):
    def on_message(self, name, message):
        return None
"""
PLAN = """[sim]
robot = "arm_2dof"
mode = "{mode}"
step_ms = 2.0
watchdog_ms = 5000

[[nodes]]
name = "hardware"
run = "{run}"
{more}
"""


def plan_with(ground: Any, run: str, mode: str, more: str = "") -> Path:
    (ground.folder / "drivers.py").write_text(DRIVER)
    file = Path(ground.folder / "checked.toml")
    file.write_text(PLAN.format(mode=mode, run=run, more=more))
    return file


@pytest.mark.parametrize(
    ("cls", "line", "mode"),
    [
        ("Starts", "RuntimeError: no robot on the bus", "realtime"),  # before anything moves, in whatever mode
        ("Ends", "RuntimeError: the bus is gone", "realtime"),
        ("Ends", "RuntimeError: the bus is gone", "lockstep"),
    ],
)
def test_a_driver_that_ends_is_named_and_the_robot_is_not_judged(ground: Any, cls: str, line: str, mode: str) -> None:
    ended = ground.run("hil", "check", plan_with(ground, f"drivers.py:{cls}", mode))
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("armswing: the check did not run to its end: node 'hardware' "), ended.stderr
    assert last.endswith(line)
    assert ended.stdout == ""
    assert "is the robot on" not in ended.stderr


def test_a_driver_that_may_end_is_a_no_go(ground: Any) -> None:
    ended = ground.run("hil", "check", plan_with(ground, "drivers.py:Ends", "realtime", "required = false"), "--json")
    found = json.loads(ended.stdout)
    assert (ended.returncode, found["go"]) == (1, False)
    assert ["node hardware", "no go"] in [[each["subject"], each["result"]] for each in found["findings"]]


def test_a_check_in_real_time_is_a_go_with_its_link_and_clock(ground: Any) -> None:
    ended = ground.run("hil", "check", plan_with(ground, "nodes/hardware.py:Hardware", "realtime"), "--json")
    found = json.loads(ended.stdout)
    rows = {each["subject"]: each for each in found["findings"]}
    assert (ended.returncode, found["go"]) == (0, True), found
    assert rows["link"]["text"].startswith("round trip p50 ")
    assert rows["clock of hardware"]["text"].startswith("offset ")
    assert {"limits of joint_2", "motion of joint_2", "measured states", "free disk"} <= rows.keys()


def test_a_driver_without_measured_states_is_a_no_go(ground: Any) -> None:
    ended = ground.run("hil", "check", plan_with(ground, "drivers.py:Silent", "lockstep"))
    assert ended.returncode == 1
    assert "is the robot on, and its driver connected?" in ended.stdout


def test_an_interrupted_check_judges_nothing(ground: Any) -> None:
    process = ground.start("hil", "check", plan_with(ground, "nodes/hardware.py:Hardware", "realtime"))
    ground.wait_until_running(process, 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30.0)
    assert SETTLE_S > 0.5  # so that no joint had moved
    assert (process.returncode, out) == (1, "")
    assert err.strip().splitlines()[-1] == "armswing: the check did not run to its end: interrupted"

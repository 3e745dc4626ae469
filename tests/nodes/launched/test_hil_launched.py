"""A launch with hil_compare ends with its verdict: in the summary, and in the exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLAN = """
duration_s = 0.5
[sim]
robot = "rotary_pendulum"
mode = "{mode}"
[[nodes]]
name = "sensors"
run = "sensors.py:Sensors"
params = {{ bias_deg = {bias_deg} }}
[[nodes]]
name = "compare"
run = "nodes/hil_compare.py:HilCompare"
params = {{ bias_deg = 0.4 }}
"""
SENSORS = """
import math
import msgspec
from nodes.node import Node
from nodes.framework.messages import RobotState


class Sensors(Node):
    subscribes = {"state": RobotState}
    publishes = {"measured_state": RobotState}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        bias_deg: float = 0.0

    def on_start(self, context):
        self.bias = math.radians(context.params.bias_deg)

    def on_message(self, name, state):
        position = [value + self.bias for value in state.position]
        yield "measured_state", RobotState(
            timestamp=state.timestamp, name=state.name, position=position, velocity=state.velocity
        )
"""


STEPPED = """
from nodes.framework.messages import Verdict

VERDICT = Verdict("not certain", "the clock was stepped", "3 states")
"""


@pytest.mark.parametrize(("mode", "bias_deg"), [("lockstep", 0.5), ("realtime", 0.3)])
def test_the_verdict_is_in_the_summary_and_in_the_exit_code(
    mode: str, bias_deg: float, domain: int, tmp_path: Path
) -> None:
    (tmp_path / "sensors.py").write_text(SENSORS)
    (tmp_path / "plan.toml").write_text(PLAN.format(mode=mode, bias_deg=bias_deg))
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "plan.toml", "--json", "summary.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    fails = bias_deg > 0.4
    assert (done.returncode, summary["exit_code"]) == (int(fails), int(fails)), done.stdout + done.stderr
    verdict = summary["verdicts"]["compare"]
    line = f"{verdict['outcome']}: {verdict['reason']}; {verdict['detail']}"
    assert line in " ".join((done.stdout + done.stderr).split())
    if fails:
        assert verdict["outcome"] == "failed"
        assert verdict["reason"].startswith("bias of arm is 0.5 deg, at most 0.4 deg")
        assert summary["ended"].startswith("compare failed: bias of arm is 0.5 deg, at most 0.4 deg")
    else:
        assert verdict["outcome"] == "passed"
        nearest = re.search(r"nearest to its limits, with an RMS of ([\d.]+) deg", verdict["reason"])
        assert nearest is not None, verdict["reason"]
        assert float(nearest[1]) >= 0.3  # that of the arm; on a busy computer another joint may be farther off


def test_a_verdict_that_is_not_certain_ends_with_exit_code_3(domain: int, tmp_path: Path) -> None:
    judge = "\n    @property\n    def verdict(self):\n        return VERDICT\n"
    (tmp_path / "sensors.py").write_text(SENSORS + judge + STEPPED)
    plan = PLAN.format(mode="lockstep", bias_deg=0.0).partition('[[nodes]]\nname = "compare"')[0]
    (tmp_path / "plan.toml").write_text(plan)
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "plan.toml", "--json", "summary.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (done.returncode, summary["exit_code"]) == (3, 3), done.stdout + done.stderr
    assert summary["ended"] == "sensors is not certain: the clock was stepped"

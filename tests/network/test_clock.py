"""The clock of another computer is found over the network, by keys and through loss, and its stamps placed by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.client import read_recording
from nodes.hil.report.reading import read_case

OFFSET_S, DRIFT = 7.0, 100e-6
SENSORS = """
import msgspec

from nodes.node import Node
from nodes.framework.messages import RobotState


class Sensors(Node):
    subscribes = {"state": RobotState}
    publishes = {"measured_state": RobotState}
    rate_hz = 100.0
    has_own_clock = True

    class Params(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
        step_s: float = 0.0

    def on_start(self, context):
        self.context, self.state, self.began_ns = context, None, 0
        self.step_ns = 0

    def on_parameters(self, params):
        self.step_ns = round(params.step_s * 1e9)

    def clock_ns(self, host_ns):
        self.began_ns = self.began_ns or host_ns
        return host_ns + 7 * 10**9 + self.step_ns + round(100e-6 * (host_ns - self.began_ns))

    def on_message(self, name, state):
        self.state = state

    def on_tick(self, now):
        if self.state is not None:
            said = {"name": self.state.name, "position": self.state.position, "velocity": self.state.velocity}
            truth = {"truth": self.state.timestamp}
            yield "measured_state", RobotState(timestamp=now, clock=self.context.clock, outputs=truth, **said)
"""
PLAN = """
[hosts]
desk = "10.77.0.1"
robot = "10.77.0.2"
[sim]
robot = "rotary_pendulum"
host = "desk"
parameters = { start_deg = 60.0 }
[[nodes]]
name = "sensors"
run = "sensors.py:Sensors"
host = "robot"
[[nodes]]
name = "compare"
run = "nodes/hil_compare.py:HilCompare"
params = { rms_deg = 30.0, bias_deg = 30.0, max_deg = 90.0, delay_ms = 1e3 }
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "run.mcap" }
"""


def test_the_clock_of_the_robots_computer_is_found_through_keys_and_loss(
    hosts: Any, wait_for: Callable[..., Any]
) -> None:
    for host in hosts:
        (host.work / "sensors.py").write_text(SENSORS)
        (host.work / "plan.toml").write_text(PLAN)
    hosts.loss(5.0)
    before = hosts.desk.bytes()
    there = hosts.robot.start("launch", "plan.toml", *hosts.settings(), "--host", "robot")
    here = hosts.desk.start("launch", "plan.toml", *hosts.settings(), "--json", "summary.json")
    here.says("sim running")

    def figures() -> dict[str, float]:
        found: dict[str, float] = hosts.desk.json("node", "info", "compare")["status"]["figures"]
        return found

    known = wait_for(lambda: figures().get("sensors_clock_uncertainty_ms", 1e9) < 5.0 and figures())
    assert abs(known["sensors_clock_offset_s"] - OFFSET_S) < 0.05
    wait_for(lambda: hosts.desk.json("node", "info", "compare")["status"]["counters"]["paired"] > 300)
    delay = hosts.desk.json("topic", "delay", "rotary_pendulum/measured_state", "--duration", "1")
    assert delay["clock"]["host"] == "robot"
    assert abs(delay["clock"]["offset_s"] - OFFSET_S) < 0.05
    assert -delay["clock"]["uncertainty_s"] <= delay["p50_s"] < 1.0  # by the two clocks it would be 7 s early
    text = hosts.desk.run("topic", "delay", "rotary_pendulum/measured_state", "--duration", "1")
    assert "; corrected for the clock of host 'robot', which is 7 s ahead, known to " in text
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output
    assert min(after - start for after, start in zip(hosts.desk.bytes(), before, strict=True)) > 50_000

    verdict = json.loads((hosts.desk.work / "summary.json").read_text())["verdicts"]["compare"]
    assert "; clock of sensors: known to " in verdict["detail"]
    file: Path = hosts.desk.work / "run.mcap"
    recording = read_recording(file)
    assert set(recording["clock"]["peer"]) == {"sensors", "sim"}
    residual, measured = recording["rotary_pendulum/residual"], recording["rotary_pendulum/measured_state"]
    truths = dict(zip(measured["seq"].tolist(), measured["outputs.truth"].tolist(), strict=True))
    late = [
        t - truths[seq] for t, seq in zip(residual["timestamp"], residual["state_seq"], strict=True) if seq in truths
    ]
    assert 0.0 <= np.median(late) < 0.1
    note = read_case(file, None).measured.clock
    assert note is not None
    assert abs(note.offset_s - OFFSET_S) < 0.05
    assert abs(note.drift - DRIFT) < 2e-3


def test_a_clock_that_is_put_forward_by_a_second_is_told_and_followed(hosts: Any, wait_for: Callable[..., Any]) -> None:
    for host in hosts:
        (host.work / "sensors.py").write_text(SENSORS)
        (host.work / "plan.toml").write_text(PLAN)
    there = hosts.robot.start("launch", "plan.toml", *hosts.settings(), "--host", "robot")
    here = hosts.desk.start("launch", "plan.toml", *hosts.settings(), "--json", "summary.json")
    here.says("sim running")

    def compare() -> dict[str, Any]:
        with hosts.desk.client() as client:
            found: dict[str, Any] = client.call("compare", "status")
        return found

    wait_for(lambda: compare()["counters"]["paired"] > 100)
    hosts.robot.run("param", "set", "sensors", "step_s", "1.0")
    wait_for(lambda: compare()["counters"]["clock_steps"] == 1)
    wait_for(lambda: abs(compare()["figures"].get("sensors_clock_offset_s", np.nan) - OFFSET_S - 1.0) < 0.05)
    paired = compare()["counters"]["paired"]
    wait_for(lambda: compare()["counters"]["paired"] > paired + 100)
    assert here.stop() == 130, here.output
    assert there.end() == 0, there.output
    recording = read_recording(hosts.desk.work / "run.mcap")
    event = recording["rotary_pendulum/event"]
    (step,) = np.flatnonzero(event["kind"] == "clock_step")
    assert event["node"][step] == "sensors"
    assert abs(float(event["new"][step]) - 1.0) < 0.1
    residual, measured = recording["rotary_pendulum/residual"], recording["rotary_pendulum/measured_state"]
    truths = dict(zip(measured["seq"].tolist(), measured["outputs.truth"].tolist(), strict=True))
    late = [
        t - truths[seq] for t, seq in zip(residual["timestamp"], residual["state_seq"], strict=True) if seq in truths
    ]
    assert np.abs(late).max() < 0.9  # no stamp was placed by the clock as it was before

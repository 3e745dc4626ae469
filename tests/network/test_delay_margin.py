"""The delay at which a balanced pendulum falls: in lockstep with time, and in real time through a relay that delays.

The controller runs on one computer and the simulation on the other one; every packet between them is held back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.client import read_recording
from nodes.framework.messages import RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose

# of arm, pendulum and their speeds: the linear-quadratic regulator of test_links.py with torques weighted by 1e4
GAIN = [-0.01, 0.18216016454458, -0.00533132833826, 0.01571881291432]
SECONDS = 6.0
TURNS = 5  # of the bisection in real time
BALANCE = '''
import math
import msgspec
from nodes.framework.messages import JointCommand, RobotState
from nodes.node import Node


class Balance(Node):
    """State feedback that balances the pendulum upright."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    stateless = True

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        gain: list[float] = []

    def on_start(self, context):
        self.context = context

    def on_message(self, name, message):
        away = [*message.position, *message.velocity]
        away[1] -= math.pi
        effort = -sum(k * x for k, x in zip(self.context.params.gain, away))
        yield "command", JointCommand(name=["arm"], value=[effort], state_seq=message.seq)
'''
LAUNCH = """duration_s = {seconds}
[hosts]
desk = "192.168.1.10"
robot = "192.168.1.20"

[sim]
robot = "rotary_pendulum"
parameters = {{ coordinates = "joint", start_deg = 180.1, torque_limit = 0.05 }}
mode = "realtime"
host = "desk"
step_ms = 1.0
rate_hz = 250.0
watchdog_ms = 0

[[nodes]]
name = "balance"
run = "{folder}/balance.py:Balance"
host = "robot"
params = {{ gain = {gain} }}

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{folder}/margin.mcap" }}
"""


def falls(time: np.ndarray, angle: np.ndarray) -> bool:
    """Whether the pendulum is farther from upright in the last 16th of the run than in the first."""
    away = np.abs(angle - math.pi)
    return float(away[time >= 15 * SECONDS / 16].max()) >= float(away[time <= SECONDS / 16].max())


def falls_in_lockstep(file: Path, delay_ms: float) -> bool:
    """Whether it falls with this delay on each way, in lockstep."""
    times, angles = [], []

    def carry(topic: str, payload: bytes) -> None:
        if topic == "rotary_pendulum/state":
            state: Any = decode(topic, payload, RobotState)
            times.append(state.timestamp)
            angles.append(state.position[1])

    plan = load_plan(file, ["sim.mode=lockstep", f"balance.link.delay_ms={delay_ms}"])
    plan.nodes = [node for node in plan.nodes if node.name == "balance"]
    with compose(plan, carry) as run:
        run.run()
    return falls(np.array(times), np.array(angles))


def falls_in_real_time(hosts: Any, file: Path, delay_ms: float) -> tuple[bool, float]:
    """(whether it falls with this delay of the relay on each way, median of the server's round trip, ms)."""
    hosts.mend()
    hosts.delay(delay_ms, 0.0)
    desk, robot = hosts
    there = robot.start("launch", file, *hosts.settings(), "--host", "robot")
    here = desk.start("launch", file, *hosts.settings())
    assert here.end() == 0, here.output
    assert there.end() == 0, there.output
    recording = read_recording(file.parent / "margin.mcap")
    state = recording["rotary_pendulum/state"]
    angle = state["position"][:, 1]
    trips = np.asarray(recording["status"]["timing.round_trip_p50_s"], dtype=float)
    return falls(state["timestamp"], angle), 1e3 * float(trips[np.isfinite(trips)][-1])


def boundary(falls_at: Callable[[float], bool], low: float, high: float, turns: int) -> float:
    """The delay at which it begins to fall, by bisection."""
    assert not falls_at(low)
    assert falls_at(high)
    for _ in range(turns):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if falls_at(middle) else (middle, high)
    return 0.5 * (low + high)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_pendulum_falls_at_the_same_delay_in_lockstep_and_in_real_time(hosts: Any, tmp_path: Path) -> None:
    (tmp_path / "balance.py").write_text(BALANCE)
    file = tmp_path / "margin.toml"
    file.write_text(LAUNCH.format(seconds=SECONDS, folder=tmp_path, gain=GAIN))
    expected_ms = 2.0 * boundary(lambda delay_ms: falls_in_lockstep(file, delay_ms), 0.0, 60.0, 7)
    trips_ms: dict[float, float] = {}

    def falls_at(delay_ms: float) -> bool:
        fell, trips_ms[delay_ms] = falls_in_real_time(hosts, file, delay_ms)
        return fell

    relay_ms = 2.0 * boundary(falls_at, 0.3 * expected_ms, 0.7 * expected_ms, TURNS)
    delays = sorted(trips_ms)
    measured_ms = float(np.interp(0.5 * relay_ms, delays, [trips_ms[each] for each in delays]))
    print(
        f"round trip at which it falls: lockstep {expected_ms:.1f} ms; real time {measured_ms:.1f} ms, "
        f"of which the relay {relay_ms:.1f} ms"
    )
    assert measured_ms == pytest.approx(expected_ms, rel=0.15)

"""The clock of a node that has one of its own is found over sockets, and its stamps become simulation time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.client import Client
from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.timing.clock_asker import steady_clock
from nodes.framework.messages import PeerClock, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording.reader import read_recording
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, limits_of
from nodes.node import Context, Node

Until = Callable[..., Any]
SENSORS = '''
import msgspec
from nodes.node import Node
from nodes.framework.messages import RobotState

EPOCH_NS = 1_700_000_000 * 10**9


class Sensors(Node):
    """Says at 100 Hz of its own clock what it heard last."""

    subscribes = {"state": RobotState}
    publishes = {"measured_state": RobotState}
    rate_hz = 100.0
    has_own_clock = True

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        offset_s: float = 0.0
        drift_ppm: float = 0.0

    def on_start(self, context):
        self.context = context
        self.state = None

    def clock_ns(self, host_ns):
        params = self.context.params
        gained = round((host_ns - EPOCH_NS) * params.drift_ppm * 1e-6)
        return host_ns + round(params.offset_s * 1e9) + gained

    def on_message(self, name, state):
        self.state = state

    def on_tick(self, now):
        state = self.state
        if state is not None:
            yield "measured_state", RobotState(
                timestamp=now,
                clock=self.context.clock,
                name=state.name,
                position=state.position,
                velocity=state.velocity,
                outputs={"truth": state.timestamp},
            )
'''
PLAN = """
domain = {domain}
duration_s = 4.0
[sim]
robot = "rotary_pendulum"
parameters = {{ start_deg = 60.0 }}
[[nodes]]
name = "sensors"
run = "sensors.py:Sensors"
params = {{ offset_s = {offset_s}, drift_ppm = {drift_ppm} }}
[[nodes]]
name = "compare"
run = "nodes/hil_compare.py:HilCompare"
params = {{ bias_deg = 5.0, rms_deg = 5.0, max_deg = 30.0, delay_ms = 50.0 }}
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{file}" }}
"""
EPOCH_S = 1.7e9
ROOT = Path(__file__).parents[4]


@pytest.fixture
def own_clock(tmp_path: Path, domain: int) -> Callable[[float, float], Plan]:
    """own_clock(offset_s, drift_ppm): a plan in which the sensors' clock is so far ahead, and gains so much."""

    def make(offset_s: float, drift_ppm: float) -> Plan:
        (tmp_path / "sensors.py").write_text(SENSORS)
        text = PLAN.format(domain=domain, offset_s=offset_s, drift_ppm=drift_ppm, file=tmp_path / "run.mcap")
        (tmp_path / "plan.toml").write_text(text)
        return load_plan(tmp_path / "plan.toml")

    return make


def lateness(file: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Simulation time of each residual, and by how much that is later than the state that was said again, s."""
    recording = read_recording(file)
    residual, measured = recording["rotary_pendulum/residual"], recording["rotary_pendulum/measured_state"]
    truths = dict(zip(measured["seq"].tolist(), measured["outputs.truth"].tolist(), strict=True))
    late = [t - truths[seq] for t, seq in zip(residual["timestamp"], residual["state_seq"], strict=True)]
    return residual["timestamp"], np.array(late)


def test_offset_and_drift_of_another_clock_are_found_over_sockets_and_recorded(
    own_clock: Callable[[float, float], Plan], run: Any, until: Until, tmp_path: Path
) -> None:
    running = run(own_clock(-3.2, 150.0))
    running.call("sim", "resume")
    running.until(state="stopped")
    status = running.call("compare", "status")
    assert status["counters"]["paired"] > 300
    assert status["counters"]["clock_steps"] == 0
    assert "clock of sensors: known to" in status["verdict"]["detail"]
    assert 0.0 < status["figures"]["sensors_clock_uncertainty_ms"] < 50.0
    running.call("recorder", "shutdown")
    assert running.processes["recorder"].wait(10.0) == 0

    clock = read_recording(tmp_path / "run.mcap")["clock"]
    assert set(clock["asker"]) == {"compare"}
    assert set(clock["peer"]) == {"sensors", "sim"}
    theirs = clock["peer"] == "sensors"
    last = {name: column[theirs][-1] for name, column in clock.items()}
    truth = -3.2 + 150e-6 * (1e-9 * last["heard_ns"] - EPOCH_S)
    assert abs(last["offset_s"] - truth) < 4.0 * last["uncertainty_s"]
    assert abs(clock["offset_s"][~theirs][-1]) < 4.0 * clock["uncertainty_s"][~theirs][-1]
    _, late = lateness(tmp_path / "run.mcap")
    assert 0.0 <= np.median(late) < 0.1  # of a clock that is hours ahead

    case = read_case(tmp_path / "run.mcap", None)
    note = case.measured.clock
    assert note is not None
    assert (note.of, note.steps) == ("sensors", [])
    assert note.uncertainty_s < 0.05
    assert np.all(np.diff(case.measured.stream.time) > 0.0)
    verdict = Compared(case, limits_of(case, {})).verdict
    assert verdict.paired > 300
    assert verdict.measured.clock == note
    assert abs(verdict.delay_s) < 0.1


def test_a_step_of_the_clock_is_told_and_stamps_after_it_are_placed_by_the_new_time(
    own_clock: Callable[[float, float], Plan], run: Any, until: Until, tmp_path: Path
) -> None:
    running = run(own_clock(0.0, 0.0))
    running.call("sim", "resume")
    until(lambda: running.call("compare", "status")["counters"]["paired"] > 100)
    running.call("sensors", "set_parameters", offset_s=1.0)
    until(lambda: running.call("compare", "status")["counters"].get("clock_steps") == 1)
    running.until(state="stopped")
    running.call("recorder", "shutdown")
    assert running.processes["recorder"].wait(10.0) == 0

    event = read_recording(tmp_path / "run.mcap")["rotary_pendulum/event"]
    (step,) = np.flatnonzero(event["kind"] == "clock_step")
    assert event["node"][step] == "sensors"
    assert float(event["new"][step]) == pytest.approx(1.0, abs=0.1)
    assert event["detail"][step].startswith("the clock of sensors was put forward by")
    time, late = lateness(tmp_path / "run.mcap")
    after = late[time > event["timestamp"][step] + 0.2]
    assert len(after) > 50
    assert 0.0 <= np.median(after) < 0.1
    assert np.max(np.abs(late)) < 0.9  # no stamp is placed by the time before the step


def test_the_emulated_robots_own_clock_is_found_with_its_step_while_it_moves(
    run: Any, domain: int, until: Until, tmp_path: Path
) -> None:
    overrides = [
        f"domain={domain}",
        "duration_s=4.0",
        "sim.mode=realtime",
        "hardware.clock_offset_s=5.0",
        "hardware.clock_drift_ppm=100",
        "hardware.clock_step_s=-0.7",
        "hardware.clock_step_at_s=2.0",
        f"recorder.file={tmp_path / 'run.mcap'}",
    ]
    running = run(load_plan(ROOT / "launch" / "hil_robot.toml", overrides))
    running.call("sim", "resume")
    running.until(state="stopped")
    status = running.call("compare", "status")
    assert status["counters"]["clock_steps"] == 1
    assert status["figures"]["hardware_clock_offset_s"] == pytest.approx(4.3, abs=0.1)
    running.call("recorder", "shutdown")
    assert running.processes["recorder"].wait(10.0) == 0

    case = read_case(tmp_path / "run.mcap", None)
    note = case.measured.clock
    assert note is not None
    (step,) = note.steps
    assert step.size_s == pytest.approx(-0.7, abs=0.1)
    heard = read_recording(tmp_path / "run.mcap")["arm_4dof/measured_state"]["log_time"]
    assert len(heard) > 300
    # samples before and after the step are kept; how many depends on the pauses of a busy computer, after which some
    # are left out
    kept = case.measured.stream.time
    assert np.count_nonzero(kept < 2.0) > 50
    assert np.count_nonzero(kept > 2.5) > 50
    verdict = Compared(case, limits_of(case, {})).verdict
    assert abs(verdict.delay_s) < 0.1


def test_a_watch_asks_every_node_and_tells_a_step(run: Any, domain: int, until: Until, tmp_path: Path) -> None:
    (tmp_path / "sensors.py").write_text(SENSORS)
    nodes = [("sensors", "sensors.py:Sensors"), ("watch", "nodes/clock_watch.py:ClockWatch")]
    tables = "".join(f'[[nodes]]\nname = "{name}"\nrun = "{what}"\n' for name, what in nodes)
    (tmp_path / "plan.toml").write_text(f'domain = {domain}\n[sim]\nrobot = "rotary_pendulum"\n{tables}')
    running = run(load_plan(tmp_path / "plan.toml"))
    with Client(domain) as client:
        heard: dict[str, PeerClock] = {}
        for _, message in client.stream("clock", timeout_s=30.0):
            assert isinstance(message, PeerClock)
            heard[message.peer] = message
            if len(heard) == 2 and all(each.exchanges > 20 for each in heard.values()):
                break
    assert set(heard) == {"sim", "sensors"}
    for each in heard.values():
        assert each.asker == "watch"
        assert each.asked_ns < each.heard_ns
        assert each.offset_s is not None
        assert each.uncertainty_s is not None
        assert abs(each.offset_s) < 5.0 * each.uncertainty_s
    running.call("sensors", "set_parameters", offset_s=-2.0)
    until(lambda: running.call("watch", "status")["counters"]["clock_steps"] == 1)


def test_an_interruption_while_the_clocks_are_compared_leaves_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    true_clock, calls = time.time_ns, iter(range(1000))

    def interrupted() -> int:
        now = true_clock()
        if next(calls) == 0:
            time.sleep(0.2)
        return now

    monkeypatch.setattr("nodes.framework.hosting.timing.clock_asker.time.time_ns", interrupted)
    steady = steady_clock()
    assert abs(steady() - true_clock()) < 100_000_000


def test_only_the_servers_states_say_that_time_was_put_back() -> None:
    class Listener(Node):
        subscribes = {"state": RobotState, "measured_state": RobotState}

        def on_start(self, context: Context) -> None:
            self.resets: list[float] = []

        def on_reset(self, time: float) -> None:
            self.resets.append(time)

    node = Listener()
    plan = Plan(name="x", sim=SimPlan(robot="arm"))
    hosted = HostedNode(node, plan, NodePlan(name="listener", run="x.py:X"), lambda topic, payload: None)
    hosted.start()
    hosted.receive("arm/state", RobotState(timestamp=2.0))
    hosted.receive("arm/measured_state", RobotState(timestamp=1.9))  # late, as what was measured is
    hosted.receive("arm/measured_state", RobotState(timestamp=1.7e9, clock="robot"))
    assert (node.resets, hosted.messages.time) == ([], 2.0)
    hosted.receive("arm/state", RobotState(timestamp=0.0))
    assert (node.resets, hosted.messages.time) == ([0.0], 0.0)

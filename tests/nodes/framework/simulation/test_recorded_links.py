"""Links taken from a recorded real run: delay, jitter and loss are found again, and a lockstep run has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.framework.messages import JointCommand, PeerClock, RobotState, Status
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import LinkPlan
from nodes.framework.recording.writer import RecordingWriter
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.recorded_links import fitted, ordered_quantiles, with_recorded_links

PERIOD_S = 0.01  # of the states
HOLD = Path(__file__).parents[4] / "launch/examples/my_controller.py"
LAUNCH = f"""duration_s = 1.0
[sim]
robot = "rotary_pendulum"
mode = "lockstep"
rate_hz = {1.0 / PERIOD_S}
parameters = {{ coordinates = "joint" }}

[[nodes]]
name = "hold"
run = "{HOLD}:HoldArm"
"""
DELAY_S, JITTER_S, LOSS = 4e-3, 12e-3, 0.05
START_NS = 1_700_000_000_000_000_000
OFFSET_S, DRIFT = 3.7, 40e-6  # of the clock of the node's computer


def in_order(times: np.ndarray, period_s: float) -> np.ndarray:
    """The times of messages that are sent every `period_s`, each not arriving before the one before it."""
    sent = period_s * np.arange(len(times))
    return np.asarray(np.maximum.accumulate(sent + times) - sent)


def record(
    path: Path, trips: int = 200, mode: str = "realtime", delay_s: float = DELAY_S, jitter_s: float = JITTER_S
) -> Path:
    """A recording of a controller on another computer, over a link with this delay and jitter and with LOSS."""
    random = np.random.default_rng(3)
    plan = {
        "name": "real",
        "sim": {"robot": "rotary_pendulum", "mode": mode, "host": "desk"},
        "nodes": [{"name": "hold", "host": "robot"}, {"name": "clocks", "host": "desk"}],
    }
    writer = RecordingWriter(path, {"plan": json.dumps(plan)}, sidecar=None)
    length_s = 40.0
    there, back = (in_order(delay_s + jitter_s * random.random(4000), PERIOD_S) for _ in range(2))
    for k, asked_s in enumerate(np.sort(random.uniform(0.0, length_s - 0.1, trips))):
        received_s = asked_s + there[int(asked_s / PERIOD_S)]
        answered_s = received_s + 2e-4
        heard_s = answered_s + back[int(answered_s / PERIOD_S)]
        own = [START_NS + round(1e9 * (t + OFFSET_S + DRIFT * t)) for t in (received_s, answered_s)]
        writer.write(
            "clock",
            PeerClock(
                timestamp=float(asked_s), seq=k + 1, asker="clocks", peer="hold",
                asked_ns=START_NS + round(1e9 * asked_s), received_ns=own[0], answered_ns=own[1],
                heard_ns=START_NS + round(1e9 * heard_s),
            ),
            float(asked_s),
        )  # fmt: skip
    sent = 8000
    for seq in range(1, sent + 1):
        writer.write("rotary_pendulum/state", RobotState(timestamp=5e-3 * seq, seq=seq), 5e-3 * seq)
        if random.random() >= LOSS:
            command = JointCommand(timestamp=5e-3 * seq, seq=seq, name=["arm"], value=[0.0])
            writer.write("rotary_pendulum/command", command, 5e-3 * seq)
    lost = int(random.binomial(sent, LOSS))
    counters = {"received": sent - lost, "lost": lost}
    writer.write("status", Status(timestamp=length_s, seq=1, node="hold", state="stopped", counters=counters), length_s)
    writer.close()
    return path


@pytest.fixture
def launch_file(tmp_path: Path) -> Callable[..., Path]:
    def written(more: str = 'timing_from = "real.mcap"\n', text: str = LAUNCH) -> Path:
        (tmp_path / "timed.toml").write_text(more + text)
        return tmp_path / "timed.toml"

    return written


def link_of(file: Path) -> LinkPlan:
    plan, lines = with_recorded_links(load_plan(file))
    assert plan.timing_from == ""  # the numbers are in the plan now, and in its recordings
    assert len(lines) == 1
    assert lines[0].startswith("hold: delay ")
    return plan.nodes[0].link


def test_the_link_of_a_recording_is_found_again(tmp_path: Path, launch_file: Callable[..., Path]) -> None:
    record(tmp_path / "real.mcap")
    link = link_of(launch_file())
    assert link.delay_ms == pytest.approx(1e3 * DELAY_S, abs=0.8)
    assert link.jitter_ms == pytest.approx(1e3 * JITTER_S, abs=0.8)
    assert link.loss == pytest.approx(LOSS, abs=0.005)


def test_a_lockstep_run_has_the_times_of_the_recorded_one(tmp_path: Path, launch_file: Callable[..., Path]) -> None:
    record(tmp_path / "real.mcap")
    file = launch_file()

    def run(seed: int) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        with compose(load_plan(file, [f"seed={seed}"]), lambda *message: found.append(message)) as composed:
            assert composed.plan.nodes[0].link != LinkPlan()
            composed.run()
        return found

    first = run(0)
    assert run(0) == first
    assert run(1) != first
    ages = []
    for topic, payload in first:
        if topic.endswith("/command"):
            command: Any = decode(topic, payload, JointCommand)
            ages.append(command.timestamp - PERIOD_S * (command.state_seq - 1))
    random = np.random.default_rng(5)
    recorded = in_order(DELAY_S + JITTER_S * random.random(20_000), PERIOD_S)
    steps = 5e-4  # s: arrivals are seen at the next step
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(ages, share) == pytest.approx(np.quantile(recorded, share) + steps, abs=1.2e-3)


@pytest.mark.parametrize("period", [0.02, 0.1, 0.5, 1.0, 3.0])
def test_times_of_messages_in_order_have_the_distribution_of_the_closed_form(period: float) -> None:
    drawn = in_order(np.random.default_rng(0).random(200_000), period)
    assert ordered_quantiles(period) == pytest.approx(np.quantile(drawn, [0.05, 0.95]), abs=0.01)
    delay, jitter = fitted(0.5 + 2.0 * drawn, 2.0 * period)
    assert (delay, jitter) == pytest.approx((0.5, 2.0), abs=0.06)


def test_a_link_faster_than_a_step_is_none(tmp_path: Path, launch_file: Callable[..., Path]) -> None:
    record(tmp_path / "real.mcap", delay_s=2e-4, jitter_s=2e-4)
    plan, _ = with_recorded_links(load_plan(launch_file()))
    assert plan.nodes[0].link.delay_ms == plan.nodes[0].link.jitter_ms == 0.0
    assert plan.nodes[0].link.loss == pytest.approx(LOSS, abs=0.005)


def test_a_recording_is_refused_where_no_node_would_get_its_link(
    tmp_path: Path, launch_file: Callable[..., Path]
) -> None:
    record(tmp_path / "real.mcap")
    own = LAUNCH + "link = { delay_ms = 1.0 }\n"
    with pytest.raises(PlanError, match="every node is lossless or has a key 'link'; remove timing_from, or"):
        with_recorded_links(load_plan(launch_file(text=own)))


def test_a_recording_that_cannot_tell_is_refused_in_one_line(tmp_path: Path, launch_file: Callable[..., Path]) -> None:
    file = launch_file()
    with pytest.raises(PlanError, match=r"timed.toml:1: key 'timing_from': no such file 'real.mcap'"):
        load_plan(file)
    for given, line in (
        ({"trips": 5}, "has 5 round trips to node 'hold' on host 'robot'; record at least 20"),
        ({"trips": 0}, r"has no round trips to a node of this plan \(topic 'clock'\); record them with"),
        ({"mode": "lockstep"}, "was recorded in mode 'lockstep', in which the network delays no messages"),
    ):
        record(tmp_path / "real.mcap", **given)  # type: ignore[arg-type]
        with pytest.raises(PlanError, match=line) as refusal:
            with_recorded_links(load_plan(file))
        assert "\n" not in str(refusal.value)
    (tmp_path / "real.mcap").write_text("no recording")
    with pytest.raises(PlanError, match=r"timing_from: .*real\.mcap is not an MCAP file"):
        with_recorded_links(load_plan(file))
    with pytest.raises(PlanError, match=r"key 'timing_from' works in mode .lockstep. only, but"):
        load_plan(file, ["sim.mode=realtime"])


def test_the_measured_links_are_in_the_plan_of_the_new_recording(
    tmp_path: Path, launch_file: Callable[..., Path]
) -> None:
    record(tmp_path / "real.mcap")
    plan, _ = with_recorded_links(load_plan(launch_file()))
    assert msgspec.to_builtins(plan)["nodes"][0]["link"]["delay_ms"] > 0.0

"""Frames of the right type with contents that cannot be: nodes refuse them, count them and live on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.controllers.pd import JointPD
from nodes.controllers.swing_up import SwingUp
from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.recorder import Recorder
from nodes.trajectory import Trajectory

MakePlan = Callable[..., Plan]
numbers = st.floats() | st.floats(-10.0, 10.0)
names = st.just(["arm", "pendulum"]) | st.just(["arm", "pendulum"]) | st.lists(st.text(max_size=4), max_size=3)
pair = st.lists(numbers, min_size=2, max_size=2) | st.lists(numbers, max_size=3)
bodies = st.fixed_dictionaries(
    {"timestamp": numbers},
    optional={"name": names, "position": pair, "velocity": pair, "effort": pair, "acceleration": pair},
)
said = st.lists(st.tuples(st.sampled_from(["state", "reference", "body_poses", "status"]), bodies), max_size=6)


def hosted(plan: Plan, node: Any, **params: Any) -> HostedNode:
    heard: list[bytes] = []
    host = HostedNode(
        node, plan, NodePlan(name="it", run="x:X", params=params), lambda _, payload: heard.append(payload)
    )
    host.start()
    zeros = [0.0, 0.0]
    whole = {"name": ["arm", "pendulum"], "position": zeros, "velocity": zeros, "effort": zeros}
    host.turn(0.0, [("rotary_pendulum/state", msgspec.msgpack.encode(whole))])
    assert host.messages.refusals.count == 0
    assert heard or isinstance(node, Recorder)
    return host


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(frames=said)
def test_the_nodes_of_the_package_outlive_any_well_typed_message(frames: Any, four: list[HostedNode]) -> None:
    envelopes = [
        (topic if topic == "status" else f"rotary_pendulum/{topic}", msgspec.msgpack.encode(body))
        for topic, body in frames
    ]
    for host in four:
        host.turn(1.0, envelopes)


@pytest.fixture
def four(make_plan: MakePlan, tmp_path: Path) -> Any:
    plan = make_plan(mode="lockstep")
    found = [
        hosted(plan, SwingUp()),
        hosted(plan, JointPD(), joints=["arm"], stiffness=[1.0], damping=[0.1]),
        hosted(plan, Trajectory(), joints=["arm"]),
        hosted(plan, Recorder(), file=str(tmp_path / "run.mcap")),
    ]
    yield found
    for host in found:
        host.stop()


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, -1.0, 1e12])
def test_a_forged_time_reaches_no_node(bad: float, make_plan: MakePlan) -> None:
    host = hosted(make_plan(mode="lockstep"), Trajectory(), joints=["arm"])
    state = {"timestamp": bad, "name": ["arm"], "position": [0.0], "velocity": [0.0]}
    host.turn(1.0, [("rotary_pendulum/state", msgspec.msgpack.encode(state))])
    assert host.messages.refusals.count == 1
    assert "timestamp" in host.messages.refusals.last
    assert np.isfinite(host.messages.time)


def test_forged_turns_are_refused_and_counted_in_the_status(
    make_plan: MakePlan, run: Any, until: Callable[..., Any]
) -> None:
    began = run(make_plan("Sweep", mode="lockstep", duration_s=0.05))
    context: Any = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.linger = 0
    stranger.connect(began.entry("sweep").endpoints["step"])
    forged = [[1, bad, []] for bad in (math.inf, -math.inf, math.nan, -1.0, 1e12)]
    for request in forged:
        stranger.send(msgspec.msgpack.encode(request))
    until(lambda: began.call("sweep", "status")["counters"]["refused"] == len(forged))
    assert "(turn)" in began.call("sweep", "status")["refusal"]
    began.call("sim", "resume")
    assert began.until(state="stopped")["time"] == pytest.approx(0.05)
    stranger.close()
    context.term()

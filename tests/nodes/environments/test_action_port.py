"""The node through which an environment acts: late actions and stale states move nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nodes.action_port import ActionPort, ActionPortParams
from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.node import Context

ROOT = Path(__file__).resolve().parents[3]
ACTION = {"mode": "effort", "name": ["arm"], "value": [0.01], "life_ms": 60.0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The computer's clock for the node, with the time `s`."""
    found = SimpleNamespace(s=100.0)
    found.monotonic = lambda: found.s
    found.monotonic_ns = found.time_ns = lambda: round(1e9 * found.s)
    monkeypatch.setattr("nodes.action_port.time", found)
    monkeypatch.setattr("nodes.guard.backlog.time", found)
    return found


def started() -> ActionPort:
    port = ActionPort()
    port.on_start(Context("port", "robot", 1e-3, ActionPortParams(), np.random.default_rng(0)))
    return port


def answered(port: ActionPort, t: float, sent_s: float) -> Any:
    state = RobotState(name=["arm"], position=[0.0], velocity=[0.0], timestamp=t, sent_ns=round(1e9 * sent_s))
    return port.on_message("state", state)


def test_an_action_ends_after_its_life(clock: SimpleNamespace) -> None:
    port = started()
    assert answered(port, 1.0, clock.s) is None
    assert port.on_request("act", ACTION)["is_active"]
    clock.s += 0.05
    assert answered(port, 1.05, clock.s) is not None
    clock.s += 0.01
    assert answered(port, 1.06, clock.s) is None
    assert port.counters == {"ended_actions": 1}


def test_an_action_that_a_link_delivers_late_has_no_effect(clock: SimpleNamespace) -> None:
    port = started()
    answered(port, 1.0, clock.s)
    port.on_request("act", {**ACTION, "since": 0.94})
    assert answered(port, 1.001, clock.s) is None
    with pytest.raises(ValueError, match="since is 'now'; it must be a time, s"):
        port.on_request("act", {**ACTION, "since": "now"})


def test_a_process_that_did_not_run_answers_neither_old_states_nor_old_actions(clock: SimpleNamespace) -> None:
    port = started()
    answered(port, 1.0, clock.s)
    port.on_request("act", ACTION)
    clock.s += 0.3  # frozen, while states and an action arrive
    assert not port.on_request("act", {**ACTION, "since": 1.0})["is_active"]
    assert answered(port, 1.01, clock.s - 0.29) is None
    assert not port.on_request("act", {**ACTION, "since": 1.0})["is_active"]
    assert answered(port, 1.3, clock.s) is None
    assert port.on_request("act", {**ACTION, "since": 1.3})["is_active"]
    assert answered(port, 1.304, clock.s) is not None


class Acting(ActionPort):
    """Acts by itself at the first state."""

    def on_message(self, name: str, message: Any) -> Any:
        self.on_request("act", ACTION)
        return super().on_message(name, message)


def test_commands_that_answer_measured_states_are_not_refused_by_the_model() -> None:
    """The simulation refuses an answer to a state that it never sent; the seq of a measured state is not its own."""
    commands: list[JointCommand] = []

    def carry(topic: str, payload: bytes) -> None:
        if topic.endswith("/command"):
            commands.append(decode(topic, payload, JointCommand))

    parameters = {"coordinates": "joint"}
    sim = SimPlan(robot="rotary_pendulum", parameters=parameters, mode="lockstep", watchdog_ms=50.0)
    port = NodePlan(name="port", run="", remap={"state": "measured_state"})
    hardware = NodePlan(name="hardware", run="nodes/hardware.py:Hardware")
    plan = Plan(name="measured", folder=str(ROOT), sim=sim, nodes=[port, hardware])
    with compose(plan, carry, {"port": Acting}) as run:
        run.step(300)
        assert run.server.status()["commands_refused"] == {}
        assert run.server.status()["watchdog_trips"] == 0
    assert len(commands) > 50
    assert {command.state_seq for command in commands} == {None}

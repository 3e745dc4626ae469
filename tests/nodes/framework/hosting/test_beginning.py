"""How time begins in realtime: the state at t = 0 is said, and the first step waits for those who command by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.framework.messages import JointCommand, Message, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation import event_loop as sim_host
from nodes.framework.simulation.event_loop import SimHost
from nodes.framework.simulation.server import SimServer
from nodes.framework.transport.registry import NodeEntry

MakePlan = Callable[..., Plan]
STATE, COMMAND = "rotary_pendulum/state", "rotary_pendulum/command"


def test_the_state_at_the_start_is_heard_and_answered(make_plan: MakePlan, run: Any, until: Any) -> None:
    running = run(make_plan("Damp", "Keep", mode="realtime", duration_s=0.3))
    running.call("sim", "resume")
    running.until(state="stopped")
    heard = until(lambda: [each for each in running.call("keep", "dump") if each[0] in (STATE, COMMAND)])
    assert next(time_s for topic, _, time_s in heard if topic == STATE) == 0.0
    assert next(time_s for topic, _, time_s in heard if topic == COMMAND) == 0.0
    again = [time_s for topic, _, time_s in heard if topic == STATE and time_s == 0.0]
    assert len(again) == 1


@pytest.fixture
def host(domain: int, make_plan: MakePlan) -> Iterator[tuple[SimHost, list[Message]]]:
    """A host whose server is about to run, in this process, and what the server says."""
    server = SimServer(make_plan(mode="realtime"))
    made = SimHost(server.plan, server)
    said: list[Message] = []
    server.out = lambda topic, payload: said.append(decode(topic, payload))
    server.request("resume", {"first": True})
    yield made, said
    made._close()


def node(name: str, publishes: str = COMMAND, subscribes: str = STATE) -> NodeEntry:
    return NodeEntry(name=name, pid=1, state="ready", endpoints={}, publishes=[publishes], subscribes=[subscribes])


def test_the_first_step_waits_for_everyone_who_answers_states(
    host: tuple[SimHost, list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = host
    monkeypatch.setattr(sim_host, "FIRST_COMMANDS_S", 1e9)
    made._nodes = [
        node("arms"),
        node("base", subscribes="*"),
        node("recorder", publishes="status", subscribes="*"),
        node("joystick", subscribes="status"),
    ]
    monkeypatch.setattr(made, "_rest", lambda left_s: None)
    assert made._waits_for_commands()
    (state,) = (message for message in said if isinstance(message, RobotState))
    assert (state.timestamp, state.seq) == (0.0, 1)
    for source in ("arms", "stranger", "arms"):
        made._take_command((source, COMMAND, JointCommand(name=["arm"], value=[0.1]), b""))
        assert made._waits_for_commands()
    made._take_command(("base", COMMAND, JointCommand(name=["arm"], value=[0.1]), b""))
    assert not made._waits_for_commands()
    assert len(said) == 2  # a state and poses, once


def test_the_first_step_waits_no_longer_than_its_bound(
    host: tuple[SimHost, list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = host
    made._nodes = [node("arms")]
    now = time.monotonic()
    monkeypatch.setattr(made, "_rest", lambda left_s: None)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert made._waits_for_commands()
    now += 0.99 * sim_host.FIRST_COMMANDS_S
    assert made._waits_for_commands()
    now += 0.02 * sim_host.FIRST_COMMANDS_S
    assert not made._waits_for_commands()
    now = 0.0
    assert not made._waits_for_commands()  # never again


def test_nobody_is_waited_for_where_nobody_commands(host: tuple[SimHost, list[Message]]) -> None:
    made, said = host
    assert not made._waits_for_commands()
    assert isinstance(said[0], RobotState)

"""What the simulation server says as events beside changes of constraint mode: who went, what was set, how it ended."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

from nodes.framework.messages import Event, JointCommand, Message
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from sim_core.errors import SimulationDiverged


def listened(server: SimServer) -> list[Event]:
    """The events it says from now on."""
    events: list[Event] = []

    def hear(topic: str, payload: bytes) -> None:
        message: Message = decode(topic, payload)
        if isinstance(message, Event):
            events.append(message)

    server.out = hear
    return events


def step(server: SimServer, count: int) -> None:
    for _ in range(count):
        server.step()


def test_a_divergence_is_said_before_it_ends_the_server() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = SimServer(Plan(name="p", sim=SimPlan(robot="andrews_squeezer", mode="fast", step_ms=5.0)))
    events = listened(server)
    with pytest.raises(SimulationDiverged) as diverged:
        step(server, 100)
    diverged.value.file.unlink()
    assert [(event.kind, event.timestamp) for event in events] == [("diverged", diverged.value.time)]


def serve(**sim: Any) -> tuple[SimServer, list[Event]]:
    server = SimServer(Plan(name="p", sim=SimPlan(robot="rotary_pendulum", **sim)))
    events = listened(server)
    server.request("resume", {"first": True})
    return server, events


def push(server: SimServer, source: str, name: str = "arm") -> None:
    server.robots[0].commands.receive(source, JointCommand(name=[name], value=[0.01]))
    server.step()


@pytest.mark.parametrize(
    ("mode", "watchdog_ms", "seconds"),
    [
        ("realtime", None, 0.1),
        ("realtime", 50.0, 0.05),
        ("realtime", 0.0, None),
        ("realtime", False, None),
        ("fast", None, None),
        ("lockstep", None, None),
    ],
)
def test_realtime_has_a_watchdog_unless_it_is_turned_off(mode: Any, watchdog_ms: Any, seconds: float | None) -> None:
    assert SimPlan(robot="r", mode=mode, watchdog_ms=watchdog_ms).watchdog_s == seconds
    server, events = serve(mode=mode, watchdog_ms=watchdog_ms)
    push(server, "damp")
    step(server, 150)
    assert [event.kind for event in events] == ([] if seconds is None else ["safe"])
    assert server.status()["safe_since"] == pytest.approx(seconds, abs=2e-3) if seconds else True


@pytest.mark.parametrize(("gone", "word"), [(False, "is silent"), (True, "is gone")])
def test_a_commander_that_goes_is_said_once_as_an_event_and_on_the_terminal(
    gone: bool, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    server, events = serve(mode="realtime")
    push(server, "damp")
    if gone:
        server.forget("damp")
    with caplog.at_level(logging.WARNING, "armswing.node"):
        step(server, 300)
    line = f"'damp' {word}, no command for 100 ms: zero_effort"
    assert [(event.kind, event.node, event.detail) for event in events] == [("safe", "damp", line)]
    assert [record.message for record in caplog.records] == [f"sim: {line}, at t = 0.100 s"]
    assert (server.state, server.status()["commanded_by"]) == ("safe", None)
    push(server, "damp")
    assert (server.state, server.status()["safe_since"]) == ("running", None)


def test_without_a_watchdog_it_is_said_that_the_last_command_of_a_node_that_is_gone_holds() -> None:
    server, events = serve(mode="realtime", watchdog_ms=0.0)
    push(server, "damp")
    server.forget("other")
    server.forget("damp")
    step(server, 20)
    assert [(event.kind, event.node) for event in events] == [("held", "damp")]
    assert server.state == "running"


def test_a_node_hears_that_its_commands_are_refused_but_not_a_thousand_times() -> None:
    server, events = serve(mode="lockstep")
    for _ in range(1500):
        push(server, "damp", "elbow")
    assert [event.node for event in events] == ["damp", "damp"]
    assert "no actuator 'elbow'" in events[0].detail
    push(server, "damp")
    push(server, "damp", "elbow")
    assert len(events) == 3  # what was taken in between makes it news again


def test_a_parameter_that_was_set_leaves_a_trace_and_one_that_was_refused_none() -> None:
    server, events = serve(mode="lockstep")
    server.request("set", {"arm_damping": 0.25})
    server.request("set", {"arm_damping": 0.25})
    with pytest.raises(ValueError, match="must not be negative"):
        server.request("set", {"arm_damping": -1.0})
    assert [(e.kind, e.node, e.key, e.old, e.new) for e in events] == [("set", "sim", "arm_damping", "0.0", "0.25")]


def test_what_a_person_does_to_the_time_is_said_and_what_the_launch_does_is_not() -> None:
    server = SimServer(Plan(name="p", sim=SimPlan(robot="rotary_pendulum")))
    events = listened(server)
    server.request("resume", {"first": True})
    step(server, 10)
    for service, args in (("pause", {}), ("pause", {}), ("resume", {}), ("resume", {})):
        server.request(service, args)
    step(server, 10)
    for speed in (0.5, 0.5, 2):
        server.request("speed", {"x": speed})
    server.request("pause", {"last": True})
    assert [(event.kind, round(event.timestamp, 9), event.old, event.new) for event in events] == [
        ("pause", 0.01, "", ""),
        ("resume", 0.01, "", ""),
        ("speed", 0.02, "1", "0.5"),
        ("speed", 0.02, "0.5", "2"),
    ]
    assert server.state == "paused"

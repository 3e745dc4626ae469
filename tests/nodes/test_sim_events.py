"""What the simulation server says as an event beside changes of configuration: that it diverged."""

from __future__ import annotations

import warnings

import pytest

from nodes.runtime.plan import Plan, SimPlan
from nodes.sim_server import SimServer
from nodes.wire.codec import decode
from nodes.wire.messages import Event, Message
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

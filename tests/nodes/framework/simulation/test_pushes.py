"""The service `push` of the simulation server: for whole steps, logged, kept by snapshots, refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import Description, Event
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.server import SimServer
from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.system import assemble

MakePlan = Callable[..., Plan]
Started = Callable[[Plan], tuple[SimServer, Any]]
PUSH = {"body": "pendulum", "force": [0.2, 0.0, 0.1], "point": [0.0, 0.0, -0.05], "duration_s": 0.02}


@pytest.fixture
def pushable(make_plan: MakePlan, started: Started) -> tuple[SimServer, Any]:
    plan = make_plan(mode="lockstep")
    plan.sim.parameters = {"pushable": "pendulum"}
    return started(plan)


def test_a_push_acts_for_its_duration_and_is_logged(pushable: tuple[SimServer, Any]) -> None:
    server, ear = pushable
    assert ear.all(Description)[0].pushable == ["pendulum"]
    for _ in range(5):
        server.step()
    server.request("push", PUSH)
    acting = []
    for _ in range(30):
        server.step()
        acting.append(bool(server.simulation.pushes))
    assert acting.index(False) == 20  # the step after the last one of the push ends it
    event = ear.all(Event)[-1]
    assert (event.kind, event.part, event.timestamp) == ("push", "pendulum", pytest.approx(0.005))
    assert json.loads(event.new) == {key: PUSH[key] for key in ("force", "point", "duration_s")}
    # the same motion as the simulation's own, with the force over exactly these steps
    simulation = Simulation(assemble(build("rotary_pendulum", pushable="pendulum")), step_s=1e-3)
    simulation.step(5)
    simulation.push("pendulum", PUSH["force"], PUSH["point"])
    simulation.step(20)
    simulation.push("pendulum", np.zeros(3))
    simulation.step(10)
    assert server.simulation.state.q.tobytes() == simulation.state.q.tobytes()


def test_a_push_without_a_point_acts_on_the_center_of_mass(pushable: tuple[SimServer, Any]) -> None:
    server, ear = pushable
    server.request("push", {"body": "pendulum", "force": [0.0, 0.2, 0.0]})
    server.step()
    center = build("rotary_pendulum").body("pendulum").center_of_mass
    assert any(center)
    assert json.loads(ear.all(Event)[-1].new)["point"] == list(center)


@pytest.mark.parametrize("how", ["service", "restart"])
def test_a_snapshot_within_a_push_continues_it(how: str, pushable: tuple[SimServer, Any]) -> None:
    server, _ = pushable
    server.request("push", PUSH)
    for _ in range(7):
        server.step()
    snapshot, run = server.request("snapshot", {}), server.robots[0].run_state()
    for _ in range(30):
        server.step()
    wanted = server.simulation.state.q.tobytes()
    server.request("reset", {})
    assert server.simulation.pushes == {}
    if how == "service":
        server.request("restore", {"state": snapshot})
    else:
        server.restart(run, stamps=False, ahead=0)
    for _ in range(30):
        server.step()
    assert server.simulation.state.q.tobytes() == wanted


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"body": "arm"}, "has no pushable body 'arm'; its pushable bodies are pendulum"),
        ({"body": None}, "push: body is None; it must be one of pendulum"),
        ({"force": [1.0, 2.0]}, r"push: force is \[1.0, 2.0\]; it must be three finite numbers"),
        ({"duration_s": 0}, "push: duration_s is 0; it must be a number above 0 and at most 3600"),
        ({"torque": [1.0, 0.0, 0.0]}, "no argument 'torque'; its arguments are body, force, point, duration_s"),
    ],
)
def test_a_wrong_push_is_refused(args: dict[str, Any], reason: str, pushable: tuple[SimServer, Any]) -> None:
    server, ear = pushable
    with pytest.raises(ValueError, match=reason):
        server.request("push", PUSH | args)
    assert server.simulation.pushes == {}
    assert not ear.all(Event)

"""A gibbon in the server: grippers are commanded like actuators, what the hands do is said as events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodes.framework.messages import Event, JointCommand, Message, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from robots.registry import build


class Served:
    """A server that runs, and what it said."""

    def __init__(self, **sim: Any) -> None:
        self.said: list[Message] = []
        self.server = SimServer(Plan(name="p", sim=SimPlan(robot="gibbon", mode="fast", **sim)))
        self.server.out = lambda topic, payload: self.said.append(decode(topic, payload))
        self.server.start()
        self.server.request("resume", {"first": True})

    def command(self, source: str = "controller", **values: float) -> None:
        self.server.robots[0].commands.receive(source, JointCommand(name=list(values), value=list(values.values())))

    def step(self, n: int = 1) -> None:
        for _ in range(n):
            self.server.step()

    @property
    def events(self) -> list[Event]:
        return [message for message in self.said if isinstance(message, Event)]

    @property
    def outputs(self) -> dict[str, float]:
        return next(message for message in reversed(self.said) if isinstance(message, RobotState)).outputs


@pytest.mark.parametrize("line", ["bars", "cable"])
def test_a_hand_lets_go_and_the_robot_falls_as_commanded_and_each_is_said(line: str) -> None:
    served = Served(parameters={"line": line})
    served.step(10)
    assert served.events == []
    assert served.outputs["hand_a_grips"] == 1.0
    served.command(elbow=1.0, grip_a=0.0)
    served.step()
    (release,) = served.events
    n = served.server.simulation.system.n_q
    assert (release.kind, release.part, release.source, release.target) == ("release", "hand_a", "both", "b")
    assert release.timestamp == pytest.approx(0.011)
    assert len(release.before) == len(release.after) == 2 * n
    assert release.energy == pytest.approx(0.0, abs=1e-12)
    assert (served.outputs["hand_a_grips"], served.outputs["hand_b_grips"]) == (0.0, 1.0)
    served.command(grip_b=0.0)
    served.step(1200)
    assert [(event.kind, event.target) for event in served.events[1:]] == [("release", "none"), ("fall", "fallen")]
    assert served.server.state == "running"
    served.step(100)
    assert msgspec.to_builtins(served.server.status())["commanded_by"] == "controller"


def test_a_grip_is_said_with_the_energy_it_took() -> None:
    served = Served(parameters={"line": "bars", "start": "a"})
    state = served.server.request("snapshot", {})
    # hand b comes up to its bar
    state["q"] = list(build("gibbon", line="bars").initial_q)
    state["q"][3] += 0.02
    state["v"][3] = -0.5
    served.server.request("restore", {"state": state})
    served.command(grip_a=1.0, grip_b=1.0)
    served.step(200)
    (grip,) = [event for event in served.events if event.kind == "grip"]
    assert (grip.part, grip.source, grip.target) == ("hand_b", "a", "both")
    energies = [sum(served.server.simulation.system.energy(0.0, *halves(state))) for state in (grip.before, grip.after)]
    assert grip.energy == pytest.approx(energies[0] - energies[1], abs=1e-9)
    assert grip.energy > 1e-4
    assert served.outputs["hand_b_grips"] == 1.0


def halves(state: list[float]) -> tuple[list[float], list[float]]:
    return state[: len(state) // 2], state[len(state) // 2 :]


@pytest.mark.parametrize("safe_mode", ["zero_effort", "hold"])
def test_the_hands_stay_closed_where_the_controller_falls_silent(safe_mode: str) -> None:
    served = Served(parameters={"line": "bars", "start": "a"}, watchdog_ms=20.0, safe_mode=safe_mode)
    served.command(elbow=1.0, grip_a=1.0)
    served.step(100)
    assert served.server.state == "safe"
    assert served.server.simulation.constraint_mode == "a"
    assert served.outputs["hand_a_grips"] == 1.0


def test_the_grippers_may_be_commanded_by_another_node_than_the_elbow() -> None:
    served = Served(parameters={"line": "bars", "start": "a"})
    served.command("elbow_node", elbow=1.0)
    served.command("hands_node", grip_a=1.0, grip_b=1.0)
    served.command("third", grip_a=0.0)
    served.step(5)
    refused = served.server.status()["commands_refused"]
    assert list(refused) == ["third"]
    assert "'hands_node' has" in refused["third"]["reason"]
    assert served.server.simulation.constraint_mode == "a"


def test_a_snapshot_of_the_server_holds_what_the_hands_hold() -> None:
    served = Served(parameters={"line": "cable", "modes": 8})
    served.command(grip_a=0.0, elbow=2.0)
    served.step(50)
    kept = served.server.request("snapshot", {})
    served.step(50)
    end = served.server.request("snapshot", {})
    other = Served(parameters={"line": "cable", "modes": 8})
    other.server.request("restore", {"state": kept})
    other.step(50)
    assert other.server.request("snapshot", {}) == end


def test_a_reset_closes_the_hands_that_held_at_the_start() -> None:
    served = Served(parameters={"line": "bars"})
    served.command(grip_a=0.0, grip_b=0.0)
    served.step(600)
    assert served.server.simulation.constraint_mode == "fallen"
    served.server.request("reset", {})
    served.step(10)
    assert served.server.simulation.constraint_mode == "both"


def test_the_description_lists_grippers_units_and_the_force_in_each_hand() -> None:
    description = Served(parameters={"line": "bars", "bars": 5}).server.robots[0].messages.description
    grippers = {a.name: (a.joint, a.unit, a.modes) for a in description.actuators if a.name.startswith("grip")}
    assert grippers == {"grip_a": ("", "1", ["effort"]), "grip_b": ("", "1", ["effort"])}
    units = dict(zip(description.outputs, description.output_units, strict=True))
    assert (units["hand_a_x"], units["hand_b_vz"], units["hand_a_force_z"]) == ("m", "m/s", "N")
    assert [force.body for force in description.forces] == ["hand_a", "hand_b"]
    assert len(description.ground) == 5

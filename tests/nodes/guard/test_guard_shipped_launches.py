"""The shipped launch files run behind a guard with their robots' own limits without a stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.messages import Event
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.simulation.compose import compose
from robots.registry import build

LAUNCH = Path(__file__).resolve().parents[3] / "launch"
QUICK = ("examples/bench_arm.toml", "rotary_pendulum_lockstep.toml")
LONG = ("hil_robot.toml", "charmie_pick.toml", "charmie_squat.toml", "examples/my_controller.toml", "gibbon_bars.toml")


def guarded(file: str) -> Plan:
    """The plan in lockstep with a guard between its controllers and its simulation, limited as the robot is."""
    plan = load_plan(LAUNCH / file, ["sim.mode=lockstep"])
    mechanism = build(plan.sim.robot, **plan.sim.parameters)
    joints: dict[str, dict[str, Any]] = {}
    for actuator in mechanism.actuators:
        if not actuator.joint:
            continue
        joint = mechanism.joint(actuator.joint)
        limits = {
            "actuator": actuator.name,
            "lower": joint.lower,
            "upper": joint.upper,
            "velocity": actuator.velocity_limit,
            "velocity_margin": actuator.velocity_limit,
            "effort": actuator.effort_limit,
            "margin": 0.1,
            "deceleration": 50.0,
        }
        found = {key: value for key, value in limits.items() if value is not None}
        if len(found) > 3:
            joints[joint.name] = found
    nodes = [node for node in plan.nodes if "*" not in load_class(node.run, plan.folder).subscribes]
    for node in nodes:
        if "command" in load_class(node.run, plan.folder).publishes:
            node.remap = {**node.remap, "command": "raw_command"}
    last = max(k for k, node in enumerate(nodes) if "command" in load_class(node.run, plan.folder).publishes)
    params = {"joints": joints, "heartbeat_ms": 200, "max_age_ms": 100}
    guard = NodePlan(name="beside_the_motors", run="nodes/guard/node.py:Guard", params=params)
    plan.nodes = [*nodes[: last + 1], guard, *nodes[last + 1 :]]
    return plan


def stops(file: str, longest_s: float) -> list[str]:
    plan, found = guarded(file), []

    def carry(topic: str, payload: bytes) -> None:
        if topic.endswith("/event"):
            event = decode(topic, payload, Event)
            found.extend([f"t = {event.timestamp:g} s: {event.detail}"] if event.kind == "guard_stop" else [])

    with compose(plan, carry) as run:
        run.run(min(longest_s, plan.duration_s or longest_s))
        assert sum(run.server.robots[0].actuation.status()["commands_taken"].values()) > 0
    return found


@pytest.mark.parametrize("file", QUICK)
def test_a_shipped_launch_is_not_stopped_by_a_guard(file: str) -> None:
    assert stops(file, 2.5) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", [*QUICK, *LONG])
def test_a_shipped_launch_is_not_stopped_by_a_guard_to_its_end(file: str) -> None:
    began = time.monotonic()
    assert stops(file, 60.0) == [], f"{time.monotonic() - began:.0f} s"


def test_an_emergency_stop_of_the_guarded_arm_can_be_released_as_it_does_not_fall() -> None:
    plan = load_plan(LAUNCH / "examples" / "guarded_arm.toml")
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    with compose(plan) as run:
        run.run(1.2)  # both joints move
        guard = run.nodes["guard"]
        run.request("estop", reason="a test")
        guard.request("estop", {"reason": "a test"})
        run.step(2000)
        run.request("release")
        guard.request("release", {})  # refused while the arm is outside its limits
        passed = guard.node.counters["passed"]
        run.step(100)
        assert guard.node.counters["passed"] > passed


@pytest.mark.parametrize(("at_s", "held_s", "server_later"), [(1.2, 1.0, 0), (1.2, 3.0, 0), (1.2, 1.0, 300)])
def test_a_release_while_the_trajectory_has_gone_on_does_not_stop_the_guarded_arm_again(
    at_s: float, held_s: float, server_later: int
) -> None:
    """The arm is far from the commands at the release, and the server may accept commands later than the guard."""
    plan = load_plan(LAUNCH / "examples" / "guarded_arm.toml")
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    with compose(plan) as run:
        run.run(at_s)
        guard = run.nodes["guard"]
        run.request("estop", reason="a test")
        guard.request("estop", {"reason": "a test"})
        run.step(round(1000 * held_s))
        guard.request("release", {})
        run.step(server_later)
        run.request("release")
        run.step(1500)
        assert guard.node.counters["stops"] == 1

"""The server's actuators: servos, commanders of their own, snapshots, loads. No sockets, no clock."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from nodes.framework.launching.summary import Summary
from nodes.framework.messages import Description, Event, JointCommand
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.monitoring.joint_limits import JointLimitMonitor
from nodes.framework.simulation.server import SimServer
from robots import registry
from sim_core.mechanism import Actuator, Body, Mechanism, PrescribedMotion, X
from sim_core.mechanism import Joint as SlidingJoint

MakePlan = Callable[..., Plan]
Started = Callable[[Plan], tuple[SimServer, Any]]  # the server, and an ear for what it says


class Joint(NamedTuple):
    name: str
    unit: str
    lower: float | None
    upper: float | None


def commanded(mode: Any, **values: float) -> JointCommand:
    return JointCommand(mode=mode, name=list(values), value=list(values.values()))


@pytest.fixture
def arm_plan(arm: str) -> Callable[..., Plan]:
    return lambda **settings: Plan(name="p", sim=SimPlan(robot=arm, mode="lockstep", **settings))


def test_actuators_with_servos_take_velocities_and_positions(arm_plan: MakePlan, started: Started) -> None:
    server, ear = started(arm_plan())
    description = ear.all(Description)[0].actuators[0]
    assert (description.modes, description.velocity_limit) == (["effort", "velocity", "position"], 2.0)
    server.robots[0].commands.receive("hand", commanded("position", elbow_motor=0.5))
    server.robots[0].commands.receive("hand", commanded("velocity", shoulder_motor=-0.2))
    for _ in range(2000):
        server.step()
    state = ear.state()
    assert state.position[1] == pytest.approx(0.5, abs=0.02)
    assert state.velocity == [pytest.approx(-0.2, abs=0.01), pytest.approx(0.0, abs=0.01)]
    server.robots[0].commands.receive("hand", commanded("effort", shoulder_motor=0.0, elbow_motor=0.0))
    server.step()
    assert ear.state().effort == [0.0, 0.0]


def test_a_snapshot_holds_what_the_servos_were_told(arm_plan: MakePlan, started: Started) -> None:
    server, ear = started(arm_plan())
    server.robots[0].commands.receive("hand", commanded("velocity", shoulder_motor=0.7))
    for _ in range(100):
        server.step()
    snapshot = msgspec.msgpack.decode(msgspec.msgpack.encode(server.request("snapshot", {})))
    runs = []
    for _ in range(2):
        for _ in range(50):
            server.step()
        runs.append((ear.state().position, ear.state().effort))
        server.request("restore", {"state": snapshot})
    assert runs[0] == runs[1]
    for servos in (None, {"mode": [9, 9], "value": [0, 0], "target": [0, 0]}):
        with pytest.raises(ValueError, match=r"restore: (the )?servos"):
            server.request("restore", {"state": {**snapshot, "servos": servos}})
    assert server.request("snapshot", {}) == snapshot


@pytest.mark.parametrize("stabilizer", ["none", "sampled_fuzzy"])
def test_a_commanded_velocity_is_that_of_the_next_state(
    stabilizer: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    cart = Mechanism(
        name="cart",
        coordinates="joint",
        bodies=(Body(name="cart", mass=2.0, inertia=(0.1, 0.1, 0.1, 0, 0, 0)),),
        joints=(SlidingJoint(name="x", kind="prismatic", axis=X, child="cart"),),
        actuators=(Actuator(name="speed", unit="m/s"),),
        constraints=(PrescribedMotion(name="motor", joint="x", input="speed"),),
        initial_q=(0.0,),
        initial_v=(0.0,),
    )
    monkeypatch.setitem(registry.BUILTIN, "cart", lambda: cart)
    server, ear = started(Plan(name="p", sim=SimPlan(robot="cart", mode="lockstep", stabilizer=stabilizer)))
    for command in (1.0, 1.0, 0.0, -0.3):
        server.robots[0].commands.receive("hand", commanded("effort", speed=command))
        server.step()
        assert ear.state().velocity == [pytest.approx(command, abs=1e-9)]
    snapshot = server.request("snapshot", {})
    server.request("reset", {})
    server.step()
    assert ear.state().velocity == [0.0]
    server.request("restore", {"state": snapshot})
    server.step()
    assert ear.state().velocity == [pytest.approx(-0.3, abs=1e-9)]
    assert ear.state().position == [pytest.approx(1e-3 * (1.0 + 1.0 - 2 * 0.3), abs=1e-9)]


def test_each_actuator_has_its_own_commander_and_silence_of_one_makes_its_own_safe(
    arm_plan: MakePlan, started: Started
) -> None:
    server, ear = started(arm_plan(watchdog_ms=5.0))
    server.request("resume", {})
    server.robots[0].commands.receive("upper", commanded("effort", shoulder_motor=1.0))
    for _ in range(20):
        server.robots[0].commands.receive("lower", commanded("effort", elbow_motor=2.0))
        server.step()
    assert (server.state, ear.state().effort) == ("safe", [0.0, 2.0])
    assert server.status()["commanded_by"] == "lower"
    server.robots[0].commands.receive("lower", commanded("effort", elbow_motor=3.0))
    server.robots[0].commands.receive("other", commanded("effort", shoulder_motor=0.5, elbow_motor=0.5))
    server.step()
    assert ear.state().effort == [0.0, 3.0]
    assert "'lower' has" in server.status()["commands_refused"]["other"]["reason"]
    server.robots[0].commands.receive("upper", commanded("effort", shoulder_motor=1.5))
    server.step()
    assert (server.state, ear.state().effort, server.robots[0].actuation.trips) == ("running", [1.5, 3.0], 1)


def test_loads_are_peak_and_root_mean_square_of_what_was_applied(arm_plan: MakePlan, started: Started) -> None:
    server, _ = started(arm_plan())
    for effort in (3.0, -4.0, 0.0, 0.0):
        server.robots[0].commands.receive("hand", commanded("effort", shoulder_motor=effort))
        server.step()
    load = server.status()["loads"]["shoulder_motor"]
    assert load == {"peak": 4.0, "rms": pytest.approx(2.5), "limit": 40.0, "unit": "N m"}
    assert server.status()["loads"]["elbow_motor"]["peak"] == 0.0
    server.request("reset", {})
    assert server.status()["loads"]["shoulder_motor"]["peak"] == 0.0


def test_a_position_beyond_a_joints_limits_is_cut_and_said_once() -> None:
    plan = Plan(name="p", sim=SimPlan(robot="charmie", mode="lockstep", parameters={}))
    server = SimServer(plan)
    events: list[Event] = []
    server.out = lambda topic, payload: events.append(decode(topic, payload)) if topic.endswith("/event") else None
    for _ in range(3):
        server.robots[0].commands.receive("hand", commanded("position", lift=0.1, left_arm_2=500.0))
        server.step()
    server.robots[0].commands.receive("other", commanded("position", tilt=-0.1))
    server.step()
    upper = next(joint.upper for joint in server.robots[0].messages.description.joints if joint.name == "left_arm_2")
    (event,) = events
    assert (event.kind, event.node) == ("cut", "hand")
    assert "'hand' commands position 500 of 'left_arm_2', beyond its limits" in event.detail
    assert event.detail.endswith(f": it goes to {upper:.4g}")


def test_a_joint_that_left_its_limits_or_was_too_fast_is_named_with_its_farthest_position_or_speed() -> None:
    joints = [Joint("lift", "m", 0.0, 0.14), Joint("tilt", "rad", -0.5, None), Joint("yaw", "rad", None, None)]
    position, velocity = np.zeros((2, 3))
    actuators = [SimpleNamespace(joint="tilt", velocity_limit=2.0), SimpleNamespace(joint="yaw", velocity_limit=None)]
    seen = JointLimitMonitor(SimpleNamespace(moving_joints=joints, actuators=actuators), position, velocity)
    for velocity[:] in ([9.0, 2.1, 9.0], [0.0, -3.25, 0.0], [0.0, 0.0, 0.0]):
        seen.update()
    assert seen.too_fast() == {"tilt": {"speed": 3.25, "limit": 2.0, "unit": "rad/s"}}
    seen.clear()
    velocity[1] = 2.15
    for position[:] in ([0.4, -0.5, 1e3], [-0.2, -0.509, 0.0], [0.1, 9.0, 0.0]):
        seen.update()
    assert seen.to_plain() == {"lift": {"position": 0.4, "lower": 0.0, "upper": 0.14, "unit": "m"}}
    summary = Summary(plan="p", robot="it", mode="fast")
    assert seen.too_fast() == {}
    fast = {"tilt": {"speed": 3.25, "limit": 2.0, "unit": "rad/s"}}
    summary.take_simulation({"beyond_limits": seen.to_plain(), "beyond_velocity_limits": fast})
    assert ("too fast", "tilt 3.25 rad/s of 2 rad/s") in summary.lines()
    assert ("beyond its limits", "lift 0.4 m of 0 .. 0.14 m") in summary.lines()
    seen.clear()
    assert seen.to_plain() == {}

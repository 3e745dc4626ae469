"""A guard in a driver's own process: between the commands that it receives and the motors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.hosting.snapshots import restore, snapshot_of
from nodes.framework.messages import Event, JointCommand, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import Composition, compose
from nodes.node import Node
from nodes.research.sweeps.cells import judged

ROOT = Path(__file__).resolve().parents[3]
GUARD: dict[str, Any] = {
    "heartbeat_ms": 50,
    "delay_ms": 10,
    "joints": {name: {"lower": -0.2, "upper": 0.2, "velocity": 2.0, "margin": 0.1} for name in ("joint_2", "joint_4")},
}


class Far(Node):
    """Turns both joints to 1 rad, at 1 rad/s."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    def on_message(self, name: str, message: Any) -> Any:
        goal = min(message.timestamp, 1.0)
        yield "command", JointCommand(mode="position", name=["joint_2", "joint_4"], value=[goal, goal])


def run_of(found: list[tuple[str, Any]], controller: type[Node] = Far) -> Composition:
    kinds = {"event": Event, "measured_state": RobotState, "applied_command": JointCommand}

    def carry(topic: str, payload: bytes) -> None:
        leaf = topic.rpartition("/")[2]
        if leaf in kinds:
            found.append((leaf, decode(topic, payload, kinds[leaf])))

    hardware = NodePlan(name="hardware", run="nodes/hardware.py:Hardware", guard=GUARD)
    sim = SimPlan(robot="arm_2dof", mode="lockstep")
    plan = Plan(name="driven", folder=str(ROOT), sim=sim, nodes=[NodePlan(name="far", run=""), hardware])
    return compose(plan, carry, {"far": controller})


def test_the_motors_get_guarded_commands_while_the_model_gets_the_raw_ones() -> None:
    found: list[tuple[str, Any]] = []
    with run_of(found) as run:
        run.step(700)
        assert run.server.simulation.joints()[0][0] > 0.5  # the model goes on
        assert run.nodes["hardware"].gate.counters["stops"] == 0
    applied = [value for leaf, message in found if leaf == "applied_command" for value in message.value]
    assert 0.1999 < max(applied) <= 0.2
    assert max(message.position[0] for leaf, message in found if leaf == "measured_state") < 0.3
    events = {(m.kind, m.key, m.part, m.node) for leaf, m in found if leaf == "event"}
    assert ("guard_clamp", "upper", "joint_2", "hardware") in events


def test_an_emergency_stop_brakes_the_robot_until_it_is_released() -> None:
    found: list[tuple[str, Any]] = []
    with run_of(found) as run:
        driver = run.nodes["hardware"]
        run.step(100)
        assert driver.gate.emergency == ""
        assert driver.emergency_stop("hand in the cell") == "controlled stop"
        assert driver.gate.emergency == "hand in the cell"
        run.step(400)
        last = [message for leaf, message in found if leaf == "measured_state"][-1]
        assert max(map(abs, last.velocity)) < 0.05
        assert max(last.position) < 0.2  # it would be at 0.5
        driver.release()
        assert driver.gate.emergency == ""
        run.step(400)
    stops = [(m.kind, m.key, m.detail) for leaf, m in found if leaf == "event" and m.kind != "guard_clamp"]
    assert stops[0] == ("guard_stop", "estop", "hand in the cell: controlled stop")
    assert stops[1][:2] == ("guard_acknowledged", "estop")
    assert max(message.position[0] for leaf, message in found if leaf == "measured_state") > 0.18


class Limp(Node):
    """Commands no effort, so that the arm falls."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    def on_message(self, name: str, message: Any) -> Any:
        yield "command", JointCommand(name=["joint_2", "joint_4"], value=[0.0, 0.0])


def test_joints_that_a_stop_holds_by_velocity_commands_do_not_creep_under_gravity() -> None:
    found: list[tuple[str, Any]] = []
    with run_of(found, Limp) as run:
        run.step(300)
        run.nodes["hardware"].emergency_stop("hand in the cell")
        run.step(4000)
    applied = [message for leaf, message in found if leaf == "applied_command"][-1]
    assert (applied.mode, applied.value) == ("velocity", [0.0, 0.0])
    held = [message for leaf, message in found if leaf == "measured_state" and message.timestamp > 1.1]
    places = np.array([message.position for message in held])
    assert np.ptp(places, axis=0).max() < 1e-5  # rad in 3 s
    efforts = np.abs([message.effort for message in held])
    assert efforts[-1].max() > 0.05  # N m: they carry the arm's weight


def test_a_stop_is_logged_timed_and_continued_from_a_snapshot() -> None:
    with run_of([]) as run:
        driver = run.nodes["hardware"]
        run.step(100)
        assert driver.guard_stops is None
        driver.emergency_stop("hand in the cell")
        run.step(400)
        assert driver.take_log()[-1] == ("warning", "t = 0.099 s: hand in the cell: controlled stop")
        stops = driver.guard_stops
        assert stops is not None
        assert (stops.count, stops.reason) == (1, "hand in the cell")
        assert stops.first_time == pytest.approx(0.1, abs=0.002)
        assert stops.stopped_s == pytest.approx(0.4)
        saved = snapshot_of(driver)
        assert driver.release() == "released"
        assert driver.release() == "nothing was stopped"
        run.step(100)
        stops = driver.guard_stops
        assert stops is not None
        assert (stops.count, stops.reason, stops.stopped_s) == (1, "", pytest.approx(0.4))
        assert not stops.is_open
        driver.emergency_stop("again")
        restore(driver, saved, [])
        stops = driver.guard_stops
        assert stops is not None
        assert (stops.count, stops.reason, stops.stopped_s) == (1, "hand in the cell", pytest.approx(0.4))
        driver.reset(0.0)
        driver.messages.time = 0.25
        stops = driver.guard_stops
        assert stops is not None
        assert stops.stopped_s == pytest.approx(0.65)


def test_after_a_restart_of_its_process_a_guard_holds_the_robot_where_it_is_measured_first() -> None:
    with run_of([]) as run:
        driver = run.nodes["hardware"]
        driver.stop_after_restart()
        run.step(100)
        stops = driver.guard_stops
        assert stops is not None
        assert (stops.count, stops.reason) == (1, "the process of the guard was restarted")
        assert driver.gate.counters["passed"] == 0
        assert driver.node.counters["commands"] > 50  # of the guard, which hold the robot
        driver.release()
        run.step(50)
        assert driver.gate.counters["passed"] > 0
    with run_of([]) as run:
        run.nodes["far"].stop_after_restart()  # it has no guard
        run.step(10)
        assert run.nodes["far"].guard_stops is None


def test_a_stop_is_open_until_it_is_acknowledged_and_a_command_is_passed_on() -> None:
    with run_of([]) as run:
        driver = run.nodes["hardware"]
        run.step(100)
        driver.emergency_stop("hand in the cell")
        assert driver.guard_stops is not None
        assert not driver.guard_stops.is_open  # it has lasted for no time yet
        run.step(100)
        assert driver.guard_stops.is_open
        assert "for 0.100 s, still stopped at the end: hand in the cell" in driver.guard_stops.text()
        driver.release()
        assert (driver.guard_stops.reason, driver.guard_stops.idle, driver.guard_stops.is_open) == ("", True, True)
        assert "acknowledged, but no command was passed on afterwards" in driver.guard_stops.text()
        run.step(2)
        assert (driver.guard_stops.idle, driver.guard_stops.is_open) == (False, False)


def test_a_run_of_a_sweep_whose_guard_stopped_the_robot_has_failed() -> None:
    with run_of([]) as run:
        run.step(100)
        assert judged(run) == ("passed", "")
        run.nodes["hardware"].emergency_stop("hand in the cell")
        run.step(100)
        result, reason = judged(run)
    assert result == "failed"
    assert reason.startswith("the guard of 'hardware' stopped the robot at t = 0.099 s")
    assert reason.endswith("still stopped at the end: hand in the cell")


def test_the_latest_clamped_command_is_known_with_its_time() -> None:
    with run_of([]) as run:
        driver = run.nodes["hardware"]
        run.step(100)
        assert driver.limited == ""
        run.step(600)
        assert re.fullmatch(
            r"t = 0\.\d{3} s: position 0\.\d+ of joint_\d becomes 0\.\d+ \(limit: \w+\)", driver.limited
        )
        saved, line = snapshot_of(driver), driver.limited
        run.step(100)
        restore(driver, saved, [])
        assert driver.limited == line


def test_after_a_release_the_guard_s_own_commands_are_not_taken_for_the_controller_s() -> None:
    with run_of([]) as run:
        driver = run.nodes["hardware"]
        run.step(100)
        driver.emergency_stop("hand in the cell")
        run.step(100)
        given, passed = driver.node.counters["commands"], driver.gate.counters["passed"]
        run.step(100)
        assert driver.node.counters["commands"] > given  # those that brake and hold
        assert driver.gate.counters["passed"] == passed
        driver.release()
        run.step(2)
        assert driver.gate.counters["passed"] > passed


LAUNCH = '[sim]\nrobot = "arm_2dof"\n[[nodes]]\nname = "robot"\nrun = "{run}"\n{more}\n'
HARDWARE = "nodes/hardware.py:Hardware"
WRONG = {
    "guard = {}": (HARDWARE, "key 'joints' is missing; give limits of joints"),
    "[nodes.guard.joints.elbow]\nupper = 1.0": (HARDWARE, "the robot has no actuator 'elbow'"),
    "[nodes.guard]\nheartbeat = 3": (HARDWARE, "unknown key 'heartbeat'; did you mean 'heartbeat_ms'?"),
    "[nodes.guard.joints.joint_2]\nupper = 1.0": (
        "nodes/controllers/gravity_pd.py:GravityPD",
        "this node does not subscribe to 'command'; move the guard to the node that drives the robot",
    ),
}


@pytest.mark.parametrize("more", WRONG)
def test_a_guard_that_cannot_guard_is_refused_with_file_and_key(more: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    run, line = WRONG[more]
    params = "params = { stiffness = [1.0], damping = [1.0] }\n" if "gravity" in run else ""
    file.write_text(LAUNCH.format(run=run, more=params + more))
    with pytest.raises(PlanError) as refused:
        load_plan(file)
    assert line in str(refused.value)
    assert str(refused.value).startswith(f"{file}:")

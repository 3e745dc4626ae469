"""Predictive control: the rotary pendulum swings up, late and failed plans are counted, bad input is refused."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.controllers.nmpc import Nmpc, NmpcParams, delay_in_plan
from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.plan.launch_plan import LinkPlan, Plan
from nodes.node import Context
from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.system import assemble

LOOPED = """
import dataclasses
from armswing import build
from armswing.mechanism import Anchored

def robot():
    arm = build("arm_2dof")
    rail = Anchored(name="rail", body=arm.bodies[-1].name, point=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0), at=0.0)
    return dataclasses.replace(arm, constraints=(rail,))
"""
LAUNCH = "launch/rotary_pendulum_nmpc.toml"


def params_of(file: str, **changes: Any) -> NmpcParams:
    (node,) = [node for node in load_plan(file).nodes if node.name == "nmpc"]
    return msgspec.convert({**node.params, **changes}, NmpcParams)


def started(file: str = LAUNCH, **changes: Any) -> Nmpc:
    plan = load_plan(file)
    node = Nmpc()
    params = params_of(file, **changes)
    context = Context("nmpc", "robot", 1e-3, params, np.random.default_rng(0), plan=plan)
    node.on_start(context)
    return node


def swing(node: Nmpc, seconds: float, delay_steps: int = 0) -> np.ndarray:
    """Rows (t, arm, pendulum, torque) of the pendulum under the node's commands, which take effect with a delay."""
    sim = Simulation(assemble(build("rotary_pendulum", coordinates="joint", start_deg=0.0)), step_s=1e-3)
    return moved(node, sim, seconds, delay_steps)


def moved(node: Nmpc, sim: Simulation, seconds: float, delay_steps: int = 0) -> np.ndarray:
    """Rows of the pendulum of a simulation, as of `swing`."""
    waiting, rows = [0.0] * delay_steps, []
    for k in range(round(seconds / 1e-3)):
        q, v = sim.coordinates.tolist(), sim.velocities.tolist()
        state = RobotState(name=["arm", "pendulum"], position=q, velocity=v, effort=[0.0, 0.0], timestamp=k * 1e-3)
        ((_, command),) = node.on_message("state", state) or []
        assert isinstance(command, JointCommand)
        waiting.append(command.value[0])
        sim.set_effort([waiting.pop(0)])
        sim.step()
        rows.append((k * 1e-3, *q, command.value[0]))
    return np.array(rows)


def stands_from(rows: np.ndarray) -> float:
    """Time from which the pendulum is within 10 degrees of upright until the end; inf for never."""
    away = np.abs(np.mod(rows[:, 2], 2 * np.pi) - np.pi) > np.radians(10.0)
    return float(rows[np.flatnonzero(away)[-1], 0]) if not away[-1] else np.inf


def test_the_pendulum_stands_within_a_second_at_its_torque_limit() -> None:
    node = started()
    rows = swing(node, 1.3)
    assert stands_from(rows) <= 1.0
    assert np.abs(rows[:, 3]).max() == pytest.approx(0.05, abs=1e-6)
    assert node.counters["failed_plans"] == 0


def test_the_state_is_predicted_over_a_known_delay() -> None:
    assert stands_from(swing(started(delay_ms=20.0), 1.5, delay_steps=20)) <= 1.0


def test_a_joint_that_comes_to_its_limit_too_fast_is_brought_back() -> None:
    """The arm starts beyond its limit and moves away from it; no effort can keep the limit at the next stage."""
    node = started(position_limit={"arm": [-10.0, 10.0]}, waypoints=[[0.0, 0.0, 0.0]])
    sim = Simulation(assemble(build("rotary_pendulum", coordinates="joint", start_deg=0.0)), step_s=1e-3)
    sim.reset([0.2, 0.0], [2.0, 0.0])
    rows = moved(node, sim, 0.6)
    assert list(node.figures) == ["plans_beyond_limits"]
    assert np.abs(rows[-50:, 1]).max() <= np.radians(10.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_weight": [1.0, 2.0, 3.0]}, "position_weight is"),
        ({"velocity_weight": [-1.0]}, "velocity_weight is"),
        ({"effort_weight": [1.0, 1.0]}, "effort_weight is"),
        ({"position_limit": {"arm": [10.0, -10.0]}}, r"lower < upper"),
        ({"position_limit": {"arn": [-10.0, 10.0]}}, "has no joint 'arn'"),
        ({"position_limit": {"arm": [-10.0, 10.0]}, "waypoints": [[0.0, 20.0, 180.0]]}, "is outside its limits"),
        ({"waypoints": [[0.0, 20.0]]}, "waypoint 1 is"),
        ({"waypoints": [[1.0, 0.0, 0.0], [0.5, 0.0, 0.0]]}, "later than the one before"),
        ({"turning": ["pendulam"]}, "has no joint 'pendulam'"),
        ({"point": "tap"}, "has no point output 'tap'"),
    ],
)
def test_parameters_that_cannot_work_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Nmpc.check(params_of(LAUNCH, **changes), load_plan(LAUNCH))
    assert "\n" not in str(caught.value)


def test_a_horizon_of_zero_stages_is_refused() -> None:
    with pytest.raises(PlanError, match="key 'horizon' is 0, not at least 1"):
        convert({"horizon": 0}, NmpcParams, "here")


def test_spheres_without_a_point_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="name it in the key 'point'"):
        params_of(LAUNCH, spheres=[[0.0, 0.0, 0.0, 0.1]])


def test_a_robot_in_absolute_coordinates_is_refused_in_one_line() -> None:
    plan = load_plan(LAUNCH)
    looped: Plan = msgspec.structs.replace(
        plan, sim=msgspec.structs.replace(plan.sim, robot="four_bar_chain", parameters={})
    )
    with pytest.raises(ValueError, match="is not in joint coordinates"):
        Nmpc.check(NmpcParams(), looped)


def test_a_robot_with_closed_loops_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "looped.py").write_text(LOOPED)
    plan, robot = load_plan(LAUNCH), f"{tmp_path / 'looped.py'}:robot"
    looped: Plan = msgspec.structs.replace(plan, sim=msgspec.structs.replace(plan.sim, robot=robot, parameters={}))
    with pytest.raises(ValueError, match="has constraints; predictive control takes trees") as caught:
        Nmpc.check(NmpcParams(), looped)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "delay_s"),
    [
        ({}, 0.0),
        ({"link": LinkPlan(delay_ms=2.4)}, 0.006),
        ({"link": LinkPlan(jitter_ms=4.0), "compute_ms": 2.0}, 0.006),
    ],
)
def test_the_delay_of_the_loop_is_by_default_that_of_the_link(more: dict[str, Any], delay_s: float) -> None:
    """Steps of 1 ms: each way takes whole steps."""
    plan = load_plan(LAUNCH)
    nodes = [msgspec.structs.replace(node, **more) if node.name == "nmpc" else node for node in plan.nodes]
    params = params_of(LAUNCH)
    context = Context("nmpc", "rotary_pendulum", 1e-3, params, np.random.default_rng(0))
    assert delay_in_plan(dataclasses.replace(context, plan=msgspec.structs.replace(plan, nodes=nodes))) == delay_s


def test_a_solution_that_takes_longer_than_its_period_is_late_and_the_old_plan_goes_on() -> None:
    node = started(solve_ms=50.0)
    rows = swing(node, 0.5)
    assert node.counters["late_plans"] == 10
    assert node.counters["plans"] + node.counters["failed_plans"] == 10
    changes = np.flatnonzero(np.diff(rows[:, 3])) + 1
    assert set(np.round(rows[changes, 0] / 0.001).astype(int) % 10) == {0}  # stages of 20 ms, plans of 50 ms


def test_a_solution_that_takes_too_long_lets_the_pendulum_fall() -> None:
    assert stands_from(swing(started(solve_ms=400.0, horizon=20), 2.0)) == np.inf


def test_a_thread_solves_in_realtime_while_the_old_plan_goes_on() -> None:
    plan = load_plan(LAUNCH)
    live = msgspec.structs.replace(plan, sim=msgspec.structs.replace(plan.sim, mode="realtime"))
    node, released = Nmpc(), threading.Event()
    node.on_start(Context("nmpc", "robot", 1e-3, params_of(LAUNCH), np.random.default_rng(0), plan=live))
    update = node._reference.update

    def slow(*arguments: Any) -> None:
        assert released.wait(20.0)
        update(*arguments)

    def answer(milliseconds: int) -> float:
        at = 1e-3 * milliseconds
        state = RobotState(name=["arm", "pendulum"], position=[0.0, 0.0], velocity=[0.0, 0.0], timestamp=at)
        ((_, command),) = node.on_message("state", state) or []
        assert isinstance(command, JointCommand)
        return command.value[0]

    answer(0)
    old, node._reference.update = node._plan, slow  # type: ignore[assignment,method-assign]
    assert old is not None
    for k in range(1, 61):  # the first solution is due at 20 ms, the others at 40 and 60 ms
        assert answer(k) == pytest.approx(old.effort_at(1e-3 * k)[0])
    assert node.figures == {"late_plans": 2}
    released.set()
    assert node._running is not None
    node._running.result(20.0)
    answer(61)
    assert node.counters["plans"] == 1
    assert node._plan is not old
    node.on_stop()

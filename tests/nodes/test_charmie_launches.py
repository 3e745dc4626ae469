"""CHARMIE's launch files in one process, where no node is ever late: how well their references are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.framework.messages import JointReference, Twist
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.compose import Composition, compose

ROOT = Path(__file__).resolve().parents[2]


def plan_of(name: str) -> Plan:
    """The plan of a launch file, in lockstep and without its recorder."""
    plan = load_plan(ROOT / "launch" / f"{name}.toml", ["sim.mode=lockstep"])
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    return plan


def test_the_validation_motion_is_followed_with_closed_loops_and_ends_at_rest() -> None:
    with compose(plan_of("charmie_validation")) as run:
        start = run.server.simulation.joints()[0]
        run.run()
        names = run.server.simulation.system.joint_names
        position, velocity, _ = run.server.simulation.joints()
        status = run.server.status()
        figures = run.nodes["controller"].node.figures
    moved = dict(zip(names, position - start, strict=True))
    way = 2.5**2  # per acceleration: backwards for 2.5 s, and as long until it rests
    assert moved["base_x"] == pytest.approx(-0.030 * way, abs=1e-4)
    assert (moved["lift_rod"], moved["tilt_rod"]) == (pytest.approx(-0.003 * way, abs=1e-4),) * 2
    assert moved["left_arm_2"] == pytest.approx(-0.349066 * way, abs=1e-3)
    assert abs(velocity).max() < 1e-3
    assert figures["peak_error_rad"] < 5e-3
    assert figures["peak_error_m"] < 1e-4
    assert status["peak_phi"] < 1e-8
    assert all(load["peak"] < load["limit"] for load in status["loads"].values())


def test_the_pick_is_driven_by_two_nodes_that_share_the_robot() -> None:
    with compose(plan_of("charmie_pick")) as run:
        run.run()
        status = run.server.status()
        base, body = (run.nodes[name].node.figures for name in ("base", "body"))
        claws = run.server.simulation.outputs()
    assert status["commanded_by"] == "base, body"
    assert not status["commands_refused"]
    reached = status["milestones"]
    assert reached["bent down"] < reached["straightened up"]  # though it passes the latter's angle on its way down
    assert max(base["peak_error_m"], body["peak_error_m"]) < 2e-3
    assert max(base["peak_error_rad"], body["peak_error_rad"]) < 1e-2
    assert claws["left_claw_z"] == pytest.approx(0.85, abs=0.02)  # up with it
    assert status["peak_phi"] < 1e-8
    loads = status["loads"]
    assert all(load["peak"] < load["limit"] for load in loads.values())
    assert 20.0 < loads["lift_rod"]["peak"] < 100.0  # N: the balancing springs carry most of 238 N of weight


def test_the_base_is_driven_by_hand_while_the_rest_stays() -> None:
    with compose(plan_of("charmie_drive")) as run:
        start = run.server.simulation.joints()[0].copy()
        _drive(run, 2.0, Twist(linear=[0.0, 0.2, 0.0]))
        driven = run.server.simulation.joints()[0].copy()
        run.step(1500)  # timeout_s, the braking, and more
        position, velocity, _ = run.server.simulation.joints()
        status = run.server.status()
    names = run.server.simulation.system.joint_names
    x, y, yaw = (names.index(name) for name in ("base_x", "base_y", "base_yaw"))
    assert driven[y] - start[y] == pytest.approx(0.4, abs=0.05)
    assert 0.08 < position[y] - driven[y] < 0.14  # half a second more at 0.2 m/s, then it brakes
    assert abs(velocity[[x, y, yaw]]).max() < 1e-3
    assert status["commanded_by"] == "base, body"
    rest = [k for k in range(len(names)) if k not in (x, y, yaw)]
    assert abs(position[rest] - start[rest]).max() < 0.2  # as far as servos give way to the weight


def test_a_cmd_vel_goes_before_the_reference_until_it_is_too_old() -> None:
    with compose(plan_of("charmie_drive")) as run:
        base = run.nodes["base"].node
        there = JointReference(name=["base_x", "base_y", "base_yaw"], position=[0.0, -0.3, 0.0])
        base.on_message("reference", there)
        _drive(run, 1.0, Twist(linear=[0.0, 0.2, 0.0]))
        names = run.server.simulation.system.joint_names
        y = names.index("base_y")
        assert run.server.simulation.joints()[0][y] > 0.15  # away from the reference
        run.step(4000)
        assert run.server.simulation.joints()[0][y] == pytest.approx(-0.3, abs=1e-3)


def _drive(run: Composition, seconds: float, twist: Twist) -> None:
    """Say a twist to the base 50 times a second."""
    for _ in range(round(seconds * 50)):
        run.nodes["base"].node.on_message("cmd_vel", twist)
        run.step(20)

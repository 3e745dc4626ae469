"""CHARMIE's launch files in one process, where no node is ever late: how well their references are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.runtime.compose import compose
from nodes.runtime.plan import Plan, load_plan

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
    assert (figures["peak_error_rad"], figures["peak_error_m"]) < (5e-3, 1e-4)
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
    assert all(milestone is not None for milestone in status["milestones"].values())
    assert max(base["peak_error_m"], body["peak_error_m"]) < 2e-3
    assert max(base["peak_error_rad"], body["peak_error_rad"]) < 1e-2
    assert claws["left_claw_z"] == pytest.approx(0.85, abs=0.02)  # up with it
    assert all(load["peak"] < load["limit"] for load in status["loads"].values())

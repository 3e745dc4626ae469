"""Controllers closed around the real simulation, in process: the same states that they get over sockets."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from nodes.controllers.swing_up import SwingUp
from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.plan.node_classes import load_class
from nodes.node import Context, Node
from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.system import assemble

ROOT = Path(__file__).resolve().parents[3]
STEP_S = 1e-3


def closed_loop(node: Node, duration_s: float, **parameters: float) -> tuple[np.ndarray, np.ndarray, Simulation]:
    """(time, position of arm and pendulum) of every step, and the simulation at its end."""
    sim = Simulation(assemble(build("rotary_pendulum", **parameters)), step_s=STEP_S)
    node.on_start(Context("controller", "rotary_pendulum", STEP_S, node.Params(), np.random.default_rng(0)))
    times, positions = [], []
    for seq in range(round(duration_s / STEP_S)):
        position, velocity, effort = sim.joints()
        times.append(sim.time)
        positions.append(position)
        state = RobotState(
            timestamp=sim.time,
            seq=seq,
            name=list(sim.system.joint_names),
            position=position.tolist(),
            velocity=velocity.tolist(),
            effort=effort.tolist(),
        )
        ((topic, command),) = node.on_message("state", state) or ()
        assert topic == "command"
        assert isinstance(command, JointCommand)
        assert command.state_seq == seq
        sim.set_effort(dict(zip(command.name, command.value, strict=True)))
        sim.step()
    return np.array(times), np.array(positions), sim


def test_the_absolute_coordinate_pendulum_is_swung_up_and_balanced() -> None:
    times, positions, sim = closed_loop(SwingUp(), 6.0, start_deg=0.0, torque_limit=0.05)
    away = np.abs(np.remainder(positions[:, 1], 2.0 * math.pi) - math.pi)
    assert away[times > 3.0].max() < math.radians(1.0)
    assert np.abs(positions[:, 0]).max() < math.radians(60.0)
    assert np.abs(sim.joints()[1]).max() < 1e-3


def test_the_controllers_parameters_are_the_robots_own() -> None:
    believed = SwingUp.Params()
    robot = build("rotary_pendulum").parameters
    assert robot == {name: pytest.approx(getattr(believed, name)) for name in robot}


def test_the_readme_controller_holds_the_arm_where_it_is_told_to() -> None:
    example = load_class("launch/examples/my_controller.py:HoldArm", ROOT)()
    times, positions, _ = closed_loop(example, 6.0, start_deg=0.0, torque_limit=0.05)
    assert np.degrees(positions[times > 4.0, 0]) == pytest.approx(30.0, abs=2.0)


def test_the_readme_robot_keeps_its_energy_and_its_centre_of_mass() -> None:
    """Nothing pushes along the rail, so that the common centre of mass stays where it is."""
    example = runpy.run_path(str(ROOT / "launch/examples/my_robot.py"))
    sim = Simulation(assemble(example["cart_pole"](start_deg=30.0)), step_s=STEP_S)

    def center() -> float:
        (rail, hinge), _, _ = sim.joints()
        return float(1.0 * rail + 0.1 * (rail - 0.25 * math.sin(hinge))) / 1.1

    start = sim.energy(), center()
    sim.advance(3.0)
    assert sim.joints()[0][1] > math.pi  # it fell over to the other side
    assert (sim.energy(), center()) == pytest.approx(start, abs=1e-6)

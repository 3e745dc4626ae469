"""Servo loops that are unstable at a step are named, with a step at which they are stable."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from robots.registry import build
from sim_core.errors import StepTooLargeWarning
from sim_core.mechanism import Actuator, Body, Joint, Mechanism
from sim_core.mechanism.description import Servo
from sim_core.monitoring.servo_loops import unstable_servos
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.system import assemble


def wheel(damping: float) -> Mechanism:
    """A wheel of 0.01 kg m2 that a servo holds with 10 N m/rad."""
    return Mechanism(
        name="wheel",
        coordinates="joint",
        bodies=(Body(name="wheel", mass=1.0, inertia=(0.01, 0.01, 0.01, 0, 0, 0)),),
        joints=(Joint(name="axle", child="wheel"),),
        actuators=(Actuator(name="axle", joint="axle", servo=Servo(stiffness=10.0, damping=damping)),),
        initial_q=(0.0,),
        initial_v=(0.0,),
    )


def test_the_largest_step_is_that_of_the_sampled_double_integrator() -> None:
    """With d / I = 100 / s and k / I = 1000 / s2 the loop is stable for h d / I < 2, thus below 20 ms."""
    system = assemble(wheel(1.0))
    assert unstable_servos(system, 0.0195, np.zeros(1)) == ""
    line = unstable_servos(system, 0.021, np.zeros(1))
    assert re.search(r"'wheel' are unstable at 21 ms, .* 'axle', .* at most 20 ms, or smaller gains$", line)


def test_a_loop_that_no_step_makes_stable_asks_for_other_gains() -> None:
    assert "smaller gains" in unstable_servos(assemble(wheel(0.0)), 0.02, np.zeros(1))


@pytest.mark.parametrize("robot", ["arm_2dof", "arm_4dof"])
def test_simulated_loops_are_stable_where_no_warning_says_otherwise(robot: str) -> None:
    """Servos that move an arm by 0.01 rad come to rest at 0.9 of the largest step, and never at 1.15 of it."""
    system = assemble(build(robot))
    start = Simulation(system).state.q
    line = unstable_servos(system, 0.02, start)
    most = float(re.search(r"at most ([\d.]+) ms", line)[1]) * 1e-3  # type: ignore[index]
    last = {}
    for share in (0.9, 1.15):
        sim = Simulation(system, step_s=share * most)
        servos = Servos(system.mechanism, sim.step_s)
        position, velocity, _ = sim.joints()
        servos.command("position", list(servos.names), list(position + 0.01), position)
        speeds = []
        for _ in range(3000):
            position, velocity, _ = sim.joints()
            sim.set_effort(servos.efforts(position, velocity))
            sim.step()
            speeds.append(float(np.abs(sim.state.v).max()))
        last[share] = max(speeds[-20:])
    assert last[0.9] < 1e-6
    assert last[1.15] > 1e-3
    assert unstable_servos(system, 0.9 * most, start) == ""


def test_a_launch_warns_of_its_servos() -> None:
    with pytest.warns(StepTooLargeWarning, match=r"servo loops of 'arm_2dof' are unstable at 5 ms, .* 'joint_4'"):
        SimServer(Plan(name="held", sim=SimPlan(robot="arm_2dof", step_ms=5.0, mode="lockstep")))

"""What is put into a simulation from outside: efforts, within the actuators' limits, and tunables."""

from __future__ import annotations

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import SimulationDiverged
from sim_core.monitoring.parameter_history import RECENT_S
from sim_core.simulation import Simulation
from sim_core.system import System, assemble


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("rotary_pendulum", torque_limit=0.05, coordinates="joint"))


@pytest.mark.parametrize(("asked", "given"), [(500.0, 0.05), (-500.0, -0.05), (0.02, 0.02)])
def test_an_effort_beyond_the_limit_is_clipped_to_it(pendulum: System, asked: float, given: float) -> None:
    by_name, by_array, within = (Simulation(pendulum) for _ in range(3))
    by_name.set_effort({"arm": asked})
    by_array.set_effort(np.array([asked]))
    within.set_effort({"arm": given})
    for sim in (by_name, by_array, within):
        assert sim.state.u.tolist() == [given]
        sim.step(10)
    np.testing.assert_array_equal(by_name.state.q, within.state.q)
    np.testing.assert_array_equal(by_array.state.q, within.state.q)


def diverged(sim: Simulation, steps: int) -> str:
    with pytest.raises(SimulationDiverged) as caught:
        sim.step(steps)
    caught.value.file.unlink()
    return caught.value.line


def test_a_run_that_diverges_says_what_was_set_shortly_before(pendulum: System) -> None:
    sim = Simulation(pendulum)
    sim.set_parameters({"pendulum_damping": 0.001})
    sim.step(250)
    sim.set_parameters({"arm_damping": 1e9, "pendulum_damping": 0.001})
    line = diverged(sim, 500)
    last, first = "arm_damping was set from 0 to 1e+09", "pendulum_damping was set from 0 to 0.001"
    assert line.endswith(f"; at t = 0.25 s, {last}; at t = 0 s, {first}")


def test_what_was_set_long_before_is_not_what_a_divergence_is_told_with(pendulum: System) -> None:
    sim = Simulation(pendulum)
    sim.set_parameters({"pendulum_damping": 0.001})
    sim.step(round(RECENT_S / sim.step_s) + 1000)
    sim.set_parameters({"arm_damping": 1e9})
    assert "pendulum_damping" not in diverged(sim, 500)
    fresh = Simulation(pendulum)
    fresh.set_parameters({"arm_damping": 1e9})
    fresh.reset()  # time is put back, and tunables keep their values
    assert "was set" not in diverged(fresh, 500)


def test_joint_coordinates_given_to_absolute_ones_are_told_how_they_are_had() -> None:
    system = assemble(build("rotary_pendulum"))
    two, sim = np.zeros(2), Simulation(system)
    for call in (
        lambda: system.terms(0.0, two, two),
        lambda: system.bind_inverse_dynamics(two, two, two, two),
        lambda: sim.reset(q=two),
        lambda: sim.reset(v=two),
    ):
        with pytest.raises(
            ValueError, match=r"[qv] has .*; 'rotary_pendulum' takes .*12.*; 2 joint coordinates are"
        ) as told:
            call()
        assert str(told.value).endswith('are those of build("rotary_pendulum", coordinates="joint")')
    with pytest.raises(ValueError, match=r"q has 3 entries; 'rotary_pendulum' takes 12$"):
        system.terms(0.0, np.zeros(3), two)

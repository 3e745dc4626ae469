"""The steps that laws say they can bear, against what happens on either side; and the memory of the PID law."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from nodes.research.studies.framework.scalings import man, nada
from robots.registry import build
from sim_core.errors import SimulationDiverged, StabilityWarning
from sim_core.integrators.steppers import dopri5_adaptive, stepper_named
from sim_core.simulation import Simulation
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.stabilizers import PID, Baumgarte, FuzzyPaper, SampledFuzzy, Stabilizer
from sim_core.system import System, assemble


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("triple_pendulum"))


def holds(system: System, stabilizer: Stabilizer, step: float, stepper: str = "rk4", seconds: float = 10.0) -> bool:
    """Whether the bars stay together to a tenth of their length."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sim = Simulation(system, step_s=step, stabilizer=stabilizer, stepper=stepper)
    try:
        sim.step(round(seconds / step))
    except SimulationDiverged as error:
        error.file.unlink()
        return False
    return sim.peak_violation()[0] <= 0.03


LIMITED = {
    "baumgarte": Baumgarte(500.0, 700.0),
    "pid": PID(3 * 250.0**2, 250.0**3, 750.0),
    "pid of much integral": PID(1e6, 9e7, 100.0),
    "set I": nada("I"),
    "set I, minimum": nada("I", "minimum"),
    "set II": nada("II"),
    "set II, minimum": nada("II", "minimum"),
    "set III": nada("III"),
    "set III, minimum": nada("III", "minimum"),
}


@pytest.mark.parametrize("name", LIMITED)
def test_below_its_limit_a_law_holds_and_well_above_it_does_not(pendulum: System, name: str) -> None:
    limit = LIMITED[name].stability_limit(stepper_named("rk4"), 1e-3)
    assert 1e-3 < limit < 1e-2
    assert holds(pendulum, LIMITED[name], 0.95 * limit)
    assert not holds(pendulum, LIMITED[name], 1.5 * limit, seconds=60.0)


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit", "dopri5"])
def test_the_limit_of_the_pid_law_is_sharp(pendulum: System, stepper: str) -> None:
    law = PID(3 * 250.0**2, 250.0**3, 750.0)
    limit = law.stability_limit(stepper_named(stepper), 1e-3)
    assert holds(pendulum, law, 0.9 * limit, stepper)
    assert not holds(pendulum, law, 1.1 * limit, stepper)


def test_triangles_in_paper_mode_hold_at_two_and_a_half_milliseconds_and_are_flagged_and_diverge_at_five(
    pendulum: System,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = Simulation(pendulum, step_s=2.5e-3, stabilizer=nada("I"))
    sim.advance(60.0)
    assert sim.peak_violation()[0] <= 1e-3
    with pytest.warns(StabilityWarning, match=r"up to a step of 2\.91 ms; step_s is 5 ms"):
        sim = Simulation(pendulum, step_s=5e-3, stabilizer=nada("I"))
    with pytest.raises(SimulationDiverged) as caught:
        sim.advance(60.0)
    caught.value.file.unlink()


def test_limits_are_those_of_the_method() -> None:
    rk4 = stepper_named("rk4")
    # undamped: h beta < 2 sqrt 2 on the imaginary axis of RK4
    assert Baumgarte(0.0, 100.0).stability_limit(rk4, 1e-3) == pytest.approx(2 * math.sqrt(2) / 100, rel=1e-3)
    # overdamped: h 2 alpha < 2.785 on the real axis
    assert Baumgarte(1000.0, 1e-3).stability_limit(rk4, 1e-3) == pytest.approx(2.785 / 2000, rel=1e-3)
    assert SampledFuzzy().stability_limit(rk4, 1.0) == math.inf
    # rates alone: nonholonomic rows
    assert FuzzyPaper(1e-6, 1.0, 1e3, FuzzySets()).stability_limit(rk4, 1e-3) == pytest.approx(2.785e-3, rel=1e-3)
    # without an integral a PID law is Baumgarte's
    assert PID(49.0, 0.0, 10.0).stability_limit(rk4, 1e-3) == pytest.approx(
        Baumgarte(5.0, 7.0).stability_limit(rk4, 1e-3), rel=1e-6
    )
    # an integral beyond Kp Kd cannot be stable at any step (Routh)
    assert PID(100.0, 2e3, 10.0).stability_limit(rk4, 1e-3) <= 1e-6
    # gains that follow the step bear it
    for law in (Baumgarte(), PID(), man(case=1)):
        assert law.stability_limit(rk4, 1e-2) > 1e-2


def test_the_integral_wears_a_constant_disturbance_down() -> None:
    """A start off the manifold: the sum of h Phi is what a snapshot holds, and U follows from it."""
    sim = Simulation(assemble(build("triple_pendulum", shift=0.01)), stabilizer=PID(1e3, 1e4, 60.0))
    total = np.zeros(6)
    for _ in range(200):
        total += 1e-3 * sim.system.residual(0.0, sim.state.q, sim.state.v)[0]
        sim.step()
    np.testing.assert_allclose(sim.state.stabilizer_memory, total, rtol=1e-12, atol=1e-18)


def test_a_run_under_the_pid_law_goes_on_from_a_snapshot_to_the_same_bytes(pendulum: System) -> None:
    first, second = (Simulation(pendulum, stabilizer="pid") for _ in range(2))
    first.advance(1.0)
    second.restore(first.state)
    for sim in (first, second):
        sim.advance(1.0)
    assert first.state.stabilizer_memory.tobytes() == second.state.stabilizer_memory.tobytes()
    assert first.state.q.tobytes() == second.state.q.tobytes()
    assert np.abs(first.state.stabilizer_memory).max() > 0.0


def test_a_step_that_is_not_taken_adds_nothing_to_the_integral() -> None:
    system = assemble(build("triple_pendulum", shift=0.01))
    law, tick = PID(1e3, 1e4, 60.0), 0.02
    adaptive = Simulation(system, step_s=tick, stepper=dopri5_adaptive(1e-9, 1e-9), stabilizer=law)
    adaptive.step()
    fine = Simulation(system, step_s=tick / 200, stabilizer=law)
    fine.step(200)
    held = [np.abs(sim.state.stabilizer_memory).max() for sim in (adaptive, fine)]
    assert held[0] == pytest.approx(held[1], rel=0.1)

"""The figures that the benchmark cases must reach: published references, and measured bars with margin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from robots.registry import build
from sim_core.analysis.balance import energy_balance
from sim_core.integrators.steppers import dopri5_adaptive
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import Baumgarte, FuzzyPaper
from sim_core.system import assemble


def peaks_and_drift(sim: Simulation, seconds: float) -> tuple[float, float, float]:
    start, drift = sim.energy(), 0.0
    for _ in range(round(seconds / 0.1)):
        sim.advance(0.1)
        drift = max(drift, abs(sim.energy() - start))
    return (*sim.peak_violation(), drift)


def test_sampled_fuzzy_holds_the_triple_pendulum_for_a_minute_and_beats_the_papers() -> None:
    system = assemble(build("triple_pendulum"))
    phi, phidot, drift = peaks_and_drift(Simulation(system, step_s=1e-3), 60.0)
    assert phi <= 2e-7
    assert phidot <= 5e-5
    assert drift <= 1e-4
    paper = peaks_and_drift(Simulation(system, step_s=1e-3, stabilizer=FuzzyPaper(1e2, 1e-2, 1e4)), 60.0)
    assert paper[0] >= 30 * phi
    assert paper[1] >= 30 * phidot
    baumgarte = peaks_and_drift(Simulation(system, step_s=1e-3, stabilizer=Baumgarte()), 60.0)
    assert baumgarte[0] >= 200 * phi


def test_sampled_fuzzy_holds_the_rotary_pendulum_at_ten_milliseconds() -> None:
    sim = Simulation(assemble(build("rotary_pendulum")), step_s=1e-2)
    sim.advance(60.0)
    phi, phidot = sim.peak_violation()
    assert phi <= 3e-6
    assert phidot <= 1e-4


@pytest.mark.parametrize("stepper", ["rk4", "dopri5"])
def test_simple_pendulum_meets_its_reference(stepper: str) -> None:
    sim = Simulation(assemble(build("simple_pendulum")), step_s=1e-3, stepper=stepper)
    for reference in ((-0.9423054350438, -0.3347543384138), (-0.2750874625766, -0.9614192050990)):
        sim.advance(5.0)
        outputs = sim.outputs()
        assert (outputs["tip_x"], outputs["tip_y"]) == pytest.approx(reference, abs=1e-9)


def test_four_bar_chain_meets_its_reference_through_singular_positions() -> None:
    sim = Simulation(assemble(build("four_bar_chain")), step_s=1e-3)
    time = 0.0
    for until, reference in (
        (1.0, (-0.19502030195, -0.98079920566)),
        (5.0, (-0.81131046100, -0.58461554535)),
        (10.0, (0.32845811154, 0.94451853818)),
    ):
        sim.advance(until - time)
        time = until
        outputs = sim.outputs()
        assert (outputs["tip_x"], outputs["tip_y"]) == pytest.approx(reference, abs=1e-8)


SQUEEZER_AT_30_MS = {
    "beta": 15.81077119629904,
    "Theta": -15.75637105984298,
    "gamma": 0.04082224013073101,
    "Phi": -0.5347301163226948,
    "delta": 0.5244099658805304,
    "Omega": 0.5347301163226948,
    "epsilon": 1.048080741042263,
}


@pytest.mark.parametrize("step_s", [1e-3, 1e-5])
@pytest.mark.parametrize("stabilizer", ["projection", "sampled_fuzzy"])
def test_the_squeezer_meets_its_reference_to_nine_digits_and_its_torque_is_all_it_gains(
    stabilizer: str, step_s: float
) -> None:
    """Ticks much longer than the steps that error control takes, and about as long: neither shakes the constraints."""
    stepper = dopri5_adaptive(rtol=1e-12, atol=1e-14)
    sim = Simulation(assemble(build("andrews_squeezer")), step_s=step_s, stepper=stepper, stabilizer=stabilizer)
    assert max(sim.violation()) <= 1e-14
    energy, balance = sim.energy(), energy_balance(sim)
    for _ in range(30):
        sim.advance(1e-3)
        assert energy_balance(sim) == pytest.approx(balance, abs=1e-11)
    work = 0.033 * (SQUEEZER_AT_30_MS["beta"] + 0.0617138900142764496)
    assert sim.energy() - energy == pytest.approx(work, rel=1e-9)
    assert sim.outputs() == pytest.approx(SQUEEZER_AT_30_MS, rel=1e-9)
    phi, phidot = sim.peak_violation()
    assert phi <= 1e-13
    assert phidot <= 1e-9


@pytest.mark.parametrize("loops", [1, 3])
def test_four_bar_chains_of_any_length_follow_the_one_degree_of_freedom_they_have(loops: int) -> None:
    sim = Simulation(assemble(build("four_bar_chain", loops=loops)), step_s=1e-3)
    factor = ((loops + 1) / 2 + loops) / ((loops + 1) / 3 + loops) * 9.81
    exact = solve_ivp(lambda t, y: [y[1], factor * math.sin(y[0])], (0, 3), [0.0, 1.0], rtol=1e-12, atol=1e-12)
    sim.advance(3.0)
    theta = exact.y[0, -1]
    outputs = sim.outputs()
    assert (outputs["tip_x"], outputs["tip_y"]) == pytest.approx((math.sin(theta), math.cos(theta)), abs=1e-7)


def test_both_coordinate_families_give_one_motion() -> None:
    for name, seconds in (("triple_pendulum", 1.0), ("rotary_pendulum", 2.0)):
        joints = []
        for coordinates in ("absolute", "joint"):
            sim = Simulation(assemble(build(name, coordinates=coordinates)), step_s=5e-4)
            sim.advance(seconds)
            joints.append(np.concatenate(sim.joints()))
        np.testing.assert_allclose(joints[0], joints[1], atol=1e-6)


@pytest.mark.parametrize("name", ["parallelogram_four_bar", "equal_crank_slider"])
def test_singular_passages_keep_energy_and_branch(name: str) -> None:
    sim = Simulation(assemble(build(name)), step_s=1e-3)
    start, drift = sim.energy(), 0.0
    for _ in range(1000):
        sim.advance(0.01)
        drift = max(drift, abs(sim.energy() - start))
        q = sim.state.q
        if name == "parallelogram_four_bar":
            assert abs(q[5]) <= 1e-9  # the coupler translates
        else:
            assert q[0] + q[3] == pytest.approx(0.0, abs=1e-6)  # crank and rod stay mirror images
    assert sim.peak_violation()[0] <= 1e-9
    assert drift <= 1e-6


def test_sampled_fuzzy_holds_the_gear_train_with_its_nonholonomic_rows() -> None:
    sim = Simulation(assemble(build("epicyclic_gear_train")), step_s=1e-3)
    start = energy_balance(sim)
    sim.advance(2.0)
    assert energy_balance(sim) == pytest.approx(start, abs=1e-6)
    phi, phidot = sim.peak_violation()
    assert phi <= 2e-8
    assert phidot <= 2e-5

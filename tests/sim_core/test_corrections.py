"""Direct correction: each step's formula, the levels, redundant rows, and what happens inside the right-hand side."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest, SimulationDiverged, StabilityWarning
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import DirectCorrection, Stabilizer
from sim_core.system import System, assemble


def inverse(system: System, q: np.ndarray, v: np.ndarray, weight: str) -> np.ndarray:
    """J^+ by numpy: Moore and Penrose's, or M^-1 J' (J M^-1 J')^-1."""
    M, _, J, _ = system.terms(0.0, q, v)
    if weight == "pseudo_inverse":
        return np.linalg.pinv(J, rcond=1e-8)
    return np.linalg.solve(M, J.T) @ np.linalg.pinv(J @ np.linalg.solve(M, J.T), rcond=1e-8)


@pytest.mark.parametrize("level", ["both", "position", "velocity"])
@pytest.mark.parametrize("weight", ["pseudo_inverse", "mass"])
def test_a_step_is_followed_by_the_correction_of_the_papers(weight: str, level: str) -> None:
    system = assemble(build("triple_pendulum", shift=0.02))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, corrected = (
            Simulation(system, stabilizer=stabilizer)
            for stabilizer in (Stabilizer(), DirectCorrection(weight, level))  # type: ignore[arg-type]
        )
    plain.step()
    corrected.step()
    q, v = plain.state.q, plain.state.v
    if level != "velocity":
        q = q - inverse(system, q, v, weight) @ system.residual(0.0, q, v)[0]
    if level != "position":
        v = v - inverse(system, q, v, weight) @ system.residual(0.0, q, v)[1]
    np.testing.assert_allclose(corrected.state.q, q, atol=1e-13)
    np.testing.assert_allclose(corrected.state.v, v, atol=1e-12)


@pytest.mark.parametrize("weight", ["pseudo_inverse", "mass"])
def test_corrections_fed_back_hold_the_triple_pendulum_for_ten_minutes(weight: str) -> None:
    stabilizer = DirectCorrection(weight)  # type: ignore[arg-type]
    sim = Simulation(assemble(build("triple_pendulum")), stabilizer=stabilizer)
    sim.advance(600.0)
    assert sim.peak_violation()[0] <= 1e-11
    assert sim.peak_violation()[1] <= 1e-11


@pytest.mark.parametrize("weight", ["pseudo_inverse", "mass"])
@pytest.mark.parametrize("name", ["parallelogram_four_bar", "equal_crank_slider"])
def test_rows_that_lose_rank_are_corrected(name: str, weight: str) -> None:
    sim = Simulation(assemble(build(name)), stabilizer=DirectCorrection(weight))  # type: ignore[arg-type]
    start = sim.energy()
    sim.advance(10.0)
    assert sim.peak_violation()[0] <= 1e-11
    assert abs(sim.energy() - start) <= 1e-6


@pytest.mark.parametrize("weight", ["pseudo_inverse", "mass"])
def test_velocities_are_put_on_the_nonholonomic_rows(weight: str) -> None:
    sim = Simulation(assemble(build("epicyclic_gear_train")), stabilizer=DirectCorrection(weight))  # type: ignore[arg-type]
    sim.advance(2.0)
    assert sim.peak_violation()[0] <= 1e-11
    assert sim.peak_violation()[1] <= 1e-10


def test_a_row_given_twice_has_the_least_norm_solution() -> None:
    """At angles 0 all bars of the parallelogram lie in one line: J has rank 7 of 8."""
    system = assemble(build("parallelogram_four_bar"))
    q = np.array(system.mechanism.initial_q)
    for bar in range(3):
        q[3 * bar + 2] = 0.0
    J = system.terms(0.0, q, 0 * q)[2]
    assert np.linalg.matrix_rank(J, tol=1e-9) == 7
    r2 = J @ np.random.default_rng(3).normal(size=len(q))
    np.testing.assert_allclose(system.least_norm(0.0, q, 0 * q, r2), np.linalg.pinv(J, rcond=1e-8) @ r2, atol=1e-9)


@pytest.mark.parametrize("weight", ["pseudo_inverse", "mass"])
@pytest.mark.parametrize(("name", "step"), [("triple_pendulum", 5e-3), ("rotary_pendulum", 1e-2)])
def test_a_correction_inside_the_right_hand_side_lets_violations_grow(name: str, step: float, weight: str) -> None:
    """The papers' divergence: what is integrated is never put back, so that its violation adds up from the start on."""
    system = assemble(build(name))
    with pytest.warns(StabilityWarning, match="up to a step of 0 ms"):
        inside = Simulation(system, step_s=step, stabilizer=DirectCorrection(weight, inside_rhs=True))  # type: ignore[arg-type]
    back = Simulation(system, step_s=step, stabilizer=DirectCorrection(weight))  # type: ignore[arg-type]
    early = []
    for sim in (inside, back):
        sim.advance(3.0)
        early.append(sim.peak_violation()[0])
        sim.advance(57.0)
    assert inside.peak_violation()[0] >= 5 * early[0]
    assert inside.peak_violation()[0] >= 1e4 * back.peak_violation()[0]
    assert inside.violation()[0] >= 0.2 * inside.peak_violation()[0]
    assert back.violation()[0] <= 1e-11


@pytest.mark.parametrize("inside", [False, True])
def test_positions_alone_are_not_enough(inside: bool) -> None:
    """Velocities off their rows feed on the corrections of the positions: flagged, and the bars come apart."""
    stabilizer = DirectCorrection("mass", "position", inside)
    with pytest.warns(StabilityWarning, match="up to a step of 0 ms"):
        sim = Simulation(assemble(build("triple_pendulum")), stabilizer=stabilizer)
    try:
        sim.advance(60.0)
    except SimulationDiverged as error:
        error.file.unlink()
    assert sim.peak_violation()[0] > 0.15  # half a bar


def test_inside_the_right_hand_side_the_first_stage_is_that_of_the_corrected_state() -> None:
    """Semi-implicit Euler has one stage: its velocity step is h a(q, v), both corrected."""
    system = assemble(build("triple_pendulum", shift=0.02))
    with pytest.warns(StabilityWarning):
        sim = Simulation(system, stepper="semi_implicit", stabilizer=DirectCorrection(inside_rhs=True))
    q, v = sim.state.q, sim.state.v
    on_q = q - inverse(system, q, v, "pseudo_inverse") @ system.residual(0.0, q, v)[0]
    on_v = v - inverse(system, on_q, v, "pseudo_inverse") @ system.residual(0.0, on_q, v)[1]
    after = v + 1e-3 * system.acceleration(0.0, on_q, on_v)[0]
    sim.step()
    np.testing.assert_allclose(sim.state.v, after, atol=1e-13)
    np.testing.assert_allclose(sim.state.q, q + 1e-3 * after, atol=1e-13)


def test_what_a_correction_cannot_be_is_said() -> None:
    with pytest.raises(InvalidRequest, match="weight is 'unit'; it must be one of pseudo_inverse, mass"):
        DirectCorrection("unit")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="level is 'jerk'; it must be one of both, position, velocity"):
        DirectCorrection(level="jerk")  # type: ignore[arg-type]
    assert DirectCorrection().stability_limit(Simulation(assemble(build("triple_pendulum"))).stepper, 1e-3) == math.inf

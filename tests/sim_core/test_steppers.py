"""Tableaux as mathematics, and the order of every stepper measured on a system with constraints and forces."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import UnknownName, UnsupportedPair
from sim_core.integrators.steppers import DORMAND_PRINCE, DORMAND_PRINCE_FIXED, RK4, STEPPERS, Tableau, dopri5_adaptive
from sim_core.simulation import Simulation
from sim_core.system import assemble


@pytest.mark.parametrize(("tableau", "order"), [(RK4, 4), (DORMAND_PRINCE, 5), (DORMAND_PRINCE_FIXED, 5)])
def test_tableau_meets_its_order_conditions(tableau: Tableau, order: int) -> None:
    A, b, c = tableau.arrays()
    for k in range(1, order + 1):
        assert b @ c ** (k - 1) == pytest.approx(1 / k, abs=1e-14)
    assert b @ (A @ c) == pytest.approx(1 / 6, abs=1e-14)
    assert b @ (A @ A @ c) == pytest.approx(1 / 24, abs=1e-14)
    assert (b * c) @ (A @ c) == pytest.approx(1 / 8, abs=1e-14)
    assert b @ (A @ c**2) == pytest.approx(1 / 12, abs=1e-14)


def test_embedded_weights_sum_to_nothing() -> None:
    assert sum(DORMAND_PRINCE.error) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("name", [name for name in STEPPERS if name != "dopri5_adaptive"])
def test_halving_the_step_divides_the_error_by_the_order(name: str) -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))

    def end(step: float) -> np.ndarray:
        sim = Simulation(system, step_s=step, stepper=name)
        sim.set_effort([0.002])
        sim.advance(0.32)
        return np.concatenate(sim.joints()[:2])

    exact_sim = Simulation(system, step_s=1e-4, stepper="dopri5")
    exact_sim.set_effort([0.002])
    exact_sim.advance(0.32)
    exact = np.concatenate(exact_sim.joints()[:2])
    coarse = {"rk4": 0.02, "dopri5": 0.0025}.get(name, 0.001)  # fine enough for the slope, coarse enough for rounding
    slope = np.log2(np.abs(end(coarse) - exact).max() / np.abs(end(coarse / 2) - exact).max())
    assert slope == pytest.approx(STEPPERS[name].order, abs=0.35)


def test_adaptive_steps_follow_their_tolerance_whatever_the_tick() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    exact_sim = Simulation(system, step_s=1e-4, stepper="dopri5")
    exact_sim.advance(1.0)
    exact = exact_sim.joints()[0]
    errors = []
    for rtol in (1e-4, 1e-7, 1e-10):
        sim = Simulation(system, step_s=0.1, stepper=dopri5_adaptive(rtol, rtol))
        sim.advance(1.0)
        errors.append(np.abs(sim.joints()[0] - exact).max())
        assert errors[-1] <= 1e3 * rtol
    assert errors[2] < errors[1] < errors[0]


def test_an_unknown_stepper_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="no stepper 'rk5'; its steppers are rk4"):
        Simulation(assemble(build("triple_pendulum")), stepper="rk5")


def test_a_stepper_that_needs_what_a_system_lacks_is_refused_in_one_line() -> None:
    needy = dataclasses.replace(STEPPERS["rk4"], name="implicit", needs=("linear_part",))
    with pytest.raises(
        UnsupportedPair, match=r"stepper 'implicit' needs \['linear_part'\], which 'triple_pendulum' does not"
    ):
        Simulation(assemble(build("triple_pendulum")), stepper=needy)

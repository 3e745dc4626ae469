"""Tableaux as mathematics, and the order of every stepper measured on a system with constraints and forces."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.integrate import RK45, solve_ivp

from robots.registry import build
from sim_core.errors import SimulationDiverged, StabilityWarning, UnknownName
from sim_core.integrators import steppers
from sim_core.integrators.methods.tableaus import (
    DORMAND_PRINCE,
    DORMAND_PRINCE_DENSE,
    DORMAND_PRINCE_FIXED,
    RADAU_IIA_5,
    RK4,
    TR_BDF2,
    Tableau,
)
from sim_core.integrators.steppers import STEPPERS, dopri5_dense, radau_variable
from sim_core.mechanism import GROUND, ORIGIN, Body, Joint, Mechanism, Spring, X
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import Baumgarte, SampledFuzzy, Stabilizer
from sim_core.system import System, assemble

TABLEAUS = [(RK4, 4), (DORMAND_PRINCE, 5), (DORMAND_PRINCE_FIXED, 5), (TR_BDF2, 2), (RADAU_IIA_5, 5)]


@pytest.mark.parametrize(("tableau", "order"), TABLEAUS)
def test_tableau_meets_its_order_conditions(tableau: Tableau, order: int) -> None:
    A, b, c = tableau.arrays()
    for k in range(1, order + 1):
        assert b @ c ** (k - 1) == pytest.approx(1 / k, abs=1e-14)
    conditions = {3: [(b @ (A @ c), 1 / 6)]}
    conditions[4] = [(b @ (A @ A @ c), 1 / 24), ((b * c) @ (A @ c), 1 / 8), (b @ (A @ c**2), 1 / 12)]
    for k, rows in conditions.items():
        for value, due in rows:
            assert k > order or value == pytest.approx(due, abs=1e-14)


@pytest.mark.parametrize("tableau", [TR_BDF2, RADAU_IIA_5])
def test_implicit_tableaus_are_stiffly_accurate_and_damp_the_stiffest(tableau: Tableau) -> None:
    A, b, _ = tableau.arrays()
    np.testing.assert_allclose(A[-1], b, atol=1e-15)
    assert tableau.growth(-1e9) <= 1e-8
    assert max(tableau.growth(1j * y) for y in np.logspace(-3, 6, 200)) <= 1 + 1e-12
    values = np.polynomial.Polynomial([0.3, -1.0, 2.0])
    c = tableau.arrays()[2]
    np.testing.assert_allclose(tableau.ahead() @ values(c), values(1 + c), atol=1e-12)


def test_embedded_weights_sum_to_nothing() -> None:
    assert sum(DORMAND_PRINCE.error) == pytest.approx(0.0, abs=1e-15)


def end_of(sim: Simulation, effort: float, seconds: float) -> np.ndarray:
    sim.set_effort([effort] * sim.system.n_u)
    sim.advance(seconds)
    return np.concatenate(sim.joints()[:2])


ORDER_CASES: dict[str, tuple[dict[str, str], str]] = {
    "rotary_pendulum": ({"coordinates": "joint"}, "none"),
    "triple_pendulum": ({}, "baumgarte"),  # constrained: absolute coordinates, U at every stage
}
# fine enough for the slope, coarse enough for rounding
COARSE = {"semi_implicit": 0.001, "rk4": 0.01, "dopri5": 0.0025, "abm4": 0.0025, "tr_bdf2": 0.0025, "radau5": 0.01}
COARSE |= {"implicit_midpoint": 0.0025, "generalized_alpha": 0.0025}


@pytest.mark.parametrize("robot", ORDER_CASES)
@pytest.mark.parametrize("name", [name for name, stepper in STEPPERS.items() if not stepper.adaptive])
def test_halving_the_step_divides_the_error_by_the_order(name: str, robot: str) -> None:
    options, law = ORDER_CASES[robot]
    system = assemble(build(robot, **options))
    stabilizer = Baumgarte(5.0, 5.0) if law == "baumgarte" else Stabilizer()

    def end(step: float, stepper: str = name) -> np.ndarray:
        return end_of(Simulation(system, step_s=step, stepper=stepper, stabilizer=stabilizer), 0.002, 0.32)

    exact, coarse = end(1e-4, "dopri5"), COARSE[name]
    slope = np.log2(np.abs(end(coarse) - exact).max() / np.abs(end(coarse / 2) - exact).max())
    assert slope == pytest.approx(STEPPERS[name].order, abs=0.3)


def oscillator(stiffness: float) -> System:
    """1 kg on a spring, without gravity, 1 m out."""
    body = Body(name="mass", mass=1.0, inertia=(0.0,) * 6)
    spring = Spring(name="spring", body_a=GROUND, point_a=ORIGIN, body_b="mass", point_b=ORIGIN, stiffness=stiffness)
    joint = Joint(name="slide", kind="prismatic", child="mass", axis=X)
    return assemble(
        Mechanism(
            name="oscillator",
            coordinates="joint",
            bodies=(body,),
            joints=(joint,),
            springs=(spring,),
            gravity=(0.0, 0.0, 0.0),
            initial_q=(1.0,),
            initial_v=(0.0,),
        )
    )


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_generalized_alpha_stills_a_vibration_far_too_fast_for_the_step_by_rho_per_step(rho: float) -> None:
    sim = Simulation(oscillator(1e12), step_s=1e-3, stepper=steppers.generalized_alpha(rho))
    sizes = []
    for _ in range(60):
        sim.step(1)
        sizes.append(np.hypot(sim.state.q[0], 0.5e-3 * sim.state.v[0]))
    assert (sizes[-1] / sizes[19]) ** (1 / 40) == pytest.approx(rho, rel=0.06)


def test_generalized_alpha_that_damps_nothing_is_the_midpoint_rule() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    ends = [
        end_of(Simulation(system, step_s=1e-3, stepper=stepper), 0.002, 0.3)
        for stepper in (steppers.generalized_alpha(1.0), steppers.implicit_midpoint())
    ]
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-6)  # the iteration's tolerance is 1e-10


@pytest.mark.parametrize("name", [name for name, stepper in STEPPERS.items() if stepper.adaptive])
def test_error_control_follows_its_tolerance_whatever_the_tick(name: str) -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    exact = end_of(Simulation(system, step_s=1e-4, stepper="dopri5"), 0.002, 1.0)
    made = getattr(steppers, name)
    errors, costs = [], []
    for rtol in (1e-4, 1e-7, 1e-10):
        for tick in (0.1, 0.002):
            sim = Simulation(system, step_s=tick, stepper=made(rtol, rtol))
            errors.append(np.abs(end_of(sim, 0.002, 1.0) - exact).max())
            assert errors[-1] <= 1e4 * rtol  # this motion multiplies what is put in at its start by a thousand
        costs.append(sim.evaluations)
    assert errors[4] < errors[2] < errors[0]
    if name == "dopri5_adaptive":  # cut at 500 ticks whatever the tolerance
        assert costs[0] == 500 * 7
    else:
        assert costs[0] < costs[1] < costs[2]
        assert costs[0] < 2 * 500


@pytest.mark.parametrize("name", [name for name, stepper in STEPPERS.items() if stepper.evaluations])
def test_evaluations_per_step_are_those_of_the_method(name: str) -> None:
    stepper = STEPPERS[name]
    sim = Simulation(assemble(build("triple_pendulum")), stepper=name)
    sim.step(3)
    begun = sim.evaluations
    assert begun == 3 * (stepper.evaluations if stepper.companion is None else stepper.stages)
    sim.step(50)
    assert sim.evaluations - begun == 50 * stepper.evaluations
    sim.reset()
    assert sim.evaluations == 0


def test_implicit_methods_keep_their_tangent_and_converge_in_few_iterations() -> None:
    system = assemble(build("triple_pendulum"))
    for name, stages in (("tr_bdf2", 2), ("radau5", 3)):
        sim = Simulation(system, step_s=1e-3, stepper=name)
        sim.step(1)
        assert sim.evaluations >= 2 * system.n_q + 1  # the differences
        begun = sim.evaluations
        sim.step(1000)
        assert 2 * stages <= (sim.evaluations - begun) / 1000 <= 4 * stages + 1


def scipy_solution(system: System, effort: float, until: float, method: str, **options: Any) -> Any:
    n, u = system.n_q, np.full(system.n_u, effort)
    q, v = system.mechanism.initial_q, system.mechanism.initial_v

    def f(t: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([y[n:], system.acceleration(t, y[:n], y[n:], u)[0]])

    return solve_ivp(f, (0.0, until), [*q, *v], method=method, **options)


def test_radau_agrees_with_an_independent_radau() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    oracle = scipy_solution(system, 0.002, 1.0, "Radau", rtol=1e-11, atol=1e-12).y[:, -1]
    sim = Simulation(system, step_s=1e-3, stepper="radau5")
    sim.set_effort([0.002])
    sim.advance(1.0)
    np.testing.assert_allclose(np.concatenate([sim.state.q, sim.state.v]), oracle, atol=1e-8)


def test_variable_radau_is_one_integration_read_at_the_ticks() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    ticks = np.arange(1, 101) * 0.01
    oracle = scipy_solution(system, 0.002, 1.0, "Radau", rtol=1e-5, atol=1e-8, t_eval=ticks).y
    sim = Simulation(system, step_s=0.01, stepper=radau_variable(1e-5, 1e-8))
    sim.set_effort([0.002])
    sim.step(100)
    np.testing.assert_allclose(np.concatenate([sim.state.q, sim.state.v]), oracle[:, -1], rtol=1e-10)


def test_interpolant_is_the_one_that_scipy_has() -> None:
    """Weights of the stages at a place x of the step, from our five coefficients."""
    b, d = np.array(DORMAND_PRINCE.b), np.array(DORMAND_PRINCE_DENSE.dense)
    first, last = np.eye(7)[0], np.eye(7)[6]
    for x in np.linspace(0.0, 1.0, 11):
        bend = first - b
        ours = x * (b + (1 - x) * (bend + x * (b - last - bend + (1 - x) * d)))
        np.testing.assert_allclose(ours, RK45.P @ [x, x**2, x**3, x**4], atol=1e-14)


def test_interpolated_ticks_are_as_exact_as_the_steps() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    sim = Simulation(system, step_s=1e-3, stepper=dopri5_dense(1e-9, 1e-9), stabilizer="none")
    exact = Simulation(system, step_s=1e-3, stepper="dopri5", stabilizer="none")
    worst = 0.0
    for _ in range(1000):
        sim.step()
        exact.step()
        worst = max(worst, np.abs(sim.state.q - exact.state.q).max())
    assert 0.0 < worst <= 1e-5
    assert sim.evaluations < 2 * 1000


def test_a_changed_effort_takes_the_integrator_back_to_the_tick() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    ends = []
    for stepper in ("dopri5", dopri5_dense(1e-9, 1e-9)):
        sim = Simulation(system, step_s=1e-3, stepper=stepper)
        for k in range(20):
            sim.set_effort([0.01 * (-1) ** k])
            sim.step(37)
        ends.append(np.concatenate(sim.joints()[:2]))
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-6)


@pytest.mark.parametrize("name", ["rk4", "semi_implicit", "dopri5", "abm4"])
@pytest.mark.parametrize("damping", [0.05, 1.5])
def test_stability_limit_is_where_violations_begin_to_grow(name: str, damping: float) -> None:
    """Baumgarte on a pendulum that hangs still, its pins off 1 nm off: below the limit this dies, above it grows."""
    system = assemble(build("triple_pendulum"))
    hanging = np.array([(0.0, -0.15 - 0.3 * k, -np.pi / 2) for k in range(3)]).reshape(-1)
    law = Baumgarte(damping * 100.0, 100.0)
    limit = law.stability_limit(STEPPERS[name], 1e-3)

    def left_after(step: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StabilityWarning)
            sim = Simulation(system, step_s=step, stepper=name, stabilizer=law)
        start = hanging.copy()
        start[1::3] += 1e-9
        sim.reset(start)
        try:
            sim.step(600)
        except SimulationDiverged as diverged:
            diverged.file.unlink()
            return math.inf
        return sim.violation()[0] / 1e-9

    assert left_after(0.97 * limit) < 0.5
    assert left_after(1.03 * limit) > 5.0


def test_implicit_methods_bear_gains_that_no_explicit_one_does() -> None:
    system = assemble(build("triple_pendulum"))
    law = Baumgarte(5e3, 5e3)
    assert law.stability_limit(STEPPERS["rk4"], 1e-3) < 6e-4
    for name in ("tr_bdf2", "radau5"):
        assert law.stability_limit(STEPPERS[name], 1e-3) == math.inf
        sim = Simulation(system, step_s=1e-3, stepper=name, stabilizer=law)
        sim.advance(1.0)
        assert sim.violation()[0] <= 1e-7


def test_sampled_law_needs_the_multistep_pole_under_adams() -> None:
    """Both under hold: at .8 the loop is stable, at the one-step methods' .3 it is not."""
    system = assemble(build("triple_pendulum"))
    assert STEPPERS["abm4"].pole == 0.8
    sim = Simulation(system, step_s=1e-3, stepper="abm4")
    sim.advance(10.0)
    assert sim.peak_violation()[0] <= 1e-4
    assert sim.violation()[0] <= 1e-5
    wild = Simulation(system, step_s=1e-3, stepper="abm4", stabilizer=SampledFuzzy(pole=0.3))
    wild.step(500)
    assert wild.violation()[0] >= 100 * sim.peak_violation()[0]


def test_adams_starts_anew_from_a_state_without_history() -> None:
    system = assemble(build("triple_pendulum"))
    plain, adams = Simulation(system), Simulation(system, stepper="abm4")
    plain.step(100)
    state = plain.snapshot()
    adams.step(10)
    adams.restore(state)
    other = Simulation(system, stepper="abm4")
    other.restore(dataclasses.replace(state, stepper_memory=np.zeros_like(other.state.stepper_memory)))
    for sim in (adams, other):
        sim.step(20)
    assert adams.snapshot().to_plain() == other.snapshot().to_plain()


@pytest.mark.parametrize("name", ["adams_variable", "radau_variable"])
@pytest.mark.parametrize("stabilizer", ["none", "sampled_fuzzy", "projection", "baumgarte"])
def test_the_same_call_from_the_same_state_gives_the_same_bytes(name: str, stabilizer: str) -> None:
    system = assemble(build("triple_pendulum"))
    sims = [Simulation(system, step_s=1e-3, stepper=name, stabilizer=stabilizer) for _ in range(2)]
    sims[0].step(7)
    kept = sims[0].snapshot()
    ends = []
    for sim in (*sims, sims[0]):
        sim.restore(kept)
        sim.step(13)
        ends.append(sim.snapshot().to_plain())
    assert ends[0] == ends[1] == ends[2]


def test_stage_equations_that_do_not_converge_say_so() -> None:
    sim = Simulation(assemble(build("triple_pendulum")), step_s=2.0, stepper="radau5", stabilizer="none")
    with pytest.raises(SimulationDiverged, match="its implicit stage equations did not converge") as caught:
        sim.step(50)
    caught.value.file.unlink()


def test_an_unknown_stepper_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="no stepper 'rk5'; its steppers are rk4"):
        Simulation(assemble(build("triple_pendulum")), stepper="rk5")


@pytest.mark.parametrize("name", list(STEPPERS))
def test_warming_up_changes_nothing(name: str) -> None:
    sim = Simulation(assemble(build("triple_pendulum")), stepper=name)
    sim.step(5)
    before = sim.snapshot().to_plain()
    sim.warm_up()
    assert sim.snapshot().to_plain() == before

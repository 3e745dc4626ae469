"""The laws against independent evaluations, the poles they promise, and the steps they can bear."""

from __future__ import annotations

import ctypes
import math
import warnings

import numpy as np
import pytest
from skfuzzy import membership

from robots.registry import build
from sim_core.errors import InvalidRequest, SimulationDiverged, StabilityWarning, UnknownName
from sim_core.integrators.steppers import stepper_named
from sim_core.simulation import Simulation
from sim_core.stabilization import laws
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.rules import RULES, largest_slope, slope_at_zero, surface
from sim_core.stabilization.stabilizers import Baumgarte, FuzzyPaper, SampledFuzzy, stabilizer_named
from sim_core.system import assemble

ALL_SETS = [
    FuzzySets(kind, conjunction)  # type: ignore[arg-type]
    for kind in ("triangle", "trapezoid", "gaussian")
    for conjunction in ("product", "minimum")
]


def call(law, phi, phidot, gains, h=1e-3, n_holonomic=None):  # type: ignore[no-untyped-def]
    double = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(None, *[double] * 5, ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    n = len(phidot)
    arrays = [np.ascontiguousarray(a, dtype=float) for a in (phi, phidot, gains, np.zeros(1), np.zeros(n))]
    kind(law.address)(*[a.ctypes.data_as(double) for a in arrays], h, n if n_holonomic is None else n_holonomic, n)
    return arrays[-1]


def twenty_five_rules(x: float, y: float, sets: FuzzySets) -> float:
    """The controller as the paper words it: one rule after another, memberships by scikit-fuzzy."""
    total = weights = 0.0
    for i, center_x in enumerate(np.linspace(-1, 1, 5)):
        for j, center_y in enumerate(np.linspace(-1, 1, 5)):
            degrees = []
            for value, center in ((x, center_x), (y, center_y)):
                at = np.array([min(1.0, max(-1.0, value))])
                if sets.kind == "gaussian":
                    degrees.append(membership.gaussmf(at, center, sets.width)[0])
                elif sets.kind == "triangle":
                    degrees.append(membership.trimf(at, [center - 0.5, center, center + 0.5])[0])
                else:
                    flat = sets.width / 2
                    corners = [center - 0.5 + flat, center - flat, center + flat, center + 0.5 - flat]
                    degrees.append(membership.trapmf(at, corners)[0])
            w = degrees[0] * degrees[1] if sets.conjunction == "product" else min(degrees)
            total += w * RULES[i, j]
            weights += w
    return total / weights


@pytest.mark.parametrize("sets", ALL_SETS, ids=lambda s: f"{s.kind}-{s.conjunction}")
def test_compiled_law_equals_the_25_rules(sets: FuzzySets) -> None:
    random = np.random.default_rng(5)
    x, y = random.uniform(-1.5, 1.5, 400), random.uniform(-1.5, 1.5, 400)
    x[:9], y[:9] = np.repeat([-1, 0, 0.5], 3), np.tile([-0.5, 0, 1], 3)
    expected = np.array([twenty_five_rules(*pair, sets) for pair in zip(x, y, strict=True)])
    np.testing.assert_allclose(call(laws.fuzzy, x, y, [1.0, 1.0, 1.0, *sets.code()]), expected, atol=1e-12)


def test_closed_form_of_triangles_equals_the_25_rules() -> None:
    random = np.random.default_rng(6)
    x, y = random.uniform(-1.3, 1.3, 1000), random.uniform(-1.3, 1.3, 1000)
    eps, h = 1e-3, 1e-3
    rho, c = 0.3, 0.5
    k1 = (1 - rho) ** 2
    k2 = 2 * (1 - rho) - c * k1
    gains = [eps, rho, c, 1.0, *FuzzySets().code()]
    U = call(laws.sampled_fuzzy, eps * x, y * k1 / k2 * eps / h, gains, h)
    expected = [twenty_five_rules(*pair, FuzzySets()) for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(U / (k1 * eps / h**2), expected, atol=1e-12)


def test_slopes_of_the_surfaces_are_the_measured_ones() -> None:
    assert slope_at_zero(FuzzySets("triangle")) == pytest.approx(1.0)
    assert slope_at_zero(FuzzySets("gaussian", "product", 0.2123)) == pytest.approx(0.617, abs=1e-3)
    assert slope_at_zero(FuzzySets("gaussian", "minimum", 0.2123)) == pytest.approx(0.925, abs=1e-3)
    assert slope_at_zero(FuzzySets("gaussian", "product", 0.30)) == pytest.approx(0.969, abs=1e-3)
    assert slope_at_zero(FuzzySets("trapezoid")) == pytest.approx(0.0, abs=1e-9)
    for sets in ALL_SETS:
        assert largest_slope(sets) >= slope_at_zero(sets) - 1e-3


def test_surface_is_odd_and_bounded() -> None:
    grid = np.linspace(-1.2, 1.2, 41)
    for sets in ALL_SETS:
        U = surface(sets, grid, grid)
        np.testing.assert_allclose(U, -U[::-1, ::-1], atol=1e-12)
        assert np.abs(U).max() <= 1.0


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit"])
@pytest.mark.parametrize("h", [1e-4, 1e-3, 1e-2])
def test_sampled_law_puts_both_poles_where_it_says(stepper: str, h: float) -> None:
    """The double integrator e'' = -U under hold, one step by the stepper's own plant."""
    method = stepper_named(stepper)
    gains = SampledFuzzy().gains(h, method, 1.0)
    step = np.zeros((2, 2))
    small = 1e-6 * gains[0]
    for column, (e, rate) in enumerate(((small, 0.0), (0.0, small / h))):
        U = call(laws.sampled_fuzzy, [e], [rate], gains, h)[0]
        step[:, column] = [(e + h * rate - method.held_lever * h * h * U) / small, (rate - h * U) * h / small]
    np.testing.assert_allclose(np.linalg.eigvals(step), method.pole, atol=1e-6)


def test_nonholonomic_rows_use_their_rate_alone() -> None:
    assert call(laws.baumgarte, [1.0, 1.0], [0.5, 0.5], [2.0, 3.0], n_holonomic=1).tolist() == [11.0, 2.0]
    gains = SampledFuzzy().gains(1e-3, stepper_named("rk4"), 1.0)
    both = call(laws.sampled_fuzzy, [1e-4, 1e-4], [0.0, 0.0], gains, n_holonomic=1)
    assert both[0] > 0.0
    assert both[1] == 0.0


def test_stability_limits_are_those_of_the_method() -> None:
    rk4 = stepper_named("rk4")
    # undamped: h beta < 2 sqrt 2 on the imaginary axis of RK4
    assert Baumgarte(0.0, 100.0).stability_limit(rk4, 1e-3) == pytest.approx(2 * math.sqrt(2) / 100, rel=1e-3)
    # overdamped: h 2 alpha < 2.785 on the real axis
    assert Baumgarte(1000.0, 1e-3).stability_limit(rk4, 1e-3) == pytest.approx(2.785 / 2000, rel=1e-3)
    assert SampledFuzzy().stability_limit(rk4, 1.0) == math.inf
    paper = FuzzyPaper(sets=FuzzySets("triangle")).stability_limit(rk4, 1e-3)
    assert 2.5e-3 < paper < 3e-3


def test_gains_that_cannot_be_stable_warn_with_the_figure() -> None:
    system = assemble(build("triple_pendulum"))
    with pytest.warns(StabilityWarning, match=r"up to a step of .* ms; the step asked for is 5 ms"):
        sim = Simulation(system, step_s=5e-3, stabilizer="fuzzy_paper")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Simulation(system, step_s=5e-3)
    assert sim.step_s == 5e-3


def test_divergence_keeps_the_last_states_and_says_where() -> None:
    system = assemble(build("triple_pendulum"))
    with pytest.warns(StabilityWarning):
        sim = Simulation(system, step_s=1e-2, stabilizer=Baumgarte(500.0, 1000.0))
    with pytest.raises(SimulationDiverged, match="'triple_pendulum' diverged at t = ") as caught:
        sim.advance(60.0)
    error = caught.value
    stored = np.load(error.file)["t_q_v"]
    error.file.unlink()
    np.testing.assert_array_equal(stored, error.history)
    assert np.isfinite(stored).all()
    assert np.all(np.diff(stored[:, 0]) > 0)
    assert stored[-1, 0] == pytest.approx(error.time)


def test_unknown_stabilizers_and_parameters_are_named() -> None:
    with pytest.raises(UnknownName, match="no stabilizer 'fuzy'; its stabilizers are none, baumgarte"):
        stabilizer_named("fuzy")
    with pytest.raises(UnknownName, match="no parameter 'gamma'; its parameters are alpha, beta"):
        stabilizer_named("baumgarte", gamma=1.0)
    with pytest.raises(InvalidRequest, match="no kind 'square'"):
        FuzzySets("square")  # type: ignore[arg-type]
    system = assemble(build("triple_pendulum"))
    for bad in (SampledFuzzy(pole=1.0), SampledFuzzy(saturation=0.0)):
        with pytest.raises(InvalidRequest):
            Simulation(system, stabilizer=bad)

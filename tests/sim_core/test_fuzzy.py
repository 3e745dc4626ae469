"""The compiled fuzzy laws against the 25 rules, one after another, and the papers' scalings."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from skfuzzy import membership

from nodes.research.studies.framework.scalings import man, nada
from sim_core.errors import InvalidRequest
from sim_core.integrators.steppers import stepper_named
from sim_core.stabilization import laws
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.rules import RULES, largest_chord, largest_slope, slope_at_zero, surface
from sim_core.stabilization.stabilizers import FuzzyPaper

ALL_SETS = [
    FuzzySets(kind, conjunction, width)  # type: ignore[arg-type]
    for kind, widths in (("triangle", [0.2123]), ("trapezoid", [0.05, 0.2123, 0.4]), ("gaussian", [0.05, 0.2123, 0.45]))
    for conjunction in ("product", "minimum")
    for width in widths
]
MAN = [[-2, -2, -2, -1, 0], [-2, -2, -1, 0, 1], [-2, -1, 0, 1, 2], [-1, 0, 1, 2, 2], [0, 1, 2, 2, 2]]


def named(sets: FuzzySets) -> str:
    return f"{sets.kind}-{sets.conjunction}-{sets.width}"


def call(law, phi, phidot, gains, h=1e-3, n_holonomic=None):  # type: ignore[no-untyped-def]
    double = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(None, *[double] * 5, ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    n = len(phidot)
    arrays = [np.ascontiguousarray(a, dtype=float) for a in (phi, phidot, gains, np.zeros(1), np.zeros(n))]
    kind(law.address)(*[a.ctypes.data_as(double) for a in arrays], h, n if n_holonomic is None else n_holonomic, n)
    return arrays[-1]


def degrees(at: np.ndarray, center: float, sets: FuzzySets) -> np.ndarray:
    """Memberships of one set, by scikit-fuzzy."""
    at = np.clip(at, -1.0, 1.0)
    if sets.kind == "gaussian":
        return np.asarray(membership.gaussmf(at, center, sets.width))
    if sets.kind == "triangle":
        return np.asarray(membership.trimf(at, [center - 0.5, center, center + 0.5]))
    flat = sets.width / 2
    return np.asarray(membership.trapmf(at, [center - 0.5 + flat, center - flat, center + flat, center + 0.5 - flat]))


def twenty_five_rules(x: np.ndarray, y: np.ndarray, sets: FuzzySets) -> np.ndarray:
    """The controller as the paper words it: one rule after another, with Man's printed table."""
    total, weights = np.zeros_like(x), np.zeros_like(x)
    for i, center_x in enumerate(np.linspace(-1, 1, 5)):
        for j, center_y in enumerate(np.linspace(-1, 1, 5)):
            a, b = degrees(x, center_x, sets), degrees(y, center_y, sets)
            w = a * b if sets.conjunction == "product" else np.minimum(a, b)
            total += w * MAN[i][j] / 2
            weights += w
    return total / weights


def points() -> tuple[np.ndarray, np.ndarray]:
    """A grid of 121 x 121 with every centre on it, and as many random points, beyond the universe too."""
    grid = np.linspace(-1.2, 1.2, 121)
    random = np.random.default_rng(5).uniform(-1.5, 1.5, (2, 14641))
    x, y = np.meshgrid(grid, grid)
    return np.concatenate([x.ravel(), random[0]]), np.concatenate([y.ravel(), random[1]])


def test_rules_are_those_of_the_printed_table() -> None:
    np.testing.assert_array_equal(RULES, np.array(MAN) / 2)


@pytest.mark.parametrize("sets", ALL_SETS, ids=named)
def test_compiled_law_equals_the_25_rules(sets: FuzzySets) -> None:
    x, y = points()
    U = call(laws.fuzzy, x, y, [1.0, 1.0, 1.0, *sets.code()])
    np.testing.assert_allclose(U, twenty_five_rules(x, y, sets), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("sets", ALL_SETS, ids=named)
def test_nonholonomic_rows_have_the_five_rules_of_one_input(sets: FuzzySets) -> None:
    y = points()[1]
    total, weights = np.zeros_like(y), np.zeros_like(y)
    for j, center in enumerate(np.linspace(-1, 1, 5)):
        w = degrees(y, center, sets)
        total += w * MAN[2][j] / 2
        weights += w
    U = call(laws.fuzzy, y, y, [1.0, 1.0, 3.0, *sets.code()], n_holonomic=0)
    np.testing.assert_allclose(U, 3.0 * total / weights, rtol=0.0, atol=3e-12)


@pytest.mark.parametrize("sets", ALL_SETS, ids=named)
def test_the_sampled_law_is_the_same_surface(sets: FuzzySets) -> None:
    x, y = points()
    eps, h, rho, c, slope = 1e-3, 1e-3, 0.3, 0.5, 1.0
    k1 = (1 - rho) ** 2
    k2 = 2 * (1 - rho) - c * k1
    gains = [eps, rho, c, slope, *sets.code()]
    U = call(laws.sampled_fuzzy, eps * x, y * k1 / k2 * eps / h, gains, h)
    np.testing.assert_allclose(U / (k1 * eps / h**2), twenty_five_rules(x, y, sets), rtol=0.0, atol=2e-12)


def test_slopes_of_the_surfaces_are_the_measured_ones() -> None:
    assert slope_at_zero(FuzzySets("triangle")) == pytest.approx(1.0)
    assert slope_at_zero(FuzzySets("gaussian", "product", 0.2123)) == pytest.approx(0.617, abs=1e-3)
    assert slope_at_zero(FuzzySets("gaussian", "minimum", 0.2123)) == pytest.approx(0.925, abs=1e-3)
    assert slope_at_zero(FuzzySets("gaussian", "product", 0.30)) == pytest.approx(0.969, abs=1e-3)
    assert slope_at_zero(FuzzySets("trapezoid")) == pytest.approx(0.0, abs=1e-9)
    for sets in ALL_SETS:
        assert largest_slope(sets) >= slope_at_zero(sets) - 1e-3
        assert largest_slope(sets) >= largest_chord(sets) - 1e-3


def test_surface_is_odd_and_bounded() -> None:
    grid = np.linspace(-1.2, 1.2, 41)
    for sets in ALL_SETS:
        U = surface(sets, grid, grid)
        np.testing.assert_allclose(U, -U[::-1, ::-1], atol=1e-12)
        assert np.abs(U).max() <= 1.0


def test_the_papers_scalings_are_those_they_print() -> None:
    for sets, kind in (("I", "triangle"), ("II", "trapezoid"), ("III", "gaussian")):
        made = nada(sets, "minimum", 0.3)  # type: ignore[arg-type]
        assert made == FuzzyPaper(1e2, 1e-2, 1e4, FuzzySets(kind, "minimum", 0.3))  # type: ignore[arg-type]
    by_violation = nada(permitted=(1e-6, 1e-4))
    assert (by_violation.Kp, by_violation.Kd, by_violation.Ku) == pytest.approx((1e6, 1e4, 1e8))
    # 100 FLC(Phi, Phidot) on [-2, 2]: a violation of 1 in both is the fourth column of the fourth row, 2
    first = man(case=1)
    gains = first.gains(1e-2, stepper_named("rk4"), 1.0)
    assert call(laws.fuzzy, [2.0, 0.0], [2.0, 0.0], gains) == pytest.approx([200.0, 0.0], abs=5.0)
    second = man(case=2, phi=1e-3, phidot=0.2, speed=1.05)
    assert (second.Kp, second.Kd, second.Ku) == pytest.approx((1e3, 5.0, 2 * 1.05e3))


def test_what_a_scaling_lacks_is_said() -> None:
    with pytest.raises(InvalidRequest, match="'sets' is 'IV'; it must be one of I, II, III"):
        nada("IV")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="case 2 requires phi and phidot"):
        man(case=2)
    with pytest.raises(InvalidRequest, match="'case' is 3; it must be 1"):
        man(case=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"'phidot' is 0.0; it must be positive"):
        man(case=2, phi=1.0, phidot=0.0, speed=1.0)
    with pytest.raises(InvalidRequest, match=r"width is 0.01; it must lie between 0.05 and 0.5"):
        FuzzySets("gaussian", width=0.01)

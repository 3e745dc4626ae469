"""Stability measures are those of the paper, in closed form and by its examples. [Schiehlen1993]"""

from __future__ import annotations

import math

import numpy as np
import pytest

from robots.registry import build
from sim_core.analysis.stability import StateNorm, equilibrium, frequencies, measure, worst
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.system import System, assemble


@pytest.fixture(scope="module")
def single() -> System:
    return assemble(build("single_pendulum"))


@pytest.fixture(scope="module")
def double() -> System:
    return assemble(build("double_pendulum"))


@pytest.mark.parametrize(("seconds", "is1"), [(1, 2.9741), (5, 3.5930), (20, 3.6620), (50, 3.6843), (100, 3.6913)])
def test_the_double_pendulum_meets_the_values_of_figure_6(double: System, seconds: float, is1: float) -> None:
    found = measure(double, [[0.5, -0.5, 0.5, 0.5]], seconds=seconds, time_unit_s=1.0)
    assert found.is1[0] == pytest.approx(is1, abs=1e-4)


@pytest.mark.parametrize("r", [0.5, 1.0, 1.3, 1.45, 1.47])
def test_the_worst_start_of_the_single_pendulum_is_that_of_the_closed_form(single: System, r: float) -> None:
    """IS2(r) = arccos(cos r - r^2 / 2) / r. [Schiehlen1993, eq. 54]"""
    found = worst(single, r, seconds=100.0, time_unit_s=1.0, runs=400)
    assert found.value == pytest.approx(math.acos(math.cos(r) - r**2 / 2) / r, abs=1e-6)
    assert np.abs(found.start).max() == r
    assert found.runs <= 400
    assert str(found).startswith("IS2_T is at least ")


def test_is1_of_the_single_pendulum_has_its_closed_form(single: System) -> None:
    """From 60 starts that do not tumble. [Schiehlen1993, eq. 52]"""
    random = np.random.default_rng(3)
    starts = random.uniform(-1.4, 1.4, (60, 2))
    angle, rate = starts.T
    largest_rate = np.sqrt(rate**2 + 2 * (1 - np.cos(angle)))
    largest_angle = np.arccos(np.cos(angle) - rate**2 / 2)
    expected = np.maximum(largest_rate, largest_angle) / np.abs(starts).max(axis=1)
    found = measure(single, starts, seconds=60.0, time_unit_s=1.0)
    np.testing.assert_allclose(found.is1, expected, atol=2e-6)


def test_a_start_at_the_equilibrium_has_the_measure_one(single: System) -> None:
    assert measure(single, [[0.0, 0.0]], seconds=1.0).is1.tolist() == [1.0]


def test_the_start_is_the_least_distance(double: System) -> None:
    starts = np.random.default_rng(1).uniform(-0.3, 0.3, (20, 4))
    assert (measure(double, starts, seconds=0.5).is1 >= 1.0).all()


def test_the_unit_of_time_is_that_of_the_slowest_mode(double: System) -> None:
    """Frequencies sqrt(2 -+ sqrt 2) of two equal pendulums."""
    expected = np.sqrt([2 - math.sqrt(2), 2 - math.sqrt(2), 2 + math.sqrt(2), 2 + math.sqrt(2)])
    np.testing.assert_allclose(frequencies(double, np.zeros(2)), expected, rtol=1e-8)
    norm = StateNorm.of(double)
    assert norm.time_unit_s == pytest.approx(1 / expected[0])
    given = StateNorm.of(double, time_unit_s=2.0)
    q, v = given.states([[0.1, 0.0, 0.0, 0.4]])
    assert q[0] == pytest.approx([0.1, 0.0])
    assert v[0] == pytest.approx([0.0, 0.2])


def test_the_frequencies_of_a_loop_are_those_of_its_free_motions() -> None:
    """The rotary pendulum with its joints as constraints, and without; the arm turns freely."""
    norms = []
    for coordinates in ("absolute", "joint"):
        system = assemble(build("rotary_pendulum", coordinates=coordinates, start_deg=0.0))
        norms.append(StateNorm.of(system))
        found = frequencies(system, norms[-1].about)
        assert found[:2] == pytest.approx([0.0, 0.0], abs=1e-5)
        assert found[2:] == pytest.approx(np.full(2, 1.0 / norms[-1].time_unit_s), rel=1e-9)
    assert norms[0].time_unit_s == pytest.approx(norms[1].time_unit_s, rel=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_failed_search_for_an_equilibrium_names_the_coordinate_and_warns_of_no_overflow() -> None:
    arm = assemble(build("arm_2dof"))
    with pytest.raises(InvalidRequest, match=r"the coordinate 'joint_4' still accelerates, by .* per s\^2; give coord"):
        equilibrium(arm, [0.1, 0.1], lambda q, v: np.array([0.0, 1e200]))
    with pytest.raises(InvalidRequest, match="the acceleration is not finite"):
        equilibrium(arm, [0.1, 0.1], lambda q, v: np.array([0.0, np.inf]))


def test_an_equilibrium_is_found_under_efforts_and_for_a_closed_loop() -> None:
    arm = assemble(build("arm_2dof"))
    still = equilibrium(arm, [0.1, 0.1])
    assert np.abs(arm.acceleration(0.0, still, [0.0, 0.0])[0]).max() < 1e-8
    effort = arm.terms(0.0, [0.4, 0.3], [0.0, 0.0])[1] * -1.0
    held = equilibrium(arm, [0.45, 0.25], effort)
    np.testing.assert_allclose(held, [0.4, 0.3], atol=1e-8)
    four_bar = assemble(build("parallelogram_four_bar"))
    at = equilibrium(four_bar, four_bar.mechanism.initial_q)
    assert np.abs(four_bar.residual(0.0, at, 0 * at)[0]).max() < 1e-9
    assert np.abs(four_bar.acceleration(0.0, at, 0 * at)[0]).max() < 1e-6


def test_rows_are_chosen_by_name_and_the_others_follow_from_the_constraints() -> None:
    """One coordinate of a pendulum in Cartesian coordinates: x = sin(phi) for phi = 0.3, y from the rod."""
    system = assemble(build("simple_pendulum"))
    about = equilibrium(system, [0.0, -1.0])
    norm = StateNorm.of(system, about, rows=["mass.x"], time_unit_s=1.0, length_unit_m=0.5)
    q, v = norm.states([[2 * math.sin(0.3)], [0.0]])
    np.testing.assert_allclose(q, [[math.sin(0.3), -math.cos(0.3)], [0.0, -1.0]], atol=1e-10)
    np.testing.assert_allclose(v, 0.0, atol=1e-12)
    found = measure(system, [[2 * math.sin(0.3)]], seconds=5.0, about=about, rows=["mass.x"], time_unit_s=1.0,
                    length_unit_m=0.5, step_s=1e-3)  # fmt: skip
    assert found.is1[0] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(InvalidRequest, match="cannot start from these values, because its constraints do not permit"):
        norm.states([[3.0]])


def test_bad_requests_are_refused_in_one_line(single: System, double: System) -> None:
    with pytest.raises(UnknownName, match=r"has no state row 'pivt'; .*pivot"):
        measure(single, [[0.1]], seconds=1.0, rows=["pivt"])
    with pytest.raises(InvalidRequest, match="it must have one row of 2 finite numbers per start"):
        measure(single, [[0.1]], seconds=1.0)
    with pytest.raises(InvalidRequest, match="time_unit_s is 0; it must be a positive number"):
        measure(single, [[0.1, 0.0]], seconds=1.0, time_unit_s=0)
    with pytest.raises(InvalidRequest, match="at least 16, because one motion starts at each corner of a cube"):
        worst(double, 0.1, seconds=1.0, runs=10)
    with pytest.raises(
        InvalidRequest, match=r"argument 'near' is .* give 2 finite numbers, in the order upper.angle, lower.angle"
    ):
        equilibrium(double, [1.0])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("r", "runs", "least", "most", "tumbles"),
    [(0.5, 7000, 3.6912, 3.6914, False), (0.7, 7000, 3.955, 4.2, False), (0.7126, 13_000, 3.9, 4.4, False),
     (0.713, 13_000, 4.4, 100.0, True)],
)  # fmt: skip
def test_the_worst_start_of_the_double_pendulum(
    double: System, r: float, runs: int, least: float, most: float, tumbles: bool
) -> None:
    """Tumbling begins at 0.71269, where the energy of some start suffices. [Schiehlen1993, fig. 7]"""
    found = worst(double, r, seconds=100.0, time_unit_s=1.0, step_s=0.05 if r > 0.6 else None, runs=runs)
    assert least <= found.value <= most
    assert bool(found.distances[:2].max() > math.pi) == tumbles

"""Rounding errors of encoders: their step from the positions, and their covariance from the motion."""

from __future__ import annotations

import numpy as np
import pytest

from sim_core.identification.rounding import rounded_sum, step_of

T = np.arange(0.0, 6.0, 0.005)
Q = 0.5 * np.sin(2.0 * T) + 0.2


@pytest.mark.parametrize("step", [9.6e-5, 1e-3, 2.0 * np.pi / 4096])
@pytest.mark.parametrize("digits", [16, 6])
def test_the_step_of_an_encoder_is_seen_in_its_positions(step: float, digits: int) -> None:
    written = np.round(step * np.round(Q / step) + 0.0123, digits)
    assert step_of(written) == pytest.approx(step, rel=1e-5)


@pytest.mark.parametrize(
    "values", [Q, Q + 1e-4 * np.random.default_rng(1).normal(size=len(Q)), np.zeros(9), np.zeros(0)]
)
def test_positions_that_are_not_rounded_have_no_step(values: np.ndarray) -> None:
    assert step_of(values) == 0.0


def test_the_covariance_of_rounding_is_that_over_random_phases() -> None:
    random, step = np.random.default_rng(2), 1e-3
    q = 0.31 * np.maximum(T - 2.0, 0.0)
    rows = np.stack([T < 2.0, T >= 2.0, np.cos(T)], axis=1) / len(T)
    phases = step * random.uniform(size=(4000, 1))
    off = (step * np.round((q + phases) / step) - q - phases) @ rows
    expected = off.T @ off / len(phases)
    np.testing.assert_allclose(rounded_sum(rows, q, step), expected, rtol=0.1, atol=0.02 * expected.max())
    white = step**2 / 12.0 * rows.T @ rows
    assert expected[0, 0] > 100.0 * white[0, 0]  # at rest
    assert expected[1, 1] < 2.0 * white[1, 1]  # in motion

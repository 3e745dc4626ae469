"""The papers' mechanisms beside the equations that the papers print, at states all over the place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from robots.registry import build
from sim_core.system import System, assemble

G = 9.81


def states(system: System, count: int = 5) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(8)
    for _ in range(count):
        yield random.normal(size=system.n_q), random.normal(size=system.n_q)


def turned(angle: float, x: float) -> np.ndarray:
    """A [x, 0]' in the plane."""
    return x * np.array([np.cos(angle), np.sin(angle)])


def assert_same_rows(ours: np.ndarray, printed: np.ndarray) -> None:
    """Equal but for the sign of a row, which is a convention."""
    np.testing.assert_allclose(np.abs(ours), np.abs(printed), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("variant", "length", "mass", "J"), [("nada", 0.3, 0.25, 0.3**2 / 48), ("man", 2, 1, 1e-3)])
def test_the_triple_pendulum_is_the_printed_one(variant: str, length: float, mass: float, J: float) -> None:
    """[NadaBayoumi2024, sec. 3.3] and [Man2025, example 1], the third pair of rows as R1 + A1 u - R2 - A2 u."""
    system = assemble(build("triple_pendulum", variant=variant))
    half = length / 2
    for q, v in states(system):
        R, theta = q.reshape(3, 3)[:, :2], q.reshape(3, 3)[:, 2]
        M, f, _, _ = system.terms(0.0, q, v)
        np.testing.assert_allclose(M, np.diag([mass, mass, J] * 3), atol=1e-14)
        np.testing.assert_allclose(f, [0.0, -mass * G, 0.0] * 3, atol=1e-12)
        pairs = ((0, 1), (1, 2))
        meet = [R[i] + turned(theta[i], half) - R[j] - turned(theta[j], -half) for i, j in pairs]
        printed = [R[0] + turned(theta[0], -half), *meet]
        assert_same_rows(system.residual(0.0, q, v)[0], np.concatenate(printed))
    np.testing.assert_allclose(system.mechanism.initial_q, np.ravel([[(i + 0.5) * length, 0, 0] for i in range(3)]))


def test_the_crank_slider_is_the_printed_one() -> None:
    """[Man2025, example 2]: L1 the whole crank, L2 half the rod."""
    system = assemble(build("crank_slider", start="printed"))
    L1, L2, m2, m3 = 0.2, 0.35 / 2, 3.5, 2.5
    for q, v in states(system):
        crank, x2, y2, rod, x3 = q
        M, f, _, _ = system.terms(0.0, q, v)
        np.testing.assert_allclose(M, np.diag([45.0, m2, m2, 3.5, m3]), atol=1e-12)
        np.testing.assert_allclose(f, [0.0, 0.0, -m2 * G, 0.0, 0.0], atol=1e-12)
        pin, end = turned(crank, L1), turned(rod, L2)
        printed = [*(pin + end - [x2, y2]), x2 + end[0] - x3, y2 + end[1]]
        assert_same_rows(system.residual(0.0, q, v)[0], np.array(printed))
    assert system.mechanism.initial_q == pytest.approx((0.0, L1 + L2, 0.0, 0.0, L1 + 2 * L2))
    assert system.mechanism.initial_v == pytest.approx((np.pi / 3, 0.0, 0.0, 0.0, 0.0))


def test_the_gear_train_has_the_printed_rows() -> None:
    """Coordinate differences, dot products of axes, e'e - 1; then [NadaBayoumi2024, eqs. 26-28] in tooth counts."""
    system = assemble(build("epicyclic_gear_train"))
    rows = system.constraint_modes[0]
    assert len(system.mechanism.bodies) == 7
    assert (system.n_q, rows.n_holonomic, rows.n_rows - rows.n_holonomic) == (49, 45, 3)
    for q, v in states(system):
        bodies, rates = q.reshape(7, 7), v.reshape(7, 7)
        Phi, Phidot = system.residual(0.0, q, v)
        e, edot = bodies[:, 3:], rates[:, 3:]
        norms = [i for i, name in enumerate(rows.row_names) if name.endswith(".norm")]
        np.testing.assert_allclose(Phi[norms], (e * e).sum(axis=1) - 1, rtol=1e-12)
        ring = [i for i, name in enumerate(rows.row_names) if name == "ring"]
        assert_same_rows(Phi[ring[:3]], bodies[0, :3])
        w = 2 * (-e[:, 3] * edot[:, 0] + e[:, 2] * edot[:, 1] - e[:, 1] * edot[:, 2] + e[:, 0] * edot[:, 3])
        T2, T5, T7 = 24.0, 18.0, 18.0
        printed = [
            T2 * (w[1] - w[2]) + T5 * (w[4] - w[2]),
            (T2 + 2 * T5) * w[0] - (T2 + T5) * w[2] - T5 * w[4],
            T2 * (w[1] - w[2]) + T7 * (w[6] - w[2]),
        ]
        assert_same_rows(Phidot[rows.n_holonomic :], np.array(printed))


def ranks(name: str) -> tuple[int, int, int]:
    """Ranks of M and of the KKT matrix at the start, and the latter's size."""
    mechanism = build(name)
    M, _, J, _ = assemble(mechanism).terms(0.0, mechanism.initial_q, mechanism.initial_v)
    M = M / np.abs(M).max()
    K = np.block([[M, J.T], [J, np.zeros((len(J), len(J)))]])
    return int(np.linalg.matrix_rank(M)), int(np.linalg.matrix_rank(K)), len(K)


def test_euler_parameters_leave_the_mass_matrix_singular_and_the_whole_matrix_regular() -> None:
    assert ranks("epicyclic_gear_train") == (42, 97, 97)


def test_the_rotary_pendulum_starts_where_no_euler_angle_is_singular() -> None:
    """As printed, theta 1 = 0 for all time leaves rank 20 of 22; body 1's z axis lies level here instead."""
    assert ranks("rotary_pendulum") == (12, 22, 22)

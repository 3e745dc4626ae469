"""The 25 rules and their control surface. [NadaBayoumi2024, table 1] [Man2025, table 1]

Both inputs are split into five sets centred at -1, -1/2, 0, 1/2, 1 (negative big ... positive big); rule (i, j) puts
the output at clip(i + j, -2, 2) / 2. Zero-order Sugeno: U = sum w z / sum w.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sim_core.stabilization.membership import CENTERS, FuzzySets

RULES = np.array([[max(-2, min(2, i + j)) / 2 for j in range(-2, 3)] for i in range(-2, 3)])


def surface(sets: FuzzySets, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """U at every pair of x (n,) and y (m,), shape (n, m), inputs clipped to [-1, 1]; by scikit-fuzzy's memberships."""
    A, B = sets.degrees(np.clip(x, -1, 1)), sets.degrees(np.clip(y, -1, 1))
    if sets.conjunction == "product":
        w = A[:, None, :, None] * B[None, :, None, :]
    else:
        w = np.minimum(A[:, None, :, None], B[None, :, None, :])
    return np.asarray((w * RULES).sum(axis=(2, 3)) / w.sum(axis=(2, 3)))


@cache
def largest_slope(sets: FuzzySets) -> float:
    """The steepest slope of the surface along x or y: g of the sampled law. 1 for triangles with product."""
    if sets.kind == "triangle" and sets.conjunction == "product":
        return 1.0
    grid = np.linspace(-1, 1, 401)
    U = surface(sets, grid, grid)
    return float(max(np.abs(np.gradient(U, grid, axis=0)).max(), np.abs(np.gradient(U, grid, axis=1)).max()))


def slope_at_zero(sets: FuzzySets) -> float:
    """Slope of the surface along x at the origin: what the law is for small violations."""
    step = 1e-4
    U = surface(sets, np.array([-step, step]), np.zeros(1))
    return float((U[1, 0] - U[0, 0]) / (2 * step))


__all__ = ["CENTERS", "RULES", "largest_slope", "slope_at_zero", "surface"]

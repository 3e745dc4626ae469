"""The 25 fuzzy rules and their control surface. [NadaBayoumi2024, table 1] [Man2025, table 1]

Each input has five fuzzy sets i = -2 ... 2 (negative big ... positive big) with centres i / 2; rule (i, j) has the
output z = clip(i + j, -2, 2) / 2. Zero-order Sugeno inference gives the control output U = sum w z / sum w with the
rules' weights w.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sim_core.stabilization.membership import CENTERS, FuzzySets

RULES = np.array([[max(-2, min(2, i + j)) / 2 for j in range(-2, 3)] for i in range(-2, 3)])


def surface(sets: FuzzySets, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Control surface U (n, m) at every pair of inputs x (n,) and y (m,), which are clipped to [-1, 1].

    The memberships are computed with scikit-fuzzy.
    """
    A, B = sets.degrees(np.clip(x, -1, 1)), sets.degrees(np.clip(y, -1, 1))
    if sets.conjunction == "product":
        w = A[:, None, :, None] * B[None, :, None, :]
    else:
        w = np.minimum(A[:, None, :, None], B[None, :, None, :])
    return np.asarray((w * RULES).sum(axis=(2, 3)) / w.sum(axis=(2, 3)))


def curve(sets: FuzzySets, y: np.ndarray) -> np.ndarray:
    """Output U (n,) of the five rules for a single input, at the values y (n,), which are clipped to [-1, 1].
    [NadaBayoumi2024, sec. 5]
    """
    B = sets.degrees(np.clip(y, -1, 1))
    return np.asarray(B @ RULES[2] / B.sum(axis=1))


@cache
def largest_slope(sets: FuzzySets) -> float:
    """Largest absolute slope of the control surface along x or y.

    The stabilizer `sampled_fuzzy` divides its output gain by this slope. The slope is 1 for triangular fuzzy sets whose
    memberships are combined by the product (`conjunction` "product").
    """
    if sets.kind == "triangle" and sets.conjunction == "product":
        return 1.0
    grid = np.linspace(-1, 1, 401)
    U = surface(sets, grid, grid)
    return float(max(np.abs(np.gradient(U, grid, axis=0)).max(), np.abs(np.gradient(U, grid, axis=1)).max()))


@cache
def largest_chord(sets: FuzzySets, inputs: int = 2) -> float:
    """Largest ratio U(x) / x of the control surface U along one input x, with the other input at 0.

    The ratio is the slope of a chord from the origin to a point of the surface. A growing violation passes all points
    of the surface. The steepest chord therefore decides whether the violation diverges, not the slope at one point. The
    result is 1 for triangular fuzzy sets.

    inputs  number of inputs: 2, or 1 for the five rules of a single input
    """
    x = np.linspace(0.005, 1, 200)
    U = surface(sets, x, np.zeros(1))[:, 0] if inputs == 2 else curve(sets, x)
    return float((U / x).max())


def slope_at_zero(sets: FuzzySets) -> float:
    """Slope of the control surface along x at the origin: the gain for small violations."""
    step = 1e-4
    U = surface(sets, np.array([-step, step]), np.zeros(1))
    return float((U[1, 0] - U[0, 0]) / (2 * step))


__all__ = ["CENTERS", "RULES", "curve", "largest_chord", "largest_slope", "slope_at_zero", "surface"]

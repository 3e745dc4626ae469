"""Butcher tableaus: Runge-Kutta methods as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Tableau:
    """Butcher tableau of a Runge-Kutta method.

    A       rows of the matrix A; trailing zeros may be left out
    b       weights of the stages
    error   weights of the stages in the embedded error estimate; empty for methods without one
    dense   weights of the stages in the interpolant's last coefficient; empty for methods without an interpolant
    groups  for implicit methods, the number of stages in each group of stages that are solved together; empty for
            explicit methods
    """

    A: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    error: tuple[float, ...] = ()
    dense: tuple[float, ...] = ()
    groups: tuple[int, ...] = ()

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A (s, s), b (s,) and c (s,), the row sums of A, of a method with s stages."""
        s = len(self.b)
        A = np.zeros((s, s))
        for i, row in enumerate(self.A):
            A[i, : len(row)] = row
        return A, np.array(self.b), A.sum(axis=1)

    def growth(self, z: complex) -> float:
        """Absolute value of the stability function R(z): a step of size h multiplies |y| by this factor.

        This holds for the equation y' = lambda y, with z = h lambda.
        """
        if all(len(row) <= k for k, row in enumerate(self.A)):  # explicit: stage by stage
            stages: list[complex] = []
            for row in self.A:
                stages.append(1.0 + z * sum(a * stage for a, stage in zip(row, stages, strict=False)))
            return abs(1.0 + z * sum(b * stage for b, stage in zip(self.b, stages, strict=True)))
        s = len(self.b)
        padded = [(*row, *(0.0,) * (s - len(row))) for row in self.A]
        rows = [[(i == k) - z * padded[i][k] for k in range(s)] + [1.0] for i in range(s)]
        return abs(1.0 + z * sum(b * stage for b, stage in zip(self.b, _solved(rows), strict=True)))

    def ahead(self) -> np.ndarray:
        """Matrix E (s, s) that extrapolates the s stage values of one step to the next step.

        The stage values of the next step are about E times those of this step. The nodes c_i of the tableau must
        differ.
        """
        c = self.arrays()[2]
        others = [[c[k] for k in range(len(c)) if k != j] for j in range(len(c))]
        return np.array(
            [[np.prod([(1 + at - o) / (c[j] - o) for o in others[j]]) for j in range(len(c))] for at in c], dtype=float
        )


def _solved(rows: list[list[complex]]) -> list[complex]:
    """Solution x (n) of n linear equations; each row holds n coefficients and the right side, and is overwritten.

    For so few equations this takes a tenth of the time of NumPy's solver.
    """
    n = len(rows)
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    x: list[complex] = [0j] * n
    for k in reversed(range(n)):
        x[k] = (rows[k][n] - sum(rows[k][i] * x[i] for i in range(k + 1, n))) / rows[k][k]
    return x


RK4 = Tableau(A=((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6))
DORMAND_PRINCE = Tableau(
    A=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    b=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
    error=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
)
# [HairerNorsettWanner1993, eq. II.6.12 and the code DOPRI5]
DORMAND_PRINCE_DENSE = replace(
    DORMAND_PRINCE,
    dense=(
        -12715105075 / 11282082432,
        0.0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ),
)
# The last stage of Dormand-Prince serves only the embedded error.
DORMAND_PRINCE_FIXED = Tableau(A=DORMAND_PRINCE.A[:6], b=DORMAND_PRINCE.b[:6])

# One stage in the middle of the step: Gauss of order 2, which neither damps nor amplifies an oscillation.
MIDPOINT = Tableau(A=((1 / 2,),), b=(1.0,), groups=(1,))

# Trapezoidal rule to t + (2 - sqrt2) h, BDF2 over the rest, with equal diagonals. [HoseaShampine1996, table 1]
_D, _W = 1 - math.sqrt(2) / 2, math.sqrt(2) / 4
TR_BDF2 = Tableau(A=((), (_D, _D), (_W, _W, _D)), b=(_W, _W, _D), groups=(1, 1, 1))

# [HairerWanner1996, table IV.5.6]
_R = math.sqrt(6)
RADAU_IIA_5 = Tableau(
    A=(
        ((88 - 7 * _R) / 360, (296 - 169 * _R) / 1800, (-2 + 3 * _R) / 225),
        ((296 + 169 * _R) / 1800, (88 + 7 * _R) / 360, (-2 - 3 * _R) / 225),
        ((16 - _R) / 36, (16 + _R) / 36, 1 / 9),
    ),
    b=((16 - _R) / 36, (16 + _R) / 36, 1 / 9),
    groups=(3,),
)

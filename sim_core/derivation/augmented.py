"""The constrained solve with accelerations and multipliers as unknowns side by side: one LDL' of the KKT matrix.

    | M  J' | | x |   | r1 |
    | J  -r | | y | = | r2 |        r: the regularization of rows that may lose rank, its bias refined away

The rows come last in the elimination, so that no pivot is zero where M is definite.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.constrained import REFINEMENTS
from sim_core.derivation.elimination import Entries, Factor, dense, entries_of, factorize, minimum_degree, sparse


@dataclass(frozen=True)
class AugmentedFactor:
    """Factor of the whole matrix; `penalty` holds the unit-norm rows whose J' J was added to M."""

    whole: Factor
    penalty: list[dict[int, ca.SX]]
    regularization: float
    n_q: int

    def parts(self) -> ca.SX:
        """Every number that `solve` needs, as one column."""
        return ca.vertcat(*self.whole.parts(), *[value for row in self.penalty for value in row.values()])

    def with_parts(self, parts: ca.SX) -> AugmentedFactor:
        """The same structure around a stored column of numbers."""
        numbers = ca.vertsplit(parts)
        n = len(self.whole.parts())
        rest = iter(numbers[n:])
        penalty = [{index: next(rest) for index in row} for row in self.penalty]
        return AugmentedFactor(self.whole.with_parts(numbers[:n]), penalty, self.regularization, self.n_q)

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """x and y for right-hand sides r1 (n_q) and r2 (n_r)."""
        n_rows = r2.numel()
        right = ca.densify(r1)
        for row, reach in enumerate(self.penalty):
            for index, value in reach.items():
                right[index] += value * r2[row]
        y = ca.SX(n_rows, 1)
        for _ in range(1 + REFINEMENTS if self.regularization else 1):
            wanted = ca.vertcat(right, r2 - self.regularization * y)
            both = dense(self.whole.backward(self.whole.forward(sparse(wanted))), self.n_q + n_rows)
            y = both[self.n_q :]
        return both[: self.n_q], y


def factorize_augmented(
    M: ca.SX, J: ca.SX, regularization: float, penalty_rows: list[int], idle: ca.SX | None = None
) -> AugmentedFactor:
    """Factor for M (n_q, n_q) and J (n_r, n_q); `penalty_rows` of J make M definite.

    idle  (n_r,): 1 for rows of J that are zero now, so that the matrix is regular: their y is -r2
    """
    n_q, n_rows = M.shape[0], J.shape[0]
    rows = [sparse(J[row, :].T) for row in range(n_rows)]
    entries: Entries = entries_of(M)
    for row in penalty_rows:
        for i, value_i in rows[row].items():
            for j, value_j in rows[row].items():
                entries[i, j] = entries.get((i, j), ca.SX(0)) + value_i * value_j
    order = [*minimum_degree(set(entries), n_q), *range(n_q, n_q + n_rows)]
    for row, reach in enumerate(rows):
        for index, value in reach.items():
            entries[n_q + row, index] = entries[index, n_q + row] = value
        entries[n_q + row, n_q + row] = ca.SX(-regularization) - (0 if idle is None else idle[row])
    penalty = [rows[row] if row in penalty_rows else {} for row in range(n_rows)]
    return AugmentedFactor(factorize(entries, n_q + n_rows, order=order), penalty, regularization, n_q)

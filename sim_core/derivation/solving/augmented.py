"""Augmented solve: accelerations x and multipliers y together, by one LDL' factorization of the KKT matrix.

    | M  J' | | x |   | r1 |
    | J  -E | | y | = | r2 |

M is the mass matrix, and J is the Jacobian of the constraint rows. The diagonal matrix E regularizes constraint rows
that may lose rank. Its entries are EPSILON times the typical diagonal entries of J M^-1 J', see
`Regularization.row_scales`. Iterative refinement removes the effect of E on the result. The constraint rows are
eliminated last, so that no pivot is zero if M is positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.solving.constrained import (
    EPSILON,
    REFINEMENTS,
    Regularization,
    missing,
    penalized,
    refinement_length,
)
from sim_core.derivation.solving.elimination import (
    Entries,
    Factor,
    dense,
    entries_of,
    factorize,
    minimum_degree,
    sparse,
)


@dataclass(frozen=True)
class AugmentedFactor:
    """LDL' factorization `whole` of the KKT matrix [M J'; J 0], with which `solve` solves M x + J' y = r1, J x = r2.

    The attributes other than `whole` have the same meaning as those of ConstrainedFactor.
    """

    whole: Factor
    penalty: list[dict[int, ca.SX]]
    added: list[ca.SX]
    is_ill_conditioned: bool
    n_q: int
    rows: list[dict[int, ca.SX]]
    idle: list[ca.SX]

    def parts(self) -> ca.SX:
        """All numbers that `solve` needs, as one column. `with_parts` makes a factor from such a column."""
        penalty = [value for row in self.penalty for value in row.values()]
        return ca.vertcat(*self.whole.parts(), *penalty, *self.added)

    def pivots(self) -> tuple[int, int]:
        """Range (begin, end) of the reciprocal pivots of the constraint rows in the column that `parts` returns.

        The range is empty (begin = end) if no constraint row may lose rank.
        """
        end = len(self.whole.parts())
        return end - len(self.added), end

    def pivot_rows(self) -> list[int]:
        """Index of the constraint row to which each reciprocal pivot belongs, in the order of the pivots (`pivots`)."""
        return list(range(len(self.added)))

    def with_parts(self, parts: ca.SX) -> AugmentedFactor:
        """A factor of the same structure, with the numbers in a column `parts` that the method `parts` returned."""
        numbers = ca.vertsplit(parts)
        n = len(self.whole.parts())
        rest = iter(numbers[n:])
        penalty = [{index: next(rest) for index in row} for row in self.penalty]
        added = [next(rest) for _ in self.added]
        return AugmentedFactor(
            self.whole.with_parts(numbers[:n]), penalty, added, self.is_ill_conditioned, self.n_q, [], []
        )

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Solution x (n_q,), y (n_r,) of M x + J' y = r1, J x = r2."""
        n_rows = r2.numel()
        right = ca.densify(r1)
        for row, reach in enumerate(self.penalty):
            for index, value in reach.items():
                right[index] += value * r2[row]
        added = ca.vertcat(*self.added) if self.added else ca.SX(n_rows, 1)
        x, y = self._solved(right, r2)
        if not self.added:
            return x, y
        before = ca.SX(n_rows, 1)
        for _ in range(REFINEMENTS):
            before, (x, y) = y, self._solved(right, r2 - added * y)
        if not self.is_ill_conditioned:
            return x, y
        left = ca.vertcat(*missing(self.rows, self.idle, x, y, r2)) if self.rows else added * (y - before)
        dx, dy = self._solved(ca.SX(self.n_q, 1), -left)
        length = refinement_length(self.added, ca.vertsplit(left), ca.vertsplit(dy))
        return x + length * dx, y + length * dy

    def _solved(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        n = self.n_q + r2.numel()
        both = dense(self.whole.backward(self.whole.forward(sparse(ca.vertcat(r1, r2)))), n)
        return both[: self.n_q], both[self.n_q :]


def factorize_augmented(
    M: ca.SX, J: ca.SX, regularization: Regularization, idle: ca.SX | None = None
) -> AugmentedFactor:
    """Factor of the whole KKT matrix of M x + J' y = r1, J x = r2, for M (n_q, n_q) and J (n_r, n_q).

    idle  (n_r,) flags: 1 for a row of J that is switched off, so that all its entries are zero; otherwise 0. The KKT
          matrix stays regular; the multiplier y of a switched-off row is -r2
    """
    n_q, n_rows = M.shape[0], J.shape[0]
    rows = [sparse(J[row, :].T) for row in range(n_rows)]
    entries: Entries = entries_of(M)
    penalty = penalized(entries, rows, regularization.weights)
    order = [*minimum_degree(set(entries), n_q), *range(n_q, n_q + n_rows)]
    added = [EPSILON * scale for scale in regularization.row_scales]
    resting = [ca.SX(0) if idle is None else ca.SX(idle[row]) for row in range(n_rows)]
    for row, reach in enumerate(rows):
        for index, value in reach.items():
            entries[n_q + row, index] = entries[index, n_q + row] = value
        entries[n_q + row, n_q + row] = -resting[row] - (added[row] if added else 0)
    whole = factorize(entries, n_q + n_rows, order=order)
    return AugmentedFactor(whole, penalty, added, regularization.is_ill_conditioned, n_q, rows, resting)

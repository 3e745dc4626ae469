"""The constrained solve as straight-line code.

    M x + J' y = r1
    J x        = r2        S = J M^-1 J',   S y = J M^-1 r1 - r2

Where M alone is singular (Euler parameters) J_n' J_n of the unit-norm rows is added to it, which changes neither x nor
y as long as r1 gets J_n' r2 too. Where the rows may lose rank, S gets a small multiple of the identity, and the bias it
puts on y is taken out by proximal refinement, so that consistent rows are met to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.elimination import Entries, Factor, dense, entries_of, factorize, sparse

REFINEMENTS = 2


@dataclass(frozen=True)
class ConstrainedFactor:
    """Factors of M and S, and Y = L^-1 P J' by columns; `regularization` is what was added to S."""

    mass: Factor
    schur: Factor
    Y: list[dict[int, ca.SX]]
    penalty: list[dict[int, ca.SX]]
    regularization: float
    n_q: int

    def parts(self) -> ca.SX:
        """Every number that `solve` needs, as one column."""
        columns = [value for column in [*self.Y, *self.penalty] for value in column.values()]
        return ca.vertcat(*self.mass.parts(), *self.schur.parts(), *columns)

    def with_parts(self, parts: ca.SX) -> ConstrainedFactor:
        """The same structure around a stored column of numbers."""
        numbers = ca.vertsplit(parts)
        n_mass, n_schur = len(self.mass.parts()), len(self.schur.parts())
        rest = iter(numbers[n_mass + n_schur :])
        return ConstrainedFactor(
            self.mass.with_parts(numbers[:n_mass]),
            self.schur.with_parts(numbers[n_mass : n_mass + n_schur]),
            [{row: next(rest) for row in column} for column in self.Y],
            [{row: next(rest) for row in column} for column in self.penalty],
            self.regularization,
            self.n_q,
        )

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """x and y for right-hand sides r1 (n_q) and r2 (n_r)."""
        n_rows = len(self.Y)
        right = sparse(r1)
        targets = ca.vertsplit(r2) if n_rows else []
        for row, penalty in enumerate(self.penalty):
            for index, value in penalty.items():
                right[index] = right.get(index, ca.SX(0)) + value * targets[row]
        z = self.mass.forward(right)
        if not n_rows:
            return dense(self.mass.backward(z), self.n_q), ca.SX(0, 1)
        scaled = {k: value * self.mass.inverse_diagonal[k] for k, value in z.items()}
        b = {
            row: sum((value * scaled[k] for k, value in column.items() if k in scaled), ca.SX(0)) - targets[row]
            for row, column in enumerate(self.Y)
        }
        y = self.schur.backward(self.schur.forward(b))
        if self.regularization:
            for _ in range(REFINEMENTS):
                again = {row: value + self.regularization * y[row] for row, value in b.items()}
                y = self.schur.backward(self.schur.forward(again))
        for row, reach in enumerate(self.Y):
            for k, value in reach.items():
                z[k] = z[k] - value * y[row] if k in z else -value * y[row]
        return dense(self.mass.backward(z), self.n_q), dense(y, n_rows)


def factorize_constrained(
    M: ca.SX, J: ca.SX, regularization: float, penalty_rows: list[int], idle: ca.SX | None = None
) -> ConstrainedFactor:
    """Factor for M (n_q, n_q) and J (n_r, n_q); `penalty_rows` of J make M definite.

    idle  (n_r,): 1 for rows of J that are zero now, so that S is regular: their y is -r2
    """
    n_q, n_rows = M.shape[0], J.shape[0]
    rows = [sparse(J[row, :].T) for row in range(n_rows)]
    mass_entries: Entries = entries_of(M)
    for row in penalty_rows:
        for i, value_i in rows[row].items():
            for j, value_j in rows[row].items():
                mass_entries[i, j] = mass_entries.get((i, j), ca.SX(0)) + value_i * value_j
    mass = factorize(mass_entries, n_q, last_first=True)
    Y = [mass.forward(row) for row in rows]
    S: Entries = {}
    for i, left in enumerate(Y):
        weighted = {k: value * mass.inverse_diagonal[k] for k, value in left.items()}
        for j in range(i + 1):
            shared = [weighted[k] * value for k, value in Y[j].items() if k in weighted]
            if shared:
                S[i, j] = S[j, i] = sum(shared[1:], shared[0])
        S[i, i] = S.get((i, i), ca.SX(0)) + regularization + (0 if idle is None else idle[i])
    penalty = [rows[row] if row in penalty_rows else {} for row in range(n_rows)] if penalty_rows else []
    return ConstrainedFactor(mass, factorize(S, n_rows), Y, penalty, regularization, n_q)

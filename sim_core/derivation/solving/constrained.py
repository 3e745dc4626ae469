"""Constrained solve by the Schur complement S, as code without conditional jumps.

    M x + J' y = r1
    J x        = r2        S = J M^-1 J',   S y = J M^-1 r1 - r2

M is the mass matrix, and J is the Jacobian of the constraint rows. With Euler parameters, M is singular. A unit-norm
row J_n is a row of J that keeps the Euler parameters of a body at norm 1. For each unit-norm row, w J_n' J_n is added
to M, and w J_n' r2 to r1; together these changes affect neither x nor y. The weight w has the size of the body's
inertia, so that no digits are lost.

If constraint rows may lose rank, each diagonal entry of S is increased by EPSILON times itself. The increment must not
be the same for all rows, because the entries of light bodies are much larger than the entries of heavy ones. The
increment makes y slightly wrong; REFINEMENTS proximal refinements reduce this error.

If light bodies carry heavy ones, S is ill-conditioned: a few of its eigenvalues are only 1e-8 times its diagonal
entries. The refinements then leave a part of the error, and rounding adds to it. One more refinement, on the residual
J x - r2, corrects both. Its length is found by a line search: the multiple of the refinement that leaves the smallest
error in the norm of S is added. A length of 1 would leave 1 to 5 % of the error in the directions of the small
eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.derivation.solving.elimination import Entries, Factor, dense, entries_of, factorize, sparse

EPSILON = 1e-9  # regularization of a row, as a share of its diagonal entry in S, or of its row scale if that is larger
REFINEMENTS = 2  # proximal refinements, each of which multiplies the bias by EPSILON over an eigenvalue's share
LONGEST = 2.0  # largest length of the last refinement; dependent rows have only rounding to refine


@dataclass(frozen=True)
class Regularization:
    """Numbers that keep M x + J' y = r1, J x = r2 solvable if M is singular or J loses rank.

    row_scales  (n_r,) typical diagonal entries of the Schur complement S = J M^-1 J'. They set the size of the
                regularization, also where a row of J vanishes; empty if J keeps its rank
    weights     {index of a unit-norm row: weight w}. A unit-norm row J_n is a row of J that keeps the Euler parameters
                of a body at norm 1; w J_n' J_n is added to M
    is_ill_conditioned  whether S is ill-conditioned, so that the solution needs a last refinement on the residual
                        J x - r2
    """

    row_scales: list[ca.SX]
    weights: dict[int, ca.SX]
    is_ill_conditioned: bool = False


NOTHING = Regularization([], {})


def penalized(M: Entries, rows: list[dict[int, ca.SX]], weights: dict[int, ca.SX]) -> list[dict[int, ca.SX]]:
    """Add w J_n' J_n to M, in place, for each unit-norm row J_n of J with its weight w.

    A unit-norm row keeps the Euler parameters of a body at norm 1. The function returns one {column: value} per row of
    J: the vector w J_n for a unit-norm row, an empty dict for any other row. Without unit-norm rows it returns [].

    M        entries of the mass matrix
    rows     rows of J, each as {column: value}
    weights  {index of a unit-norm row: weight w}
    """
    weighted: list[dict[int, ca.SX]] = [{} for _ in rows]
    for row, weight in weights.items():
        weighted[row] = {i: weight * value for i, value in rows[row].items()}
        for i, value_i in weighted[row].items():
            for j, value_j in rows[row].items():
                M[i, j] = M.get((i, j), ca.SX(0)) + value_i * value_j
    return weighted if weights else []


def missing(rows: list[dict[int, ca.SX]], idle: list[ca.SX], x: ca.SX, y: ca.SX, r2: ca.SX) -> list[ca.SX]:
    """Residual of each constraint row of the KKT system, after an approximate solution x, y.

    The constraint rows are J x = r2. A row that is switched off is -y = r2 instead, which determines its multiplier y.

    rows  rows of J, each as {column: value}; those of switched-off rows are zero
    idle  flag of each row: 1 if it is switched off, otherwise 0
    x, y  accelerations (n_q,) and Lagrange multipliers (n_r,)
    r2    right-hand side (n_r,) of the rows
    """
    found = []
    for row, reach in enumerate(rows):
        total = -r2[row] - idle[row] * y[row]
        for k, value in reach.items():
            total = total + value * x[k]
        found.append(total)
    return found


def refinement_length(added: list[ca.SX], left: list[ca.SX], dy: list[ca.SX]) -> ca.SX:
    """Step length alpha with which y + alpha dy is the best improvement of an approximate solution y of S y = b.

    S is the Schur complement. alpha minimizes the error in the metric of S, and is at most LONGEST.

    added  diagonal (n_r,) of the regularization E, the diagonal matrix that is added to S
    left   residual b - S y (n_r,)
    dy     refinement (n_r,): solution of (S + E) dy = left
    """
    tiny = 1e-280  # keeps the quotient finite if the residual is zero
    gained = sum((r * z for r, z in zip(left, dy, strict=True)), ca.SX(tiny))
    held = sum((e * z * z for e, z in zip(added, dy, strict=True)), ca.SX(0))
    return gained / ca.fmax(gained - held, gained / LONGEST)


@dataclass(frozen=True)
class ConstrainedFactor:
    """Factorization with which `solve` solves M x + J' y = r1, J x = r2 by the Schur complement S = J M^-1 J'.

    mass                factor P' L D L' P of M
    schur               factor of S, with `added` on the diagonal
    Y                   columns of L^-1 P J', each as {row: value}
    penalty             one {column: value} per row of J: the vector w J_n for a row J_n that keeps the Euler parameters
                        of a body at norm 1, an empty dict for any other row; [] without Euler parameters. M contains
                        w J_n' J_n, without which it is singular; `solve` therefore adds w J_n' r2 to r1
    added               (n_r,) numbers added to the diagonal of S; empty if J keeps its rank
    is_ill_conditioned  whether `solve` makes a last refinement, on the residual J x - r2
    rows                rows of J, each as {column: value}; empty in a factor made by `with_parts`
    idle                (n_r,) flags, 1 for a switched-off row of J; empty in a factor made by `with_parts`
    """

    mass: Factor
    schur: Factor
    Y: list[dict[int, ca.SX]]
    penalty: list[dict[int, ca.SX]]
    added: list[ca.SX]
    is_ill_conditioned: bool
    n_q: int
    rows: list[dict[int, ca.SX]]
    idle: list[ca.SX]

    def parts(self) -> ca.SX:
        """All numbers of the factorization that `solve` needs, as one column, from which `with_parts` restores it."""
        columns = [value for column in [*self.Y, *self.penalty] for value in column.values()]
        return ca.vertcat(*self.mass.parts(), *self.schur.parts(), *columns, *self.added)

    def pivots(self) -> tuple[int, int]:
        """Range (begin, end) of the reciprocal pivots of the constraint rows in the column that `parts` returns.

        The range is empty (begin = end) if no constraint row may lose rank.
        """
        end = len(self.mass.parts()) + len(self.schur.parts())
        return end - len(self.added), end

    def pivot_rows(self) -> list[int]:
        """Index of the constraint row to which each reciprocal pivot belongs, in the order of the pivots (`pivots`)."""
        return self.schur.order if self.added else []

    def with_parts(self, parts: ca.SX) -> ConstrainedFactor:
        """A factor of the same structure, with the numbers in a column `parts` that the method `parts` returned."""
        numbers = ca.vertsplit(parts)
        n_mass, n_schur = len(self.mass.parts()), len(self.schur.parts())
        rest = iter(numbers[n_mass + n_schur :])
        return ConstrainedFactor(
            self.mass.with_parts(numbers[:n_mass]),
            self.schur.with_parts(numbers[n_mass : n_mass + n_schur]),
            [{row: next(rest) for row in column} for column in self.Y],
            [{row: next(rest) for row in column} for column in self.penalty],
            [next(rest) for _ in self.added],
            self.is_ill_conditioned,
            self.n_q,
            [],
            [],
        )

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Solution x (n_q,), y (n_r,) of M x + J' y = r1, J x = r2."""
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
        y = self._schur_solved(b)
        before = dict.fromkeys(y, ca.SX(0))
        for _ in range(REFINEMENTS if self.added else 0):
            again = {row: value + self.added[row] * y[row] for row, value in b.items()}
            before, y = y, self._schur_solved(again)
        if self.is_ill_conditioned and not self.rows:
            left = [self.added[row] * (y[row] - before[row]) for row in range(n_rows)]
            dy = self._schur_solved(dict(enumerate(left)))
            length = refinement_length(self.added, left, [dy[row] for row in range(n_rows)])
            y = {row: value + length * dy[row] for row, value in y.items()}
        self._push(z, y)
        x, multipliers = dense(self.mass.backward(z), self.n_q), dense(y, n_rows)
        if self.is_ill_conditioned and self.rows:
            left = missing(self.rows, self.idle, x, multipliers, r2)
            dy = self._schur_solved(dict(enumerate(left)))
            length = refinement_length(self.added, left, [dy[row] for row in range(n_rows)])
            dy = {row: length * value for row, value in dy.items()}
            pushed: dict[int, ca.SX] = {}
            self._push(pushed, dy)
            x += dense(self.mass.backward(pushed), self.n_q)
            multipliers += dense(dy, n_rows)
        return x, multipliers

    def _schur_solved(self, b: dict[int, ca.SX]) -> dict[int, ca.SX]:
        return self.schur.backward(self.schur.forward(b))

    def _push(self, z: dict[int, ca.SX], y: dict[int, ca.SX]) -> None:
        """Subtract Y y from z in place, with Y = L^-1 P J' and the factor P' L D L' P of M.

        z, y  sparse vectors {index: value}
        """
        for row, reach in enumerate(self.Y):
            for k, value in reach.items():
                z[k] = z[k] - value * y[row] if k in z else -value * y[row]


def factorize_constrained(
    M: ca.SX, J: ca.SX, regularization: Regularization = NOTHING, idle: ca.SX | None = None
) -> ConstrainedFactor:
    """Factor of M x + J' y = r1, J x = r2 by the Schur complement S = J M^-1 J', for M (n_q, n_q) and J (n_r, n_q).

    idle  (n_r,) flags: 1 for a row of J that is switched off, so that all its entries are zero; otherwise 0. S stays
          regular; the multiplier y of a switched-off row is -r2
    """
    n_q, n_rows = M.shape[0], J.shape[0]
    rows = [sparse(J[row, :].T) for row in range(n_rows)]
    mass_entries: Entries = entries_of(M)
    penalty = penalized(mass_entries, rows, regularization.weights)
    mass = factorize(mass_entries, n_q, last_first=True)
    Y = [mass.forward(row) for row in rows]
    resting = [ca.SX(0) if idle is None else ca.SX(idle[row]) for row in range(n_rows)]
    S: Entries = {}
    added: list[ca.SX] = []
    for i, left in enumerate(Y):
        weighted = {k: value * mass.inverse_diagonal[k] for k, value in left.items()}
        for j in range(i + 1):
            shared = [weighted[k] * value for k, value in Y[j].items() if k in weighted]
            if shared:
                S[i, j] = S[j, i] = sum(shared[1:], shared[0])
        S[i, i] = S.get((i, i), ca.SX(0))
        if regularization.row_scales:
            added.append(EPSILON * ca.fmax(S[i, i], regularization.row_scales[i]))
            S[i, i] = S[i, i] + added[i]
        S[i, i] = S[i, i] + resting[i]
    ill = regularization.is_ill_conditioned
    return ConstrainedFactor(mass, factorize(S, n_rows), Y, penalty, added, ill, n_q, rows, resting)


def diagonal_of_S(M: ca.SX, J: ca.SX, weights: dict[int, ca.SX]) -> list[ca.SX]:
    """Diagonal entries of the Schur complement S = J (M + sum of w J_n' J_n)^-1 J'.

    weights  {index of a unit-norm row: weight w}; a unit-norm row J_n is a row of J that keeps the Euler parameters of
             a body at norm 1
    """
    if ca.veccat(M, J, *weights.values()).is_constant():
        numbers, rows = np.array(ca.DM(M)), np.array(ca.DM(J))
        for row, weight in weights.items():
            numbers += float(weight) * np.outer(rows[row], rows[row])
        return [ca.SX(value) for value in np.einsum("ij,ji->i", rows, np.linalg.solve(numbers, rows.T)).tolist()]
    factor = factorize_constrained(M, J, Regularization([], weights))
    inverse = factor.mass.inverse_diagonal
    return [sum((value * value * inverse[k] for k, value in reach.items()), ca.SX(0)) for reach in factor.Y]

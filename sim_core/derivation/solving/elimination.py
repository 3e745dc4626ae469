"""Symbolic sparse LDL': produces straight-line code that touches structural nonzeros only.

The constrained solve needs two factorizations, of M and of the Schur complement S = J M^-1 J' (+ regularization), both
without pivoting, because M and S are positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

Entries = dict[tuple[int, int], ca.SX]


def entries_of(A: ca.SX) -> Entries:
    """{(row, column): value} of the structural nonzeros of a matrix."""
    rows, columns = A.sparsity().get_triplet()
    values = ca.vertsplit(ca.SX(A).nz[:]) if A.nnz() else []
    return {
        key: value for key, value in zip(zip(rows, columns, strict=True), values, strict=True) if not value.is_zero()
    }


def minimum_degree(pattern: set[tuple[int, int]], n: int, last_first: bool = False) -> list[int]:
    """An elimination order with little fill-in: always the row with the fewest remaining neighbours.

    last_first  take the last instead of the first of several; in a tree this puts children before parents
    """
    neighbours = [
        {j for i, j in pattern if i == k and j != k} | {i for i, j in pattern if j == k and i != k} for k in range(n)
    ]
    order: list[int] = []
    left = set(range(n))
    while left:
        pivot = min(left, key=lambda k: (len(neighbours[k]), -k if last_first else k))
        for i in neighbours[pivot]:
            neighbours[i] |= neighbours[pivot] - {i}
            neighbours[i].discard(pivot)
        left.remove(pivot)
        order.append(pivot)
    return order


@dataclass(frozen=True)
class Factor:
    """A = P' L D L' P with unit L: columns of L below the diagonal, and 1 / D, indexed in elimination order."""

    order: list[int]
    columns: list[dict[int, ca.SX]]
    inverse_diagonal: list[ca.SX]

    def parts(self) -> list[ca.SX]:
        """All numbers of the factor (L, then 1 / D), in a fixed order."""
        return [value for column in self.columns for value in column.values()] + self.inverse_diagonal

    def with_parts(self, parts: list[ca.SX]) -> Factor:
        """A factor of the same structure with other numbers, in the order of `parts`."""
        numbers = iter(parts)
        columns = [{row: next(numbers) for row in column} for column in self.columns]
        return Factor(self.order, columns, [next(numbers) for _ in self.inverse_diagonal])

    def forward(self, b: dict[int, ca.SX]) -> dict[int, ca.SX]:
        """y with L y = P b; b and y sparse, y indexed in elimination order."""
        position = {index: k for k, index in enumerate(self.order)}
        y = {position[index]: value for index, value in b.items()}
        for k in range(len(self.order)):
            if k not in y:
                continue
            for row, value in self.columns[k].items():
                y[row] = y[row] - value * y[k] if row in y else -value * y[k]
        return y

    def backward(self, y: dict[int, ca.SX]) -> dict[int, ca.SX]:
        """x with L' P x = D^-1 y; y indexed in elimination order, x like A."""
        x: dict[int, ca.SX] = {}
        for k in reversed(range(len(self.order))):
            terms = [value * x[row] for row, value in self.columns[k].items() if row in x]
            if k not in y and not terms:
                continue
            total = y[k] * self.inverse_diagonal[k] if k in y else ca.SX(0)
            for term in terms:
                total = total - term
            x[k] = total
        return {self.order[k]: value for k, value in x.items()}


def factorize(A: Entries, n: int, last_first: bool = False, order: list[int] | None = None) -> Factor:
    """LDL' of a symmetric matrix from its entries; it must be positive definite or `order` must avoid zero pivots."""
    order = minimum_degree(set(A), n, last_first) if order is None else order
    position = {index: k for k, index in enumerate(order)}
    work = {(position[i], position[j]): value for (i, j), value in A.items() if position[i] >= position[j]}
    columns: list[dict[int, ca.SX]] = []
    inverse_diagonal: list[ca.SX] = []
    for k in range(n):
        below = {i: work[i, k] for i in range(k + 1, n) if (i, k) in work}
        inverse = 1 / work[k, k]
        column = {i: value * inverse for i, value in below.items()}
        for i, value in below.items():
            for j, scale in column.items():
                if j <= i:
                    product = value * scale
                    work[i, j] = work[i, j] - product if (i, j) in work else -product
        columns.append(column)
        inverse_diagonal.append(inverse)
    return Factor(order, columns, inverse_diagonal)


def sparse(values: ca.SX) -> dict[int, ca.SX]:
    """{row: value} of the nonzero entries of a column."""
    return {row: value for row, value in enumerate(ca.vertsplit(ca.densify(values))) if not value.is_zero()}


def dense(values: dict[int, ca.SX], n: int) -> ca.SX:
    """A column (n,) from {row: value}."""
    return ca.vertcat(*[values.get(row, ca.SX(0)) for row in range(n)]) if n else ca.SX(0, 1)

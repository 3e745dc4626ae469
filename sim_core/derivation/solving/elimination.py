"""Symbolic sparse LDL' factorization: code without conditional jumps, for structural nonzeros only.

The constrained solve factorizes the mass matrix M and the regularized Schur complement S = J M^-1 J'. Neither needs
pivoting, because both are positive definite.
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
    """An elimination order (n,) with little fill-in: the next row is always the one with the fewest neighbours left.

    pattern     (row, column) of the structural nonzeros
    last_first  whether ties are resolved in favour of the last row; in a tree this puts children before parents
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
    """Factor A = P' L D L' P with a unit lower triangle L and an elimination order P.

    Holds the columns of L below the diagonal and the reciprocals 1 / D, both in elimination order.
    """

    order: list[int]
    columns: list[dict[int, ca.SX]]
    inverse_diagonal: list[ca.SX]

    def parts(self) -> list[ca.SX]:
        """All numbers of the factor, as a list: the columns of L, then 1 / D. `with_parts` makes a factor from such a
        list.
        """
        return [value for column in self.columns for value in column.values()] + self.inverse_diagonal

    def with_parts(self, parts: list[ca.SX]) -> Factor:
        """A factor of the same structure, with the numbers in a list `parts` that the method `parts` returned."""
        numbers = iter(parts)
        columns = [{row: next(numbers) for row in column} for column in self.columns]
        return Factor(self.order, columns, [next(numbers) for _ in self.inverse_diagonal])

    def forward(self, b: dict[int, ca.SX]) -> dict[int, ca.SX]:
        """Solution {index: value} of L y = P b for a sparse vector b, with L and P of the factor A = P' L D L' P.

        The indices of y are positions in the elimination order.

        b  {row of A: value}
        """
        position = {index: k for k, index in enumerate(self.order)}
        y = {position[index]: value for index, value in b.items()}
        for k in range(len(self.order)):
            if k not in y:
                continue
            for row, value in self.columns[k].items():
                y[row] = y[row] - value * y[k] if row in y else -value * y[k]
        return y

    def backward(self, y: dict[int, ca.SX]) -> dict[int, ca.SX]:
        """Solution {row of A: value} of L' P x = D^-1 y, with L, D and P of the factor A = P' L D L' P.

        y  {position in the elimination order: value}, as `forward` returns it
        """
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
    """LDL' factor of a symmetric matrix A (n, n), given by its entries.

    A must be positive definite, or `order` must be an elimination order without zero pivots; by default the order is
    that of `minimum_degree`.
    """
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
    """{row: value} of the entries of a column that are not structurally zero."""
    return {row: value for row, value in enumerate(ca.vertsplit(ca.densify(values))) if not value.is_zero()}


def dense(values: dict[int, ca.SX], n: int) -> ca.SX:
    """Column (n,) with the given values; rows without a value are structurally zero.

    values  {row: value}
    """
    return ca.vertcat(*[values.get(row, ca.SX(0)) for row in range(n)]) if n else ca.SX(0, 1)

"""Sparse LDL' factorization of a symmetric matrix of blocks, as loops over its columns.

The order of the elimination has the fill of approximate minimum degree. Columns that do not depend on each other follow
each other, so that the processor computes them at the same time: a chain is eliminated from both ends. [JessKees1982]
Columns with equal numbers of rows share their code; a column with many blocks below its diagonal is eliminated block by
block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import casadi as ca

from sim_core.derivation.rolled.tree.steps import At, Steps
from sim_core.kernels.rolled import Sweep

MOST_FUSED = 3  # blocks below the diagonal of a column that is eliminated in a single step


class Elimination:
    """Order and places of the blocks of a factor L D L' of a symmetric positive definite matrix.

    The matrix is in the array `matrix`, its lower blocks one after the other, column by column, each by columns. They
    are replaced by the blocks of L. The reciprocals of D are in the array `pivots`, in the order of the elimination.

    sizes     number of rows of each block
    touching  pairs of different blocks between which the matrix is not zero
    size      number of entries of the array `matrix`
    rows      row of the matrix to which each reciprocal pivot belongs
    """

    def __init__(self, sizes: Sequence[int], touching: Iterable[tuple[int, int]], matrix: str, pivots: str) -> None:
        self._matrix, self._pivots, self._sizes = matrix, pivots, sizes
        n = len(sizes)
        neighbours: list[set[int]] = [set() for _ in range(n)]
        for i, j in touching:
            neighbours[i].add(j)
            neighbours[j].add(i)
        self._order = _in_rounds(neighbours, _least_fill(neighbours))
        self._position = {block: k for k, block in enumerate(self._order)}
        self._below = _filled(neighbours, self._order, self._position)
        self._firsts, total = list[int](), 0
        for size in sizes:
            self._firsts.append(total)
            total += size
        self._places: dict[tuple[int, int], int] = {}
        self.size = 0
        for block, below in zip(self._order, self._below, strict=True):
            for other in (block, *below):
                self._places[other, block] = self.size
                self.size += sizes[other] * sizes[block]
        self._pivot_places, place = dict[int, int](), 0
        for block in self._order:
            self._pivot_places[block] = place
            place += sizes[block]
        self._solving: dict[str, list[Sweep]] = {}
        self.rows = [self._firsts[block] + k for block in self._order for k in range(sizes[block])]

    @property
    def operations(self) -> int:
        """Approximate number of multiplications of the factorization."""
        total = 0
        for block, below in zip(self._order, self._below, strict=True):
            height = sum(self._sizes[other] for other in below)
            total += self._sizes[block] * (self._sizes[block] + height) ** 2
        return total

    def entry(self, i: int, j: int) -> tuple[At, bool]:
        """Place of the block of two block rows i, j, and whether the block there is that of (j, i)."""
        turned = self._position[i] < self._position[j]
        row, column = (j, i) if turned else (i, j)
        return At(self._matrix, self._places[row, column], self._sizes[row] * self._sizes[column]), turned

    def blocks(self) -> Iterable[At]:
        """Places of all blocks on and below the diagonal."""
        for (row, column), first in self._places.items():
            yield At(self._matrix, first, self._sizes[row] * self._sizes[column])

    def vector(self, block: int, array: str) -> At:
        """Place of a block's rows in a vector."""
        return At(array, self._firsts[block], self._sizes[block])

    def _pivot(self, block: int) -> At:
        return At(self._pivots, self._pivot_places[block], self._sizes[block])

    def _at(self, row: int, column: int) -> At:
        return self.entry(row, column)[0]

    # -- sweeps -------------------------------------------------------------------------------------------------------

    @cached_property
    def factorization(self) -> list[Sweep]:
        """Sweep that replaces the matrix by its factor."""
        steps, sizes = Steps("column", in_order=True), self._sizes
        for block, below in zip(self._order, self._below, strict=True):
            shape, n = tuple(sizes[other] for other in below), sizes[block]
            own, pivot = self._at(block, block), self._pivot(block)
            columns = [self._at(other, block) for other in below]
            if len(below) <= MOST_FUSED:
                targets = [self._at(i, j) for k, j in enumerate(below) for i in below[k:]]
                steps.add((n, shape), [own, *columns, *targets], [own, pivot, *columns, *targets], _column(n, shape))
                continue
            steps.add((n, ()), [own], [own, pivot], _column(n, ()))
            for at, m in zip(columns, shape, strict=True):
                steps.add(("scaled", n, m), [own, pivot, at], [at], _scaled(n, m))
            for k, j in enumerate(below):
                for i in below[k:]:
                    at = self._at(i, j)
                    inputs = [pivot, self._at(i, block), self._at(j, block), at]
                    steps.add(("updated", n, sizes[i], sizes[j]), inputs, [at], _updated(n, sizes[i], sizes[j]))
        return steps.sweeps()

    def solve(self, array: str) -> list[Sweep]:
        """Sweeps that replace a right-hand side in an array by the solution."""
        if array not in self._solving:
            self._solving[array] = self._solve(array)
        return self._solving[array]

    def _solve(self, array: str) -> list[Sweep]:
        forward, backward, sizes = Steps("forward", in_order=True), Steps("backward", in_order=True), self._sizes
        for block, below in zip(self._order, self._below, strict=True):
            n, own, x = sizes[block], self._at(block, block), self.vector(block, array)
            fused = below if len(below) <= MOST_FUSED else []
            shape = tuple(sizes[other] for other in fused)
            columns, others = [self._at(i, block) for i in fused], [self.vector(i, array) for i in fused]
            forward.add((n, shape), [own, x, *columns, *others], [x, *others], _forward(n, shape))
            for i in below[len(fused) :]:
                other, m = self.vector(i, array), sizes[i]
                forward.add(("passed", n, m), [self._at(i, block), x, other], [other], _passed(n, m))
        for block, below in zip(reversed(self._order), reversed(self._below), strict=True):
            n, own, x = sizes[block], self._at(block, block), self.vector(block, array)
            fused = below if len(below) <= MOST_FUSED else []
            if not fused and below:
                backward.add(("divided", n), [self._pivot(block), x], [x], lambda d, x: [d * x])
                for i in below:
                    other, m = self.vector(i, array), sizes[i]
                    backward.add(("taken", n, m), [self._at(i, block), x, other], [x], _taken(n, m))
                backward.add(("closed", n), [own, x], [x], _closed(n))
                continue
            shape = tuple(sizes[other] for other in fused)
            columns, others = [self._at(i, block) for i in fused], [self.vector(i, array) for i in fused]
            inputs = [own, self._pivot(block), x, *columns, *others]
            backward.add((n, shape), inputs, [x], _backward(n, shape))
        return [*forward.sweeps(), *backward.sweeps()]


def _least_fill(neighbours: Sequence[set[int]]) -> list[int]:
    """An elimination order with little fill-in."""
    n = len(neighbours)
    rows = [i for i in range(n) for _ in neighbours[i]] + list(range(n))
    columns = [j for i in range(n) for j in sorted(neighbours[i])] + list(range(n))
    return [int(k) for k in ca.Sparsity.triplet(n, n, rows, columns).amd()] if n > 1 else list(range(n))


def _in_rounds(neighbours: Sequence[set[int]], order: Sequence[int]) -> list[int]:
    """An order with the same fill-in in which blocks that do not depend on each other follow each other.

    Each round takes blocks whose neighbours in the filled matrix are neighbours of each other; their elimination adds
    no fill-in. No two blocks of a round are neighbours.
    """
    position = {block: k for k, block in enumerate(order)}
    left: list[set[int]] = [set() for _ in order]
    for block, below in zip(order, _filled(neighbours, order, position), strict=True):
        for other in below:
            left[block].add(other)
            left[other].add(block)
    found, ready, unknown = list[int](), set[int](), set(order)
    while len(found) < len(order):
        ready |= {block for block in unknown if all(left[block] <= left[other] | {other} for other in left[block])}
        beside, unknown = set[int](), set()
        for block in sorted(ready, key=position.__getitem__):
            if block not in beside:
                found.append(block)
                beside |= left[block]
                for other in left[block]:
                    left[other].remove(block)
        ready -= set(found)
        unknown = beside - ready
    return found


def _filled(neighbours: Sequence[set[int]], order: Sequence[int], position: dict[int, int]) -> list[list[int]]:
    """Blocks below the diagonal of each column of the factor, in the order of the elimination."""
    columns: dict[int, set[int]] = {}
    children: dict[int, list[int]] = {}
    found = []
    for k, block in enumerate(order):
        own = {j for j in neighbours[block] if position[j] > k}
        for child in children.get(block, ()):
            own |= columns[child] - {block}
        columns[block] = own
        ordered = sorted(own, key=position.__getitem__)
        if ordered:
            children.setdefault(ordered[0], []).append(block)
        found.append(ordered)
    return found


def _shaped(values: ca.SX, rows: int, columns: int) -> ca.SX:
    return ca.reshape(values, rows, columns)


def _triangle(A: ca.SX, n: int) -> tuple[ca.SX, list[ca.SX]]:
    """(unit lower triangle L in a full matrix, reciprocals 1 / D) of the factor L D L' of a block A."""
    work, inverses = ca.SX(A), list[ca.SX]()
    for k in range(n):
        inverses.append(1 / work[k, k])
        for i in range(k + 1, n):
            scale = work[i, k] * inverses[k]
            for j in range(k + 1, i + 1):
                work[i, j] = work[i, j] - scale * work[j, k]
        for i in range(k + 1, n):
            work[i, k] = work[i, k] * inverses[k]
    return work, inverses


def _over(W: ca.SX, L: ca.SX, n: int) -> ca.SX:
    """Z of Z L' = W, with a unit lower triangle L (n, n)."""
    Z = ca.SX(W)
    for k in range(n):
        for j in range(k):
            Z[:, k] = Z[:, k] - Z[:, j] * L[k, j]
    return Z


def _column(n: int, shape: tuple[int, ...]) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, *rest: ca.SX) -> list[ca.SX]:
        L, inverses = _triangle(_shaped(own, n, n), n)
        above = [_over(_shaped(W, m, n), L, n) for W, m in zip(rest[: len(shape)], shape, strict=True)]
        scaled = [ca.horzcat(*[Z[:, k] * inverses[k] for k in range(n)]) for Z in above]
        products = [above[i] @ scaled[k].T for k in range(len(shape)) for i in range(k, len(shape))]
        targets = [left - ca.vec(product) for left, product in zip(rest[len(shape) :], products, strict=True)]
        return [ca.vec(L), ca.vertcat(*inverses), *map(ca.vec, scaled), *targets]

    return step


def _scaled(n: int, m: int) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, pivot: ca.SX, W: ca.SX) -> list[ca.SX]:
        Z = _over(_shaped(W, m, n), _shaped(own, n, n), n)
        return [ca.vec(ca.horzcat(*[Z[:, k] * pivot[k] for k in range(n)]))]

    return step


def _updated(n: int, m: int, other: int) -> Callable[..., list[ca.SX]]:
    def step(pivot: ca.SX, L_i: ca.SX, L_j: ca.SX, target: ca.SX) -> list[ca.SX]:
        left, right = _shaped(L_i, m, n), _shaped(L_j, other, n)
        return [target - ca.vec(ca.horzcat(*[left[:, k] / pivot[k] for k in range(n)]) @ right.T)]

    return step


def _forward(n: int, shape: tuple[int, ...]) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, x: ca.SX, *rest: ca.SX) -> list[ca.SX]:
        L, x, m = _shaped(own, n, n), ca.SX(x), len(shape)
        for i in range(n):
            for j in range(i):
                x[i] = x[i] - L[i, j] * x[j]
        columns, others = rest[:m], rest[m:]
        return [x, *[b - _shaped(W, k, n) @ x for W, b, k in zip(columns, others, shape, strict=True)]]

    return step


def _passed(n: int, m: int) -> Callable[..., list[ca.SX]]:
    return lambda W, x, other: [other - _shaped(W, m, n) @ x]


def _taken(n: int, m: int) -> Callable[..., list[ca.SX]]:
    return lambda W, x, other: [x - _shaped(W, m, n).T @ other]


def _closed(n: int) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, x: ca.SX) -> list[ca.SX]:
        L, x = _shaped(own, n, n), ca.SX(x)
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                x[i] = x[i] - L[j, i] * x[j]
        return [x]

    return step


def _backward(n: int, shape: tuple[int, ...]) -> Callable[..., list[ca.SX]]:
    def step(own: ca.SX, pivot: ca.SX, x: ca.SX, *rest: ca.SX) -> list[ca.SX]:
        x, m = x * pivot, len(shape)
        for W, other, k in zip(rest[:m], rest[m:], shape, strict=True):
            x = x - _shaped(W, k, n).T @ other
        return _closed(n)(own, x)

    return step

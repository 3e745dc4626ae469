"""Constraint rows of a tree that some coordinate moves, and the sizes that regularize them.

Both follow from the numbers of all rows in a few states, which kernels compute that are compiled for this purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim_core.derivation.constraints import all_constraints
from sim_core.derivation.immovable import SAMPLES as STILL_SAMPLES
from sim_core.derivation.immovable import STILL, ImmovableRows, RestingRow, judged_rows
from sim_core.derivation.rolled.constraints.constrained import Scales
from sim_core.derivation.rolled.constraints.rows import Block, RowKinds
from sim_core.derivation.rolled.tree.links import Links, links_of
from sim_core.derivation.solving.solutions import has_loops
from sim_core.mechanism.description import Mechanism
from sim_core.solve import coordinate_scales, is_ill_conditioned, may_lose_rank, sampled_states

MOST_SAMPLED = 150  # coordinates up to which the sizes of rows come from several states, and not from the start alone
MOST_EXAMINED = 400  # rows up to which the eigenvalues of S are computed; more of them count as ill-conditioned


class RowNumbers(Protocol):
    """Numbers of the equations in a state."""

    def __call__(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Phi (n_h,), J (n_r, n_q), M (n_q, n_q)) at t = 0."""


@dataclass(frozen=True)
class CheckedRows:
    """The rows of a tree: its links, the rows by constraint, holonomic ones first, and their regularization.

    mass   for equations with the mass matrix; least: with the identity in place of it
    still  constraints with rows that no coordinate moves
    """

    links: Links
    blocks: Sequence[Block]
    mass: Scales
    least: Scales
    still: ImmovableRows


def all_rows_of(mechanism: Mechanism) -> CheckedRows:
    """All rows, also those that no coordinate moves, without regularization."""
    links = links_of(mechanism)
    kinds = RowKinds(mechanism, links)
    ordered = sorted(all_constraints(mechanism), key=lambda each: each.is_nonholonomic)
    blocks = [kinds.block(constraint) for constraint in ordered]
    return _unscaled(links, [block for block in blocks if block.n_rows])


def _unscaled(links: Links, blocks: Sequence[Block]) -> CheckedRows:
    none = Scales([1.0 for block in blocks for _ in range(block.n_rows)], False)
    return CheckedRows(links, blocks, none, none, ImmovableRows([], []))


def checked_rows_of(mechanism: Mechanism, numbers_of: Callable[[CheckedRows], RowNumbers]) -> CheckedRows:
    """The rows of a mechanism in joint coordinates.

    numbers_of  function that returns the numbers of given rows in any state
    Raises InvalidMechanism for a row that no coordinate moves and that is not zero.
    """
    every = all_rows_of(mechanism)
    if not every.blocks:
        return every
    found = numbers_of(every)
    start = np.array(mechanism.reference_q or mechanism.initial_q, dtype=float)
    p = np.array(mechanism.parameter_values(0))
    p[len(p) - len(mechanism.switched) :] = 1.0
    still, rests = _still(mechanism, every, found, start, p)
    kinds, kept, row = RowKinds(mechanism, every.links), list[Block](), 0
    for block in every.blocks:
        own = [k for k in range(block.n_rows) if not rests[row + k]]
        row += block.n_rows
        if own:
            kept.append(block if len(own) == block.n_rows else kinds.block(block.constraint, own))
    if not kept:
        return CheckedRows(every.links, kept, Scales((), False), Scales((), False), still)
    moving = ~rests

    def numbers(q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        Phi, J, M = found(q, np.zeros_like(q), p)
        return Phi[moving[: len(Phi)]], J[moving], M

    n_rows, is_closed = int(moving.sum()), has_loops(mechanism)
    # without loops the rows of valid joints keep their rank
    if not is_closed and (n_rows > MOST_EXAMINED or not may_lose_rank(numbers(start, p)[1], is_closed)):
        return CheckedRows(every.links, kept, Scales((), False), Scales((), False), still)
    is_set = any(block.parameters for block in kept)
    states = [start]
    if not is_set and start.size <= MOST_SAMPLED:
        prismatic = [joint.name for joint in mechanism.moving_joints if joint.is_length]
        scale = coordinate_scales(mechanism.coordinate_names, prismatic, mechanism.characteristic_length)
        states = sampled_states(start, scale, lambda q: numbers(q, p)[:2])
    values = [[(J, M) for _, J, M in (numbers(q, each) for q in states)] for each in _representative(mechanism, p)]
    sizes = [len(body.free_coordinates) for body in mechanism.bodies] if mechanism.has_body_coordinates else []
    mass = _scales([[(J, M, _solved(M, J.T, sizes)) for J, M in there] for there in values])
    least = _scales([[(J, None, J.T) for J, _ in there] for there in values])
    return CheckedRows(every.links, kept, mass, least, still)


def _still(
    mechanism: Mechanism, every: CheckedRows, numbers: RowNumbers, start: np.ndarray, p: np.ndarray
) -> tuple[ImmovableRows, np.ndarray]:
    """Constraints with rows that no coordinate moves, and whether each row is one of these."""
    draw, n = np.random.default_rng(1), start.size
    sampled = [numbers(draw.uniform(-1.0, 1.0, n), draw.uniform(-1.0, 1.0, n), p)[1] for _ in range(STILL_SAMPLES)]
    sizes = np.max([np.nan_to_num(np.linalg.norm(J, axis=1), nan=np.inf) for J in sampled], axis=0)
    rests = sizes <= STILL * max(1.0, mechanism.characteristic_length)
    own = np.array(mechanism.parameter_values(mechanism.start_constraint_mode))
    own[len(p) - len(mechanism.switched) :] = 1.0
    Phi = numbers(start, np.zeros(n), own)[0]
    rows, row = list[RestingRow](), 0
    for block in every.blocks:
        for _ in range(block.n_rows):
            value = float(Phi[row]) if row < len(Phi) else 0.0
            rows.append(RestingRow(block.constraint, bool(rests[row]), value, block.lengths))
            row += 1
    return judged_rows(mechanism, rows), rests


def _representative(mechanism: Mechanism, p: np.ndarray) -> list[np.ndarray]:
    """Parameters that cover the ranges of the tunables, see `solutions.representative_values`."""
    middle, ends = p.copy(), list[np.ndarray]()
    middle[: len(mechanism.tunables)] = [
        float(np.sqrt(np.prod(tunable.decades))) if tunable.decades else 1.0 for tunable in mechanism.tunables
    ]
    for index, tunable in enumerate(mechanism.tunables):
        for end in tunable.decades or ():
            ends.append(middle.copy())
            ends[-1][index] = end
    return [middle, *ends]


def _solved(M: np.ndarray, right: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """M^-1 times some columns; the blocks on the diagonal of M have these sizes if there are any."""
    if not sizes or sum(sizes) != len(M):
        return np.asarray(np.linalg.solve(M, right))
    found, first = right.copy(), 0
    for size in sizes:
        own = slice(first, first + size)
        found[own] = np.linalg.solve(M[own, own], right[own]) if size else found[own]
        first += size
    return found


def _scales(values: list[list[tuple[np.ndarray, np.ndarray | None, np.ndarray]]]) -> Scales:
    """Scales from (J, M, M^-1 J') in each state, for each of the parameters; M is None in place of the identity."""
    diagonals = [np.max([np.einsum("ij,ji->i", J, Y) for J, _, Y in there], axis=0) for there in values]
    found = np.array([float(f"{value:.3g}") for value in np.min(diagonals, axis=0)])
    found[found == 0.0] = found[found > 0.0].mean() if (found > 0.0).any() else 1.0
    ill = len(found) > MOST_EXAMINED or any(
        is_ill_conditioned(np.eye(J.shape[1]) if M is None else M, J) for there in values for J, M, _ in there
    )
    return Scales(found.tolist(), ill)

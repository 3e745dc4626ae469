"""Symbolic solution of the equations of motion, by the method that the mechanism's formulation selects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import casadi as ca
import numpy as np

from sim_core.derivation import beams
from sim_core.derivation.constraints import Rows, all_constraints, rows_for
from sim_core.derivation.forces.slip import Slip, Solve, slips_of, with_friction
from sim_core.derivation.making import dense_function
from sim_core.derivation.solving.augmented import factorize_augmented
from sim_core.derivation.solving.constrained import NOTHING, Regularization, diagonal_of_S, factorize_constrained
from sim_core.derivation.solving.partition import partition
from sim_core.derivation.symbols import Motion, Symbols
from sim_core.mechanism.description import (
    GROUND,
    Mechanism,
    UnitNorm,
)
from sim_core.solve import coordinate_scales, is_ill_conditioned, may_lose_rank, sampled_states


class KktFactor(Protocol):
    """Interface of a factor of the KKT matrix [M J'; J 0]: mass matrix M, constraint Jacobian J."""

    def parts(self) -> ca.SX:
        """All numbers that `solve` needs, as one column. `with_parts` makes a factor from such a column."""

    def pivots(self) -> tuple[int, int]:
        """Range (begin, end) of the reciprocal pivots of the constraint rows in the column that `parts` returns.

        The range is empty (begin = end) if no constraint row may lose rank.
        """

    def pivot_rows(self) -> list[int]:
        """Index of the constraint row to which each reciprocal pivot belongs, in the order of the pivots (`pivots`)."""

    def with_parts(self, parts: ca.SX) -> KktFactor:
        """A factor of the same structure, with the numbers in a column `parts` that the method `parts` returned."""

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Solution x (n_q,), y (n_r,) of M x + J' y = r1, J x = r2."""


@dataclass(frozen=True)
class Solution:
    """The equations M a + J' lam = f, J a = gamma and the factorization that solves them.

    The equations contain only the coordinates that the formulation keeps.

    symbols     symbols of the kept coordinates
    factor      factorization of the matrix [[M, J'], [J, 0]]
    least_norm  factorization of the same matrix with the identity in place of M, for least-norm solutions
    rewrite     function that rewrites an expression of all coordinates in terms of the kept ones
    inertial    function (a, applied forces) that returns M a - f, as an expression of all coordinates
    multiplier  function that returns the multiplier, without stabilization, of the first row of the constraint with a
                given name
    slips       {name: Slip} of the wheels with friction
    solve       function (r1, r2) that returns the accelerations and multipliers under the forces r1, beside which the
                friction of slipping wheels acts
    relaxed     function of two weights w_v, w_q that returns the matrix W = w_v D0 + w_q K0, and the factorization with
                M + W in place of M. D0 is the damping matrix and K0 the stiffness matrix of the beams. None without
                beams
    """

    symbols: Symbols
    coordinate_names: tuple[str, ...]
    M: ca.SX
    f: ca.SX
    rows: Rows
    factor: KktFactor
    least_norm: KktFactor
    rewrite: Callable[[ca.SX], ca.SX]
    inertial: Callable[[ca.SX, ca.SX], ca.SX]
    multiplier: Callable[[str], ca.SX]
    solve: Solve
    slips: Mapping[str, Slip] = field(default_factory=dict)
    relaxed: Callable[[ca.SX], tuple[ca.SX, KktFactor]] | None = None


def solution_of(mechanism: Mechanism, motion: Motion, f: ca.SX, symbols: Symbols) -> Solution:
    """Symbolic accelerations and multipliers of a mechanism under the applied forces f, valid in all constraint modes.

    For each switched constraint, a parameter switches the constraint's rows on (1) or off (0).
    """
    constraints = all_constraints(mechanism)
    rows = rows_for(constraints, motion.frames, symbols)
    if mechanism.is_partitioned:
        return _partitioned(mechanism, motion, f, symbols, rows)
    return _constrained(mechanism, motion, f, symbols, rows, bool(constraints) and has_loops(mechanism))


def _constrained(
    mechanism: Mechanism, motion: Motion, f: ca.SX, symbols: Symbols, rows: Rows, closed: bool
) -> Solution:
    """Solution in the "schur" or "augmented" formulation, which keep all coordinates and multipliers.

    closed  whether the mechanism has closed loops
    """
    regularization, least = _regularizations(mechanism, motion, symbols, rows, closed)
    factorized = factorize_augmented if mechanism.formulation == "augmented" else factorize_constrained
    factor = factorized(motion.M, rows.J, regularization, rows.idle)

    def relaxed(weights: ca.SX) -> tuple[ca.SX, KktFactor]:
        W = beams.weighted_linear_part(mechanism, symbols, weights, motion.M.shape[0])
        return W, factorized(motion.M + W, rows.J, regularization, rows.idle)

    slips = slips_of(mechanism, motion.frames, symbols, rows)
    solve = with_friction(factor.solve, slips)
    return Solution(
        symbols,
        motion.coordinate_names,
        motion.M,
        f,
        rows,
        factor,
        factorize_constrained(ca.SX.eye(motion.M.shape[0]), rows.J, least, rows.idle),
        lambda expression: expression,
        lambda a, applied: motion.inertial(a) - applied,
        lambda name: solve(f, rows.gamma)[1][rows.names.index(name)],
        solve,
        slips,
        relaxed if mechanism.beams else None,
    )


def _regularizations(
    mechanism: Mechanism, motion: Motion, symbols: Symbols, rows: Rows, closed: bool
) -> tuple[Regularization, Regularization]:
    """Two Regularizations: for equations with the mass matrix M, and for equations with the identity in place of M.

    The attribute `row_scales` of a Regularization comes from several sampled states. If the rows depend on tunables or
    on parameters that change in a run, it comes from the start alone. A scale may be an expression of tunables.

    closed  whether the mechanism has closed loops, so that rows may lose rank
    """
    if not rows.names:
        return NOTHING, NOTHING
    held = [*mechanism.parameter_values(0)]
    held[len(held) - len(mechanism.switched) :] = [1.0] * len(mechanism.switched)
    start = np.array(mechanism.reference_q or mechanism.initial_q, dtype=float)
    n_q, lookups = len(start), [lookup for _, lookup in symbols.contacts.values()]
    inputs = {"t": symbols.t, "q": symbols.q, "v": symbols.v, "p": symbols.p}
    place = dense_function("places", inputs, [lookup.place for lookup in lookups])
    all_inputs = inputs | {f"row_{name}": x.row for name, (_, x) in symbols.contacts.items()}
    M, J = symbols.lifted.written_out(motion.M), rows.J
    whole = dense_function("start", all_inputs, [rows.Phi, J])

    def looked_up(q: np.ndarray) -> list[np.ndarray]:
        places = place.call([0.0, q, np.zeros(n_q), held])
        return [lookup.at(float(at)) for lookup, at in zip(lookups, places, strict=True)]

    def numbers(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Phi, at = whole.call([0.0, q, np.zeros(n_q), held, *looked_up(q)])
        return np.array(Phi).ravel(), np.array(at)

    n_set = len(held) - len(mechanism.switched)  # all but the flags: the equations are those of any values
    fixed = ca.veccat(symbols.t, symbols.q, symbols.v, symbols.p[n_set:], *[lookup.row for lookup in lookups])

    def of_tunables(q: np.ndarray) -> tuple[ca.SX, ca.SX]:
        values = np.concatenate([[0.0], q, np.zeros(n_q), held[n_set:], *looked_up(q)])
        there = ca.substitute([M, J], [fixed], [ca.SX(ca.DM(values))])
        return ca.SX(ca.sparsify(there[0])), ca.SX(ca.sparsify(there[1]))

    norms = {c.name for c in all_constraints(mechanism) if isinstance(c, UnitNorm)}
    M_start, _ = of_tunables(start)
    weights: dict[int, ca.SX] = {}
    for row, name in enumerate(rows.names):
        if name in norms:
            reach = [k for k in range(n_q) if not J[row, k].is_zero()]
            weights[row] = sum((M_start[k, k] for k in reach), ca.SX(0)) / len(reach)
    if not may_lose_rank(numbers(start)[1], closed):
        return Regularization([], weights), NOTHING
    prismatic = [joint.name for joint in mechanism.moving_joints if joint.is_length]
    scale = coordinate_scales(motion.coordinate_names, prismatic, mechanism.characteristic_length)
    is_set = ca.depends_on(ca.veccat(rows.Phi, J), symbols.p[:n_set])
    states = [of_tunables(q) for q in ([start] if is_set else sampled_states(start, scale, numbers))]
    identity = ca.SX.eye(n_q)
    ill = _are_ill_conditioned(mechanism, symbols, states, weights)
    least_ill = _are_ill_conditioned(mechanism, symbols, [(identity, J) for _, J in states], {})
    return (
        Regularization(
            _row_scales(mechanism, [diagonal_of_S(M, J, weights) for M, J in states], symbols.p), weights, ill
        ),
        Regularization(
            _row_scales(mechanism, [diagonal_of_S(identity, J, {}) for _, J in states], symbols.p), {}, least_ill
        ),
    )


def _are_ill_conditioned(
    mechanism: Mechanism, symbols: Symbols, states: list[tuple[ca.SX, ca.SX]], weights: dict[int, ca.SX]
) -> bool:
    """Whether S = J (M + sum of w J_n' J_n)^-1 J' is ill-conditioned in a state, at representative tunable values.

    The result is also true if there are no representative values (see `representative_values`).

    states   (mass matrix M, constraint Jacobian J) in each state
    weights  {index of a row J_n that keeps the Euler parameters of a body at norm 1: weight w}
    """
    matrices = []
    for M, J in states:
        n = ca.SX(M)
        for row, weight in weights.items():
            n += weight * J[row, :].T @ J[row, :]
        matrices += [n, J]
    values = representative_values(mechanism, ca.veccat(*matrices), symbols.p)
    if values is None:
        return True
    evaluated = ca.Function("matrices", [symbols.p], matrices)
    for p in values:
        found = [np.array(each) for each in evaluated.call([ca.DM(p)])]
        if any(is_ill_conditioned(M, J) for M, J in zip(found[::2], found[1::2], strict=True)):
            return True
    return False


def representative_values(mechanism: Mechanism, expression: ca.SX, p: ca.SX) -> list[list[float]] | None:
    """Parameter vectors p that cover the range of an expression; None if they cannot be chosen.

    Each tunable in the expression has a range, `Tunable.decades`, that encloses its bounds. In the first vector, all
    these tunables are in the (geometric) middle of their ranges. Each of the other vectors differs from the first in
    one tunable, which is at the lower or the upper end of its range. The current values of the tunables are not used,
    because the equations must not depend on them. The vectors cannot be chosen if the expression contains a
    CapturedParameter, or a tunable without a positive lower bound.
    """
    entering = [bool(index) for index in ca.which_depends(expression, p, 1, False)] if p.numel() else []
    n_tunables, n_set = len(mechanism.tunables), p.numel() - len(mechanism.switched)
    if any(entering[n_tunables:n_set]):
        return None
    middle, ends = [1.0] * p.numel(), []
    for index, tunable in enumerate(mechanism.tunables):
        if not entering[index]:
            continue
        if tunable.decades is None:
            return None
        least, most = tunable.decades
        middle[index] = math.sqrt(least * most)
        ends += [(index, least), (index, most)]
    return [middle, *[[*middle[:index], end, *middle[index + 1 :]] for index, end in ends]]


def _row_scales(mechanism: Mechanism, diagonals: list[list[ca.SX]], p: ca.SX) -> list[ca.SX]:
    """Scale F_i for each row i of the Schur complement S = J M^-1 J'.

    The regularization adds EPSILON max(S_ii, F_i) to S_ii. The scale F_i is the largest value of S_ii over the sampled
    states.

    diagonals  diagonal of S at each sampled state

    If S_ii depends on tunables, the largest value is computed for each of the vectors that `representative_values`
    returns. F_i is the smallest of the results, because the scale for light bodies would be too large for heavy ones.
    If there are no representative values, F_i is S_ii at the first sampled state, as an expression of the tunables.

    A row that is zero at all sampled states gets the mean scale of the other rows. Computed scales are rounded to three
    digits: further digits, and with them the kernels, would differ between processors.
    """
    found = []
    for column in zip(*diagonals, strict=True):
        whole = ca.vertcat(*column)
        values = representative_values(mechanism, whole, p)
        if values is None:
            found.append(ca.SX(column[0]))
            continue
        evaluated = ca.Function("diagonal", [p], [ca.mmax(whole)])
        found.append(ca.SX(float(f"{min(float(evaluated(ca.DM(value))) for value in values):.3g}")))
    sizes = [scale for scale in found if not scale.is_zero()]
    mean = sum(sizes, ca.SX(0)) / len(sizes) if sizes else ca.SX(1)
    return [mean if scale.is_zero() else scale for scale in found]


def _partitioned(mechanism: Mechanism, motion: Motion, f: ca.SX, symbols: Symbols, rows: Rows) -> Solution:
    """Solution in a "partitioned" formulation: independent coordinates alone, without constraint rows."""
    made = partition(mechanism, motion.coordinate_names, symbols, motion.M, f, rows)
    n = len(made.coordinate_names)

    def relaxed(weights: ca.SX) -> tuple[ca.SX, KktFactor]:
        W = beams.weighted_linear_part(mechanism, symbols, weights, n)
        return W, made.relaxed(W)

    none = Rows(ca.SX(0, 1), ca.SX(0, 1), ca.SX(0, n), ca.SX(0, 1), ca.SX(0, 1), (), ())
    return Solution(
        made.symbols,
        made.coordinate_names,
        made.M,
        made.f,
        none,
        made.factor,
        made.least_norm,
        made.rewrite,
        lambda a, applied: made.times(a) - made.f,
        lambda name: made.lam,
        made.factor.solve,
        relaxed=relaxed,
    )


def has_loops(mechanism: Mechanism) -> bool:
    """Whether bodies and constraints may form a closed loop. Without loops, the rows of valid joints keep their rank.

    The result is always true unless `Mechanism.coordinates` is "absolute", and always true for a mechanism with a
    JointRelation or a PrescribedMotion.
    """
    if not mechanism.has_body_coordinates:
        return True
    leader = {name: name for name in [GROUND, *[body.name for body in mechanism.bodies]]}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    edges = [(joint.parent, joint.child) for joint in mechanism.joints]
    if any(constraint.relates_joints for constraint in mechanism.constraints):
        return True  # its row may depend on those of the joints
    edges += [constraint.connected for constraint in mechanism.constraints if constraint.connected]
    for a, b in edges:
        if find(a) == find(b):
            return True
        leader[find(a)] = find(b)
    return False

"""How the equations of each configuration are solved: by the mechanism's formulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca
import numpy as np

from sim_core.derivation import beams
from sim_core.derivation.augmented import factorize_augmented
from sim_core.derivation.constrained import factorize_constrained
from sim_core.derivation.constraints import Rows, all_constraints, rows_for
from sim_core.derivation.making import dense_function
from sim_core.derivation.partition import partition
from sim_core.derivation.symbols import Motion, Symbols
from sim_core.mechanism.beams import BeamContact
from sim_core.mechanism.description import GROUND, Anchored, Mechanism, SpinRelation, UnitNorm
from sim_core.solve import regularization_for


class KktFactor(Protocol):
    """A factored matrix [M J'; J 0]."""

    def parts(self) -> ca.SX:
        """Every number that `solve` needs, as one column."""

    def with_parts(self, parts: ca.SX) -> KktFactor:
        """The same structure around a stored column of numbers."""

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """x and y for right-hand sides r1 (n_q) and r2 (n_r)."""


@dataclass(frozen=True)
class Solution:
    """M a + J' lam = f, J a = gamma in the coordinates that are kept, and its factor.

    symbols     those coordinates; `seen` writes any other expression in them
    least_norm  the factor with the identity for M: least-norm solutions
    inertial    M a - f for accelerations a and the generalized forces of all that is applied, before `seen`
    multiplier  lam of a constraint by name, without stabilization
    relaxed     for weights w_v, w_q: W = w_v D0 + w_q K0 of the linear part, and the factor with M + W, if it has one
    """

    symbols: Symbols
    coordinate_names: tuple[str, ...]
    M: ca.SX
    f: ca.SX
    rows: Rows
    factor: KktFactor
    least_norm: KktFactor
    seen: Callable[[ca.SX], ca.SX]
    inertial: Callable[[ca.SX, ca.SX], ca.SX]
    multiplier: Callable[[str], ca.SX]
    relaxed: Callable[[ca.SX], tuple[ca.SX, KktFactor]] | None = None


def solution_of(mechanism: Mechanism, motion: Motion, f: ca.SX, symbols: Symbols) -> Solution:
    """The solution for all configurations, whose rows are switched on and off; f holds all applied forces."""
    constraints = all_constraints(mechanism)
    rows = rows_for(constraints, motion.frames, symbols)
    if mechanism.formulation.startswith("partitioned"):
        return _partitioned(mechanism, motion, f, symbols, rows)
    return _constrained(mechanism, motion, f, symbols, rows, bool(constraints) and has_loops(mechanism))


def _constrained(
    mechanism: Mechanism, motion: Motion, f: ca.SX, symbols: Symbols, rows: Rows, closed: bool
) -> Solution:
    """All coordinates, multipliers beside them.

    Whether rows may lose rank is decided here, at the start state: by loops, and by the numbers.
    """
    lookups = [lookup for _, lookup in symbols.contacts.values()]
    held = [*mechanism.parameter_values(0)]
    held[len(held) - len(mechanism.switched) :] = [1.0] * len(mechanism.switched)
    start: list[Any] = [0.0, mechanism.reference_q or mechanism.initial_q, mechanism.initial_v, held]
    inputs = {"t": symbols.t, "q": symbols.q, "v": symbols.v, "p": symbols.p}
    places = dense_function("places", inputs, [lookup.place for lookup in lookups]).call(start)
    start += [lookup.at(float(place)) for lookup, place in zip(lookups, places, strict=True)]
    inputs |= {f"row_{name}": x.row for name, (_, x) in symbols.contacts.items()}
    whole = dense_function("start", inputs, [symbols.lifted.written_out(motion.M), rows.J])
    M, J = (np.array(value) for value in whole.call(start))
    norms = {c.name for c in all_constraints(mechanism) if isinstance(c, UnitNorm)}
    penalty_rows = [index for index, name in enumerate(rows.names) if name in norms]
    regularization = regularization_for(M, J, penalty_rows, closed)
    identity, least = ca.SX.eye(len(M)), regularization_for(np.eye(len(M)), J, [], closed)
    factorized = factorize_augmented if mechanism.formulation == "augmented" else factorize_constrained
    factor = factorized(motion.M, rows.J, regularization, penalty_rows, rows.idle)

    def relaxed(weights: ca.SX) -> tuple[ca.SX, KktFactor]:
        W = beams.weighted_linear_part(mechanism, symbols, weights, motion.M.shape[0])
        return W, factorized(motion.M + W, rows.J, regularization, penalty_rows, rows.idle)

    return Solution(
        symbols,
        motion.coordinate_names,
        motion.M,
        f,
        rows,
        factor,
        factorize_constrained(identity, rows.J, least, [], rows.idle),
        lambda expression: expression,
        lambda a, applied: motion.inertial(a) - applied,
        lambda name: factor.solve(f, rows.gamma)[1][rows.names.index(name)],
        relaxed if mechanism.beams else None,
    )


def _partitioned(mechanism: Mechanism, motion: Motion, f: ca.SX, symbols: Symbols, rows: Rows) -> Solution:
    """The coordinates that a contact leaves independent, and no rows."""
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
        made.seen,
        lambda a, applied: made.times(a) - made.f,
        lambda name: made.lam,
        relaxed,
    )


def has_loops(mechanism: Mechanism) -> bool:
    """Whether bodies and constraints between them form a cycle: only then can rows of sound joints lose rank."""
    if mechanism.coordinates == "joint":
        return True
    leader = {name: name for name in [GROUND, *[body.name for body in mechanism.bodies]]}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    edges = [(joint.parent, joint.child) for joint in mechanism.joints]
    for c in mechanism.constraints:
        if isinstance(c, BeamContact | Anchored):
            edges.append((c.body, GROUND))
        elif not isinstance(c, UnitNorm | SpinRelation):
            edges.append((c.body_a, c.body_b))
    for a, b in edges:
        if find(a) == find(b):
            return True
        leader[find(a)] = find(b)
    return False

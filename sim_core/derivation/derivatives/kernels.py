"""Derivation of the kernels of derivatives of a mechanism.

The factorization of the KKT matrix K is not differentiated. At the solution a, lam of

    r1 = M a + J' lam - f = 0,   r2 = J a - gamma + U = 0

the derivatives of a and lam by any argument x follow from K [da; dlam] = -[dr1; dr2] / dx with the factor at hand. The
derivatives of r1 by q and v are those of a recursion in a tree of joint coordinates (see trees.py), and algorithmic
ones of all other terms and for all other coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.derivatives.roots import with_finite_slopes
from sim_core.derivation.derivatives.trees import inverse_dynamics_derivatives
from sim_core.derivation.equations import Equations, equations_of, twins_of
from sim_core.derivation.making import arguments, dense_function
from sim_core.derivation.outputs import outputs_of
from sim_core.errors import InvalidRequest
from sim_core.kernels.pairing import Twins
from sim_core.mechanism.description import Mechanism


@dataclass(frozen=True)
class DerivedDerivatives:
    """The functions from which the kernels of derivatives are compiled.

    parts    (t, q, v, u, p, U) -> a, lam, the factor of K, and the right-hand sides, as a matrix row by row
    columns  (factor, right) -> solution of K x = right, one column
    rows     (t, q, v, u, p) -> derivatives of Phi by q, of Phidot by q, v, u, of f and of gamma by u, column by column
    outputs  (t, q, v, u, p) -> derivatives by q, v, u of the joints' positions and velocities and of the outputs
    twins    {argument: pairs of indices of corresponding elements in branches of equal structure}
    """

    parts: ca.Function
    columns: ca.Function
    rows: ca.Function
    outputs: ca.Function
    twins: dict[str, Twins]


def derive_derivatives(mechanism: Mechanism, stride: int) -> DerivedDerivatives:
    """The functions of the kernels of derivatives.

    stride  columns of the right-hand sides, with those that are added to fill the last vector
    Raises InvalidRequest for a mechanism whose forces come from tables.
    """
    equations = _differentiable(mechanism)
    symbols, n_rows = equations.symbols, equations.solution.rows.J.shape[0]
    U = ca.SX.sym("U", n_rows)
    parts, columns = _solving(equations, arguments(symbols) | {"U": U}, equations.applied, U, stride)
    return DerivedDerivatives(parts, columns, *_measured(equations), twins_of(mechanism, equations.motion, symbols))


def derive_for_efforts(mechanism: Mechanism) -> tuple[ca.Function, ca.Function, dict[str, Twins]]:
    """The functions `parts` and `columns` of DerivedDerivatives for forward dynamics, and the twins.

    `parts` is a function (t, q, v, tau, p) of generalized forces tau (n_q,) in place of the inputs, and the right-hand
    sides are those of the derivatives by q, v and tau. Raises InvalidRequest as `derive_derivatives` does.
    """
    equations = _differentiable(mechanism)
    symbols, solution = equations.symbols, equations.solution
    n_q, n_rows = solution.M.shape[0], solution.rows.J.shape[0]
    tau = ca.SX.sym("tau", n_q)
    applied = ca.substitute(equations.applied, symbols.u, ca.SX.zeros(symbols.u.shape)) + tau
    inputs = arguments(symbols, tau=tau)
    parts, columns = _solving(equations, inputs, applied, ca.SX.zeros(n_rows), 3 * n_q)
    return parts, columns, twins_of(mechanism, equations.motion, symbols)


def _differentiable(mechanism: Mechanism) -> Equations:
    """The equations of a mechanism; raises InvalidRequest if its forces come from tables."""
    equations = equations_of(mechanism)
    if equations.symbols.contacts:
        raise InvalidRequest(
            f"robot {mechanism.name!r}: the forces of {', '.join(map(repr, equations.symbols.contacts))} come from a "
            "table, which has no derivative; linearize the robot without this contact"
        )
    if equations.solution.slips:
        raise InvalidRequest(
            f"robot {mechanism.name!r}: {', '.join(map(repr, equations.solution.slips))} may slip, and friction at a "
            "slipping wheel has no derivative here; linearize the robot without `friction` of its wheels"
        )
    return equations


def _solving(
    equations: Equations, inputs: dict[str, ca.SX], applied: ca.SX, U: ca.SX, stride: int
) -> tuple[ca.Function, ca.Function]:
    """The functions `parts` and `columns` of DerivedDerivatives, with the columns by U if these fit.

    inputs   inputs of `parts`
    applied  applied forces (n_q,), as expressions of the inputs
    U        stabilization (n_r,)
    stride   number of columns
    """
    solution, symbols, rows = equations.solution, equations.symbols, equations.solution.rows
    n_q, n_rows = solution.M.shape[0], rows.J.shape[0]
    a, lam = solution.factor.solve(equations.motion.f + applied, rows.gamma - U)
    r1_q, r1_v = _of_r1(equations, applied, a, lam)
    r2_q, r2_v = _algorithmic(equations, lambda a, lam: rows.J @ a - rows.gamma, a, lam)
    identity, none = ca.SX.eye(n_q), ca.SX(n_q, n_rows)
    right = ca.blockcat([[-r1_q, -r1_v, identity, none], [-r2_q, -r2_v, none.T, -ca.SX.eye(n_rows)]])
    right = ca.horzcat(right, ca.SX(n_q + n_rows, max(0, stride - right.shape[1])))[:, :stride]
    factor = solution.factor.parts()
    parts = dense_function("parts", inputs, [a, lam, factor, ca.vec(right.T)], symbols.lifted)
    stored, column = ca.SX.sym("factor", factor.numel()), ca.SX.sym("right", n_q + n_rows)
    solved = ca.vertcat(*solution.factor.with_parts(stored).solve(column[:n_q], column[n_q:]))
    return parts, dense_function("columns", {"factor": stored, "right": column}, [solved])


def _of_r1(equations: Equations, applied: ca.SX, a: ca.SX, lam: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Derivatives (n_q, n_q) of r1 = M a + J' lam - f by q and v, with a and lam held."""
    solution, recursion = equations.solution, equations.motion.recursion
    if recursion is None:
        inertial = equations.symbols.lifted.written_out
        return _algorithmic(
            equations,
            lambda a, lam: inertial(solution.inertial(a, applied)) + solution.rows.J.T @ lam,
            a,
            lam,
        )
    n = len(recursion.tree.links)
    found = inverse_dynamics_derivatives(recursion, equations.symbols, a[:n])
    rest = _algorithmic(equations, lambda a, lam: solution.rows.J.T @ lam - applied, a, lam)
    states = ca.SX(a.numel() - n, a.numel() - n)
    return tuple(ca.diagcat(tree, states) + other for tree, other in zip(found, rest, strict=True))  # type: ignore[return-value]


def _algorithmic(equations: Equations, row: Callable[..., ca.SX], a: ca.SX, lam: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Derivatives by q and v of the expression that `row` makes of a and lam, with a and lam held."""
    symbols = equations.symbols
    held = ca.SX.sym("a", a.numel()), ca.SX.sym("lam", lam.numel())
    (expression,) = with_finite_slopes([row(*held)])
    found = [ca.jacobian(expression, x) for x in (symbols.q, symbols.v)]
    return tuple(ca.substitute(found, list(held), [a, lam]))  # type: ignore[return-value]


def _measured(equations: Equations) -> tuple[ca.Function, ca.Function]:
    """The functions `rows` and `outputs` of DerivedDerivatives."""
    symbols, solution = equations.symbols, equations.solution
    q, v, u = symbols.q, symbols.v, symbols.u
    rows, written_out = solution.rows, symbols.lifted.written_out
    _, outputs = outputs_of(
        equations.mechanism, equations.motion, symbols, equations.positions, solution, equations.others
    )
    f = [ca.jacobian(equations.applied, u), ca.jacobian(rows.gamma, u)]
    rates = [ca.jacobian(rows.Phidot, x) for x in (q, v, u)]
    measured = with_finite_slopes([equations.positions, equations.rates, written_out(outputs)])
    by = [ca.jacobian(value, x) for value in measured for x in (q, v, u)]
    usual = arguments(symbols)
    return dense_function("rows", usual, [ca.jacobian(rows.Phi, q), *rates, *f]), dense_function("outputs", usual, by)

"""Exact derivatives of a system's accelerations, multipliers, constraint violations and outputs.

The kernels of derivatives are compiled when they are first asked for, and cached beside the other kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim_core.compiled_system import CompiledSystem
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.effort import LIMIT_S, check_effort, least_sizes
from sim_core.kernels.machine_code import native
from sim_core.kernels.machine_code.native import Library

Array = np.ndarray
MEASURED = ("position", "velocity", "output")  # joints' positions and velocities, and the mechanism's outputs
KERNELS = ("derivatives", "rows", "outputs")
WIDEST = 8  # columns in one vector
WIDTHS = (2, 4, 8)


class Derivatives(NamedTuple):
    """Accelerations a (n_q,), multipliers lam (n_r,) and their partial derivatives at a state.

    The equations of motion are M a + J' lam = f, J a = gamma - U. The derivatives of a are (n_q, n_q) by q and v,
    (n_q, n_u) by u, (n_q, n_q) by generalized forces tau that are added to f, and (n_q, n_r) by the stabilization U, in
    the units of the accelerations by those of the argument; those of lam have n_r rows.

    Phi_q   (n_h, n_q) derivative of the violations of the holonomic constraint rows
    rate_q  (n_r, n_q) derivative of the violation rates Phidot by q
    rate_v  (n_r, n_q) derivative of the violation rates by v: the constraint Jacobian J
    rate_u  (n_r, n_u) derivative of the violation rates by u
    f_u     (n_q, n_u) derivative of the forces f by u
    by      {(quantity, argument): matrix} of the joints' "position" and "velocity", and of the mechanism's "output",
            by "q", "v" and "u"
    """

    a: Array
    lam: Array
    a_q: Array
    a_v: Array
    a_u: Array
    a_tau: Array
    a_U: Array
    lam_q: Array
    lam_v: Array
    lam_u: Array
    Phi_q: Array
    rate_q: Array
    rate_v: Array
    rate_u: Array
    f_u: Array
    by: dict[tuple[str, str], Array]


def widths_of(n_columns: int) -> list[int]:
    """Numbers of lanes of the vectors that hold so many columns; the last vector may have lanes to spare."""
    whole, rest = divmod(n_columns, WIDEST)
    return [WIDEST] * whole + [next(width for width in WIDTHS if width >= rest)] * (rest > 0)


class DerivativeKernels:
    """The compiled kernels of a system's derivatives.

    derivatives  t, q, v, u, p, U -> a, lam, X: the derivatives of (a, lam) as a matrix (n_q + n_r, `n_columns`), row by
                 row, with the columns by q, v, tau and U one after the other, and columns to spare
    rows         t, q, v, u, p -> derivatives of Phi by q, of Phidot by q, v, u, of f by u and of gamma by u
    outputs      t, q, v, u, p -> derivatives by q, v, u of positions, of velocities and of outputs

    The matrices of `rows` and `outputs` are column by column.
    """

    def __init__(self, system: CompiledSystem) -> None:
        self._system, key = system, f"{system.code_hash}-derivatives"
        self._widths = widths_of(3 * system.n_q + system.max_rows)
        self.n_columns = sum(self._widths)
        library = native.load_shared(key)
        if library is None:
            with native.sole_compiler(key):
                library = native.load_shared(key) or self._compiled(key)
        self._library = library
        self.addresses = library.addresses

    def _compiled(self, key: str) -> Library:
        # kernels from the cache need no casadi
        from sim_core.derivation.derivatives.kernels import derive_derivatives
        from sim_core.kernels.columns import solving_module
        from sim_core.kernels.emit import module_of
        from sim_core.kernels.machine_code.side_by_side import objects_of

        mechanism = self._system.mechanism
        check_effort(mechanism, least_sizes(mechanism), LIMIT_S)
        with native.compiling(f"the derivatives of {mechanism.name!r}"):
            derived = derive_derivatives(mechanism, self.n_columns)
            solving = solving_module("derivatives", derived.parts, derived.columns, self._widths, derived.twins)
            others = module_of({"rows": derived.rows, "outputs": derived.outputs})
            manifest = {"key": key, "mechanism": mechanism.name, "symbols": list(KERNELS)}
            return native.keep(objects_of([solving, others]), manifest, key)

    def bind(self, name: str, inputs: list[Array], outputs: list[Array]) -> BoundKernel:
        """A kernel bound to arrays of the caller: each call reads `inputs` and writes `outputs` in place."""
        return BoundKernel(self.addresses[name], inputs, outputs, self._library)

    def at(self, inputs: list[Array], U: Array) -> Derivatives:
        """Derivatives for the inputs t, q, v, u, p and the stabilization U (n_r,)."""
        system = self._system
        n, n_r, n_u, n_h = system.n_q, system.max_rows, system.n_u, system.constraint_modes[0].n_holonomic
        a, lam, X = np.zeros(n), np.zeros(n_r), np.zeros((n + n_r, self.n_columns))
        self.bind("derivatives", [*inputs, U], [a, lam, X])()
        shapes = ((n_h, n), (n_r, n), (n_r, n), (n_r, n_u), (n, n_u), (n_r, n_u))
        Phi_q, rate_q, rate_v, rate_u, f_u, gamma_u = rows = [_matrix(*shape) for shape in shapes]
        self.bind("rows", inputs, rows)()
        sizes = len(system.joint_names), len(system.joint_names), len(system.output_names)
        by = {(name, x): _matrix(size, m) for name, size in zip(MEASURED, sizes, strict=True)
              for x, m in zip("qvu", (n, n, n_u), strict=True)}  # fmt: skip
        self.bind("outputs", inputs, list(by.values()))()
        by_q, by_v, by_tau, by_U, _ = np.split(X, np.cumsum([n, n, n, n_r]), axis=1)
        by_u = by_tau @ f_u - by_U @ gamma_u
        of_a, of_lam = (by_q[:n], by_v[:n], by_u[:n], by_tau[:n], by_U[:n]), (by_q[n:], by_v[n:], by_u[n:])
        return Derivatives(a, lam, *of_a, *of_lam, Phi_q, rate_q, rate_v, rate_u, f_u, by)


def _matrix(rows: int, columns: int) -> Array:
    return np.zeros((rows, columns), order="F")

"""Exact derivatives of a system's accelerations, multipliers, constraint violations and outputs.

The kernels of derivatives are compiled when they are first asked for, and cached beside the other kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sim_core.compiled_system import CompiledSystem
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.effort import LIMIT_S, MORE, check_effort, check_least_effort, effort_of
from sim_core.kernels.lanes import check_lanes
from sim_core.kernels.machine_code import native
from sim_core.kernels.machine_code.native import Library

Array = np.ndarray
MEASURED = ("position", "velocity", "output")  # joints' positions and velocities, and the mechanism's outputs
KERNELS = ("derivatives", "rows", "outputs")
WIDEST = 8  # columns in one vector
WIDTHS = (2, 4, 8)
ADVICE = f"{MORE}; differences of System.acceleration need no compilation"
FEW_S = 5.0  # estimated time from which it is reported


class Derivatives(NamedTuple):
    """Accelerations a (n_q,), multipliers lam (n_r,) and their partial derivatives at a state.

    The arrays of a Batch have one more axis, the first, for the systems.

    The equations of motion are M a + J' lam = f, J a = gamma - U. The derivatives of a are (n_q, n_q) by q and v,
    (n_q, n_u) by u, (n_q, n_q) by generalized forces tau that are added to f, and (n_q, n_r) by the stabilization U, in
    the units of the accelerations by those of the argument; those of lam have n_r rows. a_tau is the inverse of M in a
    tree without rows.

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
    lam_tau: Array
    lam_U: Array
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
    """The compiled kernels of a system's derivatives, for `lanes` copies of the system at once.

    derivatives  t, q, v, u, p, U -> a, lam, X: the derivatives of (a, lam) as a matrix (n_q + n_r, `n_columns`), row by
                 row, with the columns by q, v, tau and U one after the other, and columns to spare
    rows         t, q, v, u, p -> derivatives of Phi by q, of Phidot by q, v, u, of f by u and of gamma by u
    outputs      t, q, v, u, p -> derivatives by q, v, u of positions, of velocities and of outputs

    limit_s  longest estimated time of the compilation, s

    The matrices of `rows` and `outputs` are column by column. With several lanes, each number is a row of `lanes`
    numbers, one per copy.
    """

    def __init__(self, system: CompiledSystem, lanes: int = 1, limit_s: float = LIMIT_S) -> None:
        check_lanes(lanes)
        self._system, self.lanes, self._limit_s = system, lanes, limit_s
        key = f"{system.code_hash}-derivatives" + (f"-{lanes}" if lanes > 1 else "")
        n_columns = 3 * system.n_q + system.max_rows
        self._widths = [1] * n_columns if lanes > 1 else widths_of(n_columns)
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

        mechanism, lanes = self._system.mechanism, self.lanes
        check_least_effort(mechanism, self._limit_s, ADVICE)
        what = f"the derivatives of {mechanism.name!r}" + (f" for {lanes} at a time" * (lanes > 1))
        with native.compiling(what) as report:
            derived = derive_derivatives(mechanism, self.n_columns)
            functions = derived.parts, derived.columns, derived.rows, derived.outputs
            sizes = [function.n_instructions() for function in functions]
            check_effort(mechanism, sizes, self._limit_s, ADVICE)
            if (effort := effort_of(sizes)).seconds > FEW_S:
                report(f"compiling {what}, {effort.instructions:,} instructions, about {effort.seconds:.2g} s")
            solving = solving_module("derivatives", derived.parts, derived.columns, self._widths, derived.twins, lanes)
            others = module_of({"rows": derived.rows, "outputs": derived.outputs}, lanes=lanes)
            manifest = {"key": key, "mechanism": mechanism.name, "symbols": list(KERNELS)}
            return native.keep(objects_of([solving, others]), manifest, key)

    def bind(self, name: str, inputs: list[Array], outputs: list[Array]) -> BoundKernel:
        """A kernel bound to arrays of the caller: each call reads `inputs` and writes `outputs` in place."""
        return BoundKernel(self.addresses[name], inputs, outputs, self._library)

    def at(self, inputs: list[Array]) -> Derivatives:
        """Derivatives of `lanes` systems, whose number is the first axis of every array.

        inputs  t, q, v, u, p, U, of shape (size, lanes) each
        """
        system = self._system
        n, n_r, n_u, n_h = system.n_q, system.max_rows, system.n_u, system.constraint_modes[0].n_holonomic
        a, lam, X = (self._zeros(size) for size in (n, n_r, (n + n_r) * self.n_columns))
        self.bind("derivatives", inputs, [a, lam, X])()
        shapes = ((n_h, n), (n_r, n), (n_r, n), (n_r, n_u), (n, n_u), (n_r, n_u))
        Phi_q, rate_q, rate_v, rate_u, f_u, gamma_u = self._matrices("rows", inputs, shapes)
        sizes = len(system.joint_names), len(system.joint_names), len(system.output_names)
        measured = self._matrices("outputs", inputs, [(size, m) for size in sizes for m in (n, n, n_u)])
        by = dict(zip([(name, x) for name in MEASURED for x in "qvu"], measured, strict=True))
        solved = X.T.reshape(self.lanes, n + n_r, self.n_columns)
        by_q, by_v, by_tau, by_U, _ = np.split(solved, np.cumsum([n, n, n, n_r]), axis=2)
        by_u = by_tau @ f_u - by_U @ gamma_u
        found = {
            "a": a.T,
            "lam": lam.T,
            "Phi_q": Phi_q,
            "rate_q": rate_q,
            "rate_v": rate_v,
            "rate_u": rate_u,
            "f_u": f_u,
        }
        for name, matrix in (("q", by_q), ("v", by_v), ("u", by_u), ("tau", by_tau), ("U", by_U)):
            found[f"a_{name}"], found[f"lam_{name}"] = matrix[:, :n], matrix[:, n:]
        return Derivatives(**found, by=by)

    def _matrices(self, name: str, inputs: list[Array], shapes: Sequence[tuple[int, int]]) -> list[Array]:
        """Results (lanes, rows, columns) of the kernel `name`, for the (rows, columns) of each."""
        results = [self._zeros(rows * columns) for rows, columns in shapes]
        self.bind(name, inputs[:-1], results)()
        return [result.T.reshape(self.lanes, columns, rows).transpose(0, 2, 1)
                for result, (rows, columns) in zip(results, shapes, strict=True)]  # fmt: skip

    def _zeros(self, size: int) -> Array:
        return np.zeros((size, self.lanes))


def mapped(change: Callable[..., Array], *found: Derivatives) -> Derivatives:
    """Derivatives whose arrays are the results of `change` for the corresponding arrays of those in `found`."""
    arrays = {name: change(*(getattr(one, name) for one in found)) for name in Derivatives._fields if name != "by"}
    return Derivatives(**arrays, by={name: change(*(one.by[name] for one in found)) for name in found[0].by})

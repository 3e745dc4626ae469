"""Exact derivatives of a system's accelerations, and the system's functions for the library CasADi.

Importing this module imports CasADi; `System.derivatives` and `System.casadi` do so at their first call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from sim_core.derivation.derivatives import derive_derivatives, derive_functions
from sim_core.mechanism.description import Mechanism

Array = np.ndarray
MEASURED = ("position", "velocity", "output")  # joints' positions and velocities, and the mechanism's outputs


class Derivatives(NamedTuple):
    """Accelerations a (n_q,), multipliers lam (n_r,) and their partial derivatives at a state.

    The equations of motion are M a + J' lam = f, J a = gamma - U. The derivatives of a are (n_q, n_q) by q and v,
    (n_q, n_u) by u and (n_q, n_r) by the stabilization U, in the units of the accelerations by those of the argument;
    those of lam have n_r rows.

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


class Differentiated:
    """The differentiated equations of a mechanism.

    functions  {name: CasADi function}, see `sim_core.derivation.derivatives.derive_functions`
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.functions = derive_functions(mechanism)

    @cached_property
    def _kernel(self) -> ca.Function:
        return derive_derivatives(self.functions)

    def at(
        self, inputs: list[Array], a: Array, lam: Array, solve: Callable[[Array, Array], tuple[Array, Array]]
    ) -> Derivatives:
        """Derivatives at a solution a, lam for the inputs t, q, v, u, p.

        solve  function of r1 (n_q,), r2 (n_r,) that returns x, y of M x + J' y = r1, J x = r2 at these inputs
        """
        results = dict(zip(self._kernel.name_out(), self._kernel(*inputs, a, lam), strict=True))
        found = {name: value.full() for name, value in results.items()}
        n_q, n_r = len(a), len(lam)
        right = {x: (-found[f"r1_{x}"], -found[f"r2_{x}"]) for x in "qvu"}
        right["U"] = np.zeros((n_q, n_r)), -np.eye(n_r)
        solved = {}
        for x, (r1, r2) in right.items():
            columns = [np.concatenate(solve(r1[:, k], r2[:, k])) for k in range(r1.shape[1])]
            solved[x] = np.array(columns).reshape(-1, n_q + n_r).T
        parts: dict[str, Any] = {f"a_{x}": block[:n_q] for x, block in solved.items()}
        parts |= {f"lam_{x}": solved[x][n_q:] for x in "qvu"} | {f"rate_{x}": found[f"Phidot_{x}"] for x in "qvu"}
        by = {(name, x): found[f"{name}_{x}"] for name in MEASURED for x in "qvu"}
        return Derivatives(a=a, lam=lam, Phi_q=found["Phi_q"], f_u=-found["r1_u"], by=by, **parts)

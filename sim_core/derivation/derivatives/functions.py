"""The derived equations as CasADi functions with named inputs and outputs."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.derivatives.roots import with_finite_slopes
from sim_core.derivation.equations import derive
from sim_core.errors import InvalidRequest
from sim_core.kernels.program import LIFTED, LIFTED_VALUES
from sim_core.mechanism.constraints import Rolling
from sim_core.mechanism.description import Mechanism

ARGUMENTS = ("t", "q", "v", "u", "p")


def derive_functions(mechanism: Mechanism) -> dict[str, ca.Function]:
    """{name: CasADi function} of a mechanism, with named inputs and outputs.

    dynamics     (t, q, v, u, p) -> M (n_q, n_q), f (n_q,), J (n_r, n_q), gamma (n_r,) of M a + J' lam = f, J a = gamma
    constraints  (t, q, v, u, p) -> Phi (n_h,), Phidot (n_r,)
    energy       (t, q, v, u, p) -> energy (2,): kinetic and potential, J
    joints       (t, q, v, u, p) -> position, velocity (n_joints,)
    kinematics   (t, q, v, u, p) -> position (3 n_bodies,), rotation (9 n_bodies,), each rotation row by row
    outputs      (t, q, v, u, p) -> value (n_outputs,)

    Raises InvalidRequest for a mechanism with beam contacts, whose forces come from tables.
    """
    derivation = derive(mechanism)
    if derivation.tables:
        raise InvalidRequest(
            f"robot {mechanism.name!r}: the forces of {', '.join(map(repr, derivation.tables))} come from a table, "
            "which has no derivative; linearize the robot without this contact"
        )
    if slipping := [c.name for c in mechanism.constraints if isinstance(c, Rolling) and c.friction is not None]:
        raise InvalidRequest(
            f"robot {mechanism.name!r}: M a + J' lam = f has no term for the friction of the slipping wheels "
            f"{', '.join(map(repr, slipping))}; use the robot without `friction` of its wheels"
        )
    first = mechanism.constraint_modes[0].name
    symbols = _symbols(derivation.functions[f"{first}.terms"])
    kernels = {
        "dynamics": (f"{first}.terms", ("M", "f", "J", "gamma")),
        "constraints": (f"{first}.residual", ("Phi", "Phidot")),
        "energy": ("energy", ("energy",)),
        "joints": ("joints", ("position", "velocity")),
        "kinematics": ("poses", ("position", "rotation")),
        "outputs": ("outputs", ("value",)),
    }
    found = {}
    for name, (kernel, results) in kernels.items():
        written = _written_out(derivation.functions[kernel], symbols)
        found[name] = ca.Function(name, list(symbols.values()), written, list(symbols), list(results))
    return found


def _symbols(function: ca.Function) -> dict[str, ca.SX]:
    inputs = dict(zip(function.name_in(), function.sx_in(), strict=True))
    return {name: inputs[name] for name in ARGUMENTS}


def _written_out(function: ca.Function, symbols: dict[str, ca.SX]) -> list[ca.SX]:
    """Results of a kernel as expressions of `symbols` alone, without lifted subexpressions, ready to differentiate."""
    inputs = dict(zip(function.name_in(), function.sx_in(), strict=True)) | symbols
    results = dict(zip(function.name_out(), function.call([inputs[name] for name in function.name_in()]), strict=True))
    lifted = results.pop(LIFTED_VALUES, None)
    found = list(results.values())
    if lifted is None:
        return with_finite_slopes(found)
    places, values = ca.vertsplit(inputs[LIFTED]), ca.vertsplit(lifted)
    # a lifted value depends on earlier ones only
    return with_finite_slopes(list(ca.substitute_inplace(places, values, found, False)[1]))

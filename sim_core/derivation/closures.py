"""Closed loops of a tree of joints, without its dynamics: constraint rows and springs as functions of the motion."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.constraints import rows_for
from sim_core.derivation.equations import moving_bodies
from sim_core.derivation.forces.springs import spring_forces
from sim_core.derivation.making import dense_function
from sim_core.mechanism.description import Mechanism


def derive_closures(mechanism: Mechanism) -> ca.Function:
    """Function (q, v, p) of Phi (n_h,), J (n_r, n_q), gamma (n_r,) and forces of the springs (n_q,), at t = 0.

    Phi = 0 are the holonomic constraints, J a = gamma is the second derivative of all constraints, as in `rows_for`.
    """
    symbols, motion, *_ = moving_bodies(mechanism)
    rows = rows_for(list(mechanism.constraints), motion.frames, symbols)
    springs = spring_forces(mechanism, motion.frames, symbols)
    found = [ca.substitute(each, symbols.t, 0.0) for each in (rows.Phi, rows.J, rows.gamma, springs)]
    written = [symbols.lifted.written_out(ca.SX(each)) for each in found]
    return dense_function("closures", {"q": symbols.q, "v": symbols.v, "p": symbols.p}, written)

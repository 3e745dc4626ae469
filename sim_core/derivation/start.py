"""The constraint rows at a mechanism's start, from the symbolic equations alone: nothing is compiled."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.constraints import all_constraints, rows_for
from sim_core.derivation.equations import FAMILIES
from sim_core.mechanism import Mechanism
from sim_core.start import violated_at


def violated_at_start(mechanism: Mechanism) -> str:
    """Which constraints its start violates, in words; empty when none."""
    symbols, motion = FAMILIES[mechanism.coordinates](mechanism)
    kept = mechanism.configurations[mechanism.start_configuration].constraints
    active = [c for c in all_constraints(mechanism) if kept is None or c.name in kept]
    rows = rows_for(active, motion.frames, symbols)
    residual = ca.Function("residual", [symbols.t, symbols.q, symbols.v, symbols.p], [rows.Phi, rows.Phidot])
    numbers = list(mechanism.parameter_values(mechanism.start_configuration))
    phi, phidot = residual(0.0, list(mechanism.initial_q), list(mechanism.initial_v), numbers)
    return violated_at(mechanism, rows.names, phi.full().ravel().tolist(), phidot.full().ravel().tolist())

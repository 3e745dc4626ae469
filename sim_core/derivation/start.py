"""The constraint rows at a mechanism's start, from the symbolic equations alone: nothing is compiled."""

from __future__ import annotations

from typing import Any

import casadi as ca

from sim_core.derivation.beams import with_beams
from sim_core.derivation.constraints import all_constraints, rows_for
from sim_core.derivation.equations import FAMILIES
from sim_core.mechanism import Mechanism
from sim_core.start import violated_at


def violated_at_start(mechanism: Mechanism) -> str:
    """Which constraints its start violates, in words; empty when none."""
    if mechanism.formulation.startswith("partitioned"):
        return ""  # its only row is where the eliminated coordinate comes from
    symbols, motion = with_beams(mechanism, *FAMILIES[mechanism.coordinates](mechanism))
    rows = rows_for(all_constraints(mechanism), motion.frames, symbols)
    start: list[Any] = [0.0, list(mechanism.initial_q), list(mechanism.initial_v)]
    start.append(list(mechanism.parameter_values(mechanism.start_configuration)))
    inputs = [symbols.t, symbols.q, symbols.v, symbols.p]
    lookups = [lookup for _, lookup in symbols.contacts.values()]
    places = ca.Function("places", inputs, [lookup.place for lookup in lookups]).call(start)
    start += [lookup.at(float(place)) for lookup, place in zip(lookups, places, strict=True)]
    residual = ca.Function("residual", [*inputs, *[lookup.row for lookup in lookups]], [rows.Phi, rows.Phidot])
    phi, phidot = residual.call(start)
    return violated_at(mechanism, rows.names, phi.full().ravel().tolist(), phidot.full().ravel().tolist())

"""Checks of constraint rows and of the initial state of a mechanism, by symbolic equations without compilation."""

from __future__ import annotations

from functools import partial

import casadi as ca
import numpy as np

from sim_core.derivation.constraints import all_constraints, rows_for
from sim_core.derivation.equations import moving_bodies
from sim_core.derivation.immovable import check_movable
from sim_core.derivation.rolled.constraints.checked_rows import all_rows_of, checked_rows_of
from sim_core.derivation.rolled.probe import RowProbe
from sim_core.kernels.choice import is_rolled
from sim_core.mechanism.checks.changes import check_captured_rows
from sim_core.mechanism.description import Mechanism
from sim_core.start import violated_at


def checked_rows(mechanism: Mechanism) -> list[str]:
    """Names of the constraints that have no effect, because no coordinate changes their rows.

    Raises InvalidMechanism for errors in the equations, as `assemble` does. The equations of a mechanism whose kernels
    are loops are not written out.
    """
    if is_rolled(mechanism):
        if not mechanism.constraints:
            return []
        still = checked_rows_of(mechanism, partial(RowProbe, mechanism)).still
        check_captured_rows(mechanism, still.captured_rows)
        return still.idle
    symbols, motion, _, rates, _ = moving_bodies(mechanism)
    facts = check_movable(mechanism, symbols, motion, rates)
    check_captured_rows(mechanism, facts.captured_rows)
    return facts.idle


def violated_at_start(mechanism: Mechanism) -> str:
    """Text that lists the constraints violated at the start (see `violated_at`); "" if there are none."""
    if is_rolled(mechanism) and not mechanism.constraints:
        return ""
    if mechanism.is_partitioned:
        return ""  # the only row defines the eliminated coordinate
    numbers = list(mechanism.parameter_values(mechanism.start_constraint_mode))
    q, v = list(mechanism.initial_q), list(mechanism.initial_v)
    if is_rolled(mechanism):
        probe = RowProbe(mechanism, all_rows_of(mechanism))
        phi, phidot = probe.residual(np.array(q), np.array(v), np.array(numbers))
        return violated_at(mechanism, probe.names, phi.tolist(), phidot.tolist())
    symbols, motion, *_ = moving_bodies(mechanism)
    kept = mechanism.constraint_modes[mechanism.start_constraint_mode].constraints
    active = [c for c in all_constraints(mechanism) if kept is None or c.name in kept]
    rows = rows_for(active, motion.frames, symbols)
    lookups = [lookup for _, lookup in symbols.contacts.values()]
    places = ca.vertcat(*[lookup.place for lookup in lookups])
    found = ca.Function("places", [symbols.t, symbols.q, symbols.p], [places])(0.0, q, numbers) if lookups else ca.DM()
    rows_found = [lookup.at(float(place)) for lookup, place in zip(lookups, found.full().ravel(), strict=True)]
    inputs = [symbols.t, symbols.q, symbols.v, symbols.p, *[lookup.row for lookup in lookups]]
    residual = ca.Function("residual", inputs, [rows.Phi, rows.Phidot])
    values = [each.full().ravel() for each in residual(0.0, q, v, numbers, *rows_found)]
    return violated_at(mechanism, rows.names, values[0].tolist(), values[1].tolist())

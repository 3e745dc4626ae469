"""First-order states in the equations of motion: each is the velocity of an additional coordinate.

For a state z with dz/dt = g(t, q, v, z, u), the additional coordinate is the integral of z over time, with inertia 1,
generalized force g and no kinetic energy. Steppers, snapshots, recordings and linearizations thus treat z as a
velocity.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca

from sim_core.derivation.symbols import Motion, Symbols
from sim_core.mechanism.description import Mechanism


def with_states(mechanism: Mechanism, symbols: Symbols, motion: Motion) -> tuple[Symbols, Motion]:
    """Symbols and equations extended by the mechanism's first-order states, which follow the bodies' coordinates.

    The forces f do not yet contain the states' rates g, which `applied_forces` gives.
    """
    names = tuple(state.name for state in mechanism.first_order_states)
    if not names:
        return symbols, motion
    n, m = symbols.q.numel(), len(names)
    z = ca.SX.sym("z", m)
    extended = replace(
        symbols,
        q=ca.vertcat(symbols.q, ca.SX.sym("z_integral", m)),
        v=ca.vertcat(symbols.v, z),
        states={name: z[index] for index, name in enumerate(names)},
    )

    def inertial(a: ca.SX) -> ca.SX:
        return ca.vertcat(motion.inertial(a[:n]), a[n:])

    return extended, replace(
        motion,
        coordinate_names=(*motion.coordinate_names, *names),
        M=ca.diagcat(motion.M, ca.SX.eye(m)),
        f=ca.vertcat(motion.f, ca.SX(m, 1)),
        inertial=inertial,
    )


def without_states(symbols: Symbols, motion: Motion) -> ca.SX:
    """Velocities v (n_q,) with zeros in place of the first-order states, for the kinetic energy."""
    v = ca.SX(symbols.v)
    for name in symbols.states:
        v[motion.coordinate_names.index(name)] = 0
    return v

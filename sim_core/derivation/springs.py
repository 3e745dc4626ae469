"""Springs and dampers between two points: their energy and, by virtual work, their generalized forces."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.symbols import Frames, Symbols
from sim_core.mechanism import Mechanism, Spring


def spring_length(spring: Spring, frames: Frames) -> ca.SX:
    """Distance of the spring's ends, m."""
    return ca.norm_2(frames[spring.body_b].point(spring.point_b) - frames[spring.body_a].point(spring.point_a))


def spring_energy(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ca.SX:
    """What all springs store, J: the sum of k (l - l0)^2 / 2."""
    stored = ca.SX(0)
    for spring in mechanism.springs:
        stretch = spring_length(spring, frames) - symbols.number(spring.rest_length)
        stored += 0.5 * symbols.number(spring.stiffness) * stretch**2
    return stored


def spring_forces(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ca.SX:
    """Generalized forces (n_q,) of springs and dampers: a tension T does the work -T dl, so f = -(dl/dq)' T."""
    forces = ca.SX(symbols.q.numel(), 1)
    for spring in mechanism.springs:
        length = spring_length(spring, frames)
        rate = ca.jtimes(length, symbols.q, symbols.v)
        tension = symbols.number(spring.stiffness) * (length - symbols.number(spring.rest_length))
        tension += symbols.number(spring.damping) * rate
        forces -= ca.jacobian(length, symbols.q).T * tension
    return forces

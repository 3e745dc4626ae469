"""Springs and dampers between two points: stored energy, and generalized forces by virtual work."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.symbols import Frames, Symbols
from sim_core.mechanism.description import Mechanism, Spring


def _gap(spring: Spring, frames: Frames) -> ca.SX:
    return frames[spring.body_b].point(spring.point_b) - frames[spring.body_a].point(spring.point_a)


def _stored(spring: Spring, frames: Frames, symbols: Symbols) -> ca.SX:
    """Energy stored in a spring of length l, J: F0 l + k (l - l0)^2 / 2 with pretension F0 and rest length l0.

    If F0 = l0 = 0, the energy is computed as k d.d / 2 from the vector d between the two ends, which is smooth at d =
    0.
    """
    gap, k = _gap(spring, frames), symbols.number(spring.stiffness)
    if spring.rest_length == 0.0 and spring.pretension == 0.0:
        return 0.5 * k * ca.dot(gap, gap)
    length = ca.norm_2(gap)
    return symbols.number(spring.pretension) * length + 0.5 * k * (length - symbols.number(spring.rest_length)) ** 2


def spring_lengths(mechanism: Mechanism, frames: Frames) -> list[tuple[Spring, ca.SX]]:
    """(spring, its length, m) of every spring."""
    return [(spring, ca.norm_2(_gap(spring, frames))) for spring in mechanism.springs]


def spring_energy(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ca.SX:
    """Energy stored in all springs, J."""
    return sum((_stored(spring, frames, symbols) for spring in mechanism.springs), ca.SX(0))


def spring_forces(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ca.SX:
    """Generalized forces (n_q,) of all springs and their dampers: -dV/dq - sum of (dl/dq)' c dl/dt.

    V is the energy stored in all springs; l and c are the length and the damping coefficient of each spring.
    """
    forces = -ca.gradient(spring_energy(mechanism, frames, symbols), symbols.q)
    for spring in mechanism.springs:
        if spring.damping == 0.0:
            continue
        length = ca.norm_2(_gap(spring, frames))
        rate = ca.jtimes(length, symbols.q, symbols.v)
        forces -= ca.jacobian(length, symbols.q).T * symbols.number(spring.damping) * rate
    return forces


def spring_power(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ca.SX:
    """Power of the dampers of all springs, W: sum of -c (dl/dt)^2 for the damping coefficient c and the length l."""
    power = ca.SX(0)
    for spring in mechanism.springs:
        if spring.damping == 0.0:
            continue
        rate = ca.jtimes(ca.norm_2(_gap(spring, frames)), symbols.q, symbols.v)
        power -= symbols.number(spring.damping) * rate**2
    return power

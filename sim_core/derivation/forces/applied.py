"""Applied forces of a mechanism, gathered from its joints, contacts, custom forces and pushes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.forces.contacts import ContactForce, contact_forces
from sim_core.derivation.forces.custom_forces import LawForce, custom_forces
from sim_core.derivation.forces.joint_parts import efforts_of
from sim_core.derivation.forces.oriented_joints import oriented_forces
from sim_core.derivation.symbols import Frame, Motion, Symbols
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import push_names


@dataclass(frozen=True)
class AppliedForces:
    """Forces of springs, dry friction and stops of joints, of sphere contacts, of custom forces, and of pushes.

    generalized  generalized forces (n_q,), one vector per force. With first-order states z, one more vector follows: it
                 has the rates dz/dt in the entries of these states (see states.py) and zeros elsewhere
    powers       powers of the forces, W
    stored       stored energies, J
    contacts     {contact: ContactForce}
    laws         LawForce of each custom force, in the order of the mechanism's description
    """

    generalized: list[ca.SX]
    powers: list[ca.SX]
    stored: list[ca.SX]
    contacts: Mapping[str, ContactForce]
    laws: list[LawForce]

    def plus(self, forces: ca.SX) -> ca.SX:
        """Sum (n_q,) of `forces` and the generalized forces of this object."""
        return _sum(self.generalized, forces)

    def power(self, other: ca.SX) -> ca.SX:
        """Sum, W, of the given power `other` and the powers of this object's forces."""
        return _sum(self.powers, other)


def applied_forces(
    mechanism: Mechanism, motion: Motion, symbols: Symbols, positions: ca.SX, rates: ca.SX
) -> AppliedForces:
    """Forces of joint springs, dry friction, stops, sphere contacts, custom forces and pushes.

    Efforts of actuators, joint loads, viscous damping, springs between points, and beams are not included.

    positions, rates  positions and velocities (n_joints,) of the declared joints
    """
    generalized, powers, stored, state_rates = list[ca.SX](), list[ca.SX](), list[ca.SX](), dict[str, ca.SX]()
    for index, part in efforts_of(mechanism, symbols, positions, rates):
        generalized.append(ca.jacobian(rates[index], symbols.v).T * part.effort)
        powers.append(part.power)
        stored.append(part.stored)
        state_rates |= part.rates
    for oriented in oriented_forces(mechanism, symbols):
        generalized.append(oriented.generalized)
        powers.append(oriented.power)
        stored.append(oriented.stored)
    contacts = contact_forces(mechanism, motion.frames, symbols)
    for contact in contacts.values():
        generalized.append(contact.generalized)
        powers.append(contact.power)
        stored.append(contact.stored)
        state_rates |= contact.rates
    laws = custom_forces(mechanism, motion.frames, symbols)
    for law in laws:
        generalized.append(law.generalized)
        powers.append(law.power)
        state_rates |= law.rates
    for body in mechanism.pushable:
        point, force = push_on(body, motion.frames[body], symbols)
        velocity = ca.jtimes(point, symbols.q, symbols.v)
        generalized.append(ca.jacobian(velocity, symbols.v).T @ force)
        powers.append(ca.dot(force, velocity))
    if state_rates:
        column = ca.SX(symbols.v.numel(), 1)
        for name, rate in state_rates.items():
            column[motion.coordinate_names.index(name)] = rate
        generalized.append(column)
    return AppliedForces(generalized, powers, stored, contacts, laws)


def push_on(body: str, frame: Frame, symbols: Symbols) -> tuple[ca.SX, ca.SX]:
    """Point (3,) on which a push on a body acts, m, and force (3,) of the push, N, in the world's axes.

    Force and point are entries of the parameter vector p; the force is zero unless the body is pushed.
    """
    places = [symbols.parameter_names.index(name) for name in push_names(body)]
    return frame.p + frame.R @ symbols.p[places[3:]], symbols.p[places[:3]]


def _sum(values: Iterable[ca.SX], start: ca.SX) -> ca.SX:
    for value in values:
        start = start + value
    return start

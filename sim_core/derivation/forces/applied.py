"""Applied forces of a mechanism, gathered from its joints, contacts and custom forces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.forces.contacts import ContactForce, contact_forces
from sim_core.derivation.forces.custom_forces import custom_forces
from sim_core.derivation.forces.joint_parts import efforts_of
from sim_core.derivation.symbols import Motion, Symbols
from sim_core.mechanism.description import Mechanism


@dataclass(frozen=True)
class AppliedForces:
    """Forces of springs, dry friction and stops of joints, of contacts of spheres, and of custom forces.

    generalized  each a column (n_q,); those of first-order states are their rates
    powers       W
    stored       energies, J
    contacts     forces of the contacts by name
    """

    generalized: list[ca.SX]
    powers: list[ca.SX]
    stored: list[ca.SX]
    contacts: Mapping[str, ContactForce]

    def plus(self, forces: ca.SX) -> ca.SX:
        """Other forces (n_q,) with these added."""
        return _sum(self.generalized, forces)

    def power(self, other: ca.SX) -> ca.SX:
        """Another power, W, with that of these forces added."""
        return _sum(self.powers, other)


def applied_forces(
    mechanism: Mechanism, motion: Motion, symbols: Symbols, positions: ca.SX, rates: ca.SX
) -> AppliedForces:
    """The applied forces beside those of actuators, loads, viscous damping, springs between points, and beams.

    positions, rates  of the declared joints
    """
    generalized, powers, stored, state_rates = list[ca.SX](), list[ca.SX](), list[ca.SX](), dict[str, ca.SX]()
    for index, part in efforts_of(mechanism, symbols, positions, rates):
        generalized.append(ca.jacobian(rates[index], symbols.v).T * part.effort)
        powers.append(part.power)
        stored.append(part.stored)
        state_rates |= part.rates
    contacts = contact_forces(mechanism, motion.frames, symbols)
    for contact in contacts.values():
        generalized.append(contact.generalized)
        powers.append(contact.power)
        stored.append(contact.stored)
    for law in custom_forces(mechanism, motion.frames, symbols):
        generalized.append(law.generalized)
        powers.append(law.power)
        state_rates |= law.rates
    if state_rates:
        column = ca.SX(symbols.v.numel(), 1)
        for name, rate in state_rates.items():
            column[motion.coordinate_names.index(name)] = rate
        generalized.append(column)
    return AppliedForces(generalized, powers, stored, contacts)


def _sum(values: Iterable[ca.SX], start: ca.SX) -> ca.SX:
    for value in values:
        start = start + value
    return start

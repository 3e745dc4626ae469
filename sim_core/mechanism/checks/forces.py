"""Checks of springs, actuators, sphere contacts and custom forces, apart from types and ranges; errors are one line."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.checks.types import refuse
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.custom_forces import CustomForce
from sim_core.mechanism.description import Actuator, Mechanism
from sim_core.mechanism.joints import GROUND, ORIGIN

EXPONENTS = (1.0, 1.5, 2.0)


def check_forces(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism or UnknownName for the first invalid spring, actuator, contact or custom force."""
    for contact in mechanism.contacts:
        _check_contact(contact, mechanism, f"{owner}: contact {contact.name!r}")
    for force in mechanism.forces:
        _check_custom(force, mechanism, f"{owner}: force {force.name!r}")
        mechanism.law_key(force)
    for spring in mechanism.springs:
        if spring.body_a == spring.body_b:
            where = f"{owner}: spring {spring.name!r}"
            refuse(where, f"both ends are on {spring.body_a!r}; they must be on two different bodies")
    for actuator in mechanism.actuators:
        _check_actuator(actuator, f"{owner}: actuator {actuator.name!r}")


def _check_contact(contact: SphereContact, mechanism: Mechanism, where: str) -> None:
    if contact.body == contact.other:
        refuse(where, f"body and other are both {contact.body!r}; they must be two different bodies")
    if contact.other_half_sizes is not None:
        if contact.other_radius is not None:
            refuse(where, "other_half_sizes and other_radius are both given; leave out other_radius for a box")
        if not min(contact.other_half_sizes) > 0.0:
            refuse(where, f"other_half_sizes is {contact.other_half_sizes}; each must be above 0")
    elif contact.other_radius is None and contact.other_half_axis != ORIGIN:
        refuse(where, "other_half_axis is given without other_radius; give both for a capsule")
    if contact.stick_deflection is not None and not contact.is_plane:
        refuse(where, "stick_deflection is for contacts with planes; remove it: the friction is then regularized")
    if contact.stick_deflection is not None and contact.friction == 0.0:
        refuse(where, "friction is 0; a contact with a stick_deflection needs a value above 0")
    if contact.exponent not in EXPONENTS:
        refuse(where, f"exponent is {contact.exponent}; it must be 1, 1.5 or 2")
    bodies = [mechanism.body(name) for name in (contact.body, contact.other) if name != GROUND]
    planar = mechanism.has_body_coordinates and all(body.is_planar for body in bodies)
    if planar and contact.is_plane and abs(contact.normal[2]) > 1e-9:
        raise InvalidMechanism(
            f"{where}: normal is {contact.normal}; the contact's bodies are planar, so that the normal must lie in the "
            "x, y plane"
        )


def _check_custom(force: CustomForce, mechanism: Mechanism, where: str) -> None:
    names = [name for name, _ in (*force.parameters, *force.states)] + [point.name for point in force.points]
    if double := [name for name in names if names.count(name) > 1]:
        refuse(where, f"two of the force's parameters, points and states are named {double[0]!r}; rename one")
    if double := [name for name in names if name in mechanism.joint_names]:
        raise InvalidMechanism(
            f"{where}: a parameter, point or state is named {double[0]!r}, like a joint; rename the parameter, point "
            "or state"
        )


def _check_actuator(actuator: Actuator, where: str) -> None:
    if actuator.effort_limit is not None and abs(actuator.start) > actuator.effort_limit:
        refuse(where, f"start is {actuator.start}; it must be within the effort_limit, +-{actuator.effort_limit}")
    if not actuator.joint and actuator.servo is not None:
        raise InvalidMechanism(f"{where} has a servo but no joint; name its joint or remove the servo")

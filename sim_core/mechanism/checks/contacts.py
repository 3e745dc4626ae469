"""Checks of a description's sphere contacts; each error is one line."""

from __future__ import annotations

import math

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.checks.joints.parts import EXPONENTS, require_above, require_least
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.joints import ORIGIN, Quaternion

ROUNDED = 1e-6  # departure of a quaternion's norm from 1 that rounded numbers in files explain


def check_contacts(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first contact with an invalid body, number or normal."""
    for contact in mechanism.contacts:
        where = f"{owner}: contact {contact.name!r}"
        if contact.body == contact.other:
            raise InvalidMechanism(
                f"{where}: body and other are both {contact.body!r}; they must be two different bodies"
            )
        require_least(contact, ("radius", "dissipation", "friction"), 0.0, "", where)
        require_above(contact, ("stiffness", "slip_velocity", "other_radius"), where)
        if contact.other_half_sizes is not None:
            if contact.other_radius is not None:
                raise InvalidMechanism(
                    f"{where}: other_half_sizes and other_radius are both given; leave out other_radius for a box"
                )
            if not min(contact.other_half_sizes) > 0.0:
                raise InvalidMechanism(f"{where}: other_half_sizes is {contact.other_half_sizes}; each must be above 0")
            _check_norm(contact.other_quaternion, where)
        elif contact.other_radius is None and contact.other_half_axis != ORIGIN:
            raise InvalidMechanism(f"{where}: other_half_axis is given without other_radius; give both for a capsule")
        if contact.exponent not in EXPONENTS:
            raise InvalidMechanism(f"{where}: exponent is {contact.exponent}; it must be 1, 1.5 or 2")
        bodies = [body for body in mechanism.bodies if body.name in (contact.body, contact.other)]
        planar = mechanism.coordinates == "absolute" and all(body.orientation == "planar" for body in bodies)
        if planar and contact.is_plane and abs(contact.normal[2]) > 1e-9:
            raise InvalidMechanism(
                f"{where}: normal is {contact.normal}; the contact's bodies are planar, so that the normal must lie in "
                "the x, y plane"
            )


def _check_norm(quaternion: Quaternion, where: str) -> None:
    if not abs(math.hypot(*quaternion) - 1.0) <= ROUNDED:
        norm = math.hypot(*quaternion)
        raise InvalidMechanism(f"{where}: other_quaternion is {quaternion} of norm {norm:g}; its norm must be 1")

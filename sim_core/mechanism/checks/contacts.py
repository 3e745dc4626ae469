"""Checks of a description's sphere contacts; each error is one line."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.checks.joint_parts import EXPONENTS, require_above, require_least
from sim_core.mechanism.description import Mechanism


def check_contacts(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism, in one line, for the first sphere contact with an invalid body, number or normal."""
    for contact in mechanism.contacts:
        where = f"{owner}: contact {contact.name!r}"
        if contact.body == contact.other:
            raise InvalidMechanism(
                f"{where}: body and other are both {contact.body!r}; they must be two different bodies"
            )
        require_least(contact, ("radius", "dissipation", "friction"), 0.0, "", where)
        require_above(contact, ("stiffness", "slip_velocity", "other_radius"), where)
        if contact.exponent not in EXPONENTS:
            raise InvalidMechanism(f"{where}: exponent is {contact.exponent}; it must be 1, 1.5 or 2")
        bodies = [body for body in mechanism.bodies if body.name in (contact.body, contact.other)]
        planar = mechanism.coordinates == "absolute" and all(body.orientation == "planar" for body in bodies)
        if planar and contact.other_radius is None and abs(contact.normal[2]) > 1e-9:
            raise InvalidMechanism(
                f"{where}: normal is {contact.normal}; its bodies are planar, so that it must lie in the x, y plane"
            )

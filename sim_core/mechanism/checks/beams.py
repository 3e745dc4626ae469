"""Checks of a description's beams and beam contacts; each error is one line."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import Beam, BeamContact, ContactForceOutput, DeflectionOutput
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import Tunable, value_of

POSITIVE = ("length", "elements", "mass_per_length", "bending_stiffness")
NOT_NEGATIVE = ("modes", "mass_damping", "stiffness_damping", "damping_ratio", "tension")


def check_beams(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first error in beams, beam contacts or their outputs."""
    beams = {beam.name: beam for beam in mechanism.beams}
    for beam in mechanism.beams:
        _check_beam(beam, f"{owner}: beam {beam.name!r}")
    contacts = [c for c in mechanism.constraints if isinstance(c, BeamContact)]
    for contact in contacts:
        if contact.width < 0.0:
            raise InvalidMechanism(
                f"{owner}: contact {contact.name!r}: width is {contact.width} m; it must not be negative"
            )
        if contact.beam not in beams:
            raise UnknownName(f"{owner}: contact {contact.name!r}", "beam", contact.beam, beams)
    for output in mechanism.outputs:
        where = f"{owner}: output {output.name!r}"
        if isinstance(output, ContactForceOutput) and output.contact not in [c.name for c in contacts]:
            raise UnknownName(where, "contact", output.contact, [c.name for c in contacts])
        if isinstance(output, DeflectionOutput):
            if output.beam not in beams:
                raise UnknownName(where, "beam", output.beam, beams)
            if not 0.0 <= output.x <= beams[output.beam].length:
                raise InvalidMechanism(
                    f"{where}: x is {output.x} m; it must lie on the beam, in 0 .. {beams[output.beam].length} m"
                )
    if "partitioned" in mechanism.formulation:
        _check_partition(mechanism, contacts, owner)


def _check_beam(beam: Beam, where: str) -> None:
    for name in (*POSITIVE, *NOT_NEGATIVE):
        value = value_of(getattr(beam, name))
        if value < 0 or (name in POSITIVE and value == 0):
            what = "be positive" if name in POSITIVE else "not be negative"
            raise InvalidMechanism(f"{where}: {name} is {value}; it must {what}")
    for name in ("elements", "modes"):
        if not isinstance(getattr(beam, name), int):
            raise InvalidMechanism(f"{where}: {name} is {getattr(beam, name)!r}; it must be a whole number")
    most = 2 * beam.elements - (2 if beam.supports == "clamped" else 0)
    if not most > 0 or beam.modes > most:
        raise InvalidMechanism(
            f"{where}: modes is {beam.modes}; a beam of {beam.elements} elements can have at most {max(most, 0)} modes"
        )
    if isinstance(beam.tension, Tunable) and not (beam.supports == "simple" and 0 < beam.modes < beam.elements):
        raise InvalidMechanism(
            f"{where}: a Tunable tension needs supports='simple' and 1 to {beam.elements - 1} modes; the beam has "
            f"supports={beam.supports!r} and {beam.modes} modes"
        )
    if isinstance(beam.damping_ratio, Tunable) and not beam.modes:
        raise InvalidMechanism(f"{where}: a Tunable damping_ratio needs modes, and modes is 0; set modes above 0")
    for name in ("axis", "direction"):
        if abs(sum(c * c for c in getattr(beam, name)) - 1.0) > 1e-12:
            raise InvalidMechanism(f"{where}: {name} is {getattr(beam, name)}; it must have length 1 (a unit vector)")
    if abs(sum(a * b for a, b in zip(beam.axis, beam.direction, strict=True))) > 1e-12:
        raise InvalidMechanism(
            f"{where}: axis {beam.axis} and direction {beam.direction} are not at right angles; choose perpendicular "
            "vectors"
        )


def _check_partition(mechanism: Mechanism, contacts: list[BeamContact], owner: str) -> None:
    rest = len(mechanism.constraints) - len(contacts)
    constraint_modes = mechanism.constraint_modes
    if mechanism.coordinates != "joint" or len(contacts) != 1 or rest or len(constraint_modes) != 1:
        raise InvalidMechanism(
            f"{owner}: formulation {mechanism.formulation!r} supports only joint coordinates, one constraint mode "
            f"(set of active constraints), and one beam contact as the only constraint; this mechanism has "
            f"{mechanism.coordinates} coordinates, the constraint modes "
            f"{', '.join(one.name for one in constraint_modes)}, {len(contacts)} beam contacts and {rest} other "
            "constraints; choose formulation 'schur' or 'augmented'"
        )
    if contacts[0].name in mechanism.switched and constraint_modes[0].constraints is None:
        raise InvalidMechanism(
            f"{owner}: formulation {mechanism.formulation!r} eliminates contact {contacts[0].name!r}, but a guard "
            "switches this contact; choose formulation 'schur' or 'augmented'"
        )
    held = constraint_modes[0].constraints
    if held is not None and contacts[0].name not in held:
        raise InvalidMechanism(
            f"{owner}: formulation {mechanism.formulation!r} eliminates contact {contacts[0].name!r}, which does not "
            f"hold in constraint mode {constraint_modes[0].name!r}; choose formulation 'schur' or 'augmented'"
        )
    joints = [joint.name for joint in mechanism.moving_joints if joint.kind != "planar"]
    if contacts[0].dependent not in joints:
        raise UnknownName(f"{owner}: contact {contacts[0].name!r}", "dependent joint", contacts[0].dependent, joints)

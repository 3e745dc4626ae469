"""Checks of beams, beam contacts, and what a "partitioned" formulation supports; each error is one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.constraints import BeamContact, PrescribedMotion
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.outputs import AccelerometerOutput, ForceTorqueOutput
from sim_core.mechanism.quantities import Tunable


def check_beams(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first error in beams and beam contacts."""
    beams = {beam.name: beam for beam in mechanism.beams}
    for beam in mechanism.beams:
        _check_beam(beam, f"{owner}: beam {beam.name!r}")
    contacts = [c for c in mechanism.constraints if isinstance(c, BeamContact)]
    for contact in contacts:
        if contact.beam not in beams:
            raise UnknownName(f"{owner}: contact {contact.name!r}", "beam", contact.beam, beams)
    if mechanism.is_partitioned:
        _check_partition(mechanism, contacts, owner)


def _check_beam(beam: Beam, where: str) -> None:
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
    if abs(sum(a * b for a, b in zip(beam.axis, beam.direction, strict=True))) > 1e-12:
        raise InvalidMechanism(
            f"{where}: axis {beam.axis} and direction {beam.direction} are not at right angles; choose perpendicular "
            "vectors"
        )


def _check_partition(mechanism: Mechanism, contacts: list[BeamContact], owner: str) -> None:
    """Raise InvalidMechanism for a part of the mechanism that a "partitioned" formulation does not support."""
    needs = f"needs the formulation 'schur' or 'augmented', not {mechanism.formulation!r}"
    parts: tuple[tuple[str, Sequence[Any], str], ...] = (
        ("joint", mechanism.oriented_joints, "an orientation"),
        ("joint", [joint for joint in mechanism.moving_joints if joint.bristle], "friction with bristles"),
        ("constraint", [c for c in mechanism.constraints if isinstance(c, PrescribedMotion)], "a PrescribedMotion"),
        ("force", [force for force in mechanism.forces if force.states], "a state of a force"),
        (
            "output",
            [o for o in mechanism.outputs if isinstance(o, AccelerometerOutput | ForceTorqueOutput)],
            "a sensor of accelerations or forces",
        ),
    )
    for group, items, what in parts:
        for item in items:
            raise InvalidMechanism(f"{owner}: {group} {item.name!r}: {what} {needs}")
    rest = len(mechanism.constraints) - len(contacts)
    constraint_modes = mechanism.constraint_modes
    if not mechanism.has_joint_coordinates or len(contacts) != 1 or rest or len(constraint_modes) != 1:
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
    joints = [joint.name for joint in mechanism.moving_joints if not joint.slides or joint.is_length]
    if contacts[0].dependent not in joints:
        raise UnknownName(f"{owner}: contact {contacts[0].name!r}", "dependent joint", contacts[0].dependent, joints)

"""Exact numbers of contacts in the <custom> section of an MJCF file, which an export writes and MuJoCo ignores.

For each contact, a <numeric> whose name is PREFIX followed by the contact's name has those numbers that MuJoCo's
attributes cannot hold exactly, in this order:

    stiffness, exponent, dissipation, slip_velocity, radius, center x y z, other_point x y z, and then
    for a plane              normal x y z
    for a sphere or capsule  other_radius, other_half_axis x y z (0 0 0 for a sphere)
    for a box                other_half_sizes x y z, other_quaternion w x y z

They replace the numbers that follow from the <pair> with the contact's name. The contacts of a capsule or box on a
plane share one <pair>, whose name lacks the number of the end (_0, _1) or corner (_0 to _7) in the contact's name.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robots.importing.mjcf.exact_numbers import SAME, custom_numbers
from robots.importing.notes import Notes
from robots.importing.xml_reader import Element
from sim_core.mechanism import SphereContact
from sim_core.mechanism.quantities import value_of
from sim_core.spatial import rotation_from_quaternion

PREFIX = "armswing.contact."
PARAMETERS = {"stiffness": 1, "exponent": 1, "dissipation": 1, "slip_velocity": 1}
GEOMETRY = {"radius": 1, "center": 3, "other_point": 3}


def numbers_of(contact: SphereContact) -> list[float]:
    """Numbers of a contact in the order of the <numeric>; those that are Tunable have their values at the start.

    contact  a contact with a stiffness
    """
    found: list[float] = []
    for name, count in _layout(contact).items():
        part = getattr(contact, name)
        found += [value_of(part)] if count == 1 else [float(number) for number in part]
    return found


def _layout(contact: SphereContact) -> dict[str, int]:
    """{field of SphereContact: how many numbers it has}, in the order of the <numeric>."""
    if contact.is_plane:
        other = {"normal": 3}
    elif contact.other_half_sizes is None:
        other = {"other_radius": 1, "other_half_axis": 3}
    else:
        other = {"other_half_sizes": 3, "other_quaternion": 4}
    return {**PARAMETERS, **GEOMETRY, **other}


class ContactNumbers:
    """Reads the exact numbers of contacts, such as points and stiffness, from the <numeric> elements of a file.

    An export writes these elements, because the geoms and pairs of MJCF express the numbers only up to rounding, or not
    at all.

    root  the <mujoco> element of the file
    """

    def __init__(self, root: Element) -> None:
        elements = custom_numbers(root, PREFIX)
        self._elements = {name.removeprefix(PREFIX): element for name, element in elements.items()}
        pairs = [pair for holder in root.all("contact") for pair in holder.all("pair")]
        self._pairs = {pair.attributes.get("name", "") for pair in pairs}

    def of_pair(self, name: str) -> set[str]:
        """Names of the contacts of a <pair> for which the file has exact numbers; empty for a pair without a name.

        name  name of the <pair>, "" for none
        """
        return {contact for contact in self._elements if name and self._pair_of(contact) == name}

    def note_unread(self, notes: Notes) -> None:
        """Add a note for each contact for which the file has exact numbers but no <pair>."""
        for contact, element in self._elements.items():
            if self._pair_of(contact) is None:
                notes.add(element, "the contact is not read, because no <pair> has its name")

    def _pair_of(self, contact: str) -> str | None:
        base, _, number = contact.rpartition("_")
        if contact in self._pairs:
            return contact
        return base if base in self._pairs and number in map(str, range(8)) else None

    def applied(self, contact: SphereContact) -> SphereContact:
        """The contact with its exact numbers in place of those that were computed from the geoms.

        The file must have exact numbers for this contact. Raises InvalidMechanism if they contradict the geometry of
        the geoms by more than rounding.
        """
        element, layout = self._elements[contact.name], _layout(contact)
        given = element.numbers("data", sum(layout.values()))
        fields: dict[str, Any] = {}
        ends = list(itertools.accumulate(layout.values()))
        for (name, count), end in zip(layout.items(), ends, strict=True):
            fields[name] = given[end - 1] if count == 1 else tuple(given[end - count : end])
            if name not in PARAMETERS and not _agree(name, fields[name], getattr(contact, name)):
                element.fail(
                    f"{name} is {_text(fields[name])}, but the geoms of the pair give {_text(getattr(contact, name))}; "
                    "make them equal, or remove this <numeric>"
                )
        return replace(contact, **fields)


def _agree(name: str, one: Any, other: Any) -> bool:
    if name == "other_quaternion":
        if not any(one):
            return False
        one, other = (rotation_from_quaternion(np.array(each) / np.linalg.norm(each)) for each in (one, other))
    return bool(np.allclose(one, other, rtol=SAME, atol=SAME))


def _text(numbers: float | Sequence[float]) -> str:
    return " ".join(f"{number:.6g}" for number in ([numbers] if isinstance(numbers, float) else numbers))

"""Exact numbers of bodies, joints and constraints in the <custom> section of an MJCF file.

An export writes them, and MuJoCo ignores them.

MJCF expresses an orientation by a quaternion, and an inertia by its principal moments and axes. The matrices of a
Mechanism follow from these only up to rounding. The following <numeric> elements have the exact numbers:

    armswing.inertia.BODY  inertia xx yy zz xy xz yz of the body
    armswing.joint.JOINT   parent_point x y z, child_point x y z, axis x y z, and the three rows of `rotation`. The
                           joint that fixes a body to its parent is named BODY.fixed
    armswing.weld.WELD     x axis, y axis and z axis of the first site, and then those of the second
    armswing.offset.NAME   offset of the constraint NAME between joint positions

These numbers are used only where they differ from the rest of the file by at most SAME. Where somebody has edited the
rest of the file, they differ by more, and the edited values are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robots.importing.notes import Notes
from robots.importing.rotations import Array, rows
from robots.importing.xml_reader import Element
from sim_core.mechanism import Body, Joint
from sim_core.mechanism.quantities import value_of

INERTIA, JOINT, WELD, OFFSET = "armswing.inertia.", "armswing.joint.", "armswing.weld.", "armswing.offset."
OWNERS = {"inertia": "body", "offset": "constraint"}  # of other numbers, the owner is their kind
SAME = 1e-9  # m, or relative to the largest moment of inertia and to numbers above 1


def numbers_of_body(body: Body) -> tuple[float, ...]:
    """Inertia xx yy zz xy xz yz of a body, as in its <numeric>; a Tunable has its value at the start."""
    return tuple(value_of(entry) for entry in body.inertia)


def numbers_of_joint(joint: Joint) -> tuple[float, ...]:
    """Numbers of a joint in the order of its <numeric>: parent_point, child_point, axis, rows of `rotation`."""
    numbers = (
        *joint.parent_point,
        *joint.child_point,
        *joint.axis,
        *(entry for row in joint.rotation for entry in row),
    )
    return tuple(float(number) for number in numbers)


def agree(one: Sequence[float], other: Sequence[float], scale: float = 1.0) -> bool:
    """Whether two lists have the same length, and numbers that differ only by rounding.

    The permitted difference of two numbers is SAME * (scale + |number|).
    """
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=SAME, atol=SAME * scale))


def largest_moment(inertia: Sequence[float]) -> float:
    """The largest of the moments xx, yy and zz among the entries of an inertia."""
    return max(map(abs, inertia[:3]))


def custom_numbers(root: Element, *prefixes: str) -> dict[str, Element]:
    """{name: element} of the <numeric> elements of a file whose names begin with one of the prefixes.

    Raises InvalidMechanism if two of them have the same name.
    """
    found: dict[str, Element] = {}
    for custom in root.all("custom"):
        for element in custom.all("numeric"):
            name = element.attributes.get("name", "")
            if name.startswith(prefixes):
                element.label = f"numeric {name!r}"
                if name in found:
                    element.fail("two <numeric> have this name; names must be unique")
                found[name] = element
    return found


class ExactNumbers:
    """The <numeric> elements of a file with exact numbers of bodies, joints and constraints.

    root  the <mujoco> element of the file
    """

    def __init__(self, root: Element, notes: Notes) -> None:
        self._notes = notes
        self._unused = custom_numbers(root, INERTIA, JOINT, WELD, OFFSET)

    def body(self, body: Body) -> Body:
        """The body with the exact inertia that a <numeric> has for it.

        The body is unchanged if there is no such <numeric>, or if the two inertias differ by more than rounding.
        """
        inertia = numbers_of_body(body)
        a, b, c, d, e, f = self._numbers(f"{INERTIA}{body.name}", inertia, largest_moment(inertia), "the body")
        return replace(body, inertia=(a, b, c, d, e, f))

    def joint(self, joint: Joint) -> Joint:
        """The joint with the exact points, axis and rotation that a <numeric> has for it.

        The joint is unchanged if there is no such <numeric>, or if the numbers differ from those of the joint by more
        than rounding.
        """
        found = np.array(self._numbers(f"{JOINT}{joint.name}", numbers_of_joint(joint), 1.0, "the joint"))
        point, child_point, axis = (tuple(part) for part in found[:9].reshape(3, 3).tolist())
        rotation = rows(found[9:].reshape(3, 3))
        return replace(joint, parent_point=point, child_point=child_point, axis=axis, rotation=rotation)

    def axes(self, weld: str, first: Array, second: Array) -> tuple[Array, Array]:
        """The exact rotation matrices (3, 3) of the two sites of a weld, from a <numeric>.

        Returns `first` and `second` if there is no such <numeric>, or if its numbers differ from them by more than
        rounding.

        weld           name of the weld
        first, second  rotation matrices of the sites, computed from their quaternions in the file
        """
        given = (*first.T.ravel().tolist(), *second.T.ravel().tolist())
        found = np.array(self._numbers(f"{WELD}{weld}", given, 1.0, "the weld"))
        return found[:9].reshape(3, 3).T, found[9:].reshape(3, 3).T

    def offset(self, constraint: str, given: float) -> float:
        """The exact offset of a constraint between joint positions, from a <numeric>.

        Returns `given` if there is no such <numeric>, or if its number differs from `given` by more than rounding.

        given  offset computed from the rest of the file
        """
        return self._numbers(f"{OFFSET}{constraint}", (given,), 1.0, "the constraint")[0]

    def note_unread(self) -> None:
        """Add a note for each <numeric> that names no body, joint or constraint of the file."""
        for name, element in self._unused.items():
            kind = name.split(".")[1]
            self._notes.add(element, f"the numbers are not read, because no {OWNERS.get(kind, kind)} has this name")

    def _numbers(self, name: str, given: tuple[float, ...], scale: float, owner: str) -> tuple[float, ...]:
        """The numbers of the <numeric> `name`, if they differ from `given` only by rounding.

        Otherwise returns `given`, and adds a note. Returns `given` also if there is no such <numeric>.

        scale  size of the numbers, see `agree`
        owner  noun for the part with these numbers, such as "the body", for the note
        """
        element = self._unused.pop(name, None)
        if element is None:
            return given
        exact = element.numbers("data", len(given))
        if agree(exact, given, scale):
            return exact
        self._notes.add(
            element, f"the numbers are not read, because the file gives {owner} others; remove this <numeric>"
        )
        return given

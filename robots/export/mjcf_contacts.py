"""Contacts in an MJCF file: invisible geoms, a <pair> for each two geoms that touch, and exact numbers for the import.

A contact of a sphere is written as a <pair> of two geoms. The contacts of the two ends of a capsule with a plane are
written as one <pair>, and so are the contacts of the eight corners of a box with a plane. `solref` of a <pair> is
chosen so that a body at rest under gravity penetrates as deeply in MuJoCo as in armswing, and that an impact at 1 m/s
has the same coefficient of restitution. MuJoCo ignores the exact numbers, see
`robots.importing.mjcf.softness`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from robots.export.attributes import Array, numbers, quaternion_of
from robots.export.inverse_weights import contact_masses
from robots.importing.mjcf.softness import EARTH, LEAST, PREFIX, SOLIMP, SOLREF, STEP, Softness, numbers_of
from sim_core.mechanism import Mechanism, SphereContact, box_contacts, dissipation_for
from sim_core.mechanism.quantities import value_of

NEAR = 1e-12  # m: geoms that differ by less are one geom
DECIMALS = 14  # of numbers that are computed from the ends of a capsule or the corners of a box
RESOLVED = 0.2  # time step times the circular frequency of a contact
LIGHTEST = 1e-3  # damping ratio of an impact without loss
# the fields in which the contacts of one capsule or box may differ
OWN = {"name": "", "center": (0.0, 0.0, 0.0), "stiffness": 1.0, "dissipation": 0.0, "exponent": 1.0}
OWN |= {"slip_velocity": 1.0}


@dataclass(frozen=True)
class Solid:
    """A geom of an MJCF file that takes part in contacts.

    body     name of the body to which the geom is attached
    kind     type of the geom in MJCF, such as "sphere"
    numbers  {attribute of the geom, such as "size": its numbers}
    """

    body: str
    kind: str
    numbers: dict[str, tuple[float, ...]]

    def is_same(self, other: Solid) -> bool:
        """Whether this geom and `other` are the same geom, apart from rounding."""
        return (self.body, self.kind) == (other.body, other.kind) and all(
            np.allclose(mine, other.numbers[name], rtol=0.0, atol=NEAR) for name, mine in self.numbers.items()
        )


@dataclass(frozen=True)
class Pair:
    """Two geoms that can touch, as a <pair> in an MJCF file.

    first     sphere, capsule or box; a capsule touches with its two ends, a box with its eight corners
    other     geom that `first` touches
    contacts  contacts of the mechanism that the <pair> expresses: one per sphere, end or corner
    """

    name: str
    first: Solid
    other: Solid
    contacts: tuple[SphereContact, ...]


def pairs_of(mechanism: Mechanism, bodies: Collection[str], fixed: Collection[str]) -> list[Pair]:
    """The contacts of a mechanism as pairs of geoms, in the order of the contacts.

    Contacts that MJCF cannot express are left out: contacts of single points (radius 0) that are not the corners of a
    box, contacts with planes on moving bodies, and contacts of bodies that the file does not have.

    bodies  names of the bodies in the file, and of the ground
    fixed   names of the bodies that are fixed to the ground, and of the ground
    """
    found, taken = [], {contact.name for contact in mechanism.contacts}
    at = 0
    while at < len(mechanism.contacts):
        contact = mechanism.contacts[at]
        pair, count = _pair_from(mechanism.contacts[at:], taken)
        at += count
        if pair and {contact.body, contact.other} <= {*bodies} and (not contact.is_plane or contact.other in fixed):
            found.append(pair)
    return found


def _pair_from(contacts: Sequence[SphereContact], taken: Collection[str]) -> tuple[Pair | None, int]:
    """Return (pair, number of contacts in the pair) for the first of the given contacts.

    The pair has the first contact alone, or also those that follow it, if they are the ends of one capsule or the
    corners of one box on a plane. It is None, with the number 1, if the first contact is that of a single point.

    taken  names that the pair of a capsule or box cannot have
    """
    first = contacts[0]
    base = first.name.removesuffix("_0")
    if first.is_plane and base != first.name and base not in taken:
        for count, solid_of in ((2, _capsule), (8, _box)):
            group = tuple(contacts[:count])
            names = [each.name for each in contacts[: count + 1]]
            if names[:count] != [f"{base}_{k}" for k in range(count)] or names[count:] == [f"{base}_{count}"]:
                continue
            alike = len({_shared(each) for each in group}) == 1
            solid = solid_of(group) if alike else None
            if solid:
                return Pair(base, solid, _other(first), group), count
    if first.radius == 0.0:
        return None, 1
    return Pair(first.name, _sphere(first.body, first.center, first.radius), _other(first), (first,)), 1


def _shared(contact: SphereContact) -> SphereContact:
    return replace(contact, **OWN)  # type: ignore[arg-type]


def _sphere(body: str, center: Sequence[float], radius: float) -> Solid:
    return Solid(body, "sphere", {"size": (radius,), "pos": tuple(center)})


def _rod(body: str, center: Array, half: Array, radius: float) -> Solid:
    length = float(np.linalg.norm(half))
    return Solid(body, "capsule", {"size": (radius, length), "pos": tuple(center), "quat": _quaternion_along(half)})


def _quaternion_along(direction: Sequence[float] | Array) -> tuple[float, ...]:
    """Quaternion w x y z of the smallest rotation from z to a direction; MuJoCo drops small angles of a zaxis."""
    x, y, z = np.array(direction) / np.linalg.norm(direction)
    quaternion = np.array([1.0 + z, -y, x, 0.0]) if z > -0.5 else np.array([-y, 1.0 - z, 0.0, x])
    return tuple((quaternion / np.linalg.norm(quaternion) + 0.0).tolist())


def _capsule(ends: Sequence[SphereContact]) -> Solid | None:
    """The capsule whose ends touch a plane; None if the contacts are not those of a capsule."""
    one, other = (np.array(end.center) for end in ends)
    if ends[0].radius == 0.0 or not (one - other).any():
        return None
    center, half = np.round((one + other) / 2.0, DECIMALS), np.round((one - other) / 2.0, DECIMALS)
    return _rod(ends[0].body, center, half, ends[0].radius)


def _box(corners: Sequence[SphereContact]) -> Solid | None:
    """The box whose corners touch a plane; None if the contacts are not those of a box."""
    points = np.array([corner.center for corner in corners])
    center = points.mean(axis=0)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=3)))
    edges = signs.T @ points / 8.0  # half edges as rows
    sizes = np.linalg.norm(edges, axis=1)
    if corners[0].radius > 0.0 or sizes.min() <= 0.0 or np.linalg.det(edges) <= 0.0:
        return None
    a, b, c = np.round(sizes, DECIMALS).tolist()
    w, x, y, z = (np.round(quaternion_of((edges / sizes[:, None]).T), DECIMALS) + 0.0).tolist()
    center = np.round(center, DECIMALS) + 0.0
    again = box_contacts("box", half_sizes=(a, b, c), center=tuple(center), quaternion=(w, x, y, z), body="")
    if not np.allclose(
        [corner.center for corner in again], points, rtol=0.0, atol=NEAR * max(1.0, np.abs(points).max())
    ):
        return None
    return Solid(corners[0].body, "box", {"size": (a, b, c), "pos": tuple(center.tolist()), "quat": (w, x, y, z)})


def _other(contact: SphereContact) -> Solid:
    """The geom that the sphere of a contact touches."""
    body, at = contact.other, contact.other_point
    if contact.other_half_sizes is not None:
        placed = {"pos": at, "quat": contact.other_quaternion}
        return Solid(body, "box", {"size": contact.other_half_sizes, **placed})
    if contact.other_radius is None:
        return Solid(body, "plane", {"size": (0.0, 0.0, 1.0), "pos": at, "quat": _quaternion_along(contact.normal)})
    if any(contact.other_half_axis):
        return _rod(body, np.array(at), np.array(contact.other_half_axis), contact.other_radius)
    return _sphere(body, at, contact.other_radius)


def add_contacts(
    root: Element,
    elements: dict[str, Element],
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    refs: Mapping[str, float],
) -> list[str]:
    """Add pairs with their geoms and exact numbers to the MJCF document `root`.

    Returns a list with one note about the differences between contacts in MuJoCo and armswing; [] without pairs.

    elements   {body: XML element of the body}
    mechanism  the mechanism, all of whose contacts have a stiffness
    refs       {coordinate: reference position of the joint in MJCF}; 0 for coordinates that are left out
    """
    if not pairs:
        return []
    section, custom = SubElement(root, "contact"), SubElement(root, "custom")
    q = np.array([refs.get(name, 0.0) for joint in mechanism.joints for name in joint.coordinates])
    masses = contact_masses(mechanism, q)
    gravity = float(np.linalg.norm(mechanism.gravity)) or EARTH
    written: dict[str, Solid] = {}
    steps = [STEP]
    for pair in pairs:
        names = [_name_in(written, elements, solid) for solid in (pair.first, pair.other)]
        element = SubElement(section, "pair", name=pair.name, geom1=names[0], geom2=names[1])
        friction = value_of(pair.contacts[0].friction)
        if friction == 0.0:
            element.set("condim", "1")
        else:
            element.set("condim", "3")
            element.set("friction", numbers([friction, friction]))
        reference = _reference(pair.contacts[0], masses[pair.contacts[0].name], gravity)
        if reference is not None:
            element.set("solref", numbers([reference.constant, reference.ratio]))
            steps.append(reference.step)
        for each in pair.contacts:
            SubElement(custom, "numeric", name=f"{PREFIX}{each.name}", data=numbers(numbers_of(each)))
    option = root.find("option")
    option = SubElement(root, "option") if option is None else option
    option.set("cone", "elliptic")  # with pyramids, MuJoCo's penetration depends on the friction coefficient
    if min(steps) < STEP:
        option.set("timestep", numbers([min(steps)]))
    return [
        "contacts are soft constraints in MuJoCo: bodies at rest are about as deep as here, and impacts at 1 m/s have "
        "about the same restitution, but other contact forces differ"
    ]


def _name_in(written: dict[str, Solid], elements: dict[str, Element], solid: Solid) -> str:
    """Return the name of a solid's geom. Adds the geom to its body unless the same geom was added before.

    elements  {body: XML element of the body}
    written   {name: solid} of the geoms added so far; a new geom is added to this dict
    """
    for name, other in written.items():
        if solid.is_same(other):
            return name
    count = sum(other.body == solid.body for other in written.values())
    name = f"{solid.body}.contact{count + 1}"
    given = {key: numbers(values) for key, values in solid.numbers.items()}
    geom = SubElement(elements[solid.body], "geom", {"name": name, "type": solid.kind, **given})
    if solid.kind != "plane":
        geom.set("rgba", "0 0 0 0")  # the body's shapes are drawn
    written[name] = solid
    return name


@dataclass(frozen=True)
class Reference:
    """Numbers of `solref`, MuJoCo's contact parameters, and the time step that they require.

    constant, ratio  time constant, s, and damping ratio: the two numbers of `solref`
    step             longest time step, s, with which MuJoCo resolves the contact, rounded down to one digit
    """

    constant: float
    ratio: float
    step: float


def _reference(contact: SphereContact, mass: float, gravity: float) -> Reference | None:
    """The Reference with which a mass at rest penetrates as deeply in MuJoCo as in armswing.

    None for a mass of 0, which rests at the depth 0.

    mass     mass that rests on the contact, kg
    gravity  m/s2
    """
    if contact.stiffness is None or not mass > 0.0:
        return None
    depth = (mass * gravity / value_of(contact.stiffness)) ** (1.0 / contact.exponent)
    d, most = Softness(0.0, SOLREF, SOLIMP).impedance(depth), SOLIMP[1]
    rate = math.sqrt((1.0 - d) * gravity / depth)  # circular frequency of MuJoCo's contact, 1/s
    ratio = _damping_ratio(value_of(contact.dissipation))
    constant = d / (most * ratio * rate)
    step = min(RESOLVED / rate, constant / 2.0)  # MuJoCo takes at least two time steps for the time constant
    digit = 10.0 ** math.floor(math.log10(step))
    return Reference(constant, ratio, math.floor(step / digit) * digit)


def _damping_ratio(dissipation: float) -> float:
    """MuJoCo's damping ratio with which an impact at 1 m/s has the coefficient of restitution of `dissipation`.

    It is 1 if this coefficient is at most LEAST, because the import gives the coefficient LEAST to all contacts with a
    damping ratio of 1 or more. It is at least LIGHTEST.
    """
    if dissipation >= dissipation_for(LEAST, 1.0):
        return 1.0
    low, high = LEAST, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if dissipation_for(middle, 1.0) > dissipation else (low, middle)
    lost = -math.log(high)
    return max(lost / math.hypot(math.pi, lost), LIGHTEST)

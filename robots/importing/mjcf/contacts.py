"""Contacts between the geoms of an MJCF file, as sphere contacts of the mechanism.

The pairs of geoms that can touch follow from MuJoCo's rules. contype and conaffinity select pairs. Two geoms on one
body do not touch, nor do two geoms on a body and its parent, unless the parent is the world. <exclude> removes the
pairs of two bodies, <pair> adds a pair. These contacts are supported: spheres, capsules (by their ends) and boxes (by
their corners) with planes, and spheres with spheres, capsules and boxes. A warning lists the line numbers of all other
pairs.

MuJoCo models a contact as a constraint that solref and solimp soften. Here a contact is a force with linear stiffness
and with dissipation. Where the contacts of a body bear together the weight of its mass in MuJoCo (see
`inverse_weights`), the stiffness makes them as deep as one such contact in MuJoCo with elliptic friction cones. Under
other loads the depths differ, because MuJoCo's stiffness grows with the depth. With pyramidal cones, the depth in
MuJoCo is the same for the friction coefficient 1, and smaller for lower coefficients. The dissipation is such that an
impact at 1 m/s has the coefficient of restitution that belongs to MuJoCo's damping ratio, but at least LEAST. Friction
is regularized for sliding speeds below SLIP. A <pair> for which the file has exact numbers, see `contact_numbers`, has
the stiffness, dissipation and slip velocity that these give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robots.importing.mjcf.contact_numbers import PREFIX, ContactNumbers
from robots.importing.mjcf.document import Defaults
from robots.importing.mjcf.geoms import Geom
from robots.importing.mjcf.inverse_weights import contact_masses
from robots.importing.mjcf.unread import is_disabled, note_attributes
from robots.importing.notes import Notes
from robots.importing.rotations import vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import GROUND, Mechanism, SphereContact, box_contacts, capsule_contacts, dissipation_for
from sim_core.mechanism.joints import Quaternion
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import rounded
from sim_core.spatial import quaternions_from_rotations
from sim_core.support.suggestion import did_you_mean

SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)  # MuJoCo's defaults
FRICTION = (1.0, 0.005, 0.0001)
BOUNDS = (1e-4, 0.9999)  # of MuJoCo's impedance
LEAST = 0.1  # coefficient of restitution of a contact with a damping ratio of 1
SLIP = 0.05  # m/s: the friction of a ball on its own weight has a rate of some 700 1/s, which RK4 bears at 1 ms
EARTH = 9.81  # m/s2: in place of no gravity
DEEPEST = 1.0  # m
STEP = 0.002  # s: MuJoCo's default
EDITED = 0.02  # relative difference of two penetrations above which an edit is the cause, not rounding
ROUND = ("sphere", "capsule", "box")


@dataclass(frozen=True)
class Surface:
    """A geom that may touch geoms of other bodies.

    body         name of the body in the mechanism to which the geom is fixed
    weld         name of the body whose joints move this geom: `body`, or the body to which `body` is fixed. Bodies that
                 are fixed to one another have the same `weld`
    weld_parent  the `weld` of the parent of the body `weld`
    """

    name: str
    geom: Geom
    body: str
    weld: str
    weld_parent: str

    def number(self, key: str, default: float) -> float:
        return self.geom.element.number(key, default)


@dataclass(frozen=True)
class Softness:
    """Contact parameters of a pair of geoms: friction coefficient, and MuJoCo's solref and solimp."""

    friction: float
    solref: tuple[float, ...]
    solimp: tuple[float, ...]

    @property
    def damping_ratio(self) -> float:
        first, second = self.solref
        return second if first > 0.0 else -second / (2.0 * math.sqrt(-first)) if first < 0.0 else 1.0

    @property
    def dissipation(self) -> float:
        """Dissipation c, s/m, that gives an impact at 1 m/s the coefficient of restitution of MuJoCo's damping ratio z.

        This coefficient is exp(-pi z / sqrt(1 - z^2)), but at least LEAST.
        """
        z = self.damping_ratio
        restitution = 0.0 if z >= 1.0 else math.exp(-math.pi * z / math.sqrt(1.0 - z * z)) if z > 0.0 else 1.0
        return dissipation_for(max(restitution, LEAST), 1.0)

    def depth(self, gravity: float, step: float) -> float:
        """Penetration, m, of a single MuJoCo contact at rest under the acceleration `gravity`, m/s2.

        The penetration is the solution x of d(x)^2 k x = (1 - d(x)) gravity, where d is MuJoCo's impedance from solimp
        and k the stiffness from solref.

        step  MuJoCo's time step, s: a shorter time constant in solref than 2 * step is replaced by 2 * step. With 0, no
              time constant is replaced
        """
        first, second = self.solref
        most = min(max(self.solimp[1], BOUNDS[0]), BOUNDS[1])
        constant = max(first, 2.0 * step)
        k = 1.0 / (most * constant * second) ** 2 if first > 0.0 else -first / most**2
        low, high = 0.0, DEEPEST
        for _ in range(100):
            x = 0.5 * (low + high)
            d = self.impedance(x)
            low, high = (x, high) if d * d * k * x < (1.0 - d) * gravity else (low, x)
        return 0.5 * (low + high)

    def impedance(self, x: float) -> float:
        """MuJoCo's impedance d at the penetration x, m, from solimp."""
        least, most = (min(max(bound, BOUNDS[0]), BOUNDS[1]) for bound in self.solimp[:2])
        width, middle, power = self.solimp[2:]
        share = min(x / width, 1.0) if width > 0.0 else 1.0
        if power == 1.0 or share in (0.0, 1.0):
            y = share
        elif share <= middle:
            y = share**power / middle ** (power - 1.0)
        else:
            y = 1.0 - (1.0 - share) ** power / (1.0 - middle) ** (power - 1.0)
        return least + y * (most - least)


class Contacts:
    """Reads the contacts of an MJCF file, and adds them to a mechanism.

    surfaces  the geoms of all bodies, in the order of the file
    names     {name of a body in the file: its name in the mechanism}
    grounded  whether contacts between moving bodies are left out, with a note, so that bodies touch only the ground
    """

    def __init__(
        self,
        root: Element,
        defaults: Defaults,
        surfaces: Sequence[Surface],
        names: Mapping[str, str],
        notes: Notes,
        grounded: bool = False,
    ) -> None:
        self._root, self._defaults, self._notes = root, defaults, notes
        self._surfaces, self._grounded = surfaces, grounded
        self._by_name = {surface.name: surface for surface in surfaces}
        self._names = names
        self._numbers = ContactNumbers(root)
        self._soft: dict[str, Softness] = {}  # of the contacts without exact numbers, by name
        self._given_names: set[str] = set()  # of the same contacts
        self._written: dict[str, tuple[Softness, Element]] = {}  # of the contacts with exact numbers, by name
        self._noted: set[tuple[object, ...]] = set()  # lines and attributes of elements, and what was noted of them

    def added_to(self, mechanism: Mechanism, reference: Sequence[float]) -> Mechanism:
        """The mechanism with the contacts of the file.

        reference  (n,) joint positions at `ref`, at which MuJoCo computes the masses at contacts
        """
        if is_disabled(self._root, "contact"):
            return mechanism
        self._numbers.note_unread(self._notes)
        found: list[SphereContact] = []
        pairs: list[tuple[Surface, Surface, Element | None]] = list(self._pairs())
        paired = {frozenset((a.name, b.name)) for a, b, _ in pairs}
        pairs += [(a, b, None) for a, b in self._touching() if frozenset((a.name, b.name)) not in paired]
        for a, b, element in pairs:
            if self._grounded and GROUND not in (a.weld, b.weld):
                self._note(self._root, "contacts between moving bodies are left out, as contacts=ground asks")
            else:
                found += self._contacts(a, b, element)
        if not found:
            return mechanism
        whole = replace(mechanism, contacts=tuple(found))
        masses = contact_masses(whole, np.array(reference))
        gravity = float(np.linalg.norm(mechanism.gravity)) or EARTH
        step = next((each.number("timestep", STEP) for each in reversed(self._root.all("option"))), STEP)
        step = 0.0 if is_disabled(self._root, "refsafe") else step
        contacts = []
        for contact in found:
            if contact.name in self._soft:
                depth = self._soft[contact.name].depth(gravity, step)
                contact = replace(contact, stiffness=rounded(masses[contact.name] * gravity / depth))
            elif contact.name in self._written:
                softness, element = self._written[contact.name]
                self._check_solref(contact, softness.depth(gravity, step), masses[contact.name] * gravity, element)
            contacts.append(contact)
        return replace(whole, contacts=tuple(contacts))

    def _check_solref(self, contact: SphereContact, depth: float, weight: float, element: Element) -> None:
        """Add a note if the `solref` of a <pair> does not belong to the exact numbers of its contact.

        depth   penetration in MuJoCo, m
        weight  force, N, that causes it
        """
        own = (
            (weight / value_of(contact.stiffness)) ** (1.0 / contact.exponent) if contact.stiffness is not None else 0.0
        )
        if own > 0.0 and abs(depth - own) > EDITED * own:
            self._note(
                element,
                f"solref gives a contact {depth / own:.3g} times as deep as the numbers of {PREFIX}{contact.name}, "
                "which are read; remove this <numeric> if solref is right",
            )

    def _pairs(self) -> Iterator[tuple[Surface, Surface, Element]]:
        """Yield the pairs of geoms that <pair> elements name, with these elements.

        These pairs touch regardless of contype, conaffinity and <exclude>.
        """
        named = set[str]()
        for holder in self._root.all("contact"):
            for child in holder.all("pair"):
                element = self._defaults.applied(child)
                element.label = f"pair {element.attributes['name']!r}" if "name" in element.attributes else "<pair>"
                sides = []
                for key in ("geom1", "geom2"):
                    name = element.text(key)
                    if name not in self._by_name:
                        element.fail(f"{key} is {name!r}, and no geom has this name{did_you_mean(name, self._by_name)}")
                    sides.append(self._by_name[name])
                if sides[0] is sides[1]:
                    element.fail(f"geom1 and geom2 are both {sides[0].name!r}; a geom does not touch itself")
                if (name := element.attributes.get("name", "")) and name in named:
                    element.fail(f"two pairs are named {name!r}; names must be unique")
                named.add(name)
                yield sides[0], sides[1], element

    def _touching(self) -> Iterator[tuple[Surface, Surface]]:
        """Yield the pairs of geoms that can touch according to contype and conaffinity and are not excluded."""
        excluded, unfiltered = set(self._excluded()), is_disabled(self._root, "filterparent")
        masks = [tuple(_mask(each.geom.element, key) for key in ("contype", "conaffinity")) for each in self._surfaces]
        for index, (b, (kind, affinity)) in enumerate(zip(self._surfaces, masks, strict=True)):
            for a, (other_kind, other_affinity) in zip(self._surfaces[:index], masks, strict=False):
                matches = kind & other_affinity or other_kind & affinity
                if a.weld == b.weld or not matches or frozenset((a.body, b.body)) in excluded:
                    continue
                apart = GROUND in (a.weld, b.weld) or unfiltered
                if apart or (a.weld != b.weld_parent and b.weld != a.weld_parent):
                    yield a, b

    def _excluded(self) -> Iterator[frozenset[str]]:
        for holder in self._root.all("contact"):
            for child in holder.children:
                if child.tag == "exclude":
                    pair = [child.text(key) for key in ("body1", "body2")]
                    for name in pair:
                        if name not in self._names:
                            child.fail(f"no body is named {name!r}{did_you_mean(name, self._names)}")
                    yield frozenset(self._names[name] for name in pair)
                elif child.tag != "pair":
                    child.fail("this element is not supported in <contact>; write <pair> or <exclude>")

    def _contacts(self, a: Surface, b: Surface, element: Element | None) -> list[SphereContact]:
        """The contacts of a pair of geoms.

        The list is empty, with a warning, if contacts between geoms of these kinds are not supported.
        """
        if "plane" in (b.geom.kind, a.geom.kind):
            first, other = (b, a) if a.geom.kind == "plane" else (a, b)
        else:
            first, other = (a, b) if a.geom.kind == "sphere" else (b, a)
        kinds = first.geom.kind, other.geom.kind
        if kinds[0] not in ROUND or (kinds[1] != "plane" and kinds[0] != "sphere") or kinds[1] not in ("plane", *ROUND):
            where = b.geom.element if element is None else element
            these, those = (f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in kinds)
            self._note(where, f"contacts of {these} with {those} are not read: the two do not touch")
            return []
        softness = self._softness(a, b, element)
        pair = element.attributes.get("name", "") if element is not None else ""
        numbered = self._numbers.of_pair(pair)
        name = pair if numbered else self._free_name(pair or f"{first.name}.{other.name}")
        common: dict[str, Any] = {
            "body": first.body,
            "other": other.body,
            "other_point": vector(other.geom.p),
            "stiffness": 1.0,  # replaced when the effective masses are known
            "dissipation": softness.dissipation,
            "exponent": 1.0,
            "friction": softness.friction,
            "slip_velocity": SLIP,
            **_other_side(other.geom),
        }
        made = _made(name, first.geom, common)
        if numbered and element is not None:
            names = {contact.name for contact in made}
            if names != numbered:
                element.fail(
                    f"<custom> has numbers of the contacts {_listed(numbered)}, and the pair has the contacts "
                    f"{_listed(names)}; give the numbers of all contacts of the pair, or of none"
                )
            if "solref" in element.attributes:
                self._written |= {contact.name: (softness, element) for contact in made}
            return [self._numbers.applied(contact) for contact in made]
        self._soft |= {contact.name: softness for contact in made}
        return made

    def _free_name(self, name: str) -> str:
        """The name of a contact, with a number if an earlier contact without exact numbers has this name."""
        free, number = name, 1
        while free in self._given_names:
            number += 1
            free = f"{name}.{number}"
        self._given_names.add(free)
        return free

    def _friction_of_pair(self, element: Element, dimension: float) -> float:
        """Friction coefficient of a <pair> with the attribute `friction`."""
        numbers = element.numbers("friction", len(element.attributes["friction"].split()))
        if not 1 <= len(numbers) <= 5:
            element.fail(f"friction has {len(numbers)} numbers; it must have 1 to 5")
        if len(numbers) > 1 and numbers[1] != numbers[0] and dimension > 1.0:
            self._note(
                element,
                f"friction is {numbers[0]:g} in one direction and {numbers[1]:g} in the other: "
                "the first is read for both",
            )
        return numbers[0]

    def _note(self, element: Element, message: str) -> None:
        """Add a note about an element, once: calls with the same element and message again have no effect."""
        if self._is_first(element, message):
            self._notes.add(element, message)

    def _note_attributes(self, element: Element) -> None:
        if self._is_first(element, "attributes"):
            note_attributes(element, "contact", self._notes)

    def _is_first(self, element: Element, what: str) -> bool:
        """Whether this is the first call with these arguments. Elements are copies, and several may share a line."""
        key = (element.line, *element.attributes.items(), what)
        is_first = key not in self._noted
        self._noted.add(key)
        return is_first

    def _softness(self, a: Surface, b: Surface, element: Element | None) -> Softness:
        """Friction, solref and solimp of a pair of geoms.

        Each of the three is the value that the <pair> element sets. Values that it does not set are combined from both
        geoms as in MuJoCo.

        element  the <pair> element; None for a pair without such an element
        """
        rank = a.number("priority", 0.0) - b.number("priority", 0.0)
        ruling = [a, b] if rank == 0.0 else [a if rank > 0.0 else b]
        elements = [surface.geom.element for surface in ruling]
        dimension = max(each.number("condim", 3.0) for each in elements)
        friction = max(_numbers(each, "friction", FRICTION)[0] for each in elements)
        for each in elements if element is None else [*elements, element]:
            if any(float(number) < 0.0 for number in each.attributes.get("friction", "").split()):
                each.fail(f"friction is {each.attributes['friction']!r}; none of its numbers may be negative")
        weights = [each.number("solmix", 1.0) for each in elements]
        weights = weights if sum(weights) > 0.0 else [1.0] * len(elements)
        references = [_numbers(each, "solref", SOLREF) for each in elements]
        if all(reference[0] > 0.0 for reference in references):
            solref = tuple(np.average(references, axis=0, weights=weights).tolist())
        else:
            solref = tuple(np.min(references, axis=0).tolist())
        solimp = tuple(
            np.average([_numbers(each, "solimp", SOLIMP) for each in elements], axis=0, weights=weights).tolist()
        )
        for each in elements if element is None else (element,):
            self._note_attributes(each)
        if element is not None:
            dimension = element.number("condim", dimension)
            if "friction" in element.attributes:
                friction = self._friction_of_pair(element, dimension)
            solref, solimp = _numbers(element, "solref", solref), _numbers(element, "solimp", solimp)
        where = b.geom.element if element is None else element
        if dimension > 3.0:
            self._note(where, "condim is above 3: torsional and rolling friction are not read")
        if (solref[0] > 0.0) != (solref[1] > 0.0):
            self._note(where, f"solref is {_text(solref)}, which mixes two formats: as in MuJoCo it is {_text(SOLREF)}")
            solref = SOLREF
        if solref[0] == 0.0:
            where.fail("solref gives the contact no stiffness; write a time constant, or a stiffness below 0")
        return Softness(0.0 if dimension == 1.0 else friction, solref, solimp)


def _mask(element: Element, key: str) -> int:
    """Bits of an attribute such as `contype`, whose default is 1."""
    value = element.number(key, 1.0)
    if value != int(value):
        element.fail(f"{key} is {value:g}; it must be a whole number")
    return int(value)


def _text(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _numbers(element: Element, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """Numbers of an attribute `name`.

    If the attribute has fewer numbers than `default`, the missing last numbers are those of `default`, as in MuJoCo.
    """
    given = len(element.attributes[name].split()) if name in element.attributes else 0
    if given > len(default):
        element.fail(f"{name} has {given} numbers; it must have at most {len(default)}")
    return (*(element.numbers(name, given) if given else ()), *default[given:])


def _other_side(geom: Geom) -> dict[str, Any]:
    """Keyword arguments of SphereContact that describe the geom that the spheres touch: a plane, sphere, capsule or
    box.
    """
    if geom.kind == "plane":
        return {"normal": vector(geom.R[:, 2])}
    if geom.kind == "box":
        return {"other_half_sizes": tuple(map(float, geom.size)), "other_quaternion": _quaternion(geom)}
    half = geom.size[1] * geom.R[:, 2] if geom.kind == "capsule" else np.zeros(3)
    return {"other_radius": float(geom.size[0]), "other_half_axis": vector(half)}


def _made(name: str, geom: Geom, common: Mapping[str, Any]) -> list[SphereContact]:
    center = vector(geom.p)
    if geom.kind == "sphere":
        return [SphereContact(name=name, center=center, radius=float(geom.size[0]), **common)]
    if geom.kind == "capsule":
        half = vector(geom.size[1] * geom.R[:, 2])
        return [*capsule_contacts(name, half_axis=half, radius=float(geom.size[0]), center=center, **common)]
    sizes = vector(np.array(geom.size))
    return [*box_contacts(name, half_sizes=sizes, center=center, quaternion=_quaternion(geom), **common)]


def _quaternion(geom: Geom) -> Quaternion:
    w, x, y, z = (quaternions_from_rotations(geom.R[None])[0] + 0.0).tolist()
    return w, x, y, z

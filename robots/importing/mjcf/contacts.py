"""Contacts between the geoms of an MJCF file, as sphere contacts of the mechanism.

The pairs of geoms that can touch follow from MuJoCo's rules. contype and conaffinity select pairs. Two geoms on one
body do not touch, nor do two geoms on a body and its parent, unless the parent is the world. <exclude> removes the
pairs of two bodies, <pair> adds a pair. These contacts are supported: spheres, capsules (by their ends), boxes (by
their corners) and meshes (by corners of their convex hulls) with planes, and spheres with spheres, capsules and boxes.
A warning lists the line numbers of all other pairs.

MuJoCo models a contact as a constraint that solref and solimp soften. Here a contact is a force with linear stiffness
and with dissipation. Where the contacts of a body bear together the weight of its mass in MuJoCo (see
`Contacts._masses`), the stiffness makes them as deep as one such contact in MuJoCo with elliptic friction cones. Under
other loads the depths differ, because MuJoCo's stiffness grows with the depth. With pyramidal cones, the depth in
MuJoCo is the same for the friction coefficient 1, and smaller for lower coefficients. The dissipation is such that an
impact at 1 m/s has the coefficient of restitution that belongs to MuJoCo's damping ratio, but at least LEAST. Friction
is regularized for sliding speeds below SLIP. An exported file has a <numeric> named PREFIX and the name of a contact
with those numbers of this contact that MuJoCo's attributes cannot hold, in the order of PARAMETERS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robots.importing.feet import check_count
from robots.importing.hulls import BOUNDED, THIN, corners_of, farthest
from robots.importing.mjcf.compiled import Compiled, rotation
from robots.importing.mjcf.geoms import KINDS, quaternion_of
from robots.importing.mjcf.softness import EARTH, PARAMETERS, PREFIX, SOLREF, Softness, depth_at_rest
from robots.importing.rotations import Array, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import Mechanism, SphereContact, box_contacts, capsule_contacts
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import rounded

SLIP = 0.05  # m/s: the friction of a ball on its own weight has a rate of some 700 1/s, which RK4 bears at 1 ms
EDITED = 0.02  # relative difference of two penetrations above which an edit is the cause, not rounding
ROUND = ("sphere", "capsule", "box")


class Contacts:
    """Reads the contacts of an MJCF file, and adds them to a mechanism.

    grounded     whether contacts between moving bodies are left out, with a note, so that bodies touch only the ground
    hull_points  largest number of points of the hull of one mesh
    """

    def __init__(self, compiled: Compiled, grounded: bool, hull_points: int) -> None:
        self._hull_points, self._hulls = hull_points, dict[int, Array]()
        self._of, self._model, self._grounded = compiled, compiled.model, grounded
        self._given = {
            element.attributes["name"].removeprefix(PREFIX): replace(
                element, label=f"numeric {element.attributes['name']!r}"
            )
            for custom in compiled.root.all("custom")
            for element in custom.all("numeric")
            if element.attributes.get("name", "").startswith(PREFIX)
        }
        self._soft: dict[str, tuple[Softness, Element]] = {}  # by name of the contact
        self._names, self._noted = set[str](), set[str]()
        self._looked_at = set[tuple[str, int]]()  # geoms and pairs of which `_note_unread` has noted the attributes

    def added_to(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with the contacts of the file."""
        if self._of.is_disabled("contact"):
            return mechanism
        found: list[SphereContact] = []
        pairs = [(*self._of.geoms_of_pair(k), k) for k in self._of.authored("pair")]
        paired = {frozenset(pair[:2]) for pair in pairs}
        pairs += [(a, b, -1) for a, b in self._touching() if frozenset((a, b)) not in paired]
        for a, b, pair in pairs:
            if self._grounded and all(self._weld(geom) for geom in (a, b)):
                note = "contacts between moving bodies are left out, as contacts=ground asks"
                self._note(self._of.root, note)
            else:
                found += self._contacts(a, b, pair)
        for name, element in self._given.items():
            if name not in self._soft:
                self._of.notes.add(element, "the contact is not read, because no <pair> has its name")
        if not found:
            return mechanism
        check_count(mechanism, len(found), "ignore")
        gravity = float(np.linalg.norm(mechanism.gravity)) or EARTH
        step = 0.0 if self._of.is_disabled("refsafe") else float(self._model.opt.timestep)
        masses, contacts = self._masses(found, mechanism), []
        for contact in found:
            softness, element = self._soft[contact.name]
            depth, weight = depth_at_rest(softness, gravity, step), masses[contact.name] * gravity
            if contact.name in self._given:
                self._check_solref(contact, depth, weight, element)
            else:
                contact = replace(contact, stiffness=rounded(weight / depth))
            contacts.append(contact)
        return replace(mechanism, contacts=tuple(contacts))

    def _masses(self, contacts: Sequence[SphereContact], mechanism: Mechanism) -> dict[str, float]:
        """{contact: mass, kg, whose weight a contact in MuJoCo bears at the depth that `depth_at_rest` gives}.

        It is the reciprocal of the sum of MuJoCo's inverse weights of the two bodies, but at most the total mass:
        contacts of two bodies whose centres of mass cannot move are rigid in MuJoCo.
        """
        weights = dict(zip(self._of.bodies, self._model.body_invweight0[:, 0].tolist(), strict=True))
        total = sum(value_of(body.mass) for body in mechanism.bodies)
        sums = {contact.name: weights[contact.body] + weights[contact.other] for contact in contacts}
        return {name: min(1.0 / weight, total) if weight > 0.0 else total for name, weight in sums.items()}

    def _check_solref(self, contact: SphereContact, depth: float, weight: float, element: Element) -> None:
        """Add a note if the `solref` of a <pair> does not belong to the numbers that the file has of its contact.

        depth   penetration in MuJoCo, m
        weight  force, N, that causes it
        """
        stiffness = value_of(contact.stiffness) if contact.stiffness is not None else 0.0
        own = (weight / stiffness) ** (1.0 / contact.exponent) if stiffness > 0.0 else 0.0
        if own > 0.0 and abs(depth - own) > EDITED * own:
            self._note(
                element,
                f"solref gives a contact {depth / own:.3g} times as deep as the numbers of {PREFIX}{contact.name}, "
                "which are read; remove this <numeric> if solref is right",
            )

    def _weld(self, geom: int) -> int:
        """The body whose joints move a geom; 0 for one that does not move."""
        return int(self._model.body_weldid[self._model.geom_bodyid[geom]])

    def _touching(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of geoms that can touch according to contype and conaffinity and are not excluded."""
        m, unfiltered = self._model, self._of.is_disabled("filterparent")
        excluded = {(each >> 16, each & 0xFFFF) for each in m.exclude_signature.tolist()}
        bodies, kinds, affinities = m.geom_bodyid, m.geom_contype, m.geom_conaffinity
        welds = m.body_weldid[bodies]
        above = m.body_weldid[m.body_parentid[welds]]
        able = np.flatnonzero(kinds | affinities)
        for place, b in enumerate(able.tolist()):
            a = able[:place]
            apart = (welds[a] == 0) | (welds[b] == 0) | ((welds[a] != above[b]) & (welds[b] != above[a]))
            matches = (kinds[a] & affinities[b]) | (kinds[b] & affinities[a])
            for other in a[(welds[a] != welds[b]) & (matches != 0) & (apart | unfiltered)].tolist():
                pair = int(bodies[other]), int(bodies[b])
                if not {pair, pair[::-1]} & excluded:
                    yield other, b

    def _contacts(self, a: int, b: int, pair: int) -> list[SphereContact]:
        """The contacts of a pair of geoms.

        The list is empty, with a note, if contacts between geoms of these kinds are not supported.

        pair  number of the <pair>; -1 for geoms that touch without one
        """
        kinds = {geom: KINDS[int(self._model.geom_type[geom])] for geom in (a, b)}
        if "plane" in kinds.values():
            first, other = (b, a) if kinds[a] == "plane" else (a, b)
        else:
            first, other = (a, b) if kinds[a] == "sphere" else (b, a)
        element = self._of.element("geom", b) if pair < 0 else self._of.element("pair", pair)
        one, two = kinds[first], kinds[other]
        if (one not in (*ROUND, "mesh") or two not in ("plane", *ROUND)) or (two != "plane" and one != "sphere"):
            these, those = (f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in (one, two))
            self._note(element, f"contacts of {these} with {those} are not read: the two do not touch")
            return []
        softness = self._softness(a, b, pair, element)
        given = self._of.name("pair", pair) if pair >= 0 else ""
        name = self._free_name(given or f"{self._of.geoms[first]}.{self._of.geoms[other]}")
        common: dict[str, Any] = {
            "body": self._of.bodies[self._model.geom_bodyid[first]],
            "other": self._of.bodies[self._model.geom_bodyid[other]],
            "other_point": vector(self._model.geom_pos[other]),
            "stiffness": 1.0,  # replaced when the effective masses are known
            "dissipation": softness.dissipation,
            "exponent": 1.0,
            "friction": softness.friction,
            "slip_velocity": SLIP,
            **self._other_side(other, two),
        }
        made = self._made(name, first, one, common)
        self._soft |= {contact.name: (softness, element) for contact in made}
        return [self._with_given_numbers(contact) for contact in made]

    def _with_given_numbers(self, contact: SphereContact) -> SphereContact:
        """The contact with the numbers that a <numeric> of an exported file has for it."""
        element = self._given.get(contact.name)
        if element is None:
            return contact
        count = len(element.attributes.get("data", "").split())
        given = element.numbers("data", count)[: len(PARAMETERS)]
        if len(given) < len(PARAMETERS):
            element.fail(f"data has {count} numbers; it must have {len(PARAMETERS)}: {', '.join(PARAMETERS)}")
        stiffness, exponent, dissipation, slip = given
        numbers = {"stiffness": stiffness, "dissipation": dissipation, "slip_velocity": slip}
        return replace(contact, exponent=exponent, **numbers)  # type: ignore[arg-type]

    def _free_name(self, name: str) -> str:
        """The name of a contact, with a number if an earlier contact has this name."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name}.{number}"
        self._names.add(free)
        return free

    def _note(self, element: Element, message: str) -> None:
        """Add a note about an element, once: calls with the same element and message again have no effect."""
        if (key := f"{element.where}: {message}") not in self._noted:
            self._noted.add(key)
            self._of.notes.add(element, message)

    def _softness(self, a: int, b: int, pair: int, element: Element) -> Softness:
        """Friction, solref and solimp of a pair of geoms: those of a <pair>, or combined as in MuJoCo."""
        m = self._model
        if pair >= 0:
            dimension, frictions = int(m.pair_dim[pair]), m.pair_friction[pair].tolist()
            friction, solref, solimp = frictions[0], tuple(m.pair_solref[pair].tolist()), m.pair_solimp[pair].tolist()
            if dimension > 1 and frictions[0] != frictions[1]:
                self._note(
                    element,
                    f"friction is {frictions[0]:g} in one direction and {frictions[1]:g} in the other: "
                    "the first is read for both",
                )
            self._note_unread(element, "pair", pair)
        else:
            rank = int(m.geom_priority[a]) - int(m.geom_priority[b])
            ruling = [a, b] if rank == 0 else [a if rank > 0 else b]
            dimension = max(int(m.geom_condim[geom]) for geom in ruling)
            friction = max(float(m.geom_friction[geom][0]) for geom in ruling)
            weights = [float(m.geom_solmix[geom]) for geom in ruling]
            weights = weights if sum(weights) > 0.0 else [1.0] * len(ruling)
            references = m.geom_solref[ruling]
            mixed = np.average(references, axis=0, weights=weights)
            solref = tuple((mixed if (references[:, 0] > 0.0).all() else references.min(axis=0)).tolist())
            solimp = np.average(m.geom_solimp[ruling], axis=0, weights=weights).tolist()
            for geom in ruling:
                self._note_unread(self._of.element("geom", geom), "geom", geom)
        if friction < 0.0:
            element.fail(f"friction is {friction:g}; it must not be negative")
        if dimension > 3:
            self._note(element, "condim is above 3: torsional and rolling friction are not read")
        if (solref[0] > 0.0) != (solref[1] > 0.0):
            texts = (" ".join(f"{number:g}" for number in each) for each in (solref, SOLREF))
            self._note(element, "solref is {}, which mixes two formats: as in MuJoCo it is {}".format(*texts))
            solref = SOLREF
        if solref[0] == 0.0:
            element.fail("solref gives the contact no stiffness; write a time constant, or a stiffness below 0")
        return Softness(0.0 if dimension == 1 else friction, solref, tuple(solimp))

    def _note_unread(self, element: Element, kind: str, index: int) -> None:
        """Note the attributes of a geom or <pair> that change its contacts in MuJoCo and are not read."""
        if (kind, index) in self._looked_at:
            return
        self._looked_at.add((kind, index))
        m = self._model
        unread = [("margin gap", "geoms touch where their surfaces meet")]
        unread.append(("adhesion surfacevel", "the surfaces of geoms neither adhere nor move"))
        unread.append(("solreffriction", "friction is smooth below a sliding speed"))
        for names, instead in unread:
            arrays = {name: getattr(m, f"{kind}_{name}", None) for name in names.split()}
            given = [name for name, array in arrays.items() if array is not None and np.any(array[index] != 0.0)]
            if given:
                verb = "are" if len(given) > 1 else "is"
                self._note(element, f"{' and '.join(given)} {verb} not read: {instead}")

    def _other_side(self, geom: int, kind: str) -> dict[str, Any]:
        """Keyword arguments of SphereContact that describe the geom that the spheres touch."""
        size, z = self._model.geom_size[geom], rotation(self._model.geom_quat[geom])[:, 2]
        if kind == "plane":
            return {"normal": vector(z)}
        if kind == "box":
            return {
                "other_half_sizes": vector(size),
                "other_quaternion": quaternion_of(self._model.geom_quat[geom]),
            }
        half = size[1] * z if kind == "capsule" else np.zeros(3)
        return {"other_radius": float(size[0]), "other_half_axis": vector(half)}

    def _made(self, name: str, geom: int, kind: str, common: Mapping[str, Any]) -> list[SphereContact]:
        center, size = vector(self._model.geom_pos[geom]), self._model.geom_size[geom]
        if kind == "sphere":
            return [SphereContact(name=name, center=center, radius=float(size[0]), **common)]
        if kind == "capsule":
            half = vector(size[1] * rotation(self._model.geom_quat[geom])[:, 2])
            return [*capsule_contacts(name, half_axis=half, radius=float(size[0]), center=center, **common)]
        quaternion = quaternion_of(self._model.geom_quat[geom])
        if kind == "mesh":
            points = self._model.geom_pos[geom] + self._hull(geom) @ rotation(self._model.geom_quat[geom]).T
            return [SphereContact(name=f"{name}.{k}", center=vector(p), **common) for k, p in enumerate(points)]
        return [*box_contacts(name, half_sizes=vector(size), center=center, quaternion=quaternion, **common)]

    def _hull(self, geom: int) -> Array:
        """Points (n, 3) of the convex hull of a geom's mesh, in the axes of the geom, m.

        Raises ElementError for a hull without volume.
        """
        mesh, m = int(self._model.geom_dataid[geom]), self._model
        if mesh not in self._hulls:
            first, count = int(m.mesh_vertadr[mesh]), int(m.mesh_vertnum[mesh])
            corners, flatness = corners_of(np.array(m.mesh_vert[first : first + count], dtype=float))
            element = self._of.element("geom", geom)
            if flatness <= THIN:
                element.fail("the convex hull of its mesh has no volume; use a box, or pass contacts=ignore")
            if len(corners) > self._hull_points:
                self._note(element, BOUNDED.format(self._hull_points))
            self._hulls[mesh] = farthest(corners, self._hull_points)
        return self._hulls[mesh]

"""Equality constraints of an MJCF file (connect, weld, joint, and fixed tendons) as constraints of the mechanism.

MuJoCo enforces equality constraints by soft forces, whereas a Mechanism satisfies them exactly. The constraints keep
the relative poses of bodies and the lengths of tendons as they are in the file with every joint at its reference
position `ref`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robots.importing.mjcf.document import Defaults
from robots.importing.mjcf.exact_numbers import ExactNumbers
from robots.importing.mjcf.unread import note_attributes
from robots.importing.notes import Notes
from robots.importing.rotations import Array, unit_vector, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import GROUND, Coincidence, Constraint, Joint, JointRelation, Perpendicular
from sim_core.support.suggestion import did_you_mean

Pose = tuple[Array, Array]  # p_WB, R_WB
LINEAR = 2  # numbers of `polycoef` that are read: offset and factor
UNIT = (0.0, 1.0, 0.0, 0.0, 0.0)  # polycoef by default


@dataclass(frozen=True)
class Site:
    """A site: the body of the mechanism that has it, and its pose in the body's frame."""

    body: str
    p: Array
    R: Array


def names_in(root: Element, *keys: str) -> set[str]:
    """Names of the sites or tendons to which the equality constraints of a file refer.

    keys  attributes that contain the names, such as "site1"
    """
    constraints = [child for holder in root.all("equality") for child in holder.children]
    return {child.attributes[key] for child in constraints for key in keys if key in child.attributes}


class Equalities:
    """Reads the constraints in the section <equality> of an MJCF file.

    numbers    the exact numbers of constraints in the file
    sites      {name of a site in the file: the Site}
    joints     the moving joints of the mechanism
    poses      {name of a body in the file: its pose in the world with all joints at `ref`}
    names      {name of a body in the file: its name in the mechanism}
    positions  {joint of one coordinate: its `ref`, rad or m}
    """

    def __init__(
        self,
        root: Element,
        defaults: Defaults,
        numbers: ExactNumbers,
        sites: Mapping[str, Site],
        joints: Sequence[Joint],
        poses: Mapping[str, Pose],
        names: Mapping[str, str],
        positions: Mapping[str, float],
    ) -> None:
        self._root, self._defaults, self._numbers, self._sites = root, defaults, numbers, sites
        self._poses, self._names, self._positions = poses, names, positions
        self._kinds = {joint.name: joint.kind for joint in joints}

    def constraints(self, notes: Notes) -> tuple[Constraint, ...]:
        """The active constraints of the file; inactive ones (active="false") are left out with a warning."""
        found, named = list[Constraint](), set[str]()
        for holder in self._root.all("equality"):
            for number, child in enumerate(holder.children, start=1):
                child = replace(self._defaults.applied(replace(child, tag="equality")), tag=child.tag)
                name = child.attributes.get("name") or f"{child.tag}{number}"
                child.label = f"{child.tag} {name!r}"
                if "name" in child.attributes and name in named:
                    child.fail("another equality constraint has this name; names must be unique")
                named.add(name)
                if child.attributes.get("active", "true") == "false":
                    notes.add(child, "the equality constraint is not active, and is not read")
                    continue
                note_attributes(child, "equality", notes)
                found += self._read(child, name)
        return tuple(found)

    def _read(self, element: Element, name: str) -> list[Constraint]:
        for first, second in (("joint1", "joint2"), ("body1", "body2"), ("tendon1", "tendon2"), ("site1", "site2")):
            given = element.attributes.get(first)
            if given is not None and given == element.attributes.get(second):
                element.fail(f"{first} and {second} are both {given!r}; name two")
        if element.tag in ("connect", "weld"):
            if {"site1", "site2"} & element.attributes.keys():
                return self._at_sites(element, name)
            return self._connect(element, name) if element.tag == "connect" else self._weld(element, name)
        if element.tag == "joint":
            sides = [self._joint_side(element, key) for key in ("joint1", "joint2") if key in element.attributes]
        elif element.tag == "tendon":
            sides = [self._tendon_side(element, key) for key in ("tendon1", "tendon2") if key in element.attributes]
        else:
            element.fail(
                f"<{element.tag}> of <equality> is not supported; pass ignore=equality to leave out the equality "
                "constraints"
            )
        return [self._relation(element, name, sides)]

    def _relation(self, element: Element, name: str, sides: list[dict[str, float]]) -> Constraint:
        """Constraint s1 - s1(ref) = offset + factor (s2 - s2(ref)) between two sums s1 and s2 of joint positions.

        s1(ref) and s2(ref) are the values of the sums with all joints at `ref`. Offset and factor are the first two
        numbers of the attribute polycoef.

        sides  list of the sums s1 and s2, each as {joint: coefficient}; a list of s1 alone stands for s2 = 0
        """
        count = min(len(element.text("polycoef", "").split()) or len(UNIT), len(UNIT))
        given = element.numbers("polycoef", count, UNIT)
        offset, factor, *higher = (*given, *UNIT[len(given) :])
        if any(higher) and len(sides) > 1:
            element.fail(
                "polycoef has powers above 1, which are not supported; pass ignore=equality to leave out the "
                "equality constraints"
            )
        terms = dict(sides[0])
        for joint, coefficient in (sides[1] if len(sides) > 1 else {}).items():
            terms[joint] = terms.get(joint, 0.0) - factor * coefficient
        kept = {joint: coefficient for joint, coefficient in terms.items() if coefficient != 0.0}
        if not kept:
            element.fail("the coefficients of all joints in this constraint are 0; give at least one that is not 0")
        total = offset + sum(coefficient * self._positions[joint] for joint, coefficient in kept.items())
        return JointRelation(name=name, terms=tuple(kept.items()), offset=self._numbers.offset(name, total))

    def _joint_side(self, element: Element, key: str) -> dict[str, float]:
        name = element.text(key)
        if name not in self._kinds:
            element.fail(f"{key} is {name!r}, but no joint has this name{did_you_mean(name, self._kinds)}")
        if name not in self._positions:
            element.fail(f"{key} is {name!r}, a {self._kinds[name]} joint; name a hinge or slide joint")
        return {name: 1.0}

    def _tendon_side(self, element: Element, key: str) -> dict[str, float]:
        name = element.text(key)
        tendons = {
            each.attributes.get("name", ""): each for holder in self._root.all("tendon") for each in holder.children
        }
        if name not in tendons:
            element.fail(f"{key} is {name!r}, but no tendon has this name{did_you_mean(name, tendons)}")
        if tendons[name].tag != "fixed":
            element.fail(f"{key} is {name!r}, a {tendons[name].tag} tendon; name a fixed tendon")
        found: dict[str, float] = {}
        for part in tendons[name].all("joint"):
            (joint,) = self._joint_side(part, "joint")
            found[joint] = found.get(joint, 0.0) + part.number("coef")
        return found

    def _bodies(self, element: Element) -> tuple[str, str]:
        """Names, in the file, of the two bodies of a constraint; "" for the world."""
        pair = element.text("body1"), element.attributes.get("body2", "")
        for key, name in zip(("body1", "body2"), pair, strict=True):
            if name not in self._poses:
                element.fail(f"{key} is {name!r}, but no body has this name{did_you_mean(name, self._poses)}")
        return pair

    def _connect(self, element: Element, name: str) -> list[Constraint]:
        pair = self._bodies(element)
        p, R = self._poses[pair[0]]
        return [self._together(name, pair, p + R @ np.array(element.numbers("anchor", 3)))]

    def _at_sites(self, element: Element, name: str) -> list[Constraint]:
        """Constraints of a <connect> or <weld> that keeps two sites together."""
        found = []
        for key in ("site1", "site2"):
            site = element.text(key)
            if site not in self._sites:
                element.fail(f"{key} is {site!r}, but no site has this name{did_you_mean(site, self._sites)}")
            found.append(self._sites[site])
        a, b = found
        together = Coincidence(name=name, body_a=a.body, point_a=vector(a.p), body_b=b.body, point_b=vector(b.p))
        if element.tag == "connect":
            return [together]
        return [together, *_aligned(name, (a.body, b.body), self._numbers.axes(name, a.R, b.R))]

    def _weld(self, element: Element, name: str) -> list[Constraint]:
        if any(element.numbers("relpose", 7, (0.0,) * 7)[3:]):
            element.fail(
                "relpose is not supported; remove it to keep the relative pose that the bodies have in the file, or "
                "pass ignore=equality to leave out the equality constraints"
            )
        pair = self._bodies(element)
        p, R = self._poses[pair[1]]
        together = self._together(name, pair, p + R @ np.array(element.numbers("anchor", 3, (0.0,) * 3)))
        # the axes of the world in those of each body
        axes = self._poses[pair[0]][1].T, self._poses[pair[1]][1].T
        return [together, *_aligned(name, (self._names[pair[0]], self._names[pair[1]]), axes)]

    def _together(self, name: str, pair: tuple[str, str], at: Array) -> Constraint:
        """Constraint that keeps a point of one body and a point of another body together.

        pair  names of the two bodies in the file
        at    world position (3,), m, of both points with all joints at `ref`
        """
        points = [vector(R.T @ (at - p)) for p, R in (self._poses[body] for body in pair)]
        return Coincidence(
            name=name,
            body_a=self._names[pair[0]],
            point_a=points[0],
            body_b=self._names[pair[1]],
            point_b=points[1],
        )


def _aligned(name: str, bodies: tuple[str, str], axes: tuple[Array, Array]) -> Iterator[Constraint]:
    """Yield three constraints that keep a frame on one body parallel to a frame on another body.

    name    beginning of the constraints' names, which end in .x .y .z
    bodies  names of the two bodies
    axes    the two frames, each as a matrix (3, 3) whose columns are the frame's axes in the axes of its body
    """
    for k in range(3):
        a, b = axes[0][:, k], axes[1][:, (k + 1) % 3]
        yield Perpendicular(
            name=f"{name}.{'xyz'[k]}",
            body_a=bodies[0],
            axis_a=unit_vector(a),
            body_b=bodies[1],
            axis_b=unit_vector(b),
        )


WORLD: dict[str, Pose] = {"": (np.zeros(3), np.eye(3)), "world": (np.zeros(3), np.eye(3))}
WORLD_NAMES = {"": GROUND, "world": GROUND}

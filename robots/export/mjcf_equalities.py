"""Constraints in an MJCF file: points and frames that are kept together, constant distances, relations of joints.

The elements in <equality> have the order of the mechanism's constraints, so that an import reads them in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from robots.export.attributes import Array, numbers, quaternion_of
from robots.export.closures import PointClosure, gap_of
from robots.export.tree import value
from sim_core.errors import InvalidRequest
from sim_core.mechanism import (
    Coincidence,
    Constraint,
    Distance,
    JointRelation,
    Mechanism,
    Perpendicular,
    Spring,
    Vector3,
)

UPRIGHT = 1e-9  # largest difference of a product of two unit axes from 0 or 1 in a weld


@dataclass(frozen=True)
class Weld:
    """Constraints that keep a frame on body a and a frame on body b together.

    together  the constraint of the frames' origins; it has the name of the weld
    aligned   the constraints of the axes; their names are the weld's name followed by .x .y .z
    R_a, R_b  rotation matrices (3, 3) of the frames on body a and body b
    """

    together: Coincidence
    aligned: tuple[Perpendicular, ...]
    R_a: Array
    R_b: Array

    @property
    def parts(self) -> list[Constraint]:
        """All constraints of the weld."""
        return [self.together, *self.aligned]


def welds_of(mechanism: Mechanism) -> list[Weld]:
    """Return a Weld for each group of constraints that MJCF can express as a <weld> of two sites.

    A group has a Coincidence and three Perpendicular constraints. The latter keep the axes x, y and z of the frame on
    body a perpendicular to the axes y, z and x, respectively, of the frame on body b.
    """
    by_name = {constraint.name: constraint for constraint in mechanism.constraints}
    found = []
    for together in mechanism.constraints:
        if not isinstance(together, Coincidence) or len(together.directions) != 3:
            continue
        parts = [by_name.get(f"{together.name}.{end}") for end in "xyz"]
        aligned = tuple(part for part in parts if isinstance(part, Perpendicular))
        bodies = {(part.body_a, part.body_b) for part in aligned}
        if len(aligned) != 3 or bodies != {(together.body_a, together.body_b)}:
            continue
        R_a = np.column_stack([part.axis_a for part in aligned])
        R_b = np.column_stack([aligned[k].axis_b for k in (2, 0, 1)])
        if _is_rotation(R_a) and _is_rotation(R_b):
            found.append(Weld(together, aligned, R_a, R_b))
    return found


def _is_rotation(R: Array) -> bool:
    return bool(np.abs(R.T @ R - np.eye(3)).max() < UPRIGHT and np.linalg.det(R) > 0.0)


def add_equalities(
    root: Element,
    elements: dict[str, Element],
    mechanism: Mechanism,
    closures: Sequence[PointClosure | Weld | Distance],
    refs: Mapping[str, float],
    poses: dict[str, tuple[Array, Array]],
) -> None:
    """Add constraints to the MJCF document `root`: closures of loops, and all relations of joints.

    elements   {body: XML element of the body}
    closures   points and frames that are kept together, and constant distances
    refs       {joint: its `ref`, rad or m}, from which MuJoCo measures joint positions and lengths
    poses      {body: (position p_WB, rotation matrix R_WB)} with all joints at `ref`
    """
    places = {constraint.name: place for place, constraint in enumerate(mechanism.constraints)}
    written: dict[int, Element] = {}
    for closure in closures:
        if isinstance(closure, PointClosure):
            sites = add_sites(elements, closure)
            element = Element("connect", name=closure.name, site1=sites[0], site2=sites[1])
            written[places[closure.parts[0].name]] = element
        elif isinstance(closure, Weld):
            together = closure.together
            sites = add_sites(elements, together, (closure.R_a, closure.R_b))
            element = Element("weld", name=together.name, site1=sites[0], site2=sites[1])
            written[places[together.name]] = element
        else:
            add_line(root, closure.name, add_sites(elements, closure))
            offset = closure.length - float(np.linalg.norm(gap_of(closure, poses)))
            written[places[closure.name]] = _held(closure.name, offset)
    for place, relation in enumerate(mechanism.constraints):
        if isinstance(relation, JointRelation):
            written[place] = _relation(root, relation, refs)
    if written:
        SubElement(root, "equality").extend([written[place] for place in sorted(written)])


def _held(tendon: str, offset: float) -> Element:
    """XML element that keeps a tendon's length equal to its length with all joints at `ref`, plus `offset`."""
    return Element("tendon", name=tendon, tendon1=tendon, polycoef=numbers([offset, 0.0, 0.0, 0.0, 0.0]))


def _relation(root: Element, relation: JointRelation, refs: Mapping[str, float]) -> Element:
    """XML element in <equality> for a JointRelation.

    The element concerns the joints directly if the relation has one or two terms and the first factor is 1. For any
    other relation, a fixed tendon over the joints is added to `root`, and the element keeps the length of this tendon.

    refs  {joint: its `ref`, rad or m}
    """
    before = sum(factor * refs.get(joint, 0.0) for joint, factor in relation.terms)
    offset = value(relation.offset) - before
    (follower, first), *others = relation.terms
    if len(others) == 1 and first == 1.0:
        leader, factor = others[0]
        polynomial = numbers([offset, -factor, 0.0, 0.0, 0.0])
        return Element("joint", name=relation.name, joint1=follower, joint2=leader, polycoef=polynomial)
    if not others and first == 1.0:
        return Element("joint", name=relation.name, joint1=follower, polycoef=numbers([offset, 0.0, 0.0, 0.0, 0.0]))
    tendon = SubElement(_tendons(root), "fixed", name=relation.name)
    for joint, factor in relation.terms:
        SubElement(tendon, "joint", joint=joint, coef=numbers([factor]))
    return _held(relation.name, offset)


def _tendons(root: Element) -> Element:
    section = root.find("tendon")
    return SubElement(root, "tendon") if section is None else section


def add_line(root: Element, name: str, ends: Sequence[str]) -> Element:
    """Add a straight tendon between the sites `ends`."""
    spatial = SubElement(_tendons(root), "spatial", name=name)
    for end in ends:
        SubElement(spatial, "site", site=end)
    return spatial


def add_sites(
    elements: dict[str, Element], item: Spring | PointClosure | Distance | Coincidence, axes: Sequence[Array] = ()
) -> tuple[str, str]:
    """Add a site at each of the two points of a spring or constraint; returns the names of both sites.

    axes  rotation matrices (3, 3) of the two sites in their bodies; without them, the sites have no orientation
    """
    ends = [_add_site(elements, f"{item.name}.a", item.body_a, item.point_a)]
    ends.append(_add_site(elements, f"{item.name}.b", item.body_b, item.point_b))
    for site, R in zip(ends, axes, strict=False):
        site.set("quat", numbers(quaternion_of(R)))
    return ends[0].attrib["name"], ends[1].attrib["name"]


def _add_site(elements: dict[str, Element], name: str, body: str, point: Vector3) -> Element:
    if body not in elements:
        raise InvalidRequest(
            f"end {name!r} of a spring or constraint is on body {body!r}, which moves without mass, and MuJoCo refuses "
            "such bodies; give the body a mass"
        )
    return SubElement(elements[body], "site", name=name, pos=numbers(point))

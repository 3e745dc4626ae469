"""Exact numbers of bodies, joints and constraints in an exported MJCF file, for a later import.

MJCF expresses some numbers, such as orientations, only up to rounding. The exact numbers are written in addition where
an import would otherwise read numbers with a rounding error, see `robots.importing.mjcf.exact_numbers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import SubElement

import numpy as np

from robots.export.attributes import numbers
from robots.export.mjcf_equalities import Weld
from robots.export.tree import value
from robots.importing.mjcf.document import Angles
from robots.importing.mjcf.exact_numbers import (
    INERTIA,
    JOINT,
    OFFSET,
    WELD,
    agree,
    largest_moment,
    numbers_of_body,
    numbers_of_joint,
)
from robots.importing.mjcf.geoms import entries_of, inertia_of
from robots.importing.mjcf.joints import axial_joint, ball_joint
from robots.importing.rotations import rows, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import GROUND, Joint, JointRelation, Mechanism


def add_exact_numbers(
    root: ElementTree.Element,
    elements: dict[str, ElementTree.Element],
    mechanism: Mechanism,
    welds: Sequence[Weld],
) -> None:
    """Add exact numbers of bodies, joints and constraints to the MJCF document `root`.

    Numbers that an import reads exactly from the rest of the document are not added.

    elements  {body: XML element of the body}
    """
    angles = Angles({"angle": "radian"}, _as_read(root))
    found: dict[str, tuple[float, ...]] = {}
    joints = {joint.name: joint for joint in mechanism.joints}
    for name, element in elements.items():
        if name == GROUND:
            continue
        body, inertial = mechanism.body(name), element.find("inertial")
        exact = numbers_of_body(body)
        if inertial is not None:
            _add(
                found,
                f"{INERTIA}{name}",
                exact,
                entries_of(inertia_of(_as_read(inertial), angles)),
                largest_moment(exact),
            )
        for joint in _joints_of(element, joints, angles):
            _add(found, f"{JOINT}{joint.name}", numbers_of_joint(joints[joint.name]), numbers_of_joint(joint))
    for weld in welds:
        sites = [
            _as_read(site)
            for end in "ab"
            for site in root.iter("site")
            if site.get("name") == f"{weld.together.name}.{end}"
        ]
        given = [entry for site in sites for entry in angles.rotation_of(site).T.ravel().tolist()]
        _add(found, f"{WELD}{weld.together.name}", (*weld.R_a.T.ravel().tolist(), *weld.R_b.T.ravel().tolist()), given)
    refs = {each.attrib["name"]: float(each.get("ref", "0")) for each in elements[GROUND].iter("joint")}
    written = {each.attrib["name"]: each for each in root.findall("equality/*")}
    for relation in mechanism.constraints:
        if isinstance(relation, JointRelation):
            offset = float(written[relation.name].attrib["polycoef"].split()[0])
            read = offset + sum(factor * refs.get(joint, 0.0) for joint, factor in relation.terms)
            _add(found, f"{OFFSET}{relation.name}", (value(relation.offset),), (read,))
    if found:
        section = root.find("custom")
        section = SubElement(root, "custom") if section is None else section
        for name, exact in found.items():
            SubElement(section, "numeric", name=name, data=numbers(exact))


def _add(
    found: dict[str, tuple[float, ...]], name: str, exact: tuple[float, ...], read: Sequence[float], scale: float = 1.0
) -> None:
    """Add `exact` to `found` under `name` if the numbers `read` differ from it, but only by rounding.

    read   numbers that an import reads from the rest of the file
    scale  size of the numbers, see `agree`
    """
    if exact != tuple(read) and agree(exact, read, scale):
        found[name] = exact


def _joints_of(body: ElementTree.Element, joints: dict[str, Joint], angles: Angles) -> Iterator[Joint]:
    """Yield the joints of a body with the points, axis and rotation that an import reads from the XML element `body`.

    Free joints, and joints that are not in `joints`, are left out.

    joints  {name: joint of the mechanism}
    """
    element = _as_read(body)
    p, R = np.array(element.numbers("pos", 3)), angles.rotation_of(element)
    written = body.findall("joint")
    name = f"{element.attributes['name']}.fixed"
    if not written and name in joints:
        yield Joint(name=name, kind="fixed", parent_point=vector(p), rotation=rows(R))
    for each in written:
        kind, joint = each.attrib["type"], joints.get(each.attrib["name"])
        if joint is not None and kind != "free":
            bare = Joint(name=joint.name, kind=joint.kind)
            if kind == "ball":
                yield ball_joint(_as_read(each), bare, p, R)
            else:
                yield axial_joint(_as_read(each), bare, p, R, 1.0)
        p, R = np.zeros(3), np.eye(3)


def _as_read(element: ElementTree.Element) -> Element:
    """Convert an element of the exported document to the Element class of the import."""
    return Element(element.tag, dict(element.attrib), 0, "")

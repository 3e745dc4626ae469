"""Planar joints that are written as chains of three URDF joints, as `armswing robot export` writes them.

URDF does not say whether a planar joint turns, and programs differ; the joints N.x, N.y and N.theta mean the same in
each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from robots.importing.inertials import origin_of
from robots.importing.notes import Notes
from robots.importing.rotations import turned_axis
from robots.importing.trees import NO_LIMIT, Edge
from robots.importing.xml_reader import Element
from sim_core.spatial import perpendicular_axes

PARTS = (".x", ".y", ".theta")  # ends of the names of a chain's joints
ROUNDING = 1e-12  # difference of an entry of an axis
BARE = {"origin", "parent", "child", "axis", "limit"}  # elements of a joint that only slides


def joined(edges: Sequence[Edge], links: Mapping[str, Element], notes: Notes) -> list[Edge]:
    """The joints of a file, each chain of joints N.x, N.y and N.theta as one planar joint N.

    A chain is joined only if the planar joint moves in the same way: two slides without limits, damping and effort
    along the x and y that the planar joint has, and a rotation about its axis through the same point. The two links
    within the chain must be empty and carry nothing else, and no joint may mimic one of the three. A note names the
    chain.

    edges  the joints, parents before children
    links  {name: element}
    """
    found = {edge.name: edge for edge in edges}
    carried = [edge.parent for edge in edges]
    mimicked = {mimic.attributes.get("joint") for edge in edges for mimic in edge.element.all("mimic")}
    planar: dict[str, Edge] = {}  # {name of the rotation: planar joint}
    slides: set[str] = set()
    for name in (name.removesuffix(".theta") for name in found if name.endswith(".theta")):
        names = [name + part for part in PARTS]
        if not found.keys() >= set(names) or name in found or mimicked & set(names):
            continue
        x, y, theta = (found[each] for each in names)
        inner = [x.child, y.child]
        if inner != [y.parent, theta.parent] or any(links[e].children or carried.count(e) > 1 for e in inner):
            continue
        if _is_planar(x.element, y.element, theta.element):
            planar[theta.name] = replace(theta, name=name, parent=x.parent, slide=x.element)
            slides |= {x.name, y.name}
            listed = f"{names[0]!r}, {names[1]!r} and {names[2]!r}"
            notes.add(theta.element, f"joints {listed} are read as the planar joint {name!r}")
    return [planar.get(edge.name, edge) for edge in edges if edge.name not in slides]


def _is_planar(x: Element, y: Element, theta: Element) -> bool:
    """Whether three joints that follow one another move a body as one planar joint does."""
    if not (_slides(x) and _slides(y)) or theta.text("type") not in ("revolute", "continuous") or theta.all("mimic"):
        return False
    if not all(_is_identity(origin_of(each)) for each in (y, theta)):
        return False
    R = origin_of(x)[1]
    given = [axis.numbers("xyz", 3) for each in (x, y, theta) for axis in each.all("axis")]
    if len(given) != len(PARTS) or not all(map(any, given)):
        return False
    *along, normal = (turned_axis(R, axis) for axis in given)
    return bool(np.abs(np.subtract(along, perpendicular_axes(normal))).max() <= ROUNDING)


def _is_identity(pose: tuple[np.ndarray, np.ndarray]) -> bool:
    return not pose[0].any() and np.array_equal(pose[1], np.eye(3))


def _slides(joint: Element) -> bool:
    """Whether a joint is prismatic, without limits, effort, damping and friction."""
    limit = joint.optional("limit")
    return (
        joint.text("type") == "prismatic"
        and {child.tag for child in joint.children} <= BARE
        and limit is not None
        and limit.number("lower", 0.0) <= -NO_LIMIT
        and limit.number("upper", 0.0) >= NO_LIMIT
        and limit.number("effort", NO_LIMIT) == 0.0
    )

"""The links of a tree: topology, constant poses and inertias.

A link has one degree of freedom about or along the z axis of its own frame, whose origin is at the joint's point. A
joint of several degrees of freedom is a sequence of links, and its child body is fixed to the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation.coordinates.inertia import Inertia
from sim_core.derivation.symbols import Symbols
from sim_core.mechanism.description import COORDINATES, GROUND, Body, Joint, Mechanism, X, Y, Z
from sim_core.mechanism.outputs import ForceTorqueOutput
from sim_core.mechanism.quantities import Vector3, value_of

N_INERTIA = 13  # first moment of mass (3), inertia (9) about the link's origin, mass


@dataclass(frozen=True)
class Place:
    """Link to which a body is fixed, -1 for the ground, and the body's pose p (3,), R (3, 3) in the link's frame."""

    link: int
    p: np.ndarray
    R: np.ndarray


@dataclass(frozen=True)
class Link:
    """A link: its joint and kind, its parent link, and the constant pose of the link's joint.

    kind    "revolute": turns about z; "prismatic": moves along z; "oriented": first of the three rotations of a
            spherical or free joint, whose whole orientation it takes; "following": second or third of these
    parent  index of the parent link; -1 for the ground
    p, R    position (3,), m, and rotation (3, 3) of the joint in the parent link's frame
    is_last whether the link is the last one of its joint
    """

    joint: Joint
    kind: str
    parent: int
    p: np.ndarray
    R: np.ndarray
    is_last: bool


@dataclass(frozen=True)
class Links:
    """The links of a tree, in the order of the coordinates, the bodies' places, and the bodies mounted on each link.

    records  {body: record of the forces on it in the array "wrench"}: that of its link or of the ground, or that of the
             last load cell between these and the body
    cells    load cells: fixed joints whose force and torque are measured, parents before children
    """

    links: list[Link]
    places: dict[str, Place]
    mounted: list[list[Body]]
    records: dict[str, int]
    cells: list[Joint]

    @property
    def count(self) -> int:
        """Number of links."""
        return len(self.links)

    @property
    def count_of_records(self) -> int:
        """Number of records of wrenches: of the links, of the ground and of the load cells."""
        return self.count + 1 + len(self.cells)

    def frame_of(self, record: int) -> int:
        """Record of the frame of the link or ground to which the bodies with a record of wrenches are fixed."""
        cell = record - self.count - 1
        if not 0 <= cell < len(self.cells):
            return record
        link = self.places[self.cells[cell].child].link
        return self.count if link < 0 else link

    @cached_property
    def of_joints(self) -> dict[str, int]:
        """{joint, or coordinate of a body: index of its last link}."""
        return {link.joint.name: index for index, link in enumerate(self.links) if link.is_last}

    @property
    def oriented(self) -> list[int]:
        """Index of the first rotation of each spherical or free joint."""
        return [index for index, link in enumerate(self.links) if link.kind == "oriented"]

    @property
    def poses(self) -> np.ndarray:
        """Constant poses (n, 12): the position, then the rotation, column by column."""
        return np.array([np.concatenate([link.p, link.R.T.ravel()]) for link in self.links])


def links_of(mechanism: Mechanism) -> Links:
    """The links of a mechanism: those of its joints or, in absolute coordinates, one per coordinate of a body."""
    if mechanism.has_body_coordinates:
        return _links_of_bodies(mechanism)
    places = {GROUND: Place(-1, np.zeros(3), np.eye(3))}
    links = list[Link]()
    for joint in mechanism.joints:
        before, fixed = places[joint.parent], np.array(joint.rotation)
        if joint.is_fixed:
            p_PC = np.array(joint.parent_point) - fixed @ np.array(joint.child_point)
            places[joint.child] = Place(before.link, before.p + before.R @ p_PC, before.R @ fixed)
        else:
            links += _links_of_joint(joint, before, len(links))
            R_LC = np.eye(3) if joint.is_oriented else _axes(joint.axis).T @ fixed
            places[joint.child] = Place(len(links) - 1, -(R_LC @ np.array(joint.child_point)), R_LC)
    mounted: list[list[Body]] = [[] for _ in links]
    for body in mechanism.bodies:
        if places[body.name].link >= 0:
            mounted[places[body.name].link].append(body)
    measured = {output.joint for output in mechanism.outputs if isinstance(output, ForceTorqueOutput)}
    records, cells = {GROUND: len(links)}, list[Joint]()
    for joint in mechanism.joints:
        records[joint.child] = records[joint.parent] if joint.is_fixed else places[joint.child].link
        if joint.is_fixed and joint.name in measured:
            cells.append(joint)
            records[joint.child] = len(links) + len(cells)
    return Links(links, places, mounted, records, cells)


def _links_of_bodies(mechanism: Mechanism) -> Links:
    """The links of planar bodies in absolute coordinates; the links of each body are a chain from the ground."""
    places, links = {GROUND: Place(-1, np.zeros(3), np.eye(3))}, list[Link]()
    mounted: list[list[Body]] = []
    for body in mechanism.bodies:
        parent, p, R = -1, np.zeros(3), np.eye(3)
        for name, axis, at in zip(COORDINATES["planar"], (X, Y, Z), body.placement or (0.0, 0.0, 0.0), strict=True):
            is_angle = name == "theta"
            if name in body.free_coordinates:
                kind = "revolute" if is_angle else "prismatic"
                joint = Joint(name=f"{body.name}.{name}", child=body.name, axis=axis)
                links.append(Link(joint, kind, parent, p, R @ _axes(axis), True))
                parent, p, R = len(links) - 1, np.zeros(3), _axes(axis).T
                mounted.append([])
            elif is_angle:
                R = R @ np.array(spatial.rotation_about(Z, at))
            else:
                p = p + R @ (at * np.array(axis))
        places[body.name] = Place(parent, p, R)
        if parent >= 0:
            mounted[-1].append(body)
    records = {name: len(links) if place.link < 0 else place.link for name, place in places.items()}
    return Links(links, places, mounted, records, [])


def _links_of_joint(joint: Joint, before: Place, first: int) -> list[Link]:
    """The links of a joint, of which the first has the index `first`."""
    moves = [("prismatic", axis) for axis in joint.slides]
    if joint.turns:
        moves.append(("revolute", joint.axis))
    if joint.is_oriented:
        moves += [("oriented", X), ("following", Y), ("following", Z)]
    parent, p, R, links = before.link, before.p + before.R @ np.array(joint.parent_point), before.R, list[Link]()
    for kind, axis in moves:
        # the rotation of an oriented joint is between the joint's pose and the link's axes
        turn = R if kind == "oriented" else R @ _axes(axis)
        links.append(Link(joint, kind, parent, p, turn, len(links) + 1 == len(moves)))
        parent, p, R = first + len(links) - 1, np.zeros(3), _axes(axis).T
    return links


def _axes(axis: Vector3) -> np.ndarray:
    """Rotation matrix whose third column is `axis`."""
    return np.column_stack([*spatial.perpendicular_axes(axis), axis])


def inertias_of(groups: Sequence[Sequence[Body]], links: Links, symbols: Symbols) -> list[ca.SX]:
    """The numbers of the inertia of each group of bodies on a link, about the link's origin.

    They are expressions of the parameters p if tunable.
    """
    m, c, I, p, R = ca.SX.sym("m"), ca.SX.sym("c", 3), ca.SX.sym("I", 6), ca.SX.sym("p", 3), ca.SX.sym("R", 3, 3)
    xx, yy, zz, xy, xz, yz = ca.vertsplit(I)
    about, offset = ca.blockcat([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), ca.skew(c)
    moved = Inertia(m, m * c, about - m * (offset @ offset)).expressed_in(p, R)
    inertia = ca.Function("inertia", [m, c, I, p, R], [ca.vertcat(*packed(moved))])
    found = list[ca.SX]()
    for bodies in groups:
        total = ca.SX.zeros(N_INERTIA)
        for body in bodies:
            place = links.places[body.name]
            mass, numbers = symbols.number(body.mass), [symbols.number(each) for each in body.inertia]
            is_tunable = any(isinstance(number, ca.SX) for number in (mass, *numbers))
            six = ca.vertcat(*numbers) if is_tunable else ca.DM([value_of(each) for each in body.inertia])
            total += inertia(mass, body.center_of_mass, six, place.p, place.R)
        found.append(total)
    return found


def packed(inertia: Inertia) -> list[ca.SX]:
    """The numbers of an inertia, in the order of N_INERTIA."""
    return [inertia.h, ca.vec(inertia.I), ca.SX(inertia.m)]


def unpacked(numbers: ca.SX) -> Inertia:
    """The inertia with the given numbers, in the order of N_INERTIA."""
    return Inertia(numbers[12], numbers[:3], ca.reshape(numbers[3:12], 3, 3))


def turned(inertia: Inertia, R: ca.SX) -> Inertia:
    """The same inertia in other axes, about the same origin; R is the rotation from the present axes to these."""
    return Inertia(inertia.m, R @ inertia.h, R @ inertia.I @ R.T)

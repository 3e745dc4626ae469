"""The numbers of a tree's links, as arrays: topology, constant poses and inertias.

A link has one degree of freedom about or along the z axis of its own frame, whose origin is at the joint's point. The
bodies of the link are fixed to this frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation.coordinates.inertia import Inertia
from sim_core.mechanism.description import GROUND, Joint, Mechanism
from sim_core.mechanism.inertias import inertia_matrix
from sim_core.mechanism.quantities import value_of

N_INERTIA = 10  # mass, first moment of mass (3), inertia xx, xy, yy, xz, yz, zz about the link's origin


@dataclass(frozen=True)
class Place:
    """Link to which a body is fixed, -1 for the ground, and the body's pose p (3,), R (3, 3) in the link's frame."""

    link: int
    p: np.ndarray
    R: np.ndarray


@dataclass(frozen=True)
class Links:
    """The links of a tree, in the order of the coordinates.

    joints    joint of each link
    parents   (n,) index of each link's parent link; -1 for the ground
    poses     (n, 12) constant pose of each joint in the parent link's frame: position p_PJ (3), m, then the rotation
              R_PJ (9), row by row
    inertias  (n, 10) inertia of the bodies of each link: mass, first moment of mass, inertia (see N_INERTIA)
    places    {body: Place}
    """

    joints: list[Joint]
    parents: list[int]
    poses: np.ndarray
    inertias: np.ndarray
    places: dict[str, Place]

    @property
    def count(self) -> int:
        """Number of links."""
        return len(self.joints)


def links_of(mechanism: Mechanism) -> Links:
    """The links of a mechanism in joint coordinates, whose moving joints have one coordinate each."""
    places = {GROUND: Place(-1, np.zeros(3), np.eye(3))}
    joints, parents, poses = list[Joint](), list[int](), list[np.ndarray]()
    for joint in mechanism.joints:
        before, fixed = places[joint.parent], np.array(joint.rotation)
        if joint.is_fixed:
            p_PC = np.array(joint.parent_point) - fixed @ np.array(joint.child_point)
            places[joint.child] = Place(before.link, before.p + before.R @ p_PC, before.R @ fixed)
            continue
        turn = np.column_stack([*spatial.perpendicular_axes(joint.axis), joint.axis])
        p_PJ, R_PJ = before.p + before.R @ np.array(joint.parent_point), before.R @ turn
        R_LC = turn.T @ fixed
        places[joint.child] = Place(len(joints), -(R_LC @ np.array(joint.child_point)), R_LC)
        joints.append(joint)
        parents.append(before.link)
        poses.append(np.concatenate([p_PJ, R_PJ.ravel()]))
    return Links(joints, parents, np.array(poses), _inertias(mechanism, places, len(joints)), places)


def _inertias(mechanism: Mechanism, places: dict[str, Place], n: int) -> np.ndarray:
    """Inertias (n, 10) of the links, see Links."""
    m, c, I, p, R = ca.SX.sym("m"), ca.SX.sym("c", 3), ca.SX.sym("I", 3, 3), ca.SX.sym("p", 3), ca.SX.sym("R", 3, 3)
    offset = ca.skew(c)
    moved = Inertia(m, m * c, I - m * (offset @ offset)).expressed_in(p, R)
    body_inertia = ca.Function("inertia", [m, c, I, p, R], [ca.vertcat(*packed(moved))])
    found = np.zeros((n, N_INERTIA))
    for body in mechanism.bodies:
        place = places[body.name]
        if place.link >= 0:
            own = body_inertia(value_of(body.mass), body.center_of_mass, inertia_matrix(body), place.p, place.R)
            found[place.link] += np.array(own).ravel()
    return found


def packed(inertia: Inertia) -> list[ca.SX]:
    """The ten numbers of an inertia, in the order of N_INERTIA."""
    return [ca.SX(inertia.m), inertia.h, lower(inertia.I)]


def unpacked(numbers: ca.SX) -> Inertia:
    """The inertia with the given ten numbers, in the order of N_INERTIA."""
    return Inertia(numbers[0], numbers[1:4], symmetric(numbers[4:10]))


def lower(A: ca.SX) -> ca.SX:
    """Entries 00, 10, 11, 20, 21, 22 of a symmetric matrix (3, 3)."""
    return ca.vertcat(*[A[i, j] for i in range(3) for j in range(i + 1)])


def symmetric(entries: ca.SX) -> ca.SX:
    """The symmetric matrix (3, 3) with the entries that `lower` lists."""
    a, b, c, d, e, f = ca.vertsplit(entries)
    return ca.vertcat(ca.horzcat(a, b, d), ca.horzcat(b, c, e), ca.horzcat(d, e, f))

"""Derivation in joint coordinates: joint efforts by Newton-Euler recursion, mass matrix M by composite rigid bodies.

The algorithms are those of [Featherstone2008, ch. 5 and 6], written with 3-vectors in each link's frame and with all
constants folded. The Newton-Euler recursion has its classical form, which propagates accelerations of points but no
linear velocities. [LuhWalkerPaul1980]
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.coordinates.inertia import Inertia
from sim_core.derivation.coordinates.orientations import quasi_velocities
from sim_core.derivation.coordinates.tree import Link, Tree, frames_of, tree_of
from sim_core.derivation.symbols import Lifted, Measures, Motion, Symbols, column, symbols_for
from sim_core.mechanism.description import Mechanism


def derive(mechanism: Mechanism) -> tuple[Symbols, Motion]:
    """Symbols and equations of a tree in joint coordinates: frames, mass matrix M, forces f and inverse dynamics."""
    names = tuple(mechanism.family.names(mechanism.bodies, mechanism.joints))
    symbols = symbols_for(mechanism, len(names))
    tree, quasi = tree_of(mechanism, symbols), quasi_velocities(mechanism, symbols)

    def inertial(a: ca.SX) -> ca.SX:
        if quasi is None:
            return newton_euler(tree, mechanism, symbols, a)
        return quasi.B.T @ newton_euler(tree, mechanism, quasi.symbols, quasi.B @ a + quasi.bias)

    nothing = ca.SX(len(names), 1)
    if quasi is None:
        drift = moving_links(tree, mechanism, symbols, nothing)
        f, composites = -_efforts(tree, drift), composite_inertias(tree, symbols)
        M, recursion = composites.M, Recursion(tree, drift, composites)
    else:
        f, recursion = -inertial(nothing), None
        M = quasi.B.T @ composite_inertias(tree, symbols).M @ quasi.B
    frames = frames_of(tree, symbols if quasi is None else quasi.symbols)
    return symbols, Motion(names, frames, M, f, inertial, tree.twins, recursion=recursion)


def joint_measures(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> Measures:
    """Measures of the declared joints, which are coordinates; of a planar joint, the angle."""
    places = [motion.coordinate_names.index(joint.coordinates[-1]) for joint in mechanism.moving_joints]
    return column([symbols.q[at] for at in places]), column([symbols.v[at] for at in places]), []


@dataclass(frozen=True)
class MovingLinks:
    """Motion of each link, and the wrench that its parent exerts on it, by the Newton-Euler recursion.

    wrenches  (moment about the link's origin, force) in the link's axes
    """

    motions: list[LinkMotion]
    wrenches: list[tuple[ca.SX, ca.SX]]


@dataclass(frozen=True)
class Composites:
    """Mass matrix M (n_q, n_q), and what it is computed from.

    inertias  inertia of each link with all links after it, in the link's frame
    wrenches  {(i, j): wrench, in the frame of link i, that accelerates link j and all links after it by the unit of the
              acceleration of coordinate j}, for each link j and its predecessors i
    """

    M: ca.SX
    inertias: list[Inertia]
    wrenches: dict[tuple[int, int], tuple[ca.SX, ca.SX]]


@dataclass(frozen=True)
class Recursion:
    """The recursions from which the equations of a tree follow; `drift` is the motion without accelerations."""

    tree: Tree
    drift: MovingLinks
    composites: Composites


class Border:
    """Transforms motions, wrenches and inertias between a link and its parent, with identical code for twin branches.

    Twin branches are two branches of equal structure on the same link, such as two arms. They may differ in numbers
    such as masses, and in the constant pose of their first joint on the common link. The values before and after the
    rotation of this pose are "lifted" (see `Lifted`): they become intermediate results with symbols of their own. All
    other code is then identical in both branches.
    """

    def __init__(self, links: list[Link], lifted: Lifted) -> None:
        self._links, self._lifted = links, lifted
        self._places: dict[int, list[int]] = {index: [] for index, link in enumerate(links) if link.twin >= 0}

    def _lift(self, index: int, value: ca.SX) -> ca.SX:
        return self._lifted.lift(value, self._places[index])

    def motion(self, index: int, w: ca.SX, dw: ca.SX, a: ca.SX) -> tuple[tuple[ca.SX, ca.SX, ca.SX], ca.SX]:
        """Transform the motion of the parent link to the axes of the joint that carries link `index`.

        w, dw  angular velocity and angular acceleration (3,) of the parent link
        a      acceleration (3,) of the joint's point on the parent link
        Returns ((w, dw, a) in the joint's axes, `_spin_matrix` (3, 3) of the returned w and dw).
        """
        w, dw, a = self.turned(index, w, dw, a)
        return (w, dw, a), _spin_matrix(w, dw)

    def turned(self, index: int, *values: ca.SX) -> list[ca.SX]:
        """Vectors in the axes of the parent link, in the axes of the joint that carries link `index`."""
        turn = self._links[index].R_PJ.T
        return [self._lift(index, turn @ value) for value in values]

    def wrench(self, index: int, n: ca.SX, F: ca.SX) -> tuple[ca.SX, ca.SX]:
        """The wrench of link `index` (moment n, force F), (3,) each, transformed to the origin and axes of the link's
        parent.
        """
        link = self._links[index]
        if link.twin < 0:
            F = link.R @ F
            return link.R @ n + ca.cross(link.p, F), F
        F = link.R_JL @ F
        n = self._lift(index, link.R_JL @ n + ca.cross(link.p_JL, F))
        F = self._lift(index, link.R_PJ @ self._lift(index, F))
        return self._lift(index, link.R_PJ @ n) + ca.cross(link.p_PJ, F), F

    def moment(self, index: int, n: ca.SX) -> ca.SX:
        """The moment n (3,) without a force on link `index`, in the axes of the link's parent."""
        link = self._links[index]
        if link.twin < 0:
            return link.R @ n
        return self._lift(index, link.R_PJ @ self._lift(index, link.R_JL @ n))

    def velocity_terms(self, index: int, G: ca.SX, P: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Matrix G (3, 3) and twice the momentum P (3,) of link `index`, at the origin and axes of the link's parent.

        They are the velocity terms of `sim_core.derivation.derivatives.trees`.
        """
        link = self._links[index]
        if link.twin < 0:
            P = link.R @ P
            return link.R @ G @ link.R.T - ca.skew(link.p) @ ca.skew(P), P
        P = link.R_JL @ P
        G = self._lift(index, link.R_JL @ G @ link.R_JL.T - ca.skew(link.p_JL) @ ca.skew(P))
        P = self._lift(index, link.R_PJ @ self._lift(index, P))
        return self._lift(index, link.R_PJ @ G @ link.R_PJ.T) - ca.skew(link.p_PJ) @ ca.skew(P), P

    def inertia(self, index: int, own: Inertia) -> Inertia:
        """Inertia expressed in the parent's frame, for the inertia `own` in the frame of link `index`."""
        link = self._links[index]
        if link.twin < 0:
            return own.expressed_in(link.p, link.R)
        here = self._lift_inertia(index, own.expressed_in(link.p_JL, link.R_JL))
        return self._lift_inertia(index, here.expressed_in(ca.SX(3, 1), ca.SX(link.R_PJ))).translated(ca.SX(link.p_PJ))

    def _lift_inertia(self, index: int, inertia: Inertia) -> Inertia:
        h, lower = self._lift(index, inertia.h), self._lift(index, ca.tril(inertia.I))
        I = ca.SX(3, 3)
        for i in range(3):
            for j in range(i + 1):
                I[i, j] = I[j, i] = lower[i, j]
        return Inertia(inertia.m, h, I)

    def close(self) -> None:
        """Record which intermediate results (lifted values) of twin branches correspond to each other.

        The k-th value of one branch corresponds to the k-th value of its twin.
        """
        for index, places in self._places.items():
            twin = self._links[index].twin
            if index < twin and len(places) == len(self._places[twin]):
                self._lifted.twins += list(zip(places, self._places[twin], strict=True))


def newton_euler(tree: Tree, mechanism: Mechanism, symbols: Symbols, a: ca.SX) -> ca.SX:
    """Joint efforts (n_q,) that produce the accelerations a (n_q,) if gravity is the only other force.
    [LuhWalkerPaul1980]
    """
    return _efforts(tree, moving_links(tree, mechanism, symbols, a))


def _efforts(tree: Tree, moving: MovingLinks) -> ca.SX:
    return ca.vertcat(
        *[ca.dot(link.s_w, n) + ca.dot(link.s_v, F) for link, (n, F) in zip(tree.links, moving.wrenches, strict=True)]
    )


def moving_links(tree: Tree, mechanism: Mechanism, symbols: Symbols, a: ca.SX) -> MovingLinks:
    """Motion of the links of a tree, and wrenches on them, for the accelerations a (n_q,)."""
    links, border = tree.links, Border(tree.links, symbols.lifted)
    ground = motion_of_ground(mechanism)
    motions: list[LinkMotion] = []
    for index, link in enumerate(links):
        before = motions[link.parent] if link.parent >= 0 else ground
        p, R = link.p, link.R
        if link.twin >= 0:
            (w_P, dw_P, a_P), spin_P = border.motion(index, before.w, before.dw, before.a + before.spin @ link.p_PJ)
            before, p, R = LinkMotion(w_P, dw_P, a_P, spin_P), link.p_JL, link.R_JL
        motions.append(carried_motion(before, p, R, link.s_w, link.s_v, symbols.v[index], a[index]))
    found = [(ca.SX(3, 1), ca.SX(3, 1)) for _ in links]
    for index in reversed(range(len(links))):
        link = links[index]
        found[index] = n, F = wrench_of(tree.inertias[index], motions[index], *found[index])
        if link.parent >= 0:
            (n_P, F_P), (n_up, F_up) = found[link.parent], border.wrench(index, n, F)
            found[link.parent] = (n_P + n_up, F_P + F_up)
    border.close()
    return MovingLinks(motions, found)


@dataclass(frozen=True)
class LinkMotion:
    """Motion of a link's frame, (3,) vectors in the link's axes or in the world's.

    w     angular velocity, rad/s
    dw    angular acceleration, rad/s^2
    a     acceleration of the frame's origin minus that of gravity, m/s^2
    spin  matrix (3, 3) of w and dw, see `_spin_matrix`
    """

    w: ca.SX
    dw: ca.SX
    a: ca.SX
    spin: ca.SX


def motion_of_ground(mechanism: Mechanism) -> LinkMotion:
    """Motion of the ground, which is at rest."""
    zero = ca.SX(3, 1)
    return LinkMotion(zero, zero, ca.SX(-ca.DM(mechanism.gravity)), ca.SX(3, 3))


def carried_motion(before: LinkMotion, p: ca.SX, R: ca.SX, s_w: ca.SX, s_v: ca.SX, rate: ca.SX, a: ca.SX) -> LinkMotion:
    """Motion of a link, from the motion `before` of its parent link. [LuhWalkerPaul1980]

    p, R      position and rotation of the link's frame in the parent link's frame; with R = 1, all vectors may be in
              the world's axes
    s_w, s_v  angular and linear velocity of the link's frame per unit of joint velocity, in the link's axes
    rate, a   velocity and acceleration of the joint
    """
    carried = R.T @ before.w
    w = carried + s_w * rate
    dw = R.T @ before.dw + ca.cross(carried, s_w) * rate + s_w * a
    moved = ca.cross(carried + w, s_v) * rate + s_v * a
    return LinkMotion(w, dw, R.T @ (before.a + before.spin @ p) + moved, _spin_matrix(w, dw))


def wrench_of(inertia: Inertia, motion: LinkMotion, n: ca.SX, F: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Wrench (moment n about the link's origin, force F) that gives a link its motion, added to another wrench."""
    F = F + inertia.m * motion.a + motion.spin @ inertia.h
    n = n + inertia.I @ motion.dw + _gyroscopic(inertia.I, motion.w) + ca.cross(inertia.h, motion.a)
    return n, F


def _spin_matrix(w: ca.SX, dw: ca.SX) -> ca.SX:
    """Matrix K (3, 3) with K r = dw x r + w x (w x r), for the angular velocity w and the angular acceleration dw.

    K r is the acceleration of a link's point at the position r, minus the acceleration of the link's origin.
    """
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return ca.vertcat(
        ca.horzcat(-yy - zz, xy - dw[2], xz + dw[1]),
        ca.horzcat(xy + dw[2], -xx - zz, yz - dw[0]),
        ca.horzcat(xz - dw[1], yz + dw[0], -xx - yy),
    )


def _gyroscopic(I: ca.SX, w: ca.SX) -> ca.SX:
    """Gyroscopic moment w x I w (3,) of the inertia matrix I at the angular velocity w.

    The moment is computed from the products w_i w_j, which `_spin_matrix` contains too.
    """
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return ca.vertcat(
        (I[2, 2] - I[1, 1]) * yz + I[1, 2] * (yy - zz) + I[0, 2] * xy - I[0, 1] * xz,
        (I[0, 0] - I[2, 2]) * xz + I[0, 2] * (zz - xx) + I[0, 1] * yz - I[1, 2] * xy,
        (I[1, 1] - I[0, 0]) * xy + I[0, 1] * (xx - yy) + I[1, 2] * xz - I[0, 2] * yz,
    )


def composite_inertias(tree: Tree, symbols: Symbols) -> Composites:
    """Mass matrix M (n_q, n_q) in joint coordinates. [Featherstone2008, table 6.2]

    Entries that couple links of different branches are structural zeros.
    """
    links, composite, border = tree.links, list(tree.inertias), Border(tree.links, symbols.lifted)
    M, wrenches = ca.SX(len(links), len(links)), dict[tuple[int, int], tuple[ca.SX, ca.SX]]()
    for j in reversed(range(len(links))):
        link = links[j]
        if link.parent >= 0:
            composite[link.parent] = composite[link.parent].plus(border.inertia(j, composite[j]))
        n, F = composite[j].times(link.s_w, link.s_v)
        M[j, j] = ca.dot(link.s_w, n) + ca.dot(link.s_v, F)
        i, wrenches[j, j] = j, (n, F)
        while links[i].parent >= 0:
            n, F = border.wrench(i, n, F)
            i = links[i].parent
            wrenches[i, j] = n, F
            M[i, j] = M[j, i] = ca.dot(links[i].s_w, n) + ca.dot(links[i].s_v, F)
    border.close()
    return Composites(M, composite, wrenches)

"""Joint coordinates: recursive Newton-Euler for efforts and wrenches, composite bodies for M, constants folded.

[Featherstone2008, ch. 5 and 6], written with 3-vectors in each link's own frame; Newton-Euler in its classical form,
which carries accelerations of points and no linear velocities. [LuhWalkerPaul1980]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import casadi as ca

from sim_core.derivation.absolute import inertia_matrix
from sim_core.derivation.symbols import Motion, Symbols, symbols_for
from sim_core.derivation.tree import Link, Mounted, Tree, coordinate_names, frames_of, tree_of
from sim_core.mechanism import Mechanism


def derive(mechanism: Mechanism) -> tuple[Symbols, Motion]:
    """Symbols, frames, M and f of a tree in joint coordinates, and its inverse dynamics."""
    names = coordinate_names(mechanism)
    symbols = symbols_for(mechanism, len(names))
    tree = tree_of(mechanism, symbols)

    def inertial(a: ca.SX) -> ca.SX:
        return newton_euler(tree, mechanism, symbols, a)

    f = -inertial(ca.SX(len(names), 1))
    return symbols, Motion(names, frames_of(tree, symbols), _composite_inertia(tree.links, symbols), f, inertial)


@dataclass
class _Inertia:
    """Mass, first moment and inertia about the frame's origin."""

    m: ca.SX
    h: ca.SX
    I: ca.SX

    def times(self, w: ca.SX, v: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Moment about the origin and force: the inertia applied to a spatial motion vector."""
        return self.I @ w + ca.cross(self.h, v), self.m * v - ca.cross(self.h, w)

    def seen_from(self, p: ca.SX, R: ca.SX) -> _Inertia:
        """The same inertia in a frame from which this one has pose p, R."""
        h = R @ self.h
        turned = R @ self.I
        outer = h @ p.T
        reach = ca.dot(2 * h + self.m * p, p)
        moved = ca.SX(3, 3)
        for i in range(3):
            for j in range(i + 1):
                entry = ca.dot(turned[i, :].T, R[j, :].T) - outer[i, j] - outer[j, i] - self.m * p[i] * p[j]
                moved[i, j] = moved[j, i] = entry + reach if i == j else entry
        return _Inertia(self.m, h + self.m * p, moved)

    def plus(self, other: _Inertia) -> _Inertia:
        """Both together."""
        return _Inertia(self.m + other.m, self.h + other.h, self.I + other.I)


def _inertia_of_body(mounted: Mounted, symbols: Symbols) -> _Inertia:
    mass, c = ca.SX(symbols.number(mounted.body.mass)), ca.DM(mounted.body.center_of_mass)
    offset = ca.skew(c)
    alone = _Inertia(mass, mass * c, inertia_matrix(mounted.body, symbols) - mass * (offset @ offset))
    return alone.seen_from(ca.SX(mounted.p), ca.SX(mounted.R))


def _inertia_of(link: Link, symbols: Symbols) -> _Inertia:
    nothing = _Inertia(ca.SX(0), ca.SX(3, 1), ca.SX(3, 3))
    bodies = [_inertia_of_body(mounted, symbols) for mounted in link.mounted]
    return reduce(_Inertia.plus, bodies[1:], bodies[0]) if bodies else nothing


def newton_euler(tree: Tree, mechanism: Mechanism, symbols: Symbols, a: ca.SX) -> ca.SX:
    """Joint efforts (n_q,) that give accelerations a (n_q,) against gravity alone. [LuhWalkerPaul1980]"""
    links = tree.links
    wrenches = _wrenches(links, mechanism, symbols, a)
    return ca.vertcat(
        *[ca.dot(link.s_w, n) + ca.dot(link.s_v, F) for link, (n, F) in zip(links, wrenches, strict=True)]
    )


def _wrenches(links: list[Link], mechanism: Mechanism, symbols: Symbols, a: ca.SX) -> list[tuple[ca.SX, ca.SX]]:
    """Moment about the link's origin and force that the link before exerts on each link, in the link's frame."""
    zero = ca.SX(3, 1)
    # angular velocity, angular acceleration, acceleration of the origin less gravity
    ground = (zero, zero, ca.SX(-ca.DM(mechanism.gravity)))
    motions: list[tuple[ca.SX, ca.SX, ca.SX]] = []
    spins: list[ca.SX] = []
    for index, link in enumerate(links):
        w_P, dw_P, a_P = motions[link.parent] if link.parent >= 0 else ground
        spin_P = spins[link.parent] if link.parent >= 0 else ca.SX(3, 3)
        rate = symbols.v[index]
        carried = link.R.T @ w_P
        w = carried + link.s_w * rate
        dw = link.R.T @ dw_P + ca.cross(carried, link.s_w) * rate + link.s_w * a[index]
        moved = ca.cross(carried + w, link.s_v) * rate + link.s_v * a[index]
        motions.append((w, dw, link.R.T @ (a_P + spin_P @ link.p) + moved))
        spins.append(_spin_matrix(w, dw))
    found = [(zero, zero) for _ in links]
    for index in reversed(range(len(links))):
        link, (w, dw, a_O) = links[index], motions[index]
        inertia = _inertia_of(link, symbols)
        F = found[index][1] + inertia.m * a_O + spins[index] @ inertia.h
        n = found[index][0] + inertia.I @ dw + _gyroscopic(inertia.I, w) + ca.cross(inertia.h, a_O)
        found[index] = (n, F)
        if link.parent >= 0:
            n_P, F_P = found[link.parent]
            F_up = link.R @ F
            found[link.parent] = (n_P + link.R @ n + ca.cross(link.p, F_up), F_P + F_up)
    return found


def _spin_matrix(w: ca.SX, dw: ca.SX) -> ca.SX:
    """K with K r = dw x r + w x (w x r): the acceleration of a point fixed at r."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return ca.vertcat(
        ca.horzcat(-yy - zz, xy - dw[2], xz + dw[1]),
        ca.horzcat(xy + dw[2], -xx - zz, yz - dw[0]),
        ca.horzcat(xz - dw[1], yz + dw[0], -xx - yy),
    )


def _gyroscopic(I: ca.SX, w: ca.SX) -> ca.SX:
    """w x I w by the products of w that the spin matrix has anyway."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return ca.vertcat(
        (I[2, 2] - I[1, 1]) * yz + I[1, 2] * (yy - zz) + I[0, 2] * xy - I[0, 1] * xz,
        (I[0, 0] - I[2, 2]) * xz + I[0, 2] * (zz - xx) + I[0, 1] * yz - I[1, 2] * xy,
        (I[1, 1] - I[0, 0]) * xy + I[0, 1] * (xx - yy) + I[1, 2] * xz - I[0, 2] * yz,
    )


def _composite_inertia(links: list[Link], symbols: Symbols) -> ca.SX:
    """The joint-space inertia M, [Featherstone2008, table 6.2]; entries between branches stay structural zeros."""
    composite = [_inertia_of(link, symbols) for link in links]
    M = ca.SX(len(links), len(links))
    for j in reversed(range(len(links))):
        link = links[j]
        if link.parent >= 0:
            composite[link.parent] = composite[link.parent].plus(composite[j].seen_from(link.p, link.R))
        n, F = composite[j].times(link.s_w, link.s_v)
        M[j, j] = ca.dot(link.s_w, n) + ca.dot(link.s_v, F)
        i = j
        while links[i].parent >= 0:
            F = links[i].R @ F
            n = links[i].R @ n + ca.cross(links[i].p, F)
            i = links[i].parent
            M[i, j] = M[j, i] = ca.dot(links[i].s_w, n) + ca.dot(links[i].s_v, F)
    return M

"""Derivatives of the inverse dynamics of a tree by position and velocity, by one recursion in the links' frames.

The formulas are those of [SinghRussellWensing2022] for joints of one degree of freedom. For the links i and j, j the
same as i or after it, with the axis S of a link as a motion vector, its velocity V and acceleration A,

    S' = V x S,   S'' = A x S + V x S'
    dtau_i/dq_j = S_i . (2 B_j S'_j + I_j S''_j + S_j x* f_j)     dtau_j/dq_i = (2 B_j' S_j) . S'_i + (I_j S_j) . S''_i
    dtau_i/dv_j = S_i . (2 B_j S_j + 2 I_j S'_j)                  dtau_j/dv_i = (2 B_j' S_j) . S_i + 2 (I_j S_j) . S'_i

I_j, B_j and f_j are the inertia, the velocity terms and the wrench of link j with all links after it; A is the
acceleration of the link, minus gravity. In matrix form, 2 B = [[G, 0], [-2 P x, 0]], with the momentum P of the
links, so that 2 B is a matrix G (3, 3) and a vector, and 2 B' S is a moment without force.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.coordinates.recursive import Border, Recursion
from sim_core.derivation.coordinates.tree import Link
from sim_core.derivation.symbols import Lifted, Symbols

Pair = tuple[ca.SX, ca.SX]  # motion vector (angular, linear) or wrench (moment, force)


@dataclass(frozen=True)
class _Moving:
    """Motion vectors of a link in its frame: its velocity, S' and S''."""

    velocity: Pair
    rate: Pair
    rate_of_rate: Pair


def inverse_dynamics_derivatives(recursion: Recursion, symbols: Symbols, a: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Derivatives (n, n) by q and by v of the joint efforts that produce the accelerations a (n,) of a tree's links."""
    links, wrenches_of_M = recursion.tree.links, recursion.composites.wrenches
    border = Border(links, symbols.lifted)
    moving, wrenches = _moving_links(recursion, symbols, a, border)
    terms = _velocity_terms(recursion, moving, border)
    by_q, by_v = ca.SX(len(links), len(links)), ca.SX(len(links), len(links))
    for j in reversed(range(len(links))):
        S, inertia = (links[j].s_w, links[j].s_v), recursion.composites.inertias[j]
        rate, rate_of_rate = moving[j].rate, moving[j].rate_of_rate
        G, P = terms[j]
        of_q = _sum(_sum((G @ rate[0], ca.cross(rate[0], P)), inertia.times(*rate_of_rate)), _turned(S, wrenches[j]))
        once = inertia.times(*rate)
        of_v = _sum((G @ S[0], ca.cross(S[0], P)), (2 * once[0], 2 * once[1]))
        moment = G.T @ S[0] + ca.cross(P, S[1])
        if not recursion.tree.twins:  # otherwise the lanes are twin branches
            of_q, of_v = _side_by_side(of_q, of_v, symbols.lifted)
        i = j
        while True:
            S_i, at = (links[i].s_w, links[i].s_v), moving[i]
            by_q[i, j], by_v[i, j] = _dot(S_i, of_q), _dot(S_i, of_v)
            if i != j:
                unit = wrenches_of_M[i, j]
                by_q[j, i] = ca.dot(moment, at.rate[0]) + _dot(unit, at.rate_of_rate)
                by_v[j, i] = ca.dot(moment, S_i[0]) + 2 * _dot(unit, at.rate)
            if links[i].parent < 0:
                break
            of_q, of_v = border.wrench(i, *of_q), border.wrench(i, *of_v)
            moment = border.moment(i, moment)
            i = links[i].parent
    border.close()
    return by_q, by_v


def _moving_links(recursion: Recursion, symbols: Symbols, a: ca.SX, border: Border) -> tuple[list[_Moving], list[Pair]]:
    """Motion of each link, and the wrench on it with all links after it, for the accelerations a (n,)."""
    links, drift, zero = recursion.tree.links, recursion.drift, ca.SX(3, 1)
    found = list[_Moving]()
    velocities, added = list[Pair](), list[Pair]()  # added: accelerations (angular, of the origin) that a adds
    for index, link in enumerate(links):
        parent, S, v = link.parent, (link.s_w, link.s_v), symbols.v[index]
        velocity = velocities[parent] if parent >= 0 else (zero, zero)
        more = added[parent] if parent >= 0 else (zero, zero)
        V = _carried(border, index, link, velocity)
        more = _carried(border, index, link, more)
        V = _sum(V, _times(S, v))
        more = _sum(more, _times(S, a[index]))
        velocities.append(V)
        added.append(more)
        rate = _crossed(V, S)
        moved = drift.motions[index]
        A = moved.dw + more[0], moved.a + more[1] - ca.cross(moved.w, V[1])
        found.append(_Moving(V, rate, _sum(_crossed(A, S), _crossed(V, rate))))
    return found, _wrenches(recursion, added, border)


def _wrenches(recursion: Recursion, added: list[Pair], border: Border) -> list[Pair]:
    """Wrench on each link with all links after it: that without accelerations, and that of the added accelerations."""
    links, zero = recursion.tree.links, ca.SX(3, 1)
    more = [(zero, zero) for _ in links]
    for index in reversed(range(len(links))):
        more[index] = _sum(more[index], recursion.tree.inertias[index].times(*added[index]))
        if (parent := links[index].parent) >= 0:
            more[parent] = _sum(more[parent], border.wrench(index, *more[index]))
    return [_sum(before, after) for before, after in zip(recursion.drift.wrenches, more, strict=True)]


def _velocity_terms(recursion: Recursion, moving: list[_Moving], border: Border) -> list[tuple[ca.SX, ca.SX]]:
    """(G (3, 3), 2 P (3,)) of 2 B of each link with all links after it."""
    links = recursion.tree.links
    found = list[tuple[ca.SX, ca.SX]]()
    for inertia, link in zip(recursion.tree.inertias, moving, strict=True):
        w, u = link.velocity
        turning = ca.skew(w)
        G = 2 * turning @ inertia.I - ca.trace(inertia.I) * turning - 2 * ca.skew(inertia.h) @ ca.skew(u)
        found.append((G, 2 * (inertia.m * u + ca.cross(w, inertia.h))))
    for index in reversed(range(len(links))):
        if (parent := links[index].parent) >= 0:
            G, P = border.velocity_terms(index, *found[index])
            found[parent] = found[parent][0] + G, found[parent][1] + P
    return found


def _side_by_side(a: Pair, b: Pair, lifted: Lifted) -> tuple[Pair, Pair]:
    """Two wrenches whose corresponding entries are lifted as twins, so that vectors of two lanes transform them."""
    found = [lifted.side_by_side(x, y) for x, y in zip(a, b, strict=True)]
    (n_a, n_b), (F_a, F_b) = found
    return (n_a, F_a), (n_b, F_b)


def _carried(border: Border, index: int, link: Link, motion: Pair) -> Pair:
    """A motion vector of the parent link, in the frame of the link."""
    w, u = motion
    if link.twin < 0:
        return link.R.T @ w, link.R.T @ (u + ca.cross(w, link.p))
    w, u = border.turned(index, w, u + ca.cross(w, link.p_PJ))
    return link.R_JL.T @ w, link.R_JL.T @ (u + ca.cross(w, link.p_JL))


def _sum(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _times(a: Pair, factor: ca.SX) -> Pair:
    return a[0] * factor, a[1] * factor


def _dot(a: Pair, b: Pair) -> ca.SX:
    return ca.dot(a[0], b[0]) + ca.dot(a[1], b[1])


def _crossed(a: Pair, b: Pair) -> Pair:
    """Product a x b of motion vectors."""
    return ca.cross(a[0], b[0]), ca.cross(a[0], b[1]) + ca.cross(a[1], b[0])


def _turned(a: Pair, f: Pair) -> Pair:
    """Product a x* f of a motion vector and a wrench."""
    return ca.cross(a[0], f[0]) + ca.cross(a[1], f[1]), ca.cross(a[0], f[1])

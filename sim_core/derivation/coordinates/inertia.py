"""Bodies fixed to a link, and the inertia of all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import casadi as ca

from sim_core.derivation.coordinates.absolute import inertia_matrix
from sim_core.derivation.symbols import Symbols
from sim_core.mechanism.description import Body


@dataclass(frozen=True)
class Mounted:
    """A body fixed to a link: the body, its position p (3,), m, and its rotation R (3, 3) in the link's frame.

    Both are constant. R is the rotation matrix from the body's axes to the link's axes.
    """

    body: Body
    p: ca.DM
    R: ca.DM


@dataclass
class Inertia:
    """Inertia of a link: mass m, first moment of mass h, and inertia I about the origin of the link's frame."""

    m: ca.SX
    h: ca.SX
    I: ca.SX

    def times(self, w: ca.SX, v: ca.SX) -> tuple[ca.SX, ca.SX]:
        """(moment about the frame's origin, force), (3,) each: the spatial inertia times the motion vector (w, v).

        w, v  angular part and linear part (3,) of the motion vector
        """
        return self.I @ w + ca.cross(self.h, v), self.m * v - ca.cross(self.h, w)

    def expressed_in(self, p: ca.SX, R: ca.SX) -> Inertia:
        """The same inertia expressed in a new frame.

        p, R  position and rotation of the present frame in the new frame
        """
        h = R @ self.h
        turned = R @ self.I
        outer = h @ p.T
        reach = ca.dot(2 * h + self.m * p, p)
        moved = ca.SX(3, 3)
        for i in range(3):
            for j in range(i + 1):
                entry = ca.dot(turned[i, :].T, R[j, :].T) - outer[i, j] - outer[j, i] - self.m * p[i] * p[j]
                moved[i, j] = moved[j, i] = entry + reach if i == j else entry
        return Inertia(self.m, h + self.m * p, moved)

    def translated(self, p: ca.SX) -> Inertia:
        """The same inertia expressed in a new frame with parallel axes.

        p  position of the present frame's origin in the new frame
        """
        outer = self.h @ p.T
        shift = (2 * ca.dot(self.h, p) + self.m * ca.dot(p, p)) * ca.SX.eye(3)
        moved = self.I + shift - outer - outer.T - self.m * (p @ p.T)
        return Inertia(self.m, self.h + self.m * p, moved)

    def plus(self, other: Inertia) -> Inertia:
        """Sum of two inertias in the same frame."""
        return Inertia(self.m + other.m, self.h + other.h, self.I + other.I)


def _inertia_of_body(mounted: Mounted, symbols: Symbols) -> Inertia:
    mass, c = ca.SX(symbols.number(mounted.body.mass)), ca.DM(mounted.body.center_of_mass)
    offset = ca.skew(c)
    alone = Inertia(mass, mass * c, inertia_matrix(mounted.body, symbols) - mass * (offset @ offset))
    return alone.expressed_in(ca.SX(mounted.p), ca.SX(mounted.R))


def inertia_of(mounted: Iterable[Mounted], symbols: Symbols) -> Inertia:
    """Inertia of the bodies of one link about the origin of the link's frame; zero without bodies."""
    nothing = Inertia(ca.SX(0), ca.SX(3, 1), ca.SX(3, 3))
    bodies = [_inertia_of_body(each, symbols) for each in mounted]
    return reduce(Inertia.plus, bodies[1:], bodies[0]) if bodies else nothing

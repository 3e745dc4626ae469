"""Articulated-body inertias: the inertia of a link together with all links that hang on it. [Featherstone2008, ch. 7]

The equations M x = r of a tree are solved in two passes, in O(n) operations. The inward pass eliminates one joint after
the other, from the last link to the first. The outward pass computes the accelerations x.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.coordinates.inertia import Inertia

Wrench = tuple[ca.SX, ca.SX]  # moment about the link's origin, force; (3,) each


@dataclass(frozen=True)
class Articulated:
    """Articulated-body inertia of a link: symmetric matrices A, C and a matrix B, (3, 3) each.

    At the angular acceleration dw and the acceleration a of its origin, the link needs the moment A dw + B a and the
    force B' dw + C a.
    """

    A: ca.SX
    B: ca.SX
    C: ca.SX

    @staticmethod
    def of(inertia: Inertia) -> Articulated:
        """Articulated-body inertia of a link on which no other link hangs."""
        return Articulated(inertia.I, ca.skew(inertia.h), inertia.m * ca.SX.eye(3))

    def times(self, w: ca.SX, v: ca.SX) -> Wrench:
        """(moment, force) at the angular acceleration w and the acceleration v."""
        return self.A @ w + self.B @ v, self.B.T @ w + self.C @ v

    def without(self, U: Wrench, inverse: ca.SX) -> Articulated:
        """Articulated-body inertia as felt through the link's joint.

        U        product of the articulated-body inertia with the joint's axis, about the origin of this object
        inverse  reciprocal 1 / D of the joint's inertia D
        """
        n, F = U
        over = n * inverse, F * inverse
        return Articulated(self.A - over[0] @ n.T, self.B - over[0] @ F.T, self.C - over[1] @ F.T)

    def moved(self, r: ca.SX) -> Articulated:
        """The same inertia about another origin; r (3,) points from there to the present origin, axes are parallel."""
        across = ca.skew(r)
        X, Y = self.B @ across, ca.horzcat(*[ca.cross(r, self.C[:, k]) for k in range(3)])
        return Articulated(self.A - X - X.T - Y @ across, self.B + Y, self.C)

    def plus(self, other: Articulated) -> Articulated:
        """Sum of two articulated-body inertias about the same origin."""
        return Articulated(self.A + other.A, self.B + other.B, self.C + other.C)

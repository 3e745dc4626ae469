"""Coordinate partitioning in closed form, for one point that slides on a beam.

The constraint of the contact is Phi = w - p = 0, where w is the deflection of the beam at the point, and p the
transverse position of the point. It determines one coordinate d of the bodies from all others. The Lagrange multiplier
of this constraint and the acceleration of d are eliminated. The bodies' other n_u coordinates u and the beam's n_c
coordinates c remain:

    M11 u'' + M12 c'' = f1      M12 = b1 N           M22 = M_c + alpha N' N
    M21 u'' + M22 c'' = f2      M21 = N' b2'

N (1, n_c) are the shape functions of the beam at the contact, and M_c is the mass matrix of the beam. The vectors b1,
b2 (n_u,) and the number alpha follow from the elimination. The equations are [Lipinski2023, eqs. 24-31] with two
differences. First, the paper computes the multiplier from the equations of u. Here it is computed from the equation of
motion of d, in which the factor of the multiplier is a number that can be inverted. Second, the direction J_b of the
contact force equals the Jacobian row of the constraint, because a force without friction acts perpendicular to the
deflected beam. The force in eq. 23 of the paper is vertical and does not conserve energy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import casadi as ca

from sim_core.derivation.constraints import Rows
from sim_core.derivation.solving.constrained import ConstrainedFactor, factorize_constrained
from sim_core.derivation.solving.elimination import Factor, dense, entries_of, factorize, sparse
from sim_core.derivation.symbols import Symbols
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.description import Mechanism


@dataclass(frozen=True)
class PartitionedFactor:
    """Factorization of the mass matrix [M11 M12; M21 M22] of a beam contact without the dependent coordinate.

    The first block row belongs to the n_u remaining coordinates of the bodies, the second to the n_c coordinates of the
    beam. A solution takes a banded or diagonal solve with the constant mass matrix M_c of the beam and a small dense
    solve.

    mass    factor of the beam's mass matrix M_c
    N       shape functions (n_c,) of the beam at the contact
    y       M_c^-1 N' (n_c,)
    b1, b2  vectors (n_u,) in M12 = b1 N and M21 = N' b2'
    alpha   number in M22 = M_c + alpha N' N
    small   LU factors of the Schur complement (n_u, n_u) for the bodies' coordinates u
    """

    mass: Factor
    N: ca.SX
    y: ca.SX
    b1: ca.SX
    b2: ca.SX
    alpha: ca.SX
    small: ca.SX

    def parts(self) -> ca.SX:
        """All numbers that `solve` needs, except those of the constant factor `mass`, as one column.

        `with_parts` makes a factor from such a column.
        """
        return ca.vertcat(self.N, self.y, self.b1, self.b2, self.alpha, ca.vec(self.small))

    def pivots(self) -> tuple[int, int]:
        """(0, 0), an empty range of indices, because there are no constraint rows and thus no pivots of such rows."""
        return 0, 0

    def pivot_rows(self) -> list[int]:
        """An empty list, because there are no constraint rows."""
        return []

    def with_parts(self, parts: ca.SX) -> PartitionedFactor:
        """A factor of the same structure, with the numbers in a column `parts` that the method `parts` returned."""
        n_c, n_u = self.N.numel(), self.b1.numel()
        ends = [n_c, 2 * n_c, 2 * n_c + n_u, 2 * n_c + 2 * n_u, 2 * n_c + 2 * n_u + 1]
        pieces = ca.vertsplit(parts[: ends[-1] + n_u * n_u], [0, *ends, ends[-1] + n_u * n_u])
        N, y, b1, b2, alpha, small = pieces
        return PartitionedFactor(self.mass, N, y, b1, b2, alpha, ca.reshape(small, n_u, n_u))

    def times(self, M11: ca.SX, M_c: ca.SX, a: ca.SX) -> ca.SX:
        """Product of the mass matrix [M11 M12; M21 M22] and the vector a (n_u + n_c,), without forming M22.

        M22 = M_c + alpha N' N is dense, while the mass matrix M_c of the beam is banded or diagonal.
        """
        n_u = self.b1.numel()
        along = ca.dot(self.N, a[n_u:])
        below = M_c @ a[n_u:] + self.N * (ca.dot(self.b2, a[:n_u]) + self.alpha * along)
        return ca.vertcat(M11 @ a[:n_u] + self.b1 * along, below)

    def solve(self, r1: ca.SX, r2: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Solution x (n_u + n_c,) for the right-hand side r1, and an empty y, because there are no constraint rows."""
        n_u, n_c = self.b1.numel(), self.N.numel()
        g = _solve_mass(self.mass, r1[n_u:], n_c)
        t, s = ca.dot(self.N, g), ca.dot(self.N, self.y)
        whole = 1 + self.alpha * s
        u = _solve_small(self.small, r1[:n_u] - self.b1 * (t / whole))
        push = ca.dot(self.b2, u)
        along = (t - s * push) / whole
        return ca.vertcat(u, g - self.y * (push + self.alpha * along)), ca.SX(0, 1)


def _solve_mass(mass: Factor, b: ca.SX, n: int) -> ca.SX:
    return dense(mass.backward(mass.forward(sparse(b))), n)


def _triangles(A: ca.SX) -> ca.SX:
    """LU factors of A without pivoting, in one matrix: L (unit diagonal) below the diagonal, U on and above it."""
    n, work = A.shape[0], ca.densify(ca.SX(A))
    for k in range(n):
        for i in range(k + 1, n):
            work[i, k] = work[i, k] / work[k, k]
            for j in range(k + 1, n):
                work[i, j] = work[i, j] - work[i, k] * work[k, j]
    return work


def _solve_small(triangles: ca.SX, b: ca.SX) -> ca.SX:
    n, x = triangles.shape[0], ca.densify(ca.SX(b))
    for i in range(n):
        for j in range(i):
            x[i] -= triangles[i, j] * x[j]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] -= triangles[i, j] * x[j]
        x[i] = x[i] / triangles[i, i]
    return x


@dataclass(frozen=True)
class Partition:
    """The equations M a = f of the coordinates that remain after the dependent coordinate is eliminated.

    rewrite     function that rewrites an expression of all coordinates in terms of the remaining ones
    least_norm  factor of the identity, for least-norm solutions
    times       function of the accelerations a that returns M a
    lam         Lagrange multiplier of the contact
    relaxed     function of a matrix W that returns the factor of M + W, where only the entries of W for the beam's
                coordinates are added
    """

    symbols: Symbols
    coordinate_names: tuple[str, ...]
    rewrite: Callable[[ca.SX], ca.SX]
    M: ca.SX
    f: ca.SX
    factor: PartitionedFactor
    least_norm: ConstrainedFactor
    times: Callable[[ca.SX], ca.SX]
    lam: ca.SX
    relaxed: Callable[[ca.SX], PartitionedFactor]


def partition(
    mechanism: Mechanism, names: tuple[str, ...], symbols: Symbols, M: ca.SX, f: ca.SX, rows: Rows
) -> Partition:
    """Reduce M a + J' lam = f, J a = gamma, with a beam contact as the only constraint, to independent coordinates.

    Raises InvalidMechanism if the contact's row cannot be solved for its `dependent` coordinate.
    """
    contact = next(c for c in mechanism.constraints if isinstance(c, BeamContact))
    d, first = names.index(contact.dependent), len(names) - sum(beam.n_coordinates for beam in mechanism.beams)
    u, c = [i for i in range(first) if i != d], list(range(first, len(names)))
    Phi, J = rows.Phi, rows.J
    if not J[0, d].is_constant() or J[0, d].is_zero():
        raise InvalidMechanism(
            f"mechanism {mechanism.name!r}: contact {contact.name!r} cannot be solved for its dependent coordinate "
            f"{contact.dependent!r}; choose a coordinate that moves the point across the beam and not along it"
        )
    printed = mechanism.formulation == "partitioned_as_printed"
    J_b = ca.jacobian(-symbols.contacts[contact.name][0].across, symbols.q) if printed else J
    kept = [*u, *c]
    q_d, v_d, J_d = symbols.q[d], symbols.v[d], J[0, d]
    found_q = ca.substitute(-Phi / J_d, q_d, 0)
    found_v = -(J[0, kept] @ symbols.v[kept]) / J_d
    old, new = ca.vertcat(q_d, v_d), ca.vertcat(found_q, found_v)

    def rewrite(expression: ca.SX) -> ca.SX:
        return ca.substitute(expression, old, new)

    blocks = _Blocks(M, f, J, J_b, -rows.gamma, d, u, c)
    M_small, f_small, factor = blocks.reduced()

    def relaxed(W: ca.SX) -> PartitionedFactor:
        stiffened = M + ca.diagcat(ca.SX(first, first), W[len(u) :, len(u) :])
        return replace(blocks, M=stiffened).reduced()[2]

    reduced = replace(symbols, q=symbols.q[kept], v=symbols.v[kept])
    a, _ = factor.solve(f_small, ca.SX(0, 1))
    identity = factorize_constrained(ca.SX.eye(len(kept)), ca.SX(0, len(kept)))
    coordinates = tuple(names[i] for i in kept)

    def times(a: ca.SX) -> ca.SX:
        return factor.times(M_small[: len(u), : len(u)], M[c, c], a)

    lam = blocks.multiplier(a)
    return Partition(reduced, coordinates, rewrite, M_small, f_small, factor, identity, times, lam, relaxed)


@dataclass(frozen=True)
class _Blocks:
    """Equations M a + J_b' lam = f, J a + b = 0 of bodies and a beam with one contact, with the coordinates in three
    groups.

    M    mass matrix (n_q, n_q)
    f    forces (n_q,)
    J    Jacobian row (1, n_q) of the contact's constraint
    J_b  (1, n_q) direction of the contact force in the equations of motion; equal to J except in the formulation
         "partitioned_as_printed"
    b    velocity-dependent part of the second derivative of the constraint
    d    index of the dependent coordinate, which is eliminated
    u    indices of the bodies' other coordinates
    c    indices of the beam's coordinates
    """

    M: ca.SX
    f: ca.SX
    J: ca.SX
    J_b: ca.SX
    b: ca.SX
    d: int
    u: list[int]
    c: list[int]

    def reduced(self) -> tuple[ca.SX, ca.SX, PartitionedFactor]:
        """(mass matrix, forces, factor of the mass matrix) of the equations without the dependent coordinate.

        The equations are [Lipinski2023, eqs. 28-31]. The names u and v of two groups of coordinates are exchanged.
        """
        M, f, d, u, c = self.M, self.f, self.d, self.u, self.c
        J_Ru, J_Rd, N = self.J[0, u], self.J[0, d], ca.densify(self.J[0, c])
        J_bu, J_bd = self.J_b[0, u], self.J_b[0, d]
        turned = J_bu.T / J_bd
        coupling = M[u, d] - turned * M[d, d]
        b1 = ca.densify(-coupling / J_Rd)
        b2 = ca.densify(-(M[d, u] - M[d, d] / J_Rd * J_Ru).T / J_bd)
        alpha = ca.densify(M[d, d] / (J_bd * J_Rd))
        M11 = ca.densify(M[u, u] - turned @ M[d, u] - coupling @ J_Ru / J_Rd)
        f1 = f[u] - turned * f[d] + coupling * self.b / J_Rd
        f2 = f[c] - N.T * (f[d] / J_bd + alpha * self.b)
        whole = ca.blockcat([[M11, b1 @ N], [N.T @ b2.T, M[c, c] + alpha * (N.T @ N)]])
        mass = factorize(entries_of(M[c, c]), len(c))
        y = _solve_mass(mass, N.T, len(c))
        s = ca.dot(N.T, y)
        small = _triangles(M11 - b1 @ b2.T * (s / (1 + alpha * s)))
        return whole, ca.vertcat(f1, f2), PartitionedFactor(mass, N.T, y, b1, b2, alpha, small)

    def multiplier(self, a: ca.SX) -> ca.SX:
        """Lagrange multiplier of the contact, computed from the accelerations `a` of the remaining coordinates.

        The constraint gives the acceleration of the dependent coordinate, and the equation of motion of this coordinate
        gives the multiplier. [Lipinski2023, eqs. 26, 27]

        a  accelerations of the bodies' other coordinates, followed by those of the beam's coordinates
        """
        n_u = len(self.u)
        others = ca.vertcat(*[a[i] for i in range(a.numel())])
        a_d = -(self.J[0, self.u] @ others[:n_u] + self.J[0, self.c] @ others[n_u:] + self.b) / self.J[0, self.d]
        left = self.f[self.d] - self.M[self.d, self.u] @ others[:n_u] - self.M[self.d, self.d] * a_d
        return left / self.J_b[0, self.d]

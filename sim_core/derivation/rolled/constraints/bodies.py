"""The constrained equations of planar bodies in absolute coordinates, as loops over bodies and constraints.

Each body has its own mass matrix (3, 3), so that S = J M^-1 J' has a block for each pair of constraints on a body.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation.rolled.constraints.constrained import Constrained
from sim_core.derivation.rolled.constraints.rows import PULL, Block, RowKind
from sim_core.derivation.rolled.tree.links import N_INERTIA, Links, unpacked
from sim_core.derivation.rolled.tree.steps import At, Steps
from sim_core.kernels.rolled import Sweep
from sim_core.mechanism.description import COORDINATES, Mechanism, Z

_AXES = np.column_stack([*spatial.perpendicular_axes(Z), Z])  # axes of the last link of a body at the angle 0
SIZE = len(COORDINATES["planar"])  # coordinates of a body: x, y, theta
N_INVERSE = 6  # numbers of the inverse of a mass matrix: diagonal, then (0, 2), (1, 2), (0, 1)
ANGLES = 8  # angles whose sines and cosines are computed together
MOST_PUSHED = 4  # constraints of a body whose forces on it are summed in one step


def are_free_planar(mechanism: Mechanism) -> bool:
    """Whether all bodies are planar, in absolute coordinates, and free to move."""
    return mechanism.has_body_coordinates and all(
        body.is_planar and body.free_coordinates == COORDINATES["planar"] for body in mechanism.bodies
    )


@dataclass(frozen=True)
class _Entries:
    """Rows of the Jacobian (n, 3) of a constraint along the coordinates of one body.

    values  the entries that are not constant; places: their places, column by column; constant: all others
    """

    values: ca.SX
    places: list[int]
    constant: ca.DM

    @staticmethod
    def of(J: ca.SX) -> _Entries:
        columns = ca.vec(ca.densify(J))
        places = [k for k in range(columns.numel()) if not columns[k].is_constant()]
        constant = [0.0 if k in places else float(columns[k]) for k in range(columns.numel())]
        return _Entries(columns[places] if places else ca.SX(0, 1), places, ca.DM(constant))

    def with_values(self, values: ca.SX) -> ca.SX:
        """The Jacobian (n, 3) with other numbers in place of its values."""
        columns = ca.SX(self.constant)
        for k, place in enumerate(self.places):
            columns[place] = values[k]
        return ca.reshape(columns, columns.numel() // SIZE, SIZE)


@dataclass(frozen=True)
class _Planar:
    """Rows of a constraint between planar bodies.

    entries             rows of the Jacobian along the coordinates of each body
    places              symbols of the coordinates and velocities of each body, and of the sine and cosine of its angle
    Phi, Phidot, gamma  as in RowKind
    """

    entries: list[_Entries]
    places: list[ca.SX]
    Phi: ca.SX
    Phidot: ca.SX
    gamma: ca.SX


class PlanarBodies:
    """Sweeps that solve the equations of planar bodies with constraints; `rows` are their constraint rows.

    factor_parts  {array that is a part of the factor: number of its entries}
    sizes         {intermediate array: number of its entries}
    """

    def __init__(self, mechanism: Mechanism, links: Links, rows: Constrained) -> None:
        self._mechanism, self._links, self._rows, self._n = mechanism, links, rows, len(mechanism.bodies)
        self._kinds: dict[Hashable, _Planar] = {}
        self._entries: list[list[_Entries]] = []
        self._places: list[list[At]] = []
        self._of_bodies: list[list[tuple[int, int]]] = [[] for _ in mechanism.bodies]
        total = 0
        for c, block in enumerate(rows.blocks):
            entries = self._kind(block).entries
            self._entries.append(entries)
            self._places.append([])
            for end, (link, each) in enumerate(zip(block.links, entries, strict=True)):
                self._places[c].append(At("J_bodies", total, max(len(each.places), 1)))
                total += max(len(each.places), 1)
                self._of_bodies[link // SIZE].append((c, end))
        own = ("S", "pivots", "added")
        self.factor_parts = {"M_inverse": N_INVERSE * self._n, "J_bodies": total}
        self.factor_parts |= {name: size for name, size in rows.factor_parts.items() if name in own}
        self.sizes = {"free": SIZE * self._n, "theta_sine": self._n, "theta_cosine": self._n, **self.factor_parts}

    def _kind(self, block: Block) -> _Planar:
        """The rows of a constraint between planar bodies."""
        if block.key not in self._kinds:
            kind = block.kind
            places = [ca.SX.sym("place", 2 * SIZE + 2) for _ in kind.frames]
            old = [*kind.frames, *kind.biases]
            new = [*[_frame(place) for place in places], *[ca.SX.zeros(bias.numel()) for bias in kind.biases]]
            Phi, Phidot, gamma, *pulls = ca.substitute([kind.Phi, kind.Phidot, kind.gamma, *kind.pulls], old, new)
            entries = []
            for pull in pulls:
                columns = ca.reshape(pull, PULL, kind.n_rows).T
                J = ca.horzcat(columns[:, 3], columns[:, 4], columns[:, 2])
                entries.append(_Entries.of(ca.simplify(J)))
            self._kinds[block.key] = _Planar(entries, places, Phi, Phidot, gamma)
        return self._kinds[block.key]

    # -- bodies -------------------------------------------------------------------------------------------------------

    def posture(self) -> list[Sweep]:
        """Sweeps that compute the sines and cosines of the angles of the bodies."""
        steps = Steps("turning")
        for first in range(0, self._n, ANGLES):
            count = min(ANGLES, self._n - first)
            width = count if count == ANGLES else 1
            for k in range(first, first + count, width):
                angles = [At("q", SIZE * (k + i) + 2, 1) for i in range(width)]
                results = [At("theta_sine", k, width), At("theta_cosine", k, width)]
                steps.add(width, angles, results, lambda *q: [ca.sin(ca.vertcat(*q)), ca.cos(ca.vertcat(*q))])
        return steps.sweeps()

    def free(self, tau: bool, forces: bool) -> list[Sweep]:
        """Sweeps that compute the inverse "M_inverse" of the bodies' mass matrices and their accelerations "free".

        The constraints exert no forces yet.

        tau     whether the kernel has generalized forces tau
        forces  whether there are forces in the arrays "wrench" and "effort" of the links
        """
        steps, g = Steps("free"), self._mechanism.gravity
        for b, body in enumerate(self._mechanism.bodies):
            is_central = body.center_of_mass[:2] == (0.0, 0.0)
            link = SIZE * b + 2
            inputs = [At("inertias", N_INERTIA * link, N_INERTIA), At("v", link, 1), *self._turn(b)]
            inputs += [At("tau", SIZE * b, SIZE)] if tau else []
            inputs += [At("wrench", 6 * link, 6), At("effort", SIZE * b, SIZE)] if forces else []
            results = [At("M_inverse", N_INVERSE * b, N_INVERSE), At("free", SIZE * b, SIZE)]
            steps.add(is_central, inputs, results, partial(_free, is_central, g[:2], tau, forces))
        return steps.sweeps()

    def _turn(self, b: int) -> list[At]:
        return [At("theta_sine", b, 1), At("theta_cosine", b, 1)]

    def mass(self, n_q: int) -> list[Sweep]:
        """Sweeps that write the mass matrix "M" (n_q, n_q) of the bodies."""
        steps = Steps("mass")
        for b in range(self._n):
            link = SIZE * b + 2
            columns = [At("M", n_q * (SIZE * b + k) + SIZE * b, SIZE) for k in range(SIZE)]
            inputs = [At("inertias", N_INERTIA * link, N_INERTIA), *self._turn(b)]
            steps.add(0, inputs, columns, _mass)
        return [*self.posture(), *Steps.cleared("M", n_q * n_q), *steps.sweeps()]

    def energy(self) -> list[Sweep]:
        """Sweeps that add the kinetic and potential energies of the bodies to "energy"."""
        steps, total = Steps("energetic"), At("energy", 0, 2)
        for b in range(self._n):
            inputs = [At("inertias", N_INERTIA * (SIZE * b + 2), N_INERTIA), *self._turn(b)]
            inputs += [At("q", SIZE * b, SIZE), At("v", SIZE * b, SIZE), total]
            steps.add(0, inputs, [total], partial(_energy, self._mechanism.gravity[:2]))
        return [*self.posture(), *steps.sweeps()]

    def freed(self, right: str) -> list[Sweep]:
        """Sweep that computes the accelerations "free" from a right-hand side and a known factor."""
        steps = Steps("freed")
        for b in range(self._n):
            inputs = [At("M_inverse", N_INVERSE * b, N_INVERSE), At(right, SIZE * b, SIZE)]
            steps.add(0, inputs, [At("free", SIZE * b, SIZE)], lambda M, f: [_matrix(M) @ f])
        return steps.sweeps()

    # -- rows ---------------------------------------------------------------------------------------------------------

    def factorize(self, given: Sequence[str]) -> list[Sweep]:
        """Sweeps that compute the rows and factorize S; "b" is then J M^-1 f - gamma, plus the array `given`."""
        steps, rows = Steps("joined"), self._rows
        for c, block in enumerate(rows.blocks):
            inputs = [*self._known(c), *[rows.rows(c, each) for each in given]]
            for link in block.links:
                inputs += [At("free", link - 2, SIZE), self._inverse(link // SIZE)]
            results = [*self._places[c], rows.elimination.entry(c, c)[0], rows.rows(c, "b")]
            widths = tuple(self._inverse(link // SIZE).width for link in block.links)
            steps.add((block.key, widths), inputs, results, partial(self._joined, block, len(given)))
        cleared, factor = rows.cleared_matrix(), rows.elimination.factorization
        return [*cleared, *steps.sweeps(), *self._coupled(), *rows.regularized("scales"), *factor]

    def _inverse(self, b: int) -> At:
        is_central = self._mechanism.bodies[b].center_of_mass[:2] == (0.0, 0.0)
        return At("M_inverse", N_INVERSE * b, SIZE if is_central else N_INVERSE)

    def _joined(self, block: Block, n_given: int, *inputs: ca.SX) -> list[ca.SX]:
        kind, own, old = block.kind, self._kind(block), self._symbols(block)
        entries, rest = own.entries, list(inputs[len(old) :])
        b = ca.SX(rest.pop(0)) if n_given else ca.SX.zeros(kind.n_rows)
        S, J_values = ca.SX.zeros(kind.n_rows, kind.n_rows), list[ca.SX]()
        for k in range(len(block.links)):
            free, M = rest[2 * k : 2 * k + 2]
            J = entries[k].with_values(entries[k].values)
            S, b = S + J @ _matrix(M) @ J.T, b + J @ free
            J_values.append(entries[k].values if entries[k].places else ca.SX.zeros(1))
        return list(ca.substitute([*J_values, ca.vec(S), b - own.gamma], old, list(inputs[: len(old)])))

    def _known(self, c: int) -> list[At]:
        """Places of the numbers on which the rows of a constraint depend."""
        found = self._rows.numbers_of(c)
        for link in self._rows.blocks[c].links:
            b = link // SIZE
            found += [At("q", SIZE * b, SIZE), At("v", SIZE * b, SIZE), *self._turn(b)]
        return found

    def _symbols(self, block: Block) -> list[ca.SX]:
        """Symbols of these numbers."""
        kind: RowKind = block.kind
        found = [kind.t, kind.constants, *([kind.flag] if block.flag >= 0 else []), *kind.parameters, *kind.inputs]
        for place in self._kind(block).places:
            found += [place[:SIZE], place[SIZE : 2 * SIZE], place[2 * SIZE], place[2 * SIZE + 1]]
        return found

    def violations(self) -> list[Sweep]:
        """Sweeps that compute the violations "Phi" and their rates "Phidot"."""
        steps, rows = Steps("violated"), self._rows
        for c, block in enumerate(rows.blocks):
            own = self._kind(block)
            results = [*([rows.rows(c, "Phi")] if own.Phi.numel() else []), rows.rows(c, "Phidot")]
            values = [*([own.Phi] if own.Phi.numel() else []), own.Phidot]
            steps.add(block.key, self._known(c), results, partial(self._substituted, block, values))
        return [*self.posture(), *steps.sweeps()]

    def _substituted(self, block: Block, values: Sequence[ca.SX], *known: ca.SX) -> list[ca.SX]:
        return list(ca.substitute(list(values), self._symbols(block), list(known)))

    def residual_of_solution(self) -> list[Sweep]:
        """Sweeps that write the results "missing" and "whole" of the kernel `solve_residual`."""
        steps, rows = Steps("residual"), self._rows
        for c, block in enumerate(rows.blocks):
            inputs = [*self._known(c), rows.rows(c, "correction"), *[At("a", link - 2, SIZE) for link in block.links]]
            results = [rows.rows(c, "left"), rows.rows(c, "whole_rows")]
            steps.add(block.key, inputs, results, partial(self._residual, block))
        return [*self.posture(), *steps.sweeps(), *rows.largest_residual()]

    def _residual(self, block: Block, *inputs: ca.SX) -> list[ca.SX]:
        own, old = self._kind(block), self._symbols(block)
        correction, *accelerations = inputs[len(old) :]
        U = correction * block.kind.flag if block.flag >= 0 else correction
        left, whole = U - own.gamma, ca.fabs(U) + ca.fabs(own.gamma)
        for each, a in zip(own.entries, accelerations, strict=True):
            J = each.with_values(each.values)
            left, whole = left + J @ a, whole + ca.fabs(J) @ (ca.fabs(a) + 1)
        return list(ca.substitute([left, whole], old, list(inputs[: len(old)])))

    def _coupled(self) -> list[Sweep]:
        """Sweep that adds the products of the rows of different constraints on a body to S."""
        steps = Steps("coupled")
        for b, here in enumerate(self._of_bodies):
            for k, first in enumerate(here):
                for second in here[k + 1 :]:
                    if first[0] == second[0]:
                        continue
                    target, turned = self._rows.elimination.entry(first[0], second[0])
                    row, column = (second, first) if turned else (first, second)
                    kinds = self._key(row), self._key(column)
                    M = self._inverse(b)
                    inputs = [self._at(row), self._at(column), M, target]
                    entries = self._of(row), self._of(column)
                    steps.add((kinds, M.width), inputs, [target], partial(_coupled, *entries))
        return steps.sweeps()

    def _key(self, pair: tuple[int, int]) -> Hashable:
        return self._rows.blocks[pair[0]].key, pair[1]

    def _at(self, pair: tuple[int, int]) -> At:
        return self._places[pair[0]][pair[1]]

    def _of(self, pair: tuple[int, int]) -> _Entries:
        return self._entries[pair[0]][pair[1]]

    def right_of_rows(self, r2: str) -> list[Sweep]:
        """Sweeps that compute "b", J M^-1 r1 - r2, with a known factor."""
        begin, steps, rows = Steps("begin_b"), Steps("sum_b"), self._rows
        for c, block in enumerate(rows.blocks):
            begin.add(block.n_rows, [rows.rows(c, r2)], [rows.rows(c, "b")], lambda x: [-x])
            for end, link in enumerate(block.links):
                b = rows.rows(c, "b")
                inputs = [self._at((c, end)), At("free", link - 2, SIZE), b]
                steps.add(self._key((c, end)), inputs, [b], partial(_added, self._of((c, end)), 1.0))
        return [*begin.sweeps(), *steps.sweeps()]

    def missing(self, lam: str) -> list[Sweep]:
        """Sweeps that compute "left", the residual of the rows after the accelerations "x" = "free" - M^-1 J' y.

        The residual is J (x - free) + b, less the multipliers of rows that are switched off.
        """
        change, steps, rows = Steps("changed"), Steps("missing"), self._rows
        for b in range(self._n):
            x, free, dx = (At(array, SIZE * b, SIZE) for array in ("x", "free", "dx"))
            change.add(0, [x, free], [dx], lambda x, free: [x - free])
        begin = rows.begun_left(lam, ("b",), sign=-1.0)
        for c, block in enumerate(rows.blocks):
            for end, link in enumerate(block.links):
                left = rows.rows(c, "left")
                inputs = [self._at((c, end)), At("dx", link - 2, SIZE), left]
                steps.add(self._key((c, end)), inputs, [left], partial(_added, self._of((c, end)), 1.0))
        return [*change.sweeps(), *begin, *steps.sweeps()]

    def pushed(self, lam: str, result: str, begin: str) -> list[Sweep]:
        """Sweep that computes x = begin - M^-1 J' y, for multipliers y; `begin` "" stands for 0."""
        steps = Steps("pushed", in_order=True)
        for b, here in enumerate(self._of_bodies):
            target, before = At(result, SIZE * b, SIZE), begin
            for first in range(0, max(len(here), 1), MOST_PUSHED):
                own = here[first : first + MOST_PUSHED]
                start = [At(before, SIZE * b, SIZE)] if before else []
                inputs = [*start, self._inverse(b)]
                for pair in own:
                    inputs += [self._at(pair), self._rows.rows(pair[0], lam)]
                key = tuple(self._key(pair) for pair in own), bool(start), inputs[len(start)].width
                steps.add(key, inputs, [target], partial(_pushed, [self._of(pair) for pair in own], bool(start)))
                before = result
        return steps.sweeps()


def _frame(place: ca.SX) -> ca.SX:
    """Numbers of the frame of the last link of a planar body, from its coordinates, velocities, sine and cosine."""
    x, y, _, vx, vy, w, s, c = ca.vertsplit(place)
    R = ca.vertcat(ca.horzcat(c, -s, 0), ca.horzcat(s, c, 0), ca.horzcat(0, 0, 1)) @ ca.DM(_AXES)
    return ca.vertcat(x, y, 0, ca.vec(R), 0, 0, w, vx, vy, 0)


def _matrix(M: ca.SX) -> ca.SX:
    """Matrix (3, 3) from its diagonal, or from N_INVERSE numbers."""
    if M.numel() == SIZE:
        return ca.diag(M)
    xx, yy, tt, xt, yt, xy = ca.vertsplit(M)
    return ca.blockcat([[xx, xy, xt], [xy, yy, yt], [xt, yt, tt]])


def _free(
    is_central: bool, gravity: tuple[float, float], tau: bool, forces: bool, numbers: ca.SX, w: ca.SX, s: ca.SX,
    c: ca.SX, *rest: ca.SX
) -> list[ca.SX]:  # fmt: skip
    own = unpacked(numbers)
    others = list(rest)
    h = ca.DM(_AXES) @ own.h
    hx, hy = (ca.SX(0), ca.SX(0)) if is_central else (c * h[0] - s * h[1], s * h[0] + c * h[1])
    m, I = own.m, own.I[2, 2]
    gx, gy = gravity
    f = ca.vertcat(m * gx + w * w * hx, m * gy + w * w * hy, hx * gy - hy * gx)
    if tau:
        f = f + others.pop(0)
    if forces:
        wrench, effort = others
        f = f - ca.vertcat(wrench[3], wrench[4], wrench[2]) + effort
    if is_central:
        M = ca.vertcat(1 / m, 1 / m, 1 / I, 0, 0, 0)
        return [M, M[:3] * f]
    D = I - (hx * hx + hy * hy) / m
    t = 1 / D
    u, v = hy / m, -hx / m
    M = ca.vertcat(1 / m + u * u * t, 1 / m + v * v * t, t, u * t, v * t, u * v * t)
    return [M, _matrix(M) @ f]


def _mass(numbers: ca.SX, s: ca.SX, c: ca.SX) -> list[ca.SX]:
    own = unpacked(numbers)
    h = ca.DM(_AXES) @ own.h
    hx, hy = c * h[0] - s * h[1], s * h[0] + c * h[1]
    return [ca.vertcat(own.m, 0, -hy), ca.vertcat(0, own.m, hx), ca.vertcat(-hy, hx, own.I[2, 2])]


def _energy(gravity: tuple[float, float], numbers: ca.SX, s: ca.SX, c: ca.SX, q: ca.SX, *rest: ca.SX) -> list[ca.SX]:
    v, total = rest
    M = ca.horzcat(*_mass(numbers, s, c))
    m, hx, hy = M[0, 0], M[1, 2], -M[0, 2]
    potential = -gravity[0] * (m * q[0] + hx) - gravity[1] * (m * q[1] + hy)
    return [total + ca.vertcat(0.5 * ca.dot(v, M @ v), potential)]


def _coupled(first: _Entries, second: _Entries, a: ca.SX, b: ca.SX, M: ca.SX, target: ca.SX) -> list[ca.SX]:
    return [target + ca.vec(first.with_values(a) @ _matrix(M) @ second.with_values(b).T)]


def _added(entries: _Entries, sign: float, values: ca.SX, x: ca.SX, b: ca.SX) -> list[ca.SX]:
    return [b + sign * (entries.with_values(values) @ x)]


def _pushed(entries: Sequence[_Entries], has_begin: bool, *inputs: ca.SX) -> list[ca.SX]:
    rest = list(inputs)
    x = ca.SX(rest.pop(0)) if has_begin else ca.SX.zeros(SIZE)
    M, total = rest.pop(0), ca.SX.zeros(SIZE)
    for k, each in enumerate(entries):
        total += each.with_values(rest[2 * k]).T @ rest[2 * k + 1]
    return [x - _matrix(M) @ total]

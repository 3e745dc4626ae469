"""Rolled kernels of the equations of motion and of the constraints.

Articulated bodies solve the equations, in O(n) operations for n links. [Featherstone2008, ch. 7]
The bias forces are those of the recursive Newton-Euler algorithm, so that the articulated-body algorithm only has to
find the accelerations that come in addition to those of motionless joints.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from sim_core.derivation.rolled.constraints.bodies import PlanarBodies
from sim_core.derivation.rolled.shared import USUAL, SharedSweeps
from sim_core.derivation.rolled.tree.steps import Steps
from sim_core.derivation.rolled.tree.sweeps import (
    N_ARTICULATED,
    Kind,
    Slot,
    Step,
    articulated,
    function_of,
    over,
    symbols_of,
)
from sim_core.kernels.rolled import Group, Records, Repeat, RolledKernel, Sweep


class EquationKernels(SharedSweeps):
    """The kernels of the equations of one mechanism."""

    def acceleration(self) -> RolledKernel:
        """Accelerations, multipliers and factor, by articulated bodies."""
        sweeps = self._solution("u", ("target", "correction"))
        return self._kernel((*USUAL, "correction"), ("x", "lam", "factor"), sweeps, factor=True)

    def forward_dynamics(self) -> RolledKernel:
        """Accelerations and multipliers under generalized forces tau."""
        return self._kernel(("t", "q", "v", "tau", "p"), ("x", "lam"), self._solution("tau", ("target",)))

    def apply(self) -> RolledKernel:
        """Solution x of M x = r1 with a known factor."""
        if self.bodies is not None:
            known = [*self.bodies.freed("r1"), *self.bodies.right_of_rows("r2")]
            sweeps = [
                *known,
                *self._accelerated_bodies(self.bodies, "y", anew=False),
                *self._states("x", "r1", lambda rate, right: right, with_rates=False),
            ]
            return self._kernel(("factor", "r1", "r2"), ("x", "y"), sweeps, factor=True)
        tree, rotations = self.tree, self.rotations
        copies = [self._copied("r1", "right")] if self.links.oriented else []
        right = "right" if self.links.oriented else "r1"
        sweeps = [
            *copies,
            *rotations.effort_along_rotations(right),
            tree.clear("wrench", 6),
            tree.sweep("solving", lambda kind: tree.solving(kind, right), backward=True),
            tree.ground("ground_gain", {"gain": ca.SX.zeros(6)}),
            *self._accelerated("y", ("r2",), anew=False),
            *rotations.acceleration_of_coordinates("x", with_bias=False),
            *self._states("x", "r1", lambda rate, right: right, with_rates=False),
        ]
        return self._kernel(("factor", "r1", "r2"), ("x", "y"), sweeps, factor=True)

    def inverse_dynamics(self) -> RolledKernel:
        """Joint efforts that produce the accelerations a, by the recursive Newton-Euler algorithm."""
        sweeps = [
            *self._posture(),
            *self._efforts(""),
            *self._driven("a"),
            *self._forces(""),
            self.tree.sweep("loading", self.tree.loading, backward=True),
            *self._armatures("drive"),
            *self.rotations.effort_along_coordinates("needed"),
            over("remaining", self.n, *_difference("needed", "effort", "tau")),
            *self._states("tau", "a", lambda rate, a: a - rate),
        ]
        return self._kernel(("t", "q", "v", "a", "p"), ("tau",), sweeps)

    def terms(self) -> RolledKernel:
        """Mass matrix M and forces f. A column of M is what inverse dynamics needs for a unit acceleration."""
        tree, rotations = self.tree, self.rotations
        zero = {"inertia": ca.SX.zeros(N_ARTICULATED), "gain": ca.SX.zeros(6)}
        one, none = (
            Group(function_of(f"unit_{value}", [], [Slot("unit", ca.SX(value))]), [], [Records("unit", 1, [0], 1)], 1)
            for value in (1, 0)
        )
        needed = ca.SX.sym("needed")
        column = Group(
            function_of("copy_1", [Slot("needed", needed)], [Slot("M", needed)]),
            [Records("needed", 1)],
            [Records("M", 1, None, self.n_q)],
            self.n,
        )
        columns = [
            Sweep.of(one),
            self._copied("unit", "drive"),
            *rotations.velocities("drive"),
            tree.sweep("following", _following),
            tree.sweep("loading", tree.loading, backward=True),
            *self._armatures("drive", with_sequence=False),
            *rotations.effort_along_coordinates("needed"),
            Sweep.of(column),
            Sweep.of(none),
        ]
        sweeps: list[Sweep | Repeat] = [
            *self._posture(),
            *self._efforts("u"),
            tree.ground("ground_dynamics", tree.ground_motion() | zero),
            tree.clear("unit", 1),
            self._copied("unit", "drive"),
            *rotations.accelerations_of_links("drive"),
            tree.sweep("driven_with_inertia", lambda kind: tree.moving(kind, driven=True, with_inertia=True)),
            *self._forces("u"),
            tree.sweep("loading", tree.loading, backward=True),
            *(self._armatures("drive") if self.links.oriented else []),
            *rotations.effort_along_coordinates("needed"),
            over("remaining", self.n, *_difference("effort", "needed", "f")),
            *self._states("f", "", lambda rate, none: rate),
            *self._inertia_of_states(),
            *self._jacobian("u", moving=False),
            *(self.rows.jacobian(self.n_q) if self.rows.blocks else []),
            *([Repeat(columns, self.n)] if self.bodies is None else self.bodies.mass(self.n_q)),
        ]
        if self.bodies is not None:
            sweeps += self._inertia_of_states()
        return self._kernel(USUAL, ("M", "f", "J", "gamma"), sweeps)

    def residual(self) -> RolledKernel:
        """Violations of the constraints and their rates."""
        sweeps = [*self._frames(), *self.rows.violations()] if self.rows.blocks else []
        sweeps = sweeps if self.bodies is None else self.bodies.violations()
        return self._kernel(USUAL, ("Phi", "Phidot"), sweeps)

    def least_norm(self) -> RolledKernel:
        """Vector x of least norm with J x = r2."""
        rows = self.rows
        if not rows.blocks:
            return self.constant((*USUAL, "r2"), {"x": self.n_q})
        sweeps = [
            *self._jacobian("u"),
            *rows.factorize("jac", False, "least_scales"),
            *rows.multipliers("jac", False, "lam", ("r2",), rest=""),
            *Steps.cleared("x", self.n_q),
            *rows.pushed("jac", "lam", "x"),
        ]
        if rows.is_refined(least=True):
            sweeps += [
                *rows.missing_of_coordinates("lam", ("r2",)),
                *rows.refined("lam"),
                *rows.pushed("jac", "dlam", "x"),
            ]
        return self._kernel((*USUAL, "r2"), ("x",), sweeps)

    def solve_residual(self) -> RolledKernel:
        """Residual of the constraint equations, and its scale."""
        inputs = (*USUAL, "correction", "a")
        if not self.rows.blocks:
            return self.constant(inputs, {"missing": 1, "whole": 1})
        if self.bodies is not None:
            return self._kernel(inputs, ("missing", "whole"), self.bodies.residual_of_solution())
        sweeps = [*self._jacobian("u"), *self.rows.residual_of_solution()]
        return self._kernel(inputs, ("missing", "whole"), sweeps)

    @property
    def pivots(self) -> tuple[int, int]:
        """Range of the reciprocal pivots of the constraint rows in a factor."""
        begin = 0
        for name, (width, count) in self.factor_parts.items():
            if name == "pivots" and self.rows.pivot_rows:
                return begin, begin + width * count
            begin += width * count
        return 0, 0

    def _solution(self, given: str, right: Sequence[str]) -> list[Sweep]:
        """Sweeps that solve for accelerations "x" and multipliers "lam".

        right  arrays whose difference is the right-hand side of the constraint rows
        """
        if self.bodies is not None:
            return self._solution_of_bodies(self.bodies, given, right)
        tree, rotations = self.tree, self.rotations
        zero = {"inertia": ca.SX.zeros(N_ARTICULATED), "gain": ca.SX.zeros(6)}
        return [
            *self._posture(),
            *self._efforts(given),
            tree.ground("ground_dynamics", tree.ground_motion() | zero),
            tree.sweep("moving", lambda kind: tree.moving(kind, driven=False, with_inertia=True)),
            *self._forces(given),
            *rotations.effort_along_rotations("effort"),
            *rotations.armatures("effort", -1.0),
            tree.sweep("eliminating", tree.eliminating, backward=True),
            *(self._factorized_rows() if self.rows.blocks else []),
            *self._accelerated("lam", right, anew=True),
            *rotations.acceleration_of_coordinates("x", with_bias=True),
            *self._states("x", "tau" if given == "tau" else "", lambda rate, tau: rate + tau),
        ]

    def _solution_of_bodies(self, bodies: PlanarBodies, given: str, right: Sequence[str]) -> list[Sweep]:
        forces = self._forces(given)
        if forces:
            cleared = [*Steps.cleared("effort", self.n), self.tree.clear("wrench", 6)]
            forces = [*self._posture(), *cleared, *forces]
        return [
            *forces,
            *bodies.posture(),
            *bodies.free(given == "tau", bool(forces)),
            *bodies.factorize(right[1:]),
            *self._accelerated_bodies(bodies, "lam", anew=True),
            *self._states("x", "tau" if given == "tau" else "", lambda rate, tau: rate + tau),
        ]

    def _accelerated_bodies(self, bodies: PlanarBodies, lam: str, anew: bool) -> list[Sweep]:
        rows = self.rows
        found = rows.solved(lam)
        if not anew and rows.is_refined(least=False):
            found += [*rows.small_left(lam), *rows.refined(lam)]
        found += bodies.pushed(lam, "x", "free")
        if anew and rows.is_refined(least=False):
            found += [*bodies.missing(lam), *rows.refined(lam), *bodies.pushed("dlam", "x", "x")]
        return found

    def _factorized_rows(self) -> list[Sweep]:
        rows = self.rows
        return [
            *([] if self._forces_need_frames else self._frames(with_posture=False)),
            *rows.pulls(),
            *rows.passed_inward("along", articulated=True),
            *rows.factorize("along", True, "scales"),
        ]

    def _accelerated(self, lam: str, right: Sequence[str], anew: bool) -> list[Sweep]:
        """Sweeps that compute the multipliers and then the accelerations "x" of the links, from "rest".

        anew  whether the rows at the links are known, so that their residual can be computed
        """
        tree, rows = self.tree, self.rows
        accelerating = tree.sweep("accelerating", tree.accelerating)
        if not rows.blocks:
            return [accelerating]
        found = [*rows.multipliers("along", True, lam, right)]
        if not anew and rows.is_refined(least=False):
            found += [*rows.small_left(lam), *rows.refined(lam)]
        found += [*rows.pushed("along", lam, "rest"), accelerating]
        if anew and rows.is_refined(least=False):
            x, dx = ca.SX.sym("x"), ca.SX.sym("dx")
            found += [
                *rows.missing_of_links(lam, right),
                *rows.refined(lam),
                *Steps.cleared("rest", self.n),
                *rows.pushed("along", "dlam", "rest"),
                self._copied("x", "dx"),
                accelerating,
                over("added_x", self.n, [Slot("x", x), Slot("dx", dx)], [Slot("x", x + dx)]),
            ]
        return found

    def _jacobian(self, given: str, moving: bool = True) -> list[Sweep]:
        """Sweeps that compute the rows of the Jacobian along the coordinates, "jac", and their right-hand sides.

        moving  whether the motion of the links for coordinates without acceleration has to be computed first
        """
        if not self.rows.blocks:
            return []
        sweeps = [
            *self._posture(),
            *self._driven(""),
        ]
        return [
            *(sweeps if moving else []),
            *self._frames(with_posture=False),
            *self.rows.pulls(),
            *self.rows.passed_inward("jac", articulated=False),
            *self.rows.along_coordinates("jac"),
        ]

    def _armatures(self, accelerations: str, with_sequence: bool = True) -> list[Sweep]:
        """Sweeps that add to "needed" what the armatures of the joints need."""
        numbers, needed, a = ca.SX.sym("numbers", 3), ca.SX.sym("needed"), ca.SX.sym("a")
        inputs = [Slot("numbers", numbers), Slot("needed", needed), Slot(accelerations, a)]
        sweeps = [over("armature", self.n, inputs, [Slot("needed", needed + numbers[2] * a)])]
        return sweeps + (self.rotations.armatures("needed") if with_sequence else [])

    def _inertia_of_states(self) -> list[Sweep]:
        """Sweeps that set the mass matrix to zero, but for the inertia 1 of each first-order state."""
        count = self.n_q - self.n
        if not count:
            return []
        zero, one = (function_of(f"set_{value}", [], [Slot("M", ca.SX(value))]) for value in (0, 1))
        diagonal = [k * (self.n_q + 1) for k in range(self.n, self.n_q)]
        return [
            Sweep.of(Group(zero, [], [Records("M", 1)], self.n_q**2)),
            Sweep.of(Group(one, [], [Records("M", 1, diagonal)], count)),
        ]


def _difference(first: str, second: str, result: str) -> Step:
    """Step that subtracts an array from another one."""
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    return [Slot(first, a), Slot(second, b)], [Slot(result, a - b)]


def _following(kind: Kind) -> Step:
    """Step outward: acceleration of a link that comes from accelerations "drive" of the joints, and its wrench."""
    axis, r, before, entries = symbols_of(s=3, r=3, gain=6, I=N_ARTICULATED)
    drive = ca.SX.sym("drive")
    s_w, s_v = kind.parts(axis)
    w, v = before[:3] + s_w * drive, before[3:] + ca.cross(before[:3], r) + s_v * drive
    inputs = [Slot("axis", axis), Slot("reach", r), Slot("inertia", entries), Slot("drive", drive)]
    inputs.append(Slot("gain", before, of_parent=True))
    return inputs, [Slot("gain", ca.vertcat(w, v)), Slot("wrench", ca.vertcat(*articulated(entries).times(w, v)))]

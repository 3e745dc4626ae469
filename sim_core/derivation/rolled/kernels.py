"""Kernels of a tree in joint coordinates as loops over its links ("rolled").

The equations of motion are solved by articulated bodies, in O(n) operations for n links. [Featherstone2008, ch. 7]
The bias forces are those of the recursive Newton-Euler algorithm, so that the articulated-body algorithm only has to
find the accelerations that come in addition to those of motionless joints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

import casadi as ca
import numpy as np

from sim_core.derivation.coordinates import orientations
from sim_core.derivation.guards import captured_numbers, guard_values
from sim_core.derivation.outputs import outputs_of
from sim_core.derivation.rolled.bodies import PlanarBodies, are_free_planar
from sim_core.derivation.rolled.checked_rows import CheckedRows, checked_rows_of
from sim_core.derivation.rolled.constrained import Constrained
from sim_core.derivation.rolled.frames import FRAME
from sim_core.derivation.rolled.links import N_INERTIA, Place, inertias_of, turned, unpacked
from sim_core.derivation.rolled.parts import Parts
from sim_core.derivation.rolled.rotations import Rotations
from sim_core.derivation.rolled.segments import Segments
from sim_core.derivation.rolled.sensors import LinkSensors
from sim_core.derivation.rolled.steps import At, Steps
from sim_core.derivation.rolled.sweeps import (
    N_ARTICULATED,
    Kind,
    Slot,
    Step,
    Tree,
    articulated,
    function_of,
    matrix,
    over,
    symbols_of,
)
from sim_core.derivation.rolled.virtual import Scene
from sim_core.derivation.sensors import Sensors
from sim_core.derivation.solving.solutions import Solution
from sim_core.derivation.symbols import Symbols
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.machine_code import native
from sim_core.kernels.rolled import Group, Records, Repeat, RolledKernel, Sweep, module_of_rolled
from sim_core.mechanism.description import GROUND, Joint, Mechanism
from sim_core.mechanism.quantities import value_of

USUAL = ("t", "q", "v", "u", "p")
FACTOR = {"axis": 3, "reach": 3, "V": 6, "inverse": 1}  # parts of a factor, by numbers per link
CONSTANT = ".constant"  # end of the name of a table's constants if tunables change some of its numbers


@dataclass(frozen=True)
class Rolled:
    """The rolled kernels of a mechanism, the constant tables that they share, and the data of a compiled system."""

    kernels: list[RolledKernel]
    tables: dict[str, np.ndarray]
    facts: dict[str, object]


def derive_rolled(mechanism: Mechanism) -> Rolled:
    """The rolled kernels of a mechanism without obstacles (see kernels/choice.py)."""
    rows = checked_rows_of(mechanism, partial(RowProbe, mechanism))
    maker = _Maker(mechanism, rows)
    first = mechanism.constraint_modes[0].name
    solving = {
        "terms": maker.terms(),
        "acceleration": maker.acceleration(),
        "forward_dynamics": maker.forward_dynamics(),
        "apply": maker.apply(),
        "residual": maker.residual(),
        "least_norm": maker.least_norm(),
        "solve_residual": maker.solve_residual(),
    }
    output_names, outputs = maker.outputs()
    others = {
        "inverse_dynamics": maker.inverse_dynamics(),
        "joints": maker.joints(),
        "wrapping": maker.constant(USUAL, {"angles": 0}),
        "energy": maker.energy(),
        "power": maker.power(),
        "outputs": outputs,
        "poses": maker.poses(),
        "captures": maker.captures(),
        "guards": maker.guards(),
    }
    if mechanism.oriented_joints:
        others["rebase"] = maker.straight(
            orientations.rebased(mechanism, maker.scene.symbols), ("q_out", "v_out", "p_out")
        )
    if mechanism.posed_joints:
        frames = orientations.frames_and_twists(mechanism, maker.scene.symbols)
        others["frames"] = maker.straight(frames, ("poses_out", "twists"))
    kernels = {**{f"{first}.{name}": kernel for name, kernel in solving.items()}, **others}
    for name, kernel in kernels.items():
        kernel.name = name
    facts: dict[str, object] = {
        "coordinate_names": mechanism.coordinate_names,
        "row_names": maker.rows.names,
        "row_lengths": maker.rows.lengths,
        "n_holonomic": maker.rows.n_holonomic,
        "factor_size": sum(width * count for width, count in maker.factor_parts.values()),
        "pivots": maker.pivots,
        "pivot_rows": maker.rows.pivot_rows,
        "wraps": [],
        "output_names": output_names,
        "output_wraps": [],
        "does_work": maker.does_work,
        "idle": rows.still.idle,
        "captured_rows": rows.still.captured_rows,
    }
    return Rolled(list(kernels.values()), maker.tables, facts)


class RowProbe:
    """Numbers of the equations with given rows in any state, by kernels that are compiled for them.

    names  name of the constraint of each row
    """

    def __init__(self, mechanism: Mechanism, rows: CheckedRows) -> None:
        maker = _Maker(mechanism, rows)
        kernels = {"terms": maker.terms(), "residual": maker.residual()}
        for name, kernel in kernels.items():
            kernel.name = name
        self._library = native.linked(module_of_rolled(kernels.values(), maker.tables), [*kernels])
        self._n, self._rows, self._u = maker.n_q, maker.rows, np.zeros(len(mechanism.actuators))
        self.names = maker.rows.names

    def __call__(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Phi (n_h,), J (n_r, n_q), M (n_q, n_q)) at t = 0, without actuator inputs."""
        n, n_rows = self._n, self._rows.n_rows
        M, J = np.zeros((n, n), order="F"), np.zeros((n_rows, n), order="F")
        self._call("terms", q, v, p, [M, np.zeros(n), J, np.zeros(n_rows)])
        return self.residual(q, v, p)[0], J, M

    def residual(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(Phi (n_h,), Phidot (n_r,)) at t = 0, without actuator inputs."""
        found = np.zeros(self._rows.n_holonomic), np.zeros(self._rows.n_rows)
        self._call("residual", q, v, p, [*found])
        return found

    def _call(self, name: str, q: np.ndarray, v: np.ndarray, p: np.ndarray, outputs: list[np.ndarray]) -> None:
        inputs = [np.zeros(1), q.copy(), v.copy(), self._u, p.copy()]
        BoundKernel(self._library.addresses[name], inputs, outputs, self._library)()


class _Maker:
    """Makes the kernels of one mechanism from sweeps over its links.

    scene         forces on bodies and joints
    tables        {name: constant table}
    factor_parts  {array that is a part of the factor: (numbers in a record, number of records)}
    does_work     whether actuators, loads, damping, friction or contacts can change the energy
    """

    def __init__(self, mechanism: Mechanism, rows: CheckedRows) -> None:
        self.mechanism, links = mechanism, rows.links
        self.links, self.tree, self.n = links, Tree(mechanism, links), links.count
        self.segments = Segments(mechanism, links)
        self.rows = Constrained(mechanism, links, self.tree, self.segments, rows.blocks, rows.mass, rows.least)
        self.scene = Scene(mechanism, links, self.segments)
        self.n_q = self.scene.n_q
        self.rotations = Rotations(mechanism, links)
        bodies = [links.places[body.name] for body in mechanism.bodies]
        self._carriers = [self.n if place.link < 0 else place.link for place in bodies]
        self.tables = {
            "poses": links.poses,
            "places": np.array([np.concatenate([place.p, place.R.T.ravel()]) for place in bodies]),
            "fixed": self.rotations.fixed,
            **self.rows.tables,
            **self.segments.tables,
        }
        self._varying: dict[str, dict[int, ca.SX]] = {}
        symbols = self.scene.symbols
        numbers = [_joint_numbers(link.joint, link.is_last, symbols) for link in links.links]
        self._add_table("numbers", numbers)
        self._add_table("inertias", inertias_of(links, symbols))
        self.bodies = PlanarBodies(mechanism, links, self.rows) if are_free_planar(mechanism) else None
        self.factor_parts = {name: (width, self.n) for name, width in FACTOR.items()}
        self.factor_parts |= {"B": (9, len(links.oriented))} if links.oriented else {}
        self.factor_parts |= {name: (1, size) for name, size in self.rows.factor_parts.items() if size}
        if self.bodies is not None:
            self.factor_parts = {name: (1, size) for name, size in self.bodies.factor_parts.items() if size}
        self.parts = Parts(mechanism, links, symbols, self._add_table, self._frames)
        resists = any(not row[at].is_zero() for row in numbers for at in (0, 1)) or self.parts.do_work
        self.does_work = bool(mechanism.actuators) or resists or not self.scene.power.is_zero()

    def _add_table(self, name: str, rows: Sequence[ca.SX]) -> None:
        """Add a table with one row per link or part; rows with tunables are computed whenever a kernel runs."""
        varying = {k: row for k, row in enumerate(rows) if not row.is_constant()}
        constant = [np.zeros(row.numel()) if k in varying else ca.DM(row).full().ravel() for k, row in enumerate(rows)]
        self.tables[name + CONSTANT if varying else name] = np.array(constant)
        self._varying |= {name: varying} if varying else {}

    def _kernel(
        self, inputs: Sequence[str], outputs: Sequence[str], sweeps: Sequence[Sweep | Repeat], factor: bool = False
    ) -> RolledKernel:
        """A kernel with the intermediate arrays that its sweeps use.

        factor  whether the arrays of FACTOR are parts of the kernel's argument or result "factor"
        """
        views, begin = dict[str, tuple[str, int]](), 0
        if factor:
            for name, (width, count) in self.factor_parts.items():
                views[name] = "factor", begin
                begin += width * count
        used = {records.array for group in _groups(sweeps) for records in (*group.inputs, *group.outputs)}
        sweeps = [*(sweep for name in self._varying if name in used for sweep in self._tuned(name)), *sweeps]
        given, arrays = {*inputs, *outputs, *views, *self.tables}, dict[str, int]()
        for group in _groups(sweeps):
            for records in (*group.inputs, *group.outputs):
                if records.array not in given:
                    size = records.width * (group.count if records.rows is None else max(records.rows) + 1)
                    arrays[records.array] = max(arrays.get(records.array, 0), size)
        sizes = {"lam": self.rows.n_rows} | self.rows.sizes | (self.bodies.sizes if self.bodies is not None else {})
        arrays |= {name: size for name, size in sizes.items() if name in arrays}
        return RolledKernel("", inputs, outputs, arrays, sweeps, views)

    def _tuned(self, table: str) -> list[Sweep]:
        """Sweeps that fill a table whose numbers depend on tunables."""
        symbols, (count, width) = self.scene.symbols, self.tables[table + CONSTANT].shape
        row = ca.SX.sym("row", width)
        copies = over(f"copy_{width}", count, [Slot(table + CONSTANT, row)], [Slot(table, row)])
        results = [Slot(table, value) for value in self._varying[table].values()]
        rows = [Records(table, width, [k]) for k in self._varying[table]]
        function = function_of(f"tuned_{table}", [Slot("p", symbols.p)], results)
        return [copies, Sweep.of(Group(function, [Records("p", symbols.p.numel(), [0])], rows, 1))]

    # -- equations of motion ------------------------------------------------------------------------------------------

    def acceleration(self) -> RolledKernel:
        """Accelerations, multipliers and factor, by articulated bodies."""
        sweeps = self._solution("u", ("target", "correction"))
        return self._kernel((*USUAL, "correction"), ("x", "lam", "factor"), sweeps, factor=True)

    def forward_dynamics(self) -> RolledKernel:
        """Accelerations and multipliers under generalized forces tau."""
        return self._kernel(("t", "q", "v", "tau", "p"), ("x", "lam"), self._solution("tau", ("target",)))

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
                over("copy_1", self.n, [Slot("x", x)], [Slot("dx", x)]),
                accelerating,
                over("added_x", self.n, [Slot("x", x), Slot("dx", dx)], [Slot("x", x + dx)]),
            ]
        return found

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
        r1 = ca.SX.sym("r1")
        copies = [over("copy_1", self.n, [Slot("r1", r1)], [Slot("right", r1)])] if self.links.oriented else []
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
        tree, a = self.tree, ca.SX.sym("a")
        sweeps = [
            *self._posture(),
            *self._efforts(""),
            tree.ground("ground_motion", tree.ground_motion()),
            over("copy_1", self.n, [Slot("a", a)], [Slot("drive", a)]),
            *self.rotations.accelerations_of_links("drive"),
            tree.sweep("driven", lambda kind: tree.moving(kind, driven=True, with_inertia=False)),
            *self._forces(""),
            tree.sweep("loading", tree.loading, backward=True),
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
        unit, needed = ca.SX.sym("unit"), ca.SX.sym("needed")
        column = Group(
            function_of("copy_1", [Slot("needed", needed)], [Slot("M", needed)]),
            [Records("needed", 1)],
            [Records("M", 1, None, self.n_q)],
            self.n,
        )
        columns = [
            Sweep.of(one),
            over("copy_1", self.n, [Slot("unit", unit)], [Slot("drive", unit)]),
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
            over("copy_1", self.n, [Slot("unit", unit)], [Slot("drive", unit)]),
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

    def _jacobian(self, given: str, moving: bool = True) -> list[Sweep]:
        """Sweeps that compute the rows of the Jacobian along the coordinates, "jac", and their right-hand sides.

        moving  whether the motion of the links for coordinates without acceleration has to be computed first
        """
        if not self.rows.blocks:
            return []
        tree, unit = self.tree, ca.SX.sym("unit")
        sweeps = [
            *self._posture(),
            tree.ground("ground_motion", tree.ground_motion()),
            tree.clear("unit", 1),
            over("copy_1", self.n, [Slot("unit", unit)], [Slot("drive", unit)]),
            *self.rotations.accelerations_of_links("drive"),
            tree.sweep("driven", lambda kind: tree.moving(kind, driven=True, with_inertia=False)),
        ]
        return [
            *(sweeps if moving else []),
            *self._frames(with_posture=False),
            *self.rows.pulls(),
            *self.rows.passed_inward("jac", articulated=False),
            *self.rows.along_coordinates("jac"),
        ]

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

    def _posture(self) -> list[Sweep]:
        """Sweeps that compute sines and cosines, and rotations and rates of spherical and free joints."""
        v = ca.SX.sym("v")
        rates = [over("copy_1", self.n, [Slot("v", v)], [Slot("rate", v)])] if self.links.oriented else []
        return [*self.tree.angles(), *rates, *self.rotations.posture()]

    def _armatures(self, accelerations: str, with_sequence: bool = True) -> list[Sweep]:
        """Sweeps that add to "needed" what the armatures of the joints need."""
        numbers, needed, a = ca.SX.sym("numbers", 3), ca.SX.sym("needed"), ca.SX.sym("a")
        inputs = [Slot("numbers", numbers), Slot("needed", needed), Slot(accelerations, a)]
        sweeps = [over("armature", self.n, inputs, [Slot("needed", needed + numbers[2] * a)])]
        return sweeps + (self.rotations.armatures("needed") if with_sequence else [])

    def _efforts(self, given: str) -> list[Sweep]:
        """Sweeps that compute the efforts of actuators, loads and damping along the joints.

        given  "u" with the efforts of the actuators, "tau" with the forces tau, "" with none of both
        """
        numbers, v, tau = ca.SX.sym("numbers", 3), ca.SX.sym("v"), ca.SX.sym("tau")
        inputs = [Slot("numbers", numbers), Slot("v", v), *([Slot("tau", tau)] if given == "tau" else [])]
        effort = numbers[1] - numbers[0] * v + (tau if given == "tau" else 0)
        sweeps = [over(f"effort_{given}", self.n, inputs, [Slot("effort", effort)])]
        driving = [k for k, actuator in enumerate(self.mechanism.actuators) if actuator.joint]
        if self.mechanism.has_body_coordinates:
            driving = []  # the scene has these efforts
        if given == "u" and driving:
            u, before = ca.SX.sym("u"), ca.SX.sym("effort")
            function = function_of("driven_by", [Slot("u", u), Slot("effort", before)], [Slot("effort", before + u)])
            joints = self.links.of_joints
            along = Records("effort", 1, [joints[self.mechanism.actuators[k].joint] for k in driving])
            sweeps.append(Sweep.of(Group(function, [Records("u", 1, driving), along], [along], len(driving))))
        return sweeps

    def _states(
        self, result: str, given: str, combined: Callable[[ca.SX, ca.SX], ca.SX], with_rates: bool = True
    ) -> list[Sweep]:
        """Sweeps that set the entries of first-order states in an array.

        given     array with an entry per coordinate, the second argument of `combined`; "" for none
        combined  function of the rate of a state, in the array "rates", and of the entry of `given`
        """
        count = self.n_q - self.n
        if not count:
            return []
        rate, other, rows = ca.SX.sym("rate"), ca.SX.sym("other"), range(self.n, self.n_q)
        inputs = [(Slot("rates", rate), Records("rates", 1))] if with_rates else []
        inputs += [(Slot(given, other), Records(given, 1, rows))] if given else []
        value = combined(rate, other if given else ca.SX(0))
        function = function_of(f"states_{result}_{given}", [slot for slot, _ in inputs], [Slot(result, value)])
        return [Sweep.of(Group(function, [places for _, places in inputs], [Records(result, 1, rows)], count))]

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

    def _forces(self, given: str) -> list[Sweep]:
        """Sweeps that add the forces to "effort", subtract the wrenches on the links from "wrench", and set "rates".

        The sines and cosines of the coordinates are known.

        given  "u" if the kernel has the actuator inputs u; otherwise these are zero
        """
        frames = self._frames(with_posture=False) if self._forces_need_frames else []
        return [*frames, *self.parts.forces(), *self._forces_of_scene(given)]

    @property
    def _forces_need_frames(self) -> bool:
        return self.parts.need_frames or bool(self.scene.wrenches())

    def _forces_of_scene(self, given: str) -> list[Sweep]:
        efforts, wrenches, rates = self.scene.efforts(), self.scene.wrenches(), self.scene.state_rates()
        if not efforts and not wrenches and not rates:
            return []
        inputs, results, places, targets = list[Slot](), list[Slot](), list[Records](), list[Records]()
        for array, width, found, sign in (("effort", 1, efforts, 1.0), ("wrench", 6, wrenches, -1.0)):
            for link, value in found.items():
                before = ca.SX.sym("before", width)
                inputs.append(Slot(array, before))
                results.append(Slot(array, before + sign * self._without_inputs(value, given)))
                places.append(Records(array, width, [link]))
        targets = list(places)
        for k, rate in rates.items():
            results.append(Slot("rates", self._without_inputs(rate, given)))
            targets.append(Records("rates", 1, [k]))
        return [self._straight("forces_" + given, inputs, places, results, targets, given)]

    def _without_inputs(self, expression: ca.SX, given: str) -> ca.SX:
        u = self.scene.symbols.u
        return expression if given == "u" else ca.substitute(expression, u, ca.SX.zeros(u.shape))

    def _straight(
        self,
        name: str,
        inputs: Sequence[Slot],
        places: Sequence[Records],
        results: Sequence[Slot],
        targets: Sequence[Records],
        given: str = "u",
    ) -> Sweep:
        """Sweep of one function of t, q, v, u, p, of the frames of the scene, and of other inputs."""
        scene, symbols = self.scene, self.scene.symbols
        usual = {"t": symbols.t, "q": scene.q, "v": scene.v, "p": symbols.p} | (
            {"u": symbols.u} if given == "u" else {}
        )
        if self._needs_multipliers([slot.value for slot in results]):
            usual |= {"lam": self._lam}
        arguments = [(Slot(array, value), [0]) for array, value in usual.items()]
        arguments += [(Slot("frame", frame), [link]) for frame, link in zip(scene.frames, scene.touched, strict=True)]
        arguments += scene.numbers
        slots = [slot for slot, _ in arguments]
        records = [Records(slot.array, slot.value.numel(), rows) for slot, rows in arguments]
        function = function_of(name, [*slots, *inputs], results)
        return Sweep.of(Group(function, [*records, *places], targets, 1))

    # -- measurements -------------------------------------------------------------------------------------------------

    def constant(self, inputs: Sequence[str], results: Mapping[str, int]) -> RolledKernel:
        """A kernel whose results are zero; {name: size} of its results."""
        zero = function_of("clear_1", [], [Slot("", ca.SX.zeros(1))])
        sweeps = [Sweep.of(Group(zero, [], [Records(name, 1)], size)) for name, size in results.items() if size]
        return self._kernel(inputs, tuple(results), sweeps)

    def straight(
        self,
        results: Sequence[ca.SX],
        names: Sequence[str],
        inputs: Sequence[str] = USUAL,
        more: Sequence[tuple[Slot, Records]] = (),
        before: Sequence[Sweep] = (),
    ) -> RolledKernel:
        """A kernel of straight-line code, whose results may depend on the frames of the scene.

        more    further inputs of the code, which the sweeps `before` compute
        """
        values = [self.scene.real(result) for result in results]
        values = [
            value[: self.n_q] if name in ("q_out", "v_out") else value
            for name, value in zip(names, values, strict=True)
        ]
        slots = [Slot(name, value) for name, value in zip(names, values, strict=True)]
        targets = [Records(slot.array, slot.value.numel()) for slot in slots]
        if not any(slot.value.numel() for slot in slots):
            return self._kernel(inputs, names, [])
        frames = self._frames() if self._needs_frames(values) else []
        nearest = self.segments.finding() if self._needs(values, self.scene.of_nearest) else []
        if "lam" not in inputs and self._needs_multipliers(values):
            frames = self._solution("u", ("target",))
        given, places = [slot for slot, _ in more], [records for _, records in more]
        code = self._straight(f"straight_{names[0]}", given, places, slots, targets)
        return self._kernel(inputs, names, [*before, *frames, *nearest, code])

    @cached_property
    def _lam(self) -> ca.SX:
        """Symbols of the multipliers."""
        return ca.SX.sym("lam", self.rows.n_rows)

    def _needs_multipliers(self, values: Sequence[ca.SX]) -> bool:
        return bool(self.rows.blocks) and ca.depends_on(ca.veccat(*values), self._lam)

    def multiplier(self, constraint: str) -> ca.SX:
        """Multiplier of the first row of a constraint."""
        return self._lam[self.rows.names.index(constraint)]

    def captures(self) -> RolledKernel:
        """Values of the parameters that guards capture."""
        scene = self.scene
        values = captured_numbers(self.mechanism, scene.motion.frames, scene.symbols)
        return self.straight([values], ("captured",))

    def _needs_frames(self, values: Sequence[ca.SX]) -> bool:
        return self._needs(values, self.scene.frames)

    def _needs(self, values: Sequence[ca.SX], symbols: Sequence[ca.SX]) -> bool:
        return bool(symbols) and ca.depends_on(ca.veccat(*values), ca.veccat(*symbols))

    def joints(self) -> RolledKernel:
        """Positions and velocities of the joints."""
        if self.mechanism.has_body_coordinates:
            return self._kernel(USUAL, ("position", "velocity"), [*self._frames(), *self._measured_joints()])
        of_joints, q, v = self.links.of_joints, ca.SX.sym("q"), ca.SX.sym("v")
        places = [of_joints[joint.name] for joint in self.mechanism.moving_joints]
        function = function_of("measure", [Slot("q", q), Slot("v", v)], [Slot("position", q), Slot("velocity", v)])
        given, results = (
            [Records("q", 1, places), Records("v", 1, places)],
            [Records("position", 1), Records("velocity", 1)],
        )
        sweeps = [Sweep.of(Group(function, given, results, len(places)))] if places else []
        return self._kernel(USUAL, ("position", "velocity"), sweeps)

    def _measured_joints(self) -> list[Sweep]:
        """Sweeps that measure the joints of planar bodies in absolute coordinates."""
        steps = Steps("measured")
        for k, joint in enumerate(self.mechanism.moving_joints):
            places = [self.links.places[end] for end in (joint.child, joint.parent)]
            results = [At("position", k, 1), At("velocity", k, 1)]
            if joint.is_length:
                link = [self.n if place.link < 0 else place.link for place in places]
                frames = [At("frame", FRAME * each, FRAME) for each in link]
                steps.add(joint.name, frames, results, partial(_sliding, joint, places))
                continue
            turning = [self._angle_of(end) for end in (joint.child, joint.parent)]
            zero = float(np.arctan2(joint.rotation[1][0], joint.rotation[0][0]))
            fixed = sum(sign * at for sign, (_, at) in zip((1.0, -1.0), turning, strict=True)) - zero
            signs = [sign for sign, (link, _) in zip((1.0, -1.0), turning, strict=True) if link >= 0]
            inputs = [At(array, link, 1) for array in "qv" for link, _ in turning if link >= 0]
            steps.add((*signs, fixed), inputs, results, partial(_turning, signs, fixed))
        return steps.sweeps()

    def _angle_of(self, body: str) -> tuple[int, float]:
        """(link that turns a planar body, constant angle); the link is -1 if the body does not turn."""
        link = self.links.of_joints.get(f"{body}.theta", -1)
        placement = self.mechanism.body(body).placement if body != GROUND else ()
        return link, 0.0 if link >= 0 or not placement else placement[2]

    def outputs(self) -> tuple[list[str], RolledKernel]:
        """Names of the outputs, and the kernel of their values."""
        scene, solution = self.scene, cast(Solution, self)  # outputs need nothing of it but `multiplier`
        known = self.mechanism, scene.motion, scene.symbols
        sensors = LinkSensors(self.mechanism, self.links, Sensors(*known, solution, scene.applied))
        names, values = outputs_of(*known, scene.positions, solution, scene.applied, sensors)
        before = self._moved(sensors.need_wrench) if sensors.inputs else []
        return names, self.straight([values], ("values",), USUAL, sensors.inputs, before)

    def _moved(self, with_wrench: bool) -> list[Sweep]:
        """Sweeps that compute the motions of the links under the accelerations of the present state.

        with_wrench  whether the array "wrench" then has what each link's joint exerts on it
        """
        tree, x = self.tree, ca.SX.sym("x")
        sweeps = [
            *self._solution("u", ("target",)),
            tree.ground("ground_motion", tree.ground_motion()),
            over("copy_1", self.n, [Slot("x", x)], [Slot("drive", x)]),
            *self.rotations.accelerations_of_links("drive"),
            tree.sweep("driven", lambda kind: tree.moving(kind, driven=True, with_inertia=False)),
        ]
        if with_wrench:
            sweeps += [*self._forces("u"), tree.sweep("loading", tree.loading, backward=True)]
        return sweeps

    def guards(self) -> RolledKernel:
        """Values of the guards."""
        scene = self.scene
        names, lam = self.rows.names, self._lam
        values = guard_values(self.mechanism, scene.motion.frames, scene.symbols, names, lam)
        return self.straight([values], ("values",), (*USUAL, "lam"))

    def power(self) -> RolledKernel:
        """Power of actuators, loads, damping and of the other forces, W."""
        effort, v, power = ca.SX.sym("effort"), ca.SX.sym("v"), ca.SX.sym("power")
        inputs = [Slot("effort", effort), Slot("v", v), Slot("power", power)]
        function = function_of("working", inputs, [Slot("power", power + effort * v)])
        total = Records("power", 1, [0] * self.n)
        sweep = Sweep.of(Group(function, [Records("effort", 1), Records("v", 1), total], [total], self.n))
        others = self._added("power", ca.SX(self.scene.power))
        others += self.parts.power()
        return self._kernel(USUAL, ("power",), [_start("power", ca.SX(0)), *self._efforts("u"), sweep, *others])

    def energy(self) -> RolledKernel:
        """Kinetic and potential energy, J."""
        frame, inertia, sums = ca.SX.sym("frame", FRAME), ca.SX.sym("inertia", N_INERTIA), ca.SX.sym("sums", 2)
        numbers, rate = ca.SX.sym("numbers", 3), ca.SX.sym("rate")
        p, R, w, v = _frame(frame)
        own = turned(unpacked(inertia), R)
        n, F = own.times(w, v)
        kinetic = 0.5 * (ca.dot(w, n) + ca.dot(v, F) + numbers[2] * rate * rate)
        potential = -ca.dot(ca.DM(self.mechanism.gravity), own.m * p + own.h)
        inputs = [Slot("frame", frame), Slot("inertias", inertia), Slot("numbers", numbers), Slot(self.tree.rate, rate)]
        inputs.append(Slot("energy", sums))
        function = function_of("energetic", inputs, [Slot("energy", sums + ca.vertcat(kinetic, potential))])
        total = Records("energy", 2, [0] * self.n)
        given = [Records(slot.array, slot.value.numel()) for slot in inputs[:-1]]
        sweep = Sweep.of(Group(function, [*given, total], [total], self.n))
        still = ca.SX(ca.DM([0.0, self._energy_of_ground()]))
        others = self._added("energy", ca.vertcat(0, self.scene.stored), with_frames=False)
        others += self.parts.energy()
        return self._kernel(USUAL, ("energy",), [_start("energy", still), *self._frames(), sweep, *others])

    def _added(self, array: str, value: ca.SX, with_frames: bool = True) -> list[Sweep]:
        """Sweeps that add an expression of the scene to the only record of an array."""
        if value.is_zero():
            return []
        before, records = ca.SX.sym("before", value.numel()), Records(array, value.numel(), [0])
        frames = self._frames() if with_frames and self._needs_frames([value]) else []
        slots = [Slot(array, before)], [Slot(array, before + value)]
        return [*frames, self._straight(f"added_{array}", slots[0], [records], slots[1], [records])]

    def _energy_of_ground(self) -> float:
        """Potential energy of the bodies that are fixed to the ground, J."""
        energy = 0.0
        for body in self.mechanism.bodies:
            place = self.links.places[body.name]
            if place.link < 0:
                center = place.p + place.R @ np.array(body.center_of_mass)
                energy -= value_of(body.mass) * float(np.dot(self.mechanism.gravity, center))
        return energy

    def poses(self) -> RolledKernel:
        """Positions and rotations of the bodies."""
        frame, place = ca.SX.sym("frame", FRAME), ca.SX.sym("place", 12)
        p, R, _, _ = _frame(frame)
        results = [Slot("position", p + R @ place[:3]), Slot("rotation", ca.vec((R @ matrix(place[3:])).T))]
        function = function_of("placed", [Slot("frame", frame), Slot("places", place)], results)
        given = [Records("frame", FRAME, self._carriers), Records("places", 12)]
        outputs = [Records("position", 3), Records("rotation", 9)]
        sweep = Sweep.of(Group(function, given, outputs, len(self._carriers)))
        return self._kernel(USUAL, ("position", "rotation"), [*self._frames(), sweep])

    def _frames(self, with_posture: bool = True) -> list[Sweep]:
        """Sweeps that compute the frames of the links, and that of the ground.

        with_posture  whether sines and cosines, and rotations of spherical and free joints, are not yet known
        """
        ground = ca.vertcat(ca.SX.zeros(3), ca.vec(ca.SX.eye(3)), ca.SX.zeros(6))
        tree = self.tree
        return [
            *(self._posture() if with_posture else []),
            tree.ground("ground_frame", {"frame": ground}),
            tree.sweep("carrying", self._carrying),
            *self.segments.choosing(),
        ]

    def _carrying(self, kind: Kind) -> Step:
        """Step outward: frame of a link."""
        before, rate = ca.SX.sym("frame", FRAME), ca.SX.sym("rate")
        p_P, R_P, w_P, v_P = _frame(before)
        inputs, r, R = self.tree.pose(kind, R_P)
        s_w, s_v = kind.parts(R[:, 2])
        frame = ca.vertcat(p_P + r, ca.vec(R), w_P + s_w * rate, v_P + ca.cross(w_P, r) + s_v * rate)
        inputs += [Slot("frame", before, of_parent=True), Slot(self.tree.rate, rate)]
        return inputs, [Slot("frame", frame)]


def _joint_numbers(joint: Joint, is_last: bool, symbols: Symbols) -> ca.SX:
    """Damping, load and armature (3,) along the coordinate of a link.

    Those of a planar joint act on its rotation alone. The scene has the damping of spherical and free joints.
    """
    armed = is_last or joint.is_oriented
    damping, load = (0.0, 0.0) if joint.is_oriented or not is_last else (joint.damping, joint.load)
    return ca.vertcat(*[ca.SX(symbols.number(each)) for each in (damping, load, joint.armature if armed else 0.0)])


def _turning(signs: Sequence[float], fixed: float, *angles: ca.SX) -> list[ca.SX]:
    """Position and velocity of a revolute joint from the angles and angular velocities of its bodies."""
    n = len(signs)
    position, velocity = (
        sum((sign * angle for sign, angle in zip(signs, given, strict=True)), ca.SX(0))
        for given in (angles[:n], angles[n:])
    )
    return [position + fixed, velocity]


def _sliding(joint: Joint, places: Sequence[Place], child: ca.SX, parent: ca.SX) -> list[ca.SX]:
    """Position and velocity of a prismatic joint from the frames of its bodies."""
    (p_C, R_C, w_C, v_C), (p_P, R_P, w_P, v_P) = _frame(child), _frame(parent)
    at_C, at_P = (
        ca.DM(place.p + place.R @ np.array(point))
        for place, point in zip(places, (joint.child_point, joint.parent_point), strict=True)
    )
    axis = R_P @ ca.DM(places[1].R @ np.array(joint.axis))
    gap = p_C + R_C @ at_C - p_P - R_P @ at_P
    rate = v_C + ca.cross(w_C, R_C @ at_C) - v_P - ca.cross(w_P, R_P @ at_P)
    return [ca.dot(axis, gap), ca.dot(axis, rate) + ca.dot(ca.cross(w_P, axis), gap)]


def _start(array: str, values: ca.SX) -> Sweep:
    """Sweep that sets the only record of an array."""
    slot = Slot(array, ca.SX(values))
    function = function_of(f"start_{array}", [], [slot])
    return Sweep.of(Group(function, [], [Records(array, slot.value.numel())], 1))


def _frame(numbers: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    """(position p, rotation R, angular velocity w, velocity of the origin) from the numbers of a frame."""
    return numbers[:3], matrix(numbers[3:12]), numbers[12:15], numbers[15:]


def _groups(sweeps: Sequence[Sweep | Repeat]) -> list[Group]:
    found = []
    for sweep in sweeps:
        found += list(sweep.groups) if isinstance(sweep, Sweep) else _groups(sweep.sweeps)
    return found


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

"""Constant tables of a mechanism, and the sweeps over its links that several rolled kernels have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import casadi as ca
import numpy as np

from sim_core.derivation.rolled.constraints.bodies import PlanarBodies, are_free_planar
from sim_core.derivation.rolled.constraints.checked_rows import CheckedRows
from sim_core.derivation.rolled.constraints.constrained import Constrained
from sim_core.derivation.rolled.forces.parts import Parts
from sim_core.derivation.rolled.forces.virtual import Scene
from sim_core.derivation.rolled.load_cells import LoadCells
from sim_core.derivation.rolled.tree.frames import FRAME, parts_of_frame
from sim_core.derivation.rolled.tree.links import inertias_of
from sim_core.derivation.rolled.tree.rotations import Rotations
from sim_core.derivation.rolled.tree.segments import Segments
from sim_core.derivation.rolled.tree.sweeps import (
    Kind,
    Slot,
    Step,
    Tree,
    function_of,
    over,
)
from sim_core.derivation.symbols import Symbols
from sim_core.kernels.rolled import Group, Records, Repeat, RolledKernel, Sweep
from sim_core.mechanism.description import Joint, Mechanism

USUAL = ("t", "q", "v", "u", "p")
FACTOR = {"axis": 3, "reach": 3, "V": 6, "inverse": 1}  # parts of a factor, by numbers per link
CONSTANT = ".constant"  # end of the name of a table's constants if tunables change some of its numbers


class SharedSweeps:
    """Tables of one mechanism, and the sweeps over its links that its kernels share.

    scene         forces on bodies and joints
    tables        {name: constant table}
    factor_parts  {array that is a part of the factor: (numbers in a record, number of records)}
    does_work     whether actuators, loads, damping, friction, contacts or prescribed motions can change the energy
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
        self._add_table("inertias", inertias_of(links.mounted, links, symbols))
        self.cells = LoadCells(mechanism, links, symbols, self._add_table)
        self.bodies = PlanarBodies(mechanism, links, self.rows) if are_free_planar(mechanism) else None
        self.factor_parts = {name: (width, self.n) for name, width in FACTOR.items()}
        self.factor_parts |= {"B": (9, len(links.oriented))} if links.oriented else {}
        self.factor_parts |= {name: (1, size) for name, size in self.rows.factor_parts.items() if size}
        if self.bodies is not None:
            self.factor_parts = {name: (1, size) for name, size in self.bodies.factor_parts.items() if size}
        self.parts = Parts(mechanism, links, symbols, self._add_table, self._frames)
        resists = any(not row[at].is_zero() for row in numbers for at in (0, 1)) or self.parts.do_work
        works = resists or bool(self.rows.prescribed) or not self.scene.power.is_zero()
        self.does_work = bool(mechanism.actuators) or works

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

    def constant(self, inputs: Sequence[str], results: Mapping[str, int]) -> RolledKernel:
        """A kernel whose results are zero; {name: size} of its results."""
        zero = function_of("clear_1", [], [Slot("", ca.SX.zeros(1))])
        sweeps = [Sweep.of(Group(zero, [], [Records(name, 1)], size)) for name, size in results.items() if size]
        return self._kernel(inputs, tuple(results), sweeps)

    def _copied(self, source: str, target: str) -> Sweep:
        """Sweep that copies an array with a number per link."""
        number = ca.SX.sym("number")
        return over("copy_1", self.n, [Slot(source, number)], [Slot(target, number)])

    def _posture(self) -> list[Sweep]:
        """Sweeps that compute sines and cosines, and rotations and rates of spherical and free joints."""
        rates = [self._copied("v", "rate")] if self.links.oriented else []
        return [*self.tree.angles(), *rates, *self.rotations.posture()]

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
        p_P, R_P, w_P, v_P = parts_of_frame(before)
        inputs, r, R = self.tree.pose(kind, R_P)
        s_w, s_v = kind.parts(R[:, 2])
        frame = ca.vertcat(p_P + r, ca.vec(R), w_P + s_w * rate, v_P + ca.cross(w_P, r) + s_v * rate)
        inputs += [Slot("frame", before, of_parent=True), Slot(self.tree.rate, rate)]
        return inputs, [Slot("frame", frame)]

    def _driven(self, drive: str) -> list[Sweep]:
        """Sweeps that compute the motion "motion" of the links and what they need of wrenches, "wrench".

        drive  array of the accelerations along the coordinates; "" for none
        """
        tree = self.tree
        return [
            tree.ground("ground_motion", tree.ground_motion()),
            self._copied(drive, "drive") if drive else tree.clear("drive", 1),
            *self.rotations.accelerations_of_links("drive"),
            tree.sweep("driven", lambda kind: tree.moving(kind, driven=True, with_inertia=False)),
        ]

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

    def _forces(self, given: str, exerted: Sequence[Sweep] = ()) -> list[Sweep]:
        """Sweeps that add the forces to "effort", subtract the wrenches on the links from "wrench", and set "rates".

        The sines and cosines of the coordinates are known.

        given    "u" if the kernel has the actuator inputs u; otherwise these are zero
        exerted  sweeps that subtract further wrenches
        """
        frames = self._frames(with_posture=False) if self._forces_need_frames else []
        forces = [*self.parts.forces(), *self._forces_of_scene(given), *exerted]
        return [*frames, *self.cells.cleared(), *forces, *(self.cells.added_to_links() if forces else [])]

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
        links = [self.links.frame_of(record) for record in scene.touched]
        arguments += [(Slot("frame", frame), [link]) for frame, link in zip(scene.frames, links, strict=True)]
        arguments += scene.numbers
        slots = [slot for slot, _ in arguments]
        records = [Records(slot.array, slot.value.numel(), rows) for slot, rows in arguments]
        function = function_of(name, [*slots, *inputs], results)
        return Sweep.of(Group(function, [*records, *places], targets, 1))

    @cached_property
    def _lam(self) -> ca.SX:
        """Symbols of the multipliers."""
        return ca.SX.sym("lam", self.rows.n_rows)

    def _needs_multipliers(self, values: Sequence[ca.SX]) -> bool:
        return bool(self.rows.blocks) and ca.depends_on(ca.veccat(*values), self._lam)


def _joint_numbers(joint: Joint, is_last: bool, symbols: Symbols) -> ca.SX:
    """Damping, load and armature (3,) along the coordinate of a link.

    Those of a planar joint act on its rotation alone. The scene has the damping of spherical and free joints.
    """
    armed = is_last or joint.is_oriented
    damping, load = (0.0, 0.0) if joint.is_oriented or not is_last else (joint.damping, joint.load)
    return ca.vertcat(*[ca.SX(symbols.number(each)) for each in (damping, load, joint.armature if armed else 0.0)])


def _groups(sweeps: Sequence[Sweep | Repeat]) -> list[Group]:
    found = []
    for sweep in sweeps:
        found += list(sweep.groups) if isinstance(sweep, Sweep) else _groups(sweep.sweeps)
    return found

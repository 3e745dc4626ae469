"""Kernels of a tree in joint coordinates as loops over its links ("rolled").

The equations of motion are solved by articulated bodies, in O(n) operations for n links. [Featherstone2008, ch. 7]
The bias forces are those of the recursive Newton-Euler algorithm, so that the articulated-body algorithm only has to
find the accelerations that come in addition to those of motionless joints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.derivation.rolled.links import N_INERTIA, Links, links_of, unpacked
from sim_core.derivation.rolled.sweeps import Kind, Slot, Step, Tree, articulated, function_of, matrix
from sim_core.kernels.rolled import Group, Records, Repeat, RolledKernel, Sweep
from sim_core.mechanism.description import JointOutput, Mechanism
from sim_core.mechanism.quantities import value_of

USUAL = ("t", "q", "v", "u", "p")
FACTOR = {"axis": 3, "reach": 3, "U": 6, "inverse": 1}  # parts of a factor, by numbers per link
FRAME = 18  # numbers of a frame: position, rotation (row by row), angular velocity, velocity of the origin


@dataclass(frozen=True)
class Rolled:
    """The rolled kernels of a mechanism, the constant tables that they share, and the data of a compiled system."""

    kernels: list[RolledKernel]
    tables: dict[str, np.ndarray]
    facts: dict[str, object]


def derive_rolled(mechanism: Mechanism) -> Rolled:
    """The rolled kernels of a mechanism without obstacles (see kernels/choice.py)."""
    links = links_of(mechanism)
    tree = Tree(mechanism, links)
    first = mechanism.constraint_modes[0].name
    maker = _Maker(mechanism, links, tree)
    solving = {
        "terms": maker.terms(),
        "acceleration": maker.acceleration(),
        "forward_dynamics": maker.forward_dynamics(),
        "apply": maker.apply(),
        "residual": maker.constant(USUAL, {"Phi": 0, "Phidot": 0}),
        "least_norm": maker.constant((*USUAL, "r2"), {"x": tree.n}),
        "solve_residual": maker.constant((*USUAL, "correction", "a"), {"missing": 1, "whole": 1}),
    }
    others = {
        "inverse_dynamics": maker.inverse_dynamics(),
        "joints": maker.joints(),
        "wrapping": maker.constant(USUAL, {"angles": 0}),
        "energy": maker.energy(),
        "power": maker.power(),
        "outputs": maker.outputs(),
        "poses": maker.poses(),
        "captures": maker.constant(USUAL, {"captured": 0}),
        "guards": maker.constant((*USUAL, "lam"), {"values": 0}),
    }
    kernels = {**{f"{first}.{name}": kernel for name, kernel in solving.items()}, **others}
    for name, kernel in kernels.items():
        kernel.name = name
    facts: dict[str, object] = {
        "coordinate_names": mechanism.coordinate_names,
        "row_names": (),
        "row_lengths": (),
        "n_holonomic": 0,
        "factor_size": sum(FACTOR.values()) * tree.n,
        "pivots": (0, 0),
        "pivot_rows": (),
        "wraps": [],
        "output_names": [output.name for output in mechanism.outputs],
        "output_wraps": [],
        "does_work": bool(mechanism.actuators or np.any(tree.tables["numbers"][:, :2])),
        "idle": [],
        "captured_rows": [],
    }
    return Rolled(list(kernels.values()), maker.tables, facts)


class _Maker:
    """Makes the kernels of one mechanism from sweeps over its links."""

    def __init__(self, mechanism: Mechanism, links: Links, tree: Tree) -> None:
        self.mechanism, self.links, self.tree = mechanism, links, tree
        self.n = tree.n
        bodies = [links.places[body.name] for body in mechanism.bodies]
        self._carriers = [tree.n if place.link < 0 else place.link for place in bodies]
        places = [np.concatenate([place.p, place.R.ravel()]) for place in bodies]
        self.tables = tree.tables | {"places": np.array(places)}

    def _kernel(
        self, inputs: Sequence[str], outputs: Sequence[str], sweeps: Sequence[Sweep | Repeat], factor: bool = False
    ) -> RolledKernel:
        """A kernel with the intermediate arrays that its sweeps use.

        factor  whether the arrays of FACTOR are parts of the kernel's argument or result "factor"
        """
        views, begin = dict[str, tuple[str, int]](), 0
        if factor:
            for name, width in FACTOR.items():
                views[name] = "factor", begin
                begin += width * self.n
        given, arrays = {*inputs, *outputs, *views, *self.tables}, dict[str, int]()
        for group in _groups(sweeps):
            for records in (*group.inputs, *group.outputs):
                if records.array not in given:
                    rows = self.n + 1 if self.n else 1
                    arrays[records.array] = max(arrays.get(records.array, 0), records.width * rows)
        for name in ("sine", "cosine"):
            arrays |= {name: self.n} if name in arrays else {}
        return RolledKernel("", inputs, outputs, arrays, sweeps, views)

    # -- equations of motion ------------------------------------------------------------------------------------------

    def acceleration(self) -> RolledKernel:
        """Accelerations, multipliers and factor, by articulated bodies."""
        sweeps = [*self._efforts("u"), *self._solution()]
        return self._kernel((*USUAL, "correction"), ("x", "lam", "factor"), sweeps, factor=True)

    def forward_dynamics(self) -> RolledKernel:
        """Accelerations and multipliers under generalized forces tau."""
        return self._kernel(("t", "q", "v", "tau", "p"), ("x", "lam"), [*self._efforts("tau"), *self._solution()])

    def _solution(self) -> list[Sweep]:
        tree = self.tree
        zero = {"inertia": ca.SX.zeros(21), "gain": ca.SX.zeros(6)}
        return [
            tree.ground("ground_dynamics", tree.ground_motion() | zero),
            *tree.angles(),
            tree.sweep("moving", lambda kind: tree.moving(kind, driven=False)),
            tree.sweep("eliminating", tree.eliminating, backward=True),
            tree.sweep("accelerating", tree.accelerating),
        ]

    def apply(self) -> RolledKernel:
        """Solution x of M x = r1 with a known factor."""
        tree = self.tree
        sweeps = [
            tree.clear("wrench", 6),
            tree.sweep("solving", tree.solving, backward=True),
            tree.ground("ground_gain", {"gain": ca.SX.zeros(6)}),
            tree.sweep("accelerating", tree.accelerating),
        ]
        return self._kernel(("factor", "r1", "r2"), ("x", "y"), sweeps, factor=True)

    def inverse_dynamics(self) -> RolledKernel:
        """Joint efforts that produce the accelerations a, by the recursive Newton-Euler algorithm."""
        tree = self.tree
        sweeps = [
            *self._efforts(""),
            tree.ground("ground_motion", tree.ground_motion()),
            *tree.angles(),
            tree.sweep("driven", lambda kind: tree.moving(kind, driven=True)),
            tree.sweep("loading", tree.loading, backward=True),
            tree.sweep("driving", _driving),
        ]
        return self._kernel(("t", "q", "v", "a", "p"), ("tau",), sweeps)

    def terms(self) -> RolledKernel:
        """Mass matrix M and forces f. A column of M is what inverse dynamics needs for a unit acceleration."""
        tree, n = self.tree, self.n
        zero = {"inertia": ca.SX.zeros(21), "gain": ca.SX.zeros(6)}
        one, none = (
            Group(function_of(f"unit_{value}", [], [Slot("unit", ca.SX(value))]), [], [Records("unit", 1, [0], 1)], 1)
            for value in (1, 0)
        )
        column = [
            Sweep.of(one),
            tree.sweep("following", _following),
            tree.sweep("loading", tree.loading, backward=True),
            self._column(),
            Sweep.of(none),
        ]
        sweeps: list[Sweep | Repeat] = [
            *self._efforts("u"),
            tree.ground("ground_dynamics", tree.ground_motion() | zero),
            *tree.angles(),
            tree.sweep("moving", lambda kind: tree.moving(kind, driven=False)),
            tree.sweep("loading", tree.loading, backward=True),
            tree.sweep("remaining", _remaining),
            tree.clear("unit", 1),
            Repeat(column, n),
        ]
        return self._kernel(USUAL, ("M", "f", "J", "gamma"), sweeps)

    def _column(self) -> Sweep:
        """Sweep that stores a column of M."""
        numbers, needed, unit = ca.SX.sym("numbers", 3), ca.SX.sym("needed"), ca.SX.sym("unit")
        inputs = [Slot("numbers", numbers), Slot("needed", needed), Slot("unit", unit)]
        function = function_of("column", inputs, [Slot("M", needed + numbers[2] * unit)])
        given = [Records(slot.array, slot.value.numel()) for slot in inputs]
        return Sweep.of(Group(function, given, [Records("M", 1, None, self.n)], self.n))

    def _efforts(self, given: str) -> list[Sweep]:
        """Sweeps that compute the efforts along the joints.

        given  "u" with the efforts of the actuators, "tau" with the forces tau, "" with none of both
        """
        links = range(self.n)
        numbers, v, tau = ca.SX.sym("numbers", 3), ca.SX.sym("v"), ca.SX.sym("tau")
        inputs = [Slot("numbers", numbers), Slot("v", v), *([Slot("tau", tau)] if given == "tau" else [])]
        effort = numbers[1] - numbers[0] * v + (tau if given == "tau" else 0)
        sweeps = [_over(f"effort_{given}", links, inputs, [Slot("effort", effort)])]
        driving = [actuator for actuator in self.mechanism.actuators if actuator.joint]
        if given == "u" and driving:
            u, before = ca.SX.sym("u"), ca.SX.sym("effort")
            function = function_of("driven_by", [Slot("u", u), Slot("effort", before)], [Slot("effort", before + u)])
            joints = {joint.name: link for link, joint in enumerate(self.links.joints)}
            inputs_of = [k for k, actuator in enumerate(self.mechanism.actuators) if actuator.joint]
            effort_of = Records("effort", 1, [joints[actuator.joint] for actuator in driving])
            sweeps.append(Sweep.of(Group(function, [Records("u", 1, inputs_of), effort_of], [effort_of], len(driving))))
        return sweeps

    # -- measurements -------------------------------------------------------------------------------------------------

    def constant(self, inputs: Sequence[str], results: Mapping[str, int]) -> RolledKernel:
        """A kernel whose results are zero; {name: size} of its results."""
        sweeps = [
            Sweep.of(Group(function_of("clear_1", [], [Slot(name, ca.SX.zeros(1))]), [], [Records(name, 1)], size))
            for name, size in results.items()
            if size
        ]
        return self._kernel(inputs, tuple(results), sweeps)

    def joints(self) -> RolledKernel:
        """Positions and velocities of the joints."""
        q, v = ca.SX.sym("q"), ca.SX.sym("v")
        copies = _over("copy", range(self.n), [Slot("q", q), Slot("v", v)], [Slot("position", q), Slot("velocity", v)])
        return self._kernel(USUAL, ("position", "velocity"), [copies])

    def outputs(self) -> RolledKernel:
        """Values of the outputs, which are joint positions."""
        joints = {joint.name: link for link, joint in enumerate(self.links.joints)}
        rows = [joints[output.joint] for output in self.mechanism.outputs if isinstance(output, JointOutput)]
        q = ca.SX.sym("q")
        function = function_of("output", [Slot("q", q)], [Slot("value", q)])
        sweeps = [Sweep.of(Group(function, [Records("q", 1, rows)], [Records("values", 1)], len(rows)))] if rows else []
        return self._kernel(USUAL, ("values",), sweeps)

    def power(self) -> RolledKernel:
        """Power of actuators, loads and damping, W."""
        effort, v, power = ca.SX.sym("effort"), ca.SX.sym("v"), ca.SX.sym("power")
        inputs = [Slot("effort", effort), Slot("v", v), Slot("power", power)]
        function = function_of("working", inputs, [Slot("power", power + effort * v)])
        total = Records("power", 1, [0] * self.n)
        sweep = Sweep.of(Group(function, [Records("effort", 1), Records("v", 1), total], [total], self.n))
        return self._kernel(USUAL, ("power",), [_start("power", ca.SX(0)), *self._efforts("u"), sweep])

    def energy(self) -> RolledKernel:
        """Kinetic and potential energy, J."""
        frame, inertia, sums = ca.SX.sym("frame", FRAME), ca.SX.sym("inertia", N_INERTIA), ca.SX.sym("sums", 2)
        numbers, rate = ca.SX.sym("numbers", 3), ca.SX.sym("v")
        p, R, w, v = _frame(frame)
        own = unpacked(inertia).expressed_in(ca.SX(3, 1), R)
        n, F = own.times(w, v)
        kinetic = 0.5 * (ca.dot(w, n) + ca.dot(v, F) + numbers[2] * rate * rate)
        potential = -ca.dot(ca.DM(self.mechanism.gravity), own.m * p + own.h)
        inputs = [Slot("frame", frame), Slot("inertias", inertia), Slot("numbers", numbers), Slot("v", rate)]
        inputs.append(Slot("energy", sums))
        function = function_of("energetic", inputs, [Slot("energy", sums + ca.vertcat(kinetic, potential))])
        total = Records("energy", 2, [0] * self.n)
        given = [Records(slot.array, slot.value.numel()) for slot in inputs[:-1]]
        sweep = Sweep.of(Group(function, [*given, total], [total], self.n))
        still = ca.SX(ca.DM([0.0, self._energy_of_ground()]))
        return self._kernel(USUAL, ("energy",), [_start("energy", still), *self._frames(), sweep])

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

    def _frames(self) -> list[Sweep]:
        """Sweeps that compute the frames of the links, and that of the ground."""
        ground = ca.vertcat(ca.SX.zeros(3), ca.vec(ca.SX.eye(3)), ca.SX.zeros(6))
        tree = self.tree
        return [tree.ground("ground_frame", {"frame": ground}), *tree.angles(), tree.sweep("carrying", self._carrying)]

    def _carrying(self, kind: Kind) -> Step:
        """Step outward: frame of a link."""
        before, rate = ca.SX.sym("frame", FRAME), ca.SX.sym("v")
        p_P, R_P, w_P, v_P = _frame(before)
        inputs, r, R = self.tree.pose(kind, R_P)
        s_w, s_v = kind.parts(R[:, 2])
        frame = ca.vertcat(p_P + r, ca.vec(R.T), w_P + s_w * rate, v_P + ca.cross(w_P, r) + s_v * rate)
        inputs += [Slot("frame", before, of_parent=True), Slot("v", rate)]
        return inputs, [Slot("frame", frame)]


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


def _over(name: str, elements: Sequence[int], inputs: Sequence[Slot], results: Sequence[Slot]) -> Sweep:
    """Sweep over elements, each of which has the record of its own number in every array."""
    records = [[Records(slot.array, slot.value.numel()) for slot in slots] for slots in (inputs, results)]
    return Sweep.of(Group(function_of(name, inputs, results), records[0], records[1], len(elements)))


def _driving(kind: Kind) -> Step:
    """Effort that an actuator must add to those of damping and load."""
    numbers, needed, effort, a = (ca.SX.sym(name, size) for name, size in (("n", 3), ("needed", 1), ("e", 1), ("a", 1)))
    inputs = [Slot("numbers", numbers), Slot("needed", needed), Slot("effort", effort), Slot("a", a)]
    return inputs, [Slot("tau", needed - effort + numbers[2] * a)]


def _remaining(kind: Kind) -> Step:
    """Generalized force f: effort along the joint without that which the motion needs."""
    needed, effort = ca.SX.sym("needed"), ca.SX.sym("effort")
    return [Slot("needed", needed), Slot("effort", effort)], [Slot("f", effort - needed)]


def _following(kind: Kind) -> Step:
    """Step outward: acceleration of a link that comes from accelerations "unit" of the joints, and its wrench."""
    axis, r, before, entries = (ca.SX.sym(name, size) for name, size in (("s", 3), ("r", 3), ("gain", 6), ("I", 21)))
    unit = ca.SX.sym("unit")
    s_w, s_v = kind.parts(axis)
    w, v = before[:3] + s_w * unit, before[3:] + ca.cross(before[:3], r) + s_v * unit
    inputs = [Slot("axis", axis), Slot("reach", r), Slot("inertia", entries), Slot("unit", unit)]
    inputs.append(Slot("gain", before, of_parent=True))
    return inputs, [Slot("gain", ca.vertcat(w, v)), Slot("wrench", ca.vertcat(*articulated(entries).times(w, v)))]

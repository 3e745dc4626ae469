"""Rolled kernels of what is measured: outputs, joints, poses, energy, power, guards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import casadi as ca
import numpy as np

from sim_core.derivation.guards import captured_numbers, guard_values
from sim_core.derivation.outputs import outputs_of
from sim_core.derivation.rolled.equations import EquationKernels
from sim_core.derivation.rolled.sensors import LinkSensors
from sim_core.derivation.rolled.shared import USUAL
from sim_core.derivation.rolled.tree.frames import FRAME, parts_of_frame
from sim_core.derivation.rolled.tree.links import N_INERTIA, Place, turned, unpacked
from sim_core.derivation.rolled.tree.steps import At, Steps
from sim_core.derivation.rolled.tree.sweeps import (
    Slot,
    function_of,
    matrix,
)
from sim_core.derivation.sensors import Sensors
from sim_core.derivation.solving.solutions import Solution
from sim_core.kernels.rolled import Group, Records, RolledKernel, Sweep
from sim_core.mechanism.description import GROUND, Joint
from sim_core.mechanism.quantities import value_of


class MeasurementKernels(EquationKernels):
    """The kernels of the measurements of one mechanism, beside those of its equations."""

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

    def poses(self) -> RolledKernel:
        """Positions and rotations of the bodies."""
        frame, place = ca.SX.sym("frame", FRAME), ca.SX.sym("place", 12)
        p, R, _, _ = parts_of_frame(frame)
        results = [Slot("position", p + R @ place[:3]), Slot("rotation", ca.vec((R @ matrix(place[3:])).T))]
        function = function_of("placed", [Slot("frame", frame), Slot("places", place)], results)
        given = [Records("frame", FRAME, self._carriers), Records("places", 12)]
        outputs = [Records("position", 3), Records("rotation", 9)]
        sweep = Sweep.of(Group(function, given, outputs, len(self._carriers)))
        return self._kernel(USUAL, ("position", "rotation"), [*self._frames(), sweep])

    def energy(self) -> RolledKernel:
        """Kinetic and potential energy, J."""
        still = ca.SX(ca.DM([0.0, self._energy_of_ground()]))
        others = self._added("energy", ca.vertcat(0, self.scene.stored), with_frames=False)
        others += self.parts.energy()
        frames = self._frames() if others or self.bodies is None else []
        own = self._energy_of_links() if self.bodies is None else self.bodies.energy()
        return self._kernel(USUAL, ("energy",), [_start("energy", still), *frames, *own, *others])

    def _energy_of_links(self) -> list[Sweep]:
        frame, inertia, sums = ca.SX.sym("frame", FRAME), ca.SX.sym("inertia", N_INERTIA), ca.SX.sym("sums", 2)
        numbers, rate = ca.SX.sym("numbers", 3), ca.SX.sym("rate")
        p, R, w, v = parts_of_frame(frame)
        own = turned(unpacked(inertia), R)
        n, F = own.times(w, v)
        kinetic = 0.5 * (ca.dot(w, n) + ca.dot(v, F) + numbers[2] * rate * rate)
        potential = -ca.dot(ca.DM(self.mechanism.gravity), own.m * p + own.h)
        inputs = [Slot("frame", frame), Slot("inertias", inertia), Slot("numbers", numbers), Slot(self.tree.rate, rate)]
        inputs.append(Slot("energy", sums))
        function = function_of("energetic", inputs, [Slot("energy", sums + ca.vertcat(kinetic, potential))])
        total = Records("energy", 2, [0] * self.n)
        given = [Records(slot.array, slot.value.numel()) for slot in inputs[:-1]]
        return [Sweep.of(Group(function, [*given, total], [total], self.n))]

    def power(self) -> RolledKernel:
        """Power of actuators, loads, damping, of the other forces and of prescribed motions, W."""
        effort, v, power = ca.SX.sym("effort"), ca.SX.sym("v"), ca.SX.sym("power")
        inputs = [Slot("effort", effort), Slot("v", v), Slot("power", power)]
        function = function_of("working", inputs, [Slot("power", power + effort * v)])
        total = Records("power", 1, [0] * self.n)
        sweep = Sweep.of(Group(function, [Records("effort", 1), Records("v", 1), total], [total], self.n))
        others = self._added("power", ca.SX(self.scene.power))
        others += self.parts.power()
        if self.rows.prescribed:
            others += [*self._solution("u", ("target",)), *self.rows.power_of_prescribed()]
        return self._kernel(USUAL, ("power",), [_start("power", ca.SX(0)), *self._efforts("u"), sweep, *others])

    def outputs(self) -> tuple[list[str], RolledKernel]:
        """Names of the outputs, and the kernel of their values."""
        scene, solution = self.scene, cast(Solution, self)  # outputs need nothing of it but `multiplier`
        known = self.mechanism, scene.motion, scene.symbols
        sensors = LinkSensors(self.mechanism, self.links, Sensors(*known, solution, scene.applied))
        names, values = outputs_of(*known, scene.positions, solution, scene.applied, sensors)
        before = self._moved(sensors.need_wrench) if sensors.inputs else []
        return names, self.straight([values], ("values",), USUAL, sensors.inputs, before)

    def captures(self) -> RolledKernel:
        """Values of the parameters that guards capture."""
        scene = self.scene
        values = captured_numbers(self.mechanism, scene.motion.frames, scene.symbols)
        return self.straight([values], ("captured",))

    def guards(self) -> RolledKernel:
        """Values of the guards."""
        scene = self.scene
        names, lam = self.rows.names, self._lam
        values = guard_values(self.mechanism, scene.motion.frames, scene.symbols, names, lam)
        return self.straight([values], ("values",), (*USUAL, "lam"))

    def straight(
        self,
        results: Sequence[ca.SX],
        names: Sequence[str],
        inputs: Sequence[str] = USUAL,
        more: Sequence[tuple[Slot, Records]] = (),
        before: Sequence[Sweep] = (),
    ) -> RolledKernel:
        """A kernel of straight-line code, whose results may depend on the frames of the scene.

        more    further inputs of the code, which the sweeps `before` compute, with the multipliers
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
        if "lam" not in inputs and not before and self._needs_multipliers(values):
            frames = self._solution("u", ("target",))
        given, places = [slot for slot, _ in more], [records for _, records in more]
        code = self._straight(f"straight_{names[0]}", given, places, slots, targets)
        return self._kernel(inputs, names, [*before, *frames, *nearest, code])

    def multiplier(self, constraint: str) -> ca.SX:
        """Multiplier of the first row of a constraint."""
        return self._lam[self.rows.names.index(constraint)]

    def _needs_frames(self, values: Sequence[ca.SX]) -> bool:
        return self._needs(values, self.scene.frames)

    def _needs(self, values: Sequence[ca.SX], symbols: Sequence[ca.SX]) -> bool:
        return bool(symbols) and ca.depends_on(ca.veccat(*values), ca.veccat(*symbols))

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

    def _moved(self, with_wrench: bool) -> list[Sweep]:
        """Sweeps that compute the motions of the links under the accelerations of the present state.

        with_wrench  whether the array "wrench" then has what each link's joint exerts on it
        """
        sweeps = [
            *self._solution("u", ("target",)),
            *self._driven("x"),
        ]
        if with_wrench:
            sweeps += [
                *self._forces("u", self.rows.exerted("lam")),
                self.tree.sweep("loading", self.tree.loading, backward=True),
                *self.cells.carried(),
            ]
        return sweeps

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
    (p_C, R_C, w_C, v_C), (p_P, R_P, w_P, v_P) = parts_of_frame(child), parts_of_frame(parent)
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

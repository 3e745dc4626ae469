"""Symbolic readings of sensors: accelerometers, gyroscopes, force and torque at joints.

The force and torque at a joint come from the momentum balance of all bodies that the joint carries. Force and torque of
the joint are the rate of change of the momentum of these bodies, minus all other forces on the bodies. Forces of
springs, of constraints and on points are projected on small rigid displacements of the bodies by virtual work.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from sim_core.derivation.constraints import all_constraints
from sim_core.derivation.coordinates.absolute import inertia_matrix
from sim_core.derivation.forces.applied import AppliedForces, push_on
from sim_core.derivation.forces.springs import spring_energy, spring_lengths
from sim_core.derivation.solving.solutions import Solution
from sim_core.derivation.symbols import Frame, Frames, Motion, Symbols
from sim_core.mechanism.constraints import Rolling
from sim_core.mechanism.description import Constraint, Mechanism, PrescribedMotion
from sim_core.mechanism.inertias import carried_by
from sim_core.mechanism.joints import Quaternion
from sim_core.mechanism.outputs import AccelerometerOutput, ForceTorqueOutput, GyroscopeOutput, Sensor
from sim_core.mechanism.quantities import Vector3
from sim_core.spatial import rotation_from_quaternion


class Sensors:
    """Readings of the sensors of one mechanism.

    Accelerations and multipliers are solved for only once, when a reading first needs them.
    """

    def __init__(
        self, mechanism: Mechanism, motion: Motion, symbols: Symbols, solution: Solution, applied: AppliedForces
    ) -> None:
        self._mechanism, self._motion, self._symbols = mechanism, motion, symbols
        self._solution, self._applied = solution, applied
        self._solved: tuple[ca.SX, ca.SX] | None = None

    def reading(self, sensor: Sensor) -> ca.SX:
        """The numbers (3,) or (6,) that a sensor reads, in the sensor's axes."""
        if isinstance(sensor, GyroscopeOutput):
            return axes_of(sensor.quaternion).T @ self._motion.frames[sensor.body].w
        if isinstance(sensor, AccelerometerOutput):
            frame = self._motion.frames[sensor.body]
            a_W = self._acceleration(frame, sensor.point) - ca.DM(self._mechanism.gravity)
            return (frame.R @ axes_of(sensor.quaternion)).T @ a_W
        return self._wrench(sensor)

    def _solution_now(self) -> tuple[ca.SX, ca.SX]:
        """Accelerations (n_q,) and multipliers (n_r,), without stabilization."""
        if self._solved is None:
            self._solved = self._solution.solve(self._solution.f, self._solution.rows.gamma)
        return self._solved

    def _rate(self, velocity: ca.SX) -> ca.SX:
        """Time derivative of an expression of the coordinates q and the velocities v."""
        a, _ = self._solution_now()
        return ca.jtimes(velocity, self._symbols.q, self._symbols.v) + ca.jtimes(velocity, self._symbols.v, a)

    def _acceleration(self, frame: Frame, point: Vector3) -> ca.SX:
        """World acceleration of a body-fixed point."""
        return self._rate(ca.jtimes(frame.point(point), self._symbols.q, self._symbols.v))

    def _wrench(self, sensor: ForceTorqueOutput) -> ca.SX:
        """Force, then torque, that a joint exerts on the bodies that it carries, as one column (6,).

        Both are in the sensor's axes. The torque is about the sensor's point, by default the joint's point.
        """
        joint = self._mechanism.joint(sensor.joint)
        carried = carried_by(self._mechanism, joint.child)
        child = self._motion.frames[joint.child]
        at = child.point(joint.child_point if sensor.point is None else sensor.point)
        whole = ca.SX(6, 1)
        for name in carried:
            body, frame = self._mechanism.body(name), self._motion.frames[name]
            a_C = self._acceleration(frame, body.center_of_mass) - ca.DM(self._mechanism.gravity)
            inertia = inertia_matrix(body, self._symbols)
            spin = inertia @ self._rate(frame.w) + ca.cross(frame.w, inertia @ frame.w)
            whole += _about(at, frame.point(body.center_of_mass), self._symbols.number(body.mass) * a_C)
            whole += ca.vertcat(ca.SX(3, 1), frame.R @ spin)
        whole -= self._on_points(carried, at) + self._of_springs_and_constraints(carried, at, joint.name)
        turned = (child.R @ axes_of(sensor.quaternion)).T
        return ca.vertcat(turned @ whole[:3], turned @ whole[3:])

    def _on_points(self, carried: tuple[str, ...], at: ca.SX) -> ca.SX:
        """Force (3,) and torque (3,) about `at` of contacts, custom forces and pushes on the bodies `carried`."""
        whole = ca.SX(6, 1)
        for contact in self._mechanism.contacts:
            found = self._applied.contacts[contact.name]
            sign = (contact.body in carried) - (contact.other in carried)
            whole += sign * _about(at, found.at, found.force)
        for law in self._applied.laws:
            for body, point, force in law.on_points:
                if body in carried:
                    whole += _about(at, point, force)
        for body in self._mechanism.pushable:
            if body in carried:
                whole += _about(at, *push_on(body, self._motion.frames[body], self._symbols))
        return whole

    def _of_springs_and_constraints(self, carried: tuple[str, ...], at: ca.SX, joint: str) -> ca.SX:
        """Force (3,) and torque (3,) about `at` that springs, dampers and constraints exert on the bodies `carried`.

        The constraints of the joint with the name `joint` are left out.
        """
        symbols, frames = self._symbols, self._motion.frames
        small = ca.SX.sym("small", 6)
        moved = _displaced(frames, carried, at, small)
        virtual_work = -spring_energy(self._mechanism, moved, symbols)
        for spring, length in spring_lengths(self._mechanism, moved):
            if spring.damping != 0.0:
                rate = ca.jtimes(ca.substitute(length, small, ca.SX.zeros(6)), symbols.q, symbols.v)
                virtual_work -= symbols.number(spring.damping) * rate * length
        row = 0
        for constraint in sorted(all_constraints(self._mechanism), key=lambda each: each.is_nonholonomic):
            rows = ca.vertsplit(constraint.rows(frames, symbols))
            displaced = ca.vertsplit(_displaced_rows(constraint, frames, moved, symbols))
            if constraint.name in self._solution.slips:
                slip = self._solution.slips[constraint.name]
                virtual_work += slip.load_of(self._solution_now()[1]) * ca.dot(slip.per_load, ca.vertcat(*displaced))
            variables = symbols.v if constraint.is_nonholonomic else symbols.q
            for here, there in zip(rows, displaced, strict=True):
                if ca.jacobian(here, variables).nnz() == 0:
                    continue  # left out of the multipliers too
                if constraint.name != joint:
                    lam = self._solution_now()[1][row]
                    virtual_work -= symbols.row_factor(constraint.name) * lam * there
                row += 1
        forces = ca.jacobian(virtual_work, small).T
        return ca.densify(ca.substitute(forces, small, ca.SX.zeros(6)))


def _displaced_rows(constraint: Constraint, frames: Frames, moved: Frames, symbols: Symbols) -> ca.SX:
    """Constraint functions Phi of a constraint, evaluated for slightly displaced bodies.

    The derivative of Phi with respect to the displacement gives the virtual work of the constraint. For a
    PrescribedMotion of a point, Phi is replaced by the position of the point along the axis. For a PrescribedMotion of
    a joint, Phi is replaced by 0. For a Rolling, Phi is replaced by the displacement of the contact point.

    frames  frames of the bodies; moved: of the displaced bodies
    """
    if isinstance(constraint, PrescribedMotion):
        if constraint.joint:
            return ca.SX(1, 1)
        return ca.dot(ca.DM(constraint.axis), moved[constraint.body].point(constraint.point))
    if isinstance(constraint, Rolling):
        return constraint.displaced(frames, moved)
    return constraint.rows(moved, symbols)


def _displaced(frames: Frames, carried: tuple[str, ...], at: ca.SX, small: ca.SX) -> Frames:
    """Frames of all bodies, with the bodies `carried` displaced by small[:3] and turned about `at` by small[3:].

    The displacement, m, and the rotation vector, rad, are small: terms of second order are left out.
    """
    turn = ca.SX.eye(3) + ca.skew(small[3:])
    found = dict(frames)
    for name in carried:
        frame = frames[name]
        found[name] = replace(frame, p=at + small[:3] + turn @ (frame.p - at), R=turn @ frame.R)
    return found


def _about(at: ca.SX, point: ca.SX, force: ca.SX) -> ca.SX:
    """Column (6,): the given force (3,), which acts at `point`, then the torque (3,) of this force about `at`."""
    return ca.vertcat(force, ca.cross(point - at, force))


def axes_of(quaternion: Quaternion) -> ca.SX:
    """Rotation matrix R_BS of a sensor's axes in the body's frame."""
    q = np.array(quaternion, dtype=float)
    return ca.SX(rotation_from_quaternion(q / np.linalg.norm(q)))

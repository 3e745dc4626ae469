"""Symbolic expressions of a mechanism's named outputs."""

from __future__ import annotations

import casadi as ca

from sim_core.derivation.forces.applied import AppliedForces
from sim_core.derivation.sensors import Sensors
from sim_core.derivation.solving.solutions import Solution
from sim_core.derivation.symbols import Motion, Symbols
from sim_core.flexible.elements import beam_model
from sim_core.mechanism.beams import ContactForceOutput, DeflectionOutput
from sim_core.mechanism.description import JointOutput, Mechanism, PointOutput
from sim_core.mechanism.outputs import (
    AccelerometerOutput,
    ForceOutput,
    ForceTorqueOutput,
    GyroscopeOutput,
    HoldingOutput,
    ReactionOutput,
    SurfaceForceOutput,
    VelocityOutput,
    names_of,
)
from sim_core.mechanism.rolling import Rolling, SlipOutput


def outputs_of(
    mechanism: Mechanism,
    motion: Motion,
    symbols: Symbols,
    positions: ca.SX,
    solution: Solution,
    applied: AppliedForces,
    sensors: Sensors | None = None,
) -> tuple[list[str], ca.SX]:
    """Names and values (n_outputs,) of the outputs of a mechanism.

    positions  positions (n_joints,) of the declared joints
    applied    forces of contacts, springs and custom forces
    sensors    readings of the sensors, by default from the other arguments
    """
    names, values = list[str](), list[ca.SX]()
    joints = [joint.name for joint in mechanism.moving_joints]
    sensors = sensors or Sensors(mechanism, motion, symbols, solution, applied)
    beams = {beam.name: beam_model(beam) for beam in mechanism.beams}
    for output in mechanism.outputs:
        if isinstance(output, PointOutput | VelocityOutput | ForceOutput):
            vector = _vector(output, motion, symbols, mechanism, solution)
            names += names_of(output)
            values += [vector["xyz".index(axis)] for axis in output.axes]
            continue
        if isinstance(output, SurfaceForceOutput):
            names += names_of(output)
            values += [applied.contacts[output.contact].force["xyz".index(axis)] for axis in output.axes]
            continue
        if isinstance(output, AccelerometerOutput | GyroscopeOutput | ForceTorqueOutput):
            names += names_of(output)
            values += ca.vertsplit(ca.densify(sensors.reading(output)))
            continue
        if isinstance(output, SlipOutput):
            wheel = next(c for c in mechanism.constraints if isinstance(c, Rolling) and c.name == output.constraint)
            slip = wheel.slip(motion.frames, symbols)
            names += names_of(output)
            values += [ca.SX(ca.dot(axis, slip)) for axis in wheel.axes(motion.frames)[:2]]
            continue
        names.append(output.name)
        if isinstance(output, JointOutput):
            values.append(positions[joints.index(output.joint)])
        elif isinstance(output, DeflectionOutput):
            shape = ca.SX(ca.DM(beams[output.beam].shape(output.x)))
            values.append(ca.dot(shape, symbols.beams[output.beam]))
        elif isinstance(output, ContactForceOutput):
            values.append(-solution.multiplier(output.contact))
        elif isinstance(output, ReactionOutput):
            values.append(-solution.multiplier(output.constraint))
        else:
            assert isinstance(output, HoldingOutput)
            values.append(ca.SX(symbols.row_factor(output.constraint)))
    return names, ca.vertcat(*values) if values else ca.SX(0, 1)


def _vector(
    output: PointOutput | VelocityOutput | ForceOutput,
    motion: Motion,
    symbols: Symbols,
    mechanism: Mechanism,
    solution: Solution,
) -> ca.SX:
    """A vector (3,) for an output at a body-fixed point, in world axes.

    The vector is the position r of the point, the velocity of the point, or the force -(dPhi/dr)' lam that constraints
    with the violations Phi and the multipliers lam exert on the point.
    """
    if isinstance(output, PointOutput):
        return motion.frames[output.body].point(output.point)
    if isinstance(output, VelocityOutput):
        return ca.jtimes(motion.frames[output.body].point(output.point), symbols.q, symbols.v)
    constraints = {constraint.name: constraint for constraint in mechanism.constraints}
    forces = [
        constraints[name].direction(motion.frames, symbols) * -solution.multiplier(name) for name in output.constraints
    ]
    return sum(forces, ca.SX(3, 1))

"""Symbolic constraint rows, with one function per kind of constraint (`rows_of`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import casadi as ca

from sim_core import spatial
from sim_core.derivation.symbols import Frames, Symbols
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.beams import BeamContact
from sim_core.mechanism.description import (
    GROUND,
    Anchored,
    Coincidence,
    Constraint,
    Distance,
    Joint,
    JointRelation,
    Mechanism,
    Perpendicular,
    PrescribedMotion,
    Slider,
    SpinRelation,
    UnitNorm,
    Vector3,
    X,
    Y,
    Z,
)

LENGTHS = (Coincidence, Slider, Distance, BeamContact, Anchored)  # kinds whose rows are in metres


@singledispatch
def rows_of(constraint: Constraint, frames: Frames, symbols: Symbols) -> ca.SX:
    """Rows of a constraint as a column of expressions, which are zero if the constraint is satisfied.

    The rows of a holonomic constraint are the violation Phi(q, t). Those of a nonholonomic constraint are linear in the
    velocities: G v + g, with a matrix G and a vector g.
    """
    raise InvalidMechanism(
        f"constraint {constraint.name!r}: kind {type(constraint).__name__} has no equations; register them with rows_of"
    )


@rows_of.register
def _(constraint: Coincidence, frames: Frames, symbols: Symbols) -> ca.SX:
    gap = frames[constraint.body_a].point(constraint.point_a) - frames[constraint.body_b].point(constraint.point_b)
    return ca.vertcat(*[ca.dot(ca.DM(direction), gap) for direction in constraint.directions])


@rows_of.register
def _(constraint: Perpendicular, frames: Frames, symbols: Symbols) -> ca.SX:
    return ca.dot(frames[constraint.body_a].axis(constraint.axis_a), frames[constraint.body_b].axis(constraint.axis_b))


@rows_of.register
def _(constraint: Slider, frames: Frames, symbols: Symbols) -> ca.SX:
    a, b = frames[constraint.body_a], frames[constraint.body_b]
    return ca.dot(a.axis(constraint.axis_a), b.point(constraint.point_b) - a.point(constraint.point_a))


@rows_of.register
def _(constraint: Distance, frames: Frames, symbols: Symbols) -> ca.SX:
    gap = frames[constraint.body_a].point(constraint.point_a) - frames[constraint.body_b].point(constraint.point_b)
    return (ca.dot(gap, gap) - constraint.length**2) / (2 * constraint.length)


@rows_of.register
def _(constraint: UnitNorm, frames: Frames, symbols: Symbols) -> ca.SX:
    e = frames[constraint.body].e
    if e is None:
        raise InvalidMechanism(
            f"body {constraint.body!r} has no Euler parameters; remove the UnitNorm constraint of this body"
        )
    return ca.dot(e, e) - 1


@rows_of.register
def _(constraint: SpinRelation, frames: Frames, symbols: Symbols) -> ca.SX:
    return sum((factor * ca.dot(frames[body].w, ca.DM(axis)) for body, axis, factor in constraint.terms), ca.SX(0))


@rows_of.register
def _(constraint: BeamContact, frames: Frames, symbols: Symbols) -> ca.SX:
    contact, _ = symbols.contacts[constraint.name]
    return contact.deflection - contact.across - symbols.number(constraint.offset)


@rows_of.register
def _(constraint: Anchored, frames: Frames, symbols: Symbols) -> ca.SX:
    along = ca.dot(ca.DM(constraint.axis), frames[constraint.body].point(constraint.point))
    return along - symbols.number(constraint.at)


@rows_of.register
def _(constraint: JointRelation, frames: Frames, symbols: Symbols) -> ca.SX:
    terms = [factor * symbols.joints[joint].position for joint, factor in constraint.terms]
    return sum(terms, -ca.SX(symbols.number(constraint.offset)))


@rows_of.register
def _(constraint: PrescribedMotion, frames: Frames, symbols: Symbols) -> ca.SX:
    if constraint.joint:
        joint = symbols.joints[constraint.joint]
        position, rate, wraps = joint.position, joint.rate, joint.wraps
    else:
        position = ca.dot(ca.DM(constraint.axis), frames[constraint.body].point(constraint.point))
        rate, wraps = ca.jtimes(position, symbols.q, symbols.v), False
    if constraint.motion is None:
        return rate - symbols.inputs[constraint.input]
    gap = position - ca.SX(constraint.motion(symbols.t))
    return ca.atan2(ca.sin(gap), ca.cos(gap)) if wraps else gap


def is_length(constraint: Constraint, symbols: Symbols) -> bool:
    """Whether the rows of a constraint are lengths or velocities. Other rows are angles, ratios or rates of these."""
    if isinstance(constraint, JointRelation):
        return all(symbols.joints[joint].is_length for joint, _ in constraint.terms)
    if isinstance(constraint, PrescribedMotion):
        return not constraint.joint or symbols.joints[constraint.joint].is_length
    return isinstance(constraint, LENGTHS)


def direction_of(constraint: Constraint, symbols: Symbols) -> ca.SX:
    """Derivative d Phi / d r (3,) of a constraint's violation Phi with respect to the position r of the point on which
    it acts.

    Raises InvalidMechanism for a constraint that does not act on a single point of a body.
    """
    if isinstance(constraint, Anchored):
        return ca.SX(ca.DM(constraint.axis))
    if isinstance(constraint, BeamContact):
        contact, _ = symbols.contacts[constraint.name]
        return contact.slope * ca.DM(contact.axis) - ca.DM(contact.direction)
    raise InvalidMechanism(
        f"constraint {constraint.name!r} does not act on a single point of a body, so that its force has no single "
        "direction; use Anchored or BeamContact"
    )


def is_nonholonomic(constraint: Constraint) -> bool:
    """Whether a constraint is nonholonomic: its rows are linear in the velocities and do not restrict positions."""
    return isinstance(constraint, SpinRelation) or (
        isinstance(constraint, PrescribedMotion) and constraint.motion is None
    )


def constraints_of_joint(mechanism: Mechanism, joint: Joint) -> list[Constraint]:
    """The constraints that a joint imposes in absolute coordinates, each with the joint's name."""
    in_plane = _is_planar(mechanism, joint)
    e1, e2 = spatial.perpendicular_axes(joint.axis)
    axis_child, e1_child = _in_child_frame(joint, joint.axis), _in_child_frame(joint, e1)

    def coincide(directions: tuple[Vector3, ...]) -> Constraint:
        return Coincidence(
            name=joint.name,
            body_a=joint.parent,
            point_a=joint.parent_point,
            body_b=joint.child,
            point_b=joint.child_point,
            directions=directions,
        )

    def perpendicular(axis_a: Vector3, axis_b: Vector3) -> Constraint:
        return Perpendicular(name=joint.name, body_a=joint.child, axis_a=axis_a, body_b=joint.parent, axis_b=axis_b)

    def stays(axis: Vector3) -> Constraint:
        return Slider(
            name=joint.name,
            body_a=joint.parent,
            point_a=joint.parent_point,
            axis_a=axis,
            body_b=joint.child,
            point_b=joint.child_point,
        )

    # for planar bodies, no coordinate moves the out-of-plane rows; their values are checked at assembly
    square = [perpendicular(axis_child, e1), perpendicular(axis_child, e2), perpendicular(e1_child, e2)]
    if joint.kind == "fixed":
        return [coincide((X, Y)), square[2], coincide((Z,))] if in_plane else [coincide((X, Y, Z)), *square]
    if joint.kind == "revolute":
        return [coincide((X, Y, Z))] if in_plane else [coincide((X, Y, Z)), *square[:2]]
    if joint.kind == "prismatic":
        if in_plane:
            across = e2 if abs(e1[2]) > 0.5 else e1
            return [stays(across), perpendicular(_in_child_frame(joint, across), joint.axis), stays(Z)]
        return [stays(e1), stays(e2), *square]
    if in_plane:
        return [stays(Z)]
    return [stays(joint.axis), *square[:2]]


def _in_child_frame(joint: Joint, direction: Vector3) -> Vector3:
    """Components in the child's frame, at joint position 0, of a direction that is given in the parent's frame."""
    R = joint.rotation
    x, y, z = (sum(R[k][i] * direction[k] for k in range(3)) for i in range(3))
    return (x, y, z)


def _is_planar(mechanism: Mechanism, joint: Joint) -> bool:
    ends = [mechanism.body(end) for end in (joint.parent, joint.child) if end != GROUND]
    return all(body.orientation == "planar" for body in ends)


def all_constraints(mechanism: Mechanism) -> list[Constraint]:
    """Every constraint of a mechanism.

    In absolute coordinates, the constraints of the joints come first, then a UnitNorm for each body with Euler
    parameters. In all coordinates, the entries of `Mechanism.constraints` come last.
    """
    found: list[Constraint] = []
    if mechanism.coordinates == "absolute":
        for joint in mechanism.joints:
            found += constraints_of_joint(mechanism, joint)
        for body in mechanism.bodies:
            if body.orientation == "euler_parameters":
                found.append(UnitNorm(name=f"{body.name}.norm", body=body.name))
    return found + list(mechanism.constraints)


@dataclass(frozen=True)
class Rows:
    """Constraint rows of a mechanism, holonomic ones first, and their equation J a = gamma for the accelerations a.

    The equation is the second time derivative of the holonomic rows and the first time derivative of the nonholonomic
    rows. J (n_r, n_q) is the Jacobian of the rows, and gamma (n_r,) is the right-hand side.
    """

    Phi: ca.SX  # (n_h,): values of the holonomic rows
    Phidot: ca.SX  # (n_r,): dPhi/dt of the holonomic rows, then the values G v + g of the nonholonomic rows
    J: ca.SX  # (n_r, n_q): Jacobian
    gamma: ca.SX  # (n_r,): right-hand side of J a = gamma
    idle: ca.SX  # (n_r,): 1 for a row that is switched off, whose value and multiplier are 0; otherwise 0
    names: tuple[str, ...]
    lengths: tuple[bool, ...]  # (n_r,): whether a row is a length, m


def rows_for(constraints: list[Constraint], frames: Frames, symbols: Symbols) -> Rows:
    """Constraint rows, their Jacobian J and the right-hand side gamma of J a = gamma, by automatic differentiation.

    For holonomic rows, J a = gamma is the second time derivative of Phi = 0. For nonholonomic rows, it is the first
    time derivative of G v + g = 0. Rows that depend on no coordinate are left out. [NadaBayoumi2024, eqs. 3, 7, 32]

    A switched constraint is one that is not always active. Its rows are multiplied by a parameter, which is 1 while the
    constraint is active and otherwise 0.
    """
    t, q, v = symbols.t, symbols.q, symbols.v
    holonomic: list[ca.SX] = []
    velocity: list[ca.SX] = []
    names: list[str] = []
    held: list[ca.SX] = []
    lengths: list[bool] = []
    for constraint in sorted(constraints, key=is_nonholonomic):
        for row in ca.vertsplit(rows_of(constraint, frames, symbols)):
            moves = ca.jacobian(row, v if is_nonholonomic(constraint) else q).nnz() > 0
            if not moves:
                continue
            names.append(constraint.name)
            lengths.append(is_length(constraint, symbols))
            held.append(ca.SX(symbols.row_factor(constraint.name)))
            row = row * held[-1]
            (velocity if is_nonholonomic(constraint) else holonomic).append(row)
    Phi = ca.vertcat(*holonomic) if holonomic else ca.SX(0, 1)
    spin = ca.vertcat(*velocity) if velocity else ca.SX(0, 1)
    rate = ca.jtimes(Phi, q, v) + ca.jacobian(Phi, t) if holonomic else ca.SX(0, 1)
    Phidot = ca.vertcat(rate, spin)
    J = ca.vertcat(ca.jacobian(Phi, q), ca.jacobian(spin, v)) if names else ca.SX(0, q.numel())
    gamma = -(ca.jtimes(Phidot, q, v) + ca.jacobian(Phidot, t)) if names else ca.SX(0, 1)
    idle = 1 - ca.vertcat(*held) if names else ca.SX(0, 1)
    return Rows(Phi, Phidot, ca.SX(J), ca.SX(gamma), ca.sparsify(idle), tuple(names), tuple(lengths))

"""Constraint rows of a mechanism, their Jacobian, and the constraints that joints impose in absolute coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core import spatial
from sim_core.derivation.symbols import Frames, Symbols
from sim_core.mechanism.constraints import Coincidence, Constraint, Perpendicular, Slider, UnitNorm
from sim_core.mechanism.description import GROUND, Joint, Mechanism
from sim_core.mechanism.joints import X, Y, Z
from sim_core.mechanism.quantities import Vector3


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
    if not in_plane:
        held = [stays(axis) for axis in (e1, e2, joint.axis) if axis not in joint.slides]
        return [*(held if joint.slides else [coincide((X, Y, Z))]), *(square[:2] if joint.turns else square)]
    if joint.is_length:
        across = e2 if abs(e1[2]) > 0.5 else e1
        return [stays(across), perpendicular(_in_child_frame(joint, across), joint.axis), stays(Z)]
    if joint.slides:
        return [stays(Z)]
    return [coincide((X, Y, Z))] if joint.turns else [coincide((X, Y)), square[2], coincide((Z,))]


def _in_child_frame(joint: Joint, direction: Vector3) -> Vector3:
    """Components in the child's frame, at joint position 0, of a direction that is given in the parent's frame."""
    R = joint.rotation
    x, y, z = (sum(R[k][i] * direction[k] for k in range(3)) for i in range(3))
    return (x, y, z)


def _is_planar(mechanism: Mechanism, joint: Joint) -> bool:
    return all(mechanism.body(end).is_planar for end in (joint.parent, joint.child) if end != GROUND)


def all_constraints(mechanism: Mechanism) -> list[Constraint]:
    """Every constraint of a mechanism.

    In absolute coordinates, the constraints of the joints come first, then a UnitNorm for each body with Euler
    parameters. In all coordinates, the entries of `Mechanism.constraints` come last.
    """
    found: list[Constraint] = []
    if mechanism.has_body_coordinates:
        for joint in mechanism.joints:
            found += constraints_of_joint(mechanism, joint)
        for body in mechanism.bodies:
            if body.has_euler_parameters:
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
    for constraint in sorted(constraints, key=lambda each: each.is_nonholonomic):
        for row in ca.vertsplit(ca.SX(constraint.rows(frames, symbols))):
            moves = ca.jacobian(row, v if constraint.is_nonholonomic else q).nnz() > 0
            if not moves:
                continue
            names.append(constraint.name)
            lengths.append(constraint.rows_are_lengths(symbols))
            held.append(ca.SX(symbols.row_factor(constraint.name)))
            row = row * held[-1]
            (velocity if constraint.is_nonholonomic else holonomic).append(row)
    Phi = ca.vertcat(*holonomic) if holonomic else ca.SX(0, 1)
    spin = ca.vertcat(*velocity) if velocity else ca.SX(0, 1)
    rate = ca.jtimes(Phi, q, v) + ca.jacobian(Phi, t) if holonomic else ca.SX(0, 1)
    Phidot = ca.vertcat(rate, spin)
    J = ca.vertcat(ca.jacobian(Phi, q), ca.jacobian(spin, v)) if names else ca.SX(0, q.numel())
    gamma = -(ca.jtimes(Phidot, q, v) + ca.jacobian(Phidot, t)) if names else ca.SX(0, 1)
    idle = 1 - ca.vertcat(*held) if names else ca.SX(0, 1)
    return Rows(Phi, Phidot, ca.SX(J), ca.SX(gamma), ca.sparsify(idle), tuple(names), tuple(lengths))

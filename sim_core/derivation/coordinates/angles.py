"""Derivation in absolute angles: each link's angle is relative to the ground. For trees of parallel revolute joints."""

from __future__ import annotations

import casadi as ca

from sim_core import spatial
from sim_core.derivation.coordinates.absolute import newton_euler
from sim_core.derivation.symbols import Frame, Frames, Measures, Motion, Symbols, ground_frame, symbols_for
from sim_core.mechanism.description import GROUND, Mechanism


def derive(mechanism: Mechanism) -> tuple[Symbols, Motion]:
    """Symbols and equations of a tree in absolute angles: frames, mass matrix M, and forces f."""
    names = tuple(mechanism.family.names(mechanism.bodies, mechanism.joints))
    symbols = symbols_for(mechanism, len(names))
    frames = _frames(mechanism, symbols)
    M, f = ca.SX(len(names), len(names)), ca.SX(len(names), 1)
    for body in mechanism.bodies:
        M_body, f_body = newton_euler(body, frames[body.name], mechanism, symbols, slice(0, len(names)))
        M, f = M + M_body, f + f_body
    return symbols, Motion(names, frames, M, f, lambda a: M @ a - f)


def _frames(mechanism: Mechanism, symbols: Symbols) -> Frames:
    """{body: frame} of all bodies. The rotation matrix from a body's axes to the world's is R_WB = R(axis, angle) C.

    R(axis, angle) is the rotation by the body's absolute angle about the axis that all joints share. The constant
    rotation C is the product of the constant rotations, about the same axis, of the joints from the ground to the body.
    """
    axis = mechanism.moving_joints[0].axis
    frames = ground_frame()
    angle, rate, turned = {GROUND: ca.SX(0)}, {GROUND: ca.SX(0)}, {GROUND: ca.DM.eye(3)}
    count = 0
    for joint in mechanism.joints:
        parent, child = joint.parent, joint.child
        angle[child], rate[child] = angle[parent], rate[parent]
        if not joint.is_fixed:
            angle[child], rate[child] = symbols.q[count], symbols.v[count]
            count += 1
        turned[child] = turned[parent] @ ca.DM(joint.rotation)
        R = spatial.rotation_about(axis, angle[child]) @ turned[child]
        p = frames[parent].point(joint.parent_point) - R @ ca.DM(joint.child_point)
        frames[child] = Frame(p, R, ca.DM(axis) * rate[child])
    return frames


def joint_measures(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> Measures:
    """Measures of the declared joints: differences of absolute angles."""
    return _relative(mechanism, symbols.q), _relative(mechanism, symbols.v), []


def _relative(mechanism: Mechanism, angles: ca.SX) -> ca.SX:
    """Joint positions (n_q,), rad: the absolute angle of each joint's child minus that of the joint's parent.

    angles  (n_q,) absolute angles of the links, rad
    """
    of_body, found, count = {GROUND: ca.SX(0)}, [], 0
    for joint in mechanism.joints:
        of_body[joint.child] = of_body[joint.parent]
        if not joint.is_fixed:
            of_body[joint.child] = angles[count]
            found.append(angles[count] - of_body[joint.parent])
            count += 1
    return ca.vertcat(*found)

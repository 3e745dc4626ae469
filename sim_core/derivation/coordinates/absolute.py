"""Derivation in absolute coordinates: each body has its own coordinates, on which its Newton-Euler equations are
projected.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation.symbols import Frame, Measures, Motion, Symbols, column, ground_frame, symbols_for
from sim_core.mechanism.description import COORDINATES, GROUND, Body, Joint, Mechanism


def derive(mechanism: Mechanism) -> tuple[Symbols, Motion]:
    """Symbols of a mechanism in absolute coordinates, and its frames, block-diagonal mass matrix M, and forces f."""
    names = tuple(mechanism.family.names(mechanism.bodies, mechanism.joints))
    symbols = symbols_for(mechanism, len(names))
    frames = ground_frame()
    M, f = ca.SX(len(names), len(names)), ca.SX(len(names), 1)
    start = 0
    for body in mechanism.bodies:
        stop = start + len(body.free_coordinates)
        frames[body.name] = _frame(body, symbols, start)
        M_body, f_body = newton_euler(body, frames[body.name], mechanism, symbols, slice(start, stop))
        M[start:stop, start:stop] = M_body
        f[start:stop] = f_body
        start = stop
    return symbols, Motion(names, frames, M, f, lambda a: M @ a - f)


def _frame(body: Body, symbols: Symbols, start: int) -> Frame:
    names = COORDINATES[body.orientation]
    placement = body.placement or _reference_placement(body.orientation)
    value: dict[str, ca.SX] = {}
    rate: dict[str, ca.SX] = {}
    for name, fixed in zip(names, placement, strict=True):
        if name in body.free_coordinates:
            index = start + body.free_coordinates.index(name)
            value[name], rate[name] = symbols.q[index], symbols.v[index]
        else:
            value[name], rate[name] = ca.SX(fixed), ca.SX(0)
    zero = ca.SX(0)
    position = ca.vertcat(value["x"], value["y"], value.get("z", zero))
    if body.is_planar:
        R = spatial.rotation_about((0.0, 0.0, 1.0), value["theta"])
        return Frame(position, R, ca.vertcat(zero, zero, rate["theta"]))
    angles = [value[name] for name in names[3:]]
    rates = ca.vertcat(*[rate[name] for name in names[3:]])
    if body.orientation == "zxz":
        w = spatial.angular_velocity_zxz(angles[1], angles[2], rates)
        return Frame(position, spatial.rotation_zxz(*angles), w)
    e = ca.vertcat(*angles)
    return Frame(position, spatial.rotation_from_quaternion(e), spatial.angular_velocity_quaternion(e, rates), e)


def _reference_placement(orientation: str) -> tuple[float, ...]:
    return (
        (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        if orientation == "euler_parameters"
        else (0.0,) * len(COORDINATES[orientation])
    )


def inertia_matrix(body: Body, symbols: Symbols) -> ca.SX:
    """Inertia matrix (3, 3) of a body about its centre of mass, in the body's axes, kg m2."""
    xx, yy, zz, xy, xz, yz = (ca.SX(symbols.number(value)) for value in body.inertia)
    return ca.vertcat(ca.horzcat(xx, xy, xz), ca.horzcat(xy, yy, yz), ca.horzcat(xz, yz, zz))


def newton_euler(body: Body, frame: Frame, mechanism: Mechanism, symbols: Symbols, block: slice) -> tuple[ca.SX, ca.SX]:
    """Mass matrix and generalized forces of one body, from its Newton-Euler equations projected on its coordinates.

    block  slice of the body's coordinates in q; the matrix and the forces contain these coordinates only
    """
    q, v = symbols.q[block], symbols.v[block]
    mass, inertia = symbols.number(body.mass), inertia_matrix(body, symbols)
    center = frame.point(body.center_of_mass)
    translation = ca.jacobian(center, q)  # v_WC = translation v
    turning = ca.jacobian(frame.w, v)  # w_WB_B = turning v
    # velocity-dependent parts of the accelerations of centre and frame
    drift = ca.jtimes(ca.jtimes(center, q, v), q, v)
    turning_drift = ca.jtimes(frame.w, q, v)
    gyroscopic = inertia @ turning_drift + ca.cross(frame.w, inertia @ frame.w)
    M = mass * translation.T @ translation + turning.T @ inertia @ turning
    f = mass * translation.T @ (ca.DM(mechanism.gravity) - drift) - turning.T @ gyroscopic
    return ca.simplify(M), ca.simplify(f)


def joint_measures(mechanism: Mechanism, motion: Motion, symbols: Symbols) -> Measures:
    """Measures of the declared joints, from the frames of their bodies."""
    positions, rates, wrapped = [], [], []
    for index, joint in enumerate(mechanism.moving_joints):
        position, wraps = measured_position(mechanism, motion, symbols, joint)
        positions.append(position)
        rates.append(measured_rate(motion, symbols, joint, position))
        wrapped += [index] * wraps
    return column(positions), column(rates), wrapped


def measured_position(mechanism: Mechanism, motion: Motion, symbols: Symbols, joint: Joint) -> tuple[ca.SX, bool]:
    """Position of a joint from the frames of its bodies, and whether it is an angle that is wrapped to [-pi, pi]."""
    parent, child = motion.frames[joint.parent], motion.frames[joint.child]
    if joint.is_length:
        gap = child.point(joint.child_point) - parent.point(joint.parent_point)
        return ca.dot(parent.axis(joint.axis), gap), False
    planar = {joint.parent: GROUND} if joint.parent == GROUND else {}
    if joint.axis == (0.0, 0.0, 1.0) and all(
        end in planar or mechanism.body(end).is_planar for end in (joint.parent, joint.child)
    ):
        turn = [_planar_angle(mechanism, motion, symbols, end) for end in (joint.child, joint.parent)]
        zero = float(np.arctan2(joint.rotation[1][0], joint.rotation[0][0]))
        return turn[0] - turn[1] - zero, False
    e1, e2 = spatial.perpendicular_axes(joint.axis)
    relative = parent.R.T @ child.R @ ca.DM(joint.rotation).T
    turned = relative @ ca.DM(e1)
    return ca.atan2(ca.dot(ca.DM(e2), turned), ca.dot(ca.DM(e1), turned)), True


def _planar_angle(mechanism: Mechanism, motion: Motion, symbols: Symbols, name: str) -> ca.SX:
    if name == GROUND:
        return ca.SX(0)
    key = f"{name}.theta"
    if key in motion.coordinate_names:
        return symbols.q[motion.coordinate_names.index(key)]
    body = mechanism.body(name)
    return ca.SX(body.placement[2] if body.placement else 0.0)


def measured_rate(motion: Motion, symbols: Symbols, joint: Joint, position: ca.SX) -> ca.SX:
    """Velocity of a joint from the motion of its bodies."""
    parent, child = motion.frames[joint.parent], motion.frames[joint.child]
    if joint.is_length:
        return ca.jtimes(position, symbols.q, symbols.v)
    return ca.dot(parent.axis(joint.axis), child.w_W - parent.w_W)

"""Kinematics of CHARMIE's omnidirectional base: conversion between twists and wheel rates, odometry, encoder counts.

A twist is (vx, vy, wz): velocity of the yaw axis along the base's axes (m/s), and yaw rate (rad/s). Wheel k has the
radius r and is at the distance L from the yaw axis in the direction beta_k. It rolls perpendicular to this direction,
towards increasing angles; its rollers permit sliding along this direction. Rolling without slip means, for the wheel
rates w_k,

    r w_k = -sin(beta_k) vx + cos(beta_k) vy + L wz
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robots.charmie.parameters import Wheels

Array = NDArray[np.float64]


def wheel_angles(wheels: Wheels) -> Array:
    """Directions beta (n,) of the wheels as seen from the yaw axis (rad), measured from x towards y."""
    return np.asarray(wheels.first_angle + 2.0 * math.pi * np.arange(wheels.count) / wheels.count)


def rolling_matrix(wheels: Wheels) -> Array:
    """Matrix W (n, 3) that maps a twist (vx, vy, wz) to wheel rates (rad/s)."""
    beta = wheel_angles(wheels)
    lever = np.full(wheels.count, wheels.distance)
    return np.column_stack([-np.sin(beta), np.cos(beta), lever]) / wheels.radius


def wheel_rates(wheels: Wheels, twist: ArrayLike) -> Array:
    """Wheel rates (n,) in rad/s for a twist."""
    return np.asarray(rolling_matrix(wheels) @ np.asarray(twist, dtype=float))


def twist_of(wheels: Wheels, rates: ArrayLike) -> Array:
    """Twist of the base for wheel rates (n,) in rad/s: exact if no wheel slips, otherwise by least squares."""
    return np.asarray(np.linalg.pinv(rolling_matrix(wheels)) @ np.asarray(rates, dtype=float))


def within_limits(wheels: Wheels, twist: ArrayLike) -> Array:
    """Return the twist, scaled down if necessary so that no wheel exceeds its speed limit.

    The scaling keeps the direction of the twist.
    """
    twist = np.asarray(twist, dtype=float)
    fastest = float(np.abs(wheel_rates(wheels, twist)).max())
    return twist if fastest <= wheels.speed_limit else twist * (wheels.speed_limit / fastest)


def to_world(yaw: float, twist: ArrayLike) -> Array:
    """Rates of the joints base_x, base_y and base_yaw for a twist in the base's axes at the yaw angle `yaw` (rad)."""
    vx, vy, wz = np.asarray(twist, dtype=float)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([c * vx - s * vy, s * vx + c * vy, wz])


def to_base(yaw: float, rates: ArrayLike) -> Array:
    """Twist in the base's axes for rates of the joints base_x, base_y and base_yaw at the yaw angle `yaw` (rad)."""
    vx, vy, wz = np.asarray(rates, dtype=float)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([c * vx + s * vy, -s * vx + c * vy, wz])


def wheel_turns(wheels: Wheels, before: ArrayLike, after: ArrayLike) -> Array:
    """Angles (n,) in rad by which the wheels roll between two poses (base_x, base_y, base_yaw).

    Exact for motions on a circular arc or a straight line: the chord is the arc times sin(d) / d, where d is half the
    change of yaw.
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    way = after - before
    half = way[2] / 2.0
    along = to_base(float(before[2] + half), way)
    along[:2] /= np.sinc(half / math.pi)
    # on an arc the twist is constant, so that the wheel angles are its integral
    return wheel_rates(wheels, along)


def pose_after(wheels: Wheels, before: ArrayLike, turns: ArrayLike) -> Array:
    """Pose (base_x, base_y, base_yaw) after the wheels have rolled by the angles `turns` (n,) in rad.

    This is the inverse of `wheel_turns`, for motions along a circular arc (constant twist). With slip, the twist is a
    least-squares fit.
    """
    before = np.asarray(before, dtype=float)
    along = twist_of(wheels, turns)
    half = along[2] / 2.0
    along[:2] *= np.sinc(half / math.pi)
    return np.asarray(before + to_world(float(before[2] + half), along))


def wheel_loads(wheels: Wheels, force: float, torque_x: float, torque_y: float) -> Array:
    """Loads (n,) of the wheels, N, that together exert an upward force and a torque about the base's axes x and y.

    Of all such loads, the ones with the least sum of squares, as of wheels on equal springs. The force (N) and torque
    (N m) are the outputs reaction_base_yaw_fz, _tx and _ty of `with_reactions(mechanism, ["base_yaw"])`. At a negative
    load the robot would tip over.
    """
    beta = wheel_angles(wheels)
    x, y = wheels.distance * np.cos(beta), wheels.distance * np.sin(beta)
    sums = np.array([np.ones(wheels.count), y, -x])
    return np.asarray(np.linalg.pinv(sums) @ np.array([force, torque_x, torque_y]))


def counts(wheels: Wheels, angles: ArrayLike) -> list[int]:
    """Encoder counts at wheel angles (n,) in rad: whole pulses, not wrapped."""
    pulses = np.floor(np.asarray(angles, dtype=float) * (wheels.pulses_per_turn / (2.0 * math.pi)))
    return [int(count) for count in pulses]

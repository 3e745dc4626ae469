"""Kinematics of the omnidirectional base: twist to wheel rates and back, odometry, encoder counts.

A twist is (vx, vy, wz): velocity of the yaw axis along the base's own axes, m/s, and yaw rate, rad/s. Wheel k is at
distance L from the yaw axis in the direction beta_k and rolls perpendicular to that direction, with +beta; its rollers
let it slide along it. Rolling without slipping means

    r w_k = -sin(beta_k) vx + cos(beta_k) vy + L wz
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robots.charmie.parameters import Wheels

Array = NDArray[np.float64]


def wheel_angles(wheels: Wheels) -> Array:
    """beta (n,), rad: directions of the wheels from the yaw axis, counted from x towards y."""
    return np.asarray(wheels.first_angle + 2.0 * math.pi * np.arange(wheels.count) / wheels.count)


def rolling_matrix(wheels: Wheels) -> Array:
    """W (n, 3) of w = W (vx, vy, wz), which maps a twist to wheel rates in rad/s."""
    beta = wheel_angles(wheels)
    lever = np.full(wheels.count, wheels.distance)
    return np.column_stack([-np.sin(beta), np.cos(beta), lever]) / wheels.radius


def wheel_rates(wheels: Wheels, twist: ArrayLike) -> Array:
    """Rates of the wheels (n,), rad/s, for a twist."""
    return np.asarray(rolling_matrix(wheels) @ np.asarray(twist, dtype=float))


def twist_of(wheels: Wheels, rates: ArrayLike) -> Array:
    """The base's twist for wheel rates (n,): exact if no wheel slips, otherwise the least-squares solution."""
    return np.asarray(np.linalg.pinv(rolling_matrix(wheels)) @ np.asarray(rates, dtype=float))


def within_limits(wheels: Wheels, twist: ArrayLike) -> Array:
    """The twist, scaled down, keeping its direction, until no wheel exceeds its speed limit."""
    twist = np.asarray(twist, dtype=float)
    fastest = float(np.abs(wheel_rates(wheels, twist)).max())
    return twist if fastest <= wheels.speed_limit else twist * (wheels.speed_limit / fastest)


def to_world(yaw: float, twist: ArrayLike) -> Array:
    """Rates of base_x, base_y and base_yaw for a twist in the base's axes at this yaw, rad."""
    vx, vy, wz = np.asarray(twist, dtype=float)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([c * vx - s * vy, s * vx + c * vy, wz])


def to_base(yaw: float, rates: ArrayLike) -> Array:
    """Twist in the base's axes for rates of base_x, base_y and base_yaw at this yaw, rad."""
    vx, vy, wz = np.asarray(rates, dtype=float)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([c * vx + s * vy, -s * vx + c * vy, wz])


def wheel_turns(wheels: Wheels, before: ArrayLike, after: ArrayLike) -> Array:
    """Angles (n,), rad, by which the wheels roll while (base_x, base_y, base_yaw) goes from `before` to `after`.

    Exact on a circular arc and on a straight line: an arc's chord is shorter by sin(d) / d, with d half the turned
    angle.
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    way = after - before
    half = way[2] / 2.0
    along = to_base(float(before[2] + half), way)
    along[:2] /= np.sinc(half / math.pi)
    # on an arc the twist is constant, so that the wheel angles are its integral
    return wheel_rates(wheels, along)


def moved(wheels: Wheels, before: ArrayLike, turns: ArrayLike) -> Array:
    """(base_x, base_y, base_yaw) after the wheels (n,) rolled by these angles, rad; the inverse of `wheel_turns`.

    Assumes a circular arc (constant twist); slip is balanced by least squares.
    """
    before = np.asarray(before, dtype=float)
    along = twist_of(wheels, turns)
    half = along[2] / 2.0
    along[:2] *= np.sinc(half / math.pi)
    return np.asarray(before + to_world(float(before[2] + half), along))


def counts(wheels: Wheels, angles: ArrayLike) -> list[int]:
    """Encoder counts at wheel angles (n,), rad: whole pulses, unwrapped."""
    pulses = np.floor(np.asarray(angles, dtype=float) * (wheels.pulses_per_turn / (2.0 * math.pi)))
    return [int(count) for count in pulses]

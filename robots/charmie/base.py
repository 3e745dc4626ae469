"""The omnidirectional base: velocities of the body to rates of its wheels and back, and what their encoders count.

A twist is (vx, vy, wz): velocity of the yaw axis along the base's own axes, m/s, and rate of yaw, rad/s. Wheel k stands
at distance L from the yaw axis in the direction beta_k, and rolls across that direction, with +beta: its rollers let it
slide along it. Rolling without slipping there:

    r w_k = -sin(beta_k) vx + cos(beta_k) vy + L wz
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robots.charmie.parameters import Wheels

Array = NDArray[np.float64]


def wheel_angles(wheels: Wheels) -> Array:
    """beta (n,), rad: where the wheels stand around the yaw axis, from x towards y."""
    return np.asarray(wheels.first_angle + 2.0 * math.pi * np.arange(wheels.count) / wheels.count)


def rolling_matrix(wheels: Wheels) -> Array:
    """W (n, 3) of w = W (vx, vy, wz), rad/s per m/s and per rad/s."""
    beta = wheel_angles(wheels)
    lever = np.full(wheels.count, wheels.distance)
    return np.column_stack([-np.sin(beta), np.cos(beta), lever]) / wheels.radius


def wheel_rates(wheels: Wheels, twist: ArrayLike) -> Array:
    """Rates of the wheels (n,), rad/s, that roll with a twist."""
    return np.asarray(rolling_matrix(wheels) @ np.asarray(twist, dtype=float))


def twist_of(wheels: Wheels, rates: ArrayLike) -> Array:
    """The twist of wheel rates (n,): exact when all roll, the nearest in the sense of least squares when some slip."""
    return np.asarray(np.linalg.pinv(rolling_matrix(wheels)) @ np.asarray(rates, dtype=float))


def within_limits(wheels: Wheels, twist: ArrayLike) -> Array:
    """The twist, or as much of it as no wheel is too fast for: its direction stays."""
    twist = np.asarray(twist, dtype=float)
    fastest = float(np.abs(wheel_rates(wheels, twist)).max())
    return twist if fastest <= wheels.speed_limit else twist * (wheels.speed_limit / fastest)


def to_world(yaw: float, twist: ArrayLike) -> Array:
    """Rates of base_x, base_y and base_yaw of a twist in the base's axes at this yaw, rad."""
    vx, vy, wz = np.asarray(twist, dtype=float)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([c * vx - s * vy, s * vx + c * vy, wz])


def to_base(yaw: float, rates: ArrayLike) -> Array:
    """The twist in the base's axes of the rates of base_x, base_y and base_yaw at this yaw, rad."""
    vx, vy, wz = np.asarray(rates, dtype=float)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([c * vx + s * vy, -s * vx + c * vy, wz])


def wheel_turns(wheels: Wheels, before: ArrayLike, after: ArrayLike) -> Array:
    """Angles (n,), rad, that the wheels roll while (base_x, base_y, base_yaw) goes from `before` to `after`.

    Exact on a circular arc and on a straight line: an arc's chord is shorter by sin(d) / d, d half of what it turns.
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    way = after - before
    half = way[2] / 2.0
    along = to_base(float(before[2] + half), way)
    along[:2] /= np.sinc(half / math.pi)
    # on an arc the twist is constant, so that the wheels roll by its integral
    return wheel_rates(wheels, along)


def moved(wheels: Wheels, before: ArrayLike, turns: ArrayLike) -> Array:
    """Where (base_x, base_y, base_yaw) is after the wheels (n,) rolled by these angles, rad: undoes `wheel_turns`.

    Along a circular arc, as if the twist was constant meanwhile; wheels that slip are balanced by least squares.
    """
    before = np.asarray(before, dtype=float)
    along = twist_of(wheels, turns)
    half = along[2] / 2.0
    along[:2] *= np.sinc(half / math.pi)
    return np.asarray(before + to_world(float(before[2] + half), along))


def counts(wheels: Wheels, angles: ArrayLike) -> list[int]:
    """What the encoders show at wheel angles (n,), rad: whole pulses, unwrapped."""
    pulses = np.floor(np.asarray(angles, dtype=float) * (wheels.pulses_per_turn / (2.0 * math.pi)))
    return [int(count) for count in pulses]

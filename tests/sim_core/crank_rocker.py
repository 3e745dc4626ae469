"""A four-bar linkage in joint coordinates with a motor at its crank, and a rotation of the crank."""

from __future__ import annotations

import math

import numpy as np

from sim_core.mechanism import Actuator, Body, Coincidence, Joint, Mechanism, X, Z

CRANK, COUPLER, ROCKER, GROUND = 0.3, 0.8, 0.6, 0.7


def bar(name: str, length: float, mass: float) -> Body:
    return Body(
        name=name,
        mass=mass,
        center_of_mass=(0.45 * length, 0.0, 0.02 * length),
        inertia=(1e-3, mass * length**2 / 12.0, mass * length**2 / 12.0, 0.0, 0.0, 0.0),
    )


def four_bar(crank: float = 1.0, coupler: float = 2.0, rocker: float = 1.5) -> Mechanism:
    """Crank-rocker in the plane x, z with a motor at the crank, in joint coordinates, with the given masses (kg)."""
    q1 = 1.0
    end = np.array([CRANK * math.cos(q1), CRANK * math.sin(q1)])
    gap = np.array([GROUND, 0.0]) - end
    distance = float(np.hypot(*gap))
    at_coupler = math.acos((COUPLER**2 + distance**2 - ROCKER**2) / (2.0 * COUPLER * distance))
    q2 = math.atan2(gap[1], gap[0]) + at_coupler
    tip = end + COUPLER * np.array([math.cos(q2), math.sin(q2)])
    q3 = math.atan2(tip[1], tip[0] - GROUND)
    axis = (0.0, -1.0, 0.0)
    return Mechanism(
        name="four_bar",
        coordinates="joint",
        bodies=(bar("crank", CRANK, crank), bar("coupler", COUPLER, coupler), bar("rocker", ROCKER, rocker)),
        joints=(
            Joint(name="crank", child="crank", axis=axis),
            Joint(name="pin", parent="crank", child="coupler", parent_point=(CRANK, 0.0, 0.0), axis=axis),
            Joint(name="rocker", child="rocker", parent_point=(GROUND, 0.0, 0.0), axis=axis),
        ),
        constraints=(
            Coincidence(
                name="closure",
                body_a="coupler",
                point_a=(COUPLER, 0.0, 0.0),
                body_b="rocker",
                point_b=(ROCKER, 0.0, 0.0),
                directions=(X, Z),
            ),
        ),
        actuators=(Actuator(name="crank", joint="crank"),),
        initial_q=(q1, q2 - q1, q3),
        initial_v=(0.0, 0.0, 0.0),
    )


def rotation(seconds: float = 20.0, rate_hz: float = 200.0) -> tuple[np.ndarray, ...]:
    """Times (n,), and positions, velocities and accelerations (n, 1) of the crank."""
    t = np.arange(0.0, seconds, 1.0 / rate_hz)
    q = 1.0 + 2.0 * t + 0.9 * np.sin(2.3 * t) + 0.5 * np.sin(5.1 * t)
    v = 2.0 + 2.07 * np.cos(2.3 * t) + 2.55 * np.cos(5.1 * t)
    a = -0.9 * 2.3**2 * np.sin(2.3 * t) - 0.5 * 5.1**2 * np.sin(5.1 * t)
    return t, q[:, None], v[:, None], a[:, None]

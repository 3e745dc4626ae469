"""Compliant stops for all joints with limits, with a stiffness computed from the joints' inertias."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sim_core.mechanism import Joint, JointStops, Mechanism, dissipation_for, stiffness_for
from sim_core.mobility import inverse_of, mass_matrix_at, moving_bodies, rounded

Array = np.ndarray[Any, np.dtype[np.float64]]
# rad/s: circular frequency of an impact at the joint's speed in SPEEDS; it grows as the square root of the speed
RATE = 80.0
SPEEDS = {"rad": 1.0, "m": 0.1}  # rad/s or m/s, by the unit of the joint
EXPONENT = 3.0  # smooth onset: RK4 at 1 ms keeps 1e-4 of the energy of a wrist that hits its stop at 18 rad/s
RESTITUTION, FAST = 0.3, 20.0  # restitution of an impact at this multiple of SPEEDS; damping grows with the speed
SAMPLES = 8  # random postures, with a fixed seed, beside the start


def with_stops(mechanism: Mechanism) -> Mechanism:
    """A copy of a mechanism with compliant stops at all joint limits.

    The mechanism must be a tree in joint coordinates.

    A joint that hits its stop at the speed SPEEDS[unit], where unit is the unit of its position, bounces with the
    circular frequency RATE. The stiffness of the stop follows from this and from the smallest inertia of the joint over
    several postures. A joint with this inertia that hits its stop at v rad/s or v m/s goes beyond the stop by at most
    0.031 sqrt(v) rad or 0.0097 sqrt(v) m. The stiffness suits steps of 1 ms. It does not represent the real machine:
    under load, light joints move well beyond their limits. A joint that moves no mass gets no stops.
    """
    limited = [joint for joint in mechanism.joints if joint.coordinates and (joint.lower, joint.upper) != (None, None)]
    least = least_inertias(mechanism) if limited else {}
    joints = []
    for joint in mechanism.joints:
        if joint in limited and np.isfinite(least[joint.name]):
            speed = SPEEDS[joint.unit]
            stiffness = rounded(stiffness_for(least[joint.name], EXPONENT, RATE, speed))
            dissipation = dissipation_for(RESTITUTION, FAST * speed)
            stops = JointStops(stiffness=stiffness, dissipation=dissipation, exponent=EXPONENT)
            joint = dataclasses.replace(joint, stops=stops)
        joints.append(joint)
    return dataclasses.replace(mechanism, joints=tuple(joints))


def least_inertias(mechanism: Mechanism) -> dict[str, float]:
    """{joint: smallest effective inertia, kg m2 or kg} over the start and random postures.

    The effective inertia of a joint is its inertia while all other joints are free to move. It is inf for a joint that
    moves no mass. For a spherical joint, it is the smallest inertia about any axis. In the random postures, spherical
    and free joints have the same orientation as at the start.
    """
    moving = [joint for joint in mechanism.joints if joint.coordinates]
    ends = np.cumsum([len(joint.coordinates) for joint in moving], dtype=int)
    most = np.zeros(len(moving))
    for mobility in mobilities(mechanism):
        most = np.maximum(most, [_mobility(joint, mobility, end) for joint, end in zip(moving, ends, strict=True)])
    least = np.divide(1.0, most, out=np.full(len(moving), np.inf), where=most > 0.0)
    return dict(zip([joint.name for joint in moving], least.tolist(), strict=True))


def mobilities(mechanism: Mechanism) -> list[Array]:
    """The inverse (n, n) of the mass matrix of the tree of joints at the start and at random postures.

    Spherical and free joints keep their orientation.
    """
    turning = np.array([joint.is_oriented for joint in mechanism.joints for _ in joint.coordinates])
    n = len(turning)
    moves = np.random.default_rng(1).uniform(-1.0, 1.0, (SAMPLES, n))
    q = np.array(mechanism.initial_q[:n]) + np.vstack([np.zeros(n), np.where(turning, 0.0, moves)])
    return list(inverse_of(mass_matrix_at(mechanism, moving_bodies(mechanism, q))))


def _mobility(joint: Joint, mobility: Array, end: int) -> float:
    """Inverse of a joint's effective inertia, 1/(kg m2) or 1/kg.

    For a spherical or free joint, it is the largest value over all axes of rotation; for any other joint, the value
    along its last coordinate.

    mobility  inverse (n, n) of the mass matrix
    end       index after the joint's last coordinate
    """
    if not joint.is_oriented:
        return float(mobility[end - 1, end - 1])
    return float(np.linalg.eigvalsh(mobility[end - 3 : end, end - 3 : end])[-1])

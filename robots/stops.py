"""Compliant stops for all joints with limits, with a stiffness computed from the joints' inertias."""

from __future__ import annotations

import dataclasses

import numpy as np

from sim_core.joint_loads import efforts, joint_loads, motions, postures
from sim_core.mechanism import JointStops, Mechanism, dissipation_for

RATE = 300.0  # rad/s: circular frequency of an impact at 1 rad/s or 1 m/s; RK4 resolves it at 1 ms
RESTITUTION, SPEED = 0.3, 5.0  # coefficient of restitution of an impact at this speed, rad/s or m/s
SAMPLES = 8  # random postures, with a fixed seed, beside the start


def with_stops(mechanism: Mechanism) -> Mechanism:
    """A copy of a mechanism, a tree in joint coordinates, with compliant stops at every lower and upper limit.

    The stiffness of a stop is such that an impact at 1 rad/s or 1 m/s has the circular frequency RATE, with the least
    inertia of the joint over several postures. It is thus chosen for the simulation's step and does not represent the
    real machine: under load, light joints go well beyond their limits.
    """
    # omega^2 = 3/2 k x^(1/2) / I at the depth x of m v^2 / 2 = k x^(5/2) / (5/2), solved for k / I at v = 1
    stiffness_per_inertia = (RATE**2 / (1.5 * 1.25**0.2)) ** 1.25
    least = least_inertias(mechanism)
    dissipation = dissipation_for(RESTITUTION, SPEED)
    joints = []
    for joint in mechanism.joints:
        if joint.kind != "fixed" and (joint.lower is not None or joint.upper is not None):
            stops = JointStops(stiffness=stiffness_per_inertia * least[joint.name], dissipation=dissipation)
            joint = dataclasses.replace(joint, stops=stops)
        joints.append(joint)
    return dataclasses.replace(mechanism, joints=tuple(joints))


def least_inertias(mechanism: Mechanism) -> dict[str, float]:
    """{joint: least inertia, kg m2 or kg} over the start and random postures, if all other joints move freely."""
    weightless = dataclasses.replace(mechanism, gravity=(0.0, 0.0, 0.0))
    start, draw = np.array(mechanism.initial_q), np.random.default_rng(1)
    n = len(start)
    names = [joint.name for joint in mechanism.joints for _ in joint.coordinates]
    least = np.full(n, np.inf)
    for sample in range(SAMPLES + 1):
        q = start if sample == 0 else start + draw.uniform(-1.0, 1.0, n)
        at, rest = postures(weightless, q), np.zeros(n)
        moving = [motions(weightless, at, rest, e) for e in np.eye(n)]
        M = np.array([np.ravel(efforts(each, joint_loads(weightless, each))) for each in moving])
        least = np.minimum(least, 1.0 / np.diag(np.linalg.inv(0.5 * (M + M.T))))
    return dict(zip(names, least.tolist(), strict=True))

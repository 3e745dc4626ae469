"""Checks whether the servo loops of a mechanism's actuators are stable at a step size.

A servo's effort is computed once per time step and constant over this step. A loop that is stable in continuous time
is therefore unstable if its stiffness or damping is too large for the step size and the inertia that the actuator
moves.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from sim_core.monitoring.modes import rounded_down
from sim_core.stabilization.stabilizers import largest_step
from sim_core.system import System

FAST = 2.0  # 1/s: a loop that grows more slowly is damped by friction and joint damping, which are left out here


def unstable_servos(system: System, step_s: float, q: np.ndarray, active: Collection[str] | None = None) -> str:
    """One-line warning that servo loops are unstable at the step size `step_s`; "" if all are stable.

    The mechanism is linearized about rest at the coordinates q (n_q,), where the joint accelerations are linear in the
    efforts. All servos of the actuators `active` act at the same time, as in a robot that holds a posture. Effort
    limits, joint damping and friction are left out.

    active  names of the actuators whose servos are active, by default all actuators with a servo
    """
    mechanism = system.mechanism
    servos = [
        (k, each)
        for k, each in enumerate(mechanism.actuators)
        if each.servo is not None and each.joint and (active is None or each.name in active)
    ]
    if not servos:
        return ""
    order = [joint.name for joint in mechanism.moving_joints]
    places = [order.index(actuator.joint) for _, actuator in servos]
    rest, units = np.zeros(system.n_q), np.eye(system.n_u)
    drift = system.acceleration(0.0, q, rest)[0]
    columns = [system.joints(0.0, q, system.acceleration(0.0, q, rest, units[k])[0] - drift)[1] for k, _ in servos]
    mobility = np.array(columns).T[places]
    k, d = np.array([[a.servo.stiffness, a.servo.damping] for _, a in servos if a.servo is not None]).T
    if not np.all(np.isfinite(mobility)):
        return ""
    rate, worst = _growth(mobility, k, d, step_s)
    if rate <= FAST:
        return ""
    most = largest_step(lambda h: 1.0 + _growth(mobility, k, d, h)[0] - FAST)
    remedy = "use smaller gains"
    if most > 0.0:
        remedy = f"use a step of at most {1e3 * rounded_down(most):.2g} ms, or smaller gains"
    return (
        f"the servo loops of {mechanism.name!r} are unstable at {1e3 * step_s:.4g} ms, most of all that of actuator "
        f"{servos[worst][1].name!r}, whose effort is constant over a step; {remedy}"
    )


def _growth(mobility: np.ndarray, k: np.ndarray, d: np.ndarray, h: float) -> tuple[float, int]:
    """Fastest growing motion of sampled servo loops: (growth rate, 1/s; index of the servo that moves most in this
    motion).

    mobility  (n, n) joint accelerations per effort, for the n joints with servos
    k, d      (n,) stiffnesses and dampings of the servos
    h         step size, s, for which the efforts are constant
    """
    n = len(k)
    one, K, D = np.eye(n), mobility * k, mobility * d
    step = np.block([[one - 0.5 * h * h * K, h * one - 0.5 * h * h * D], [-h * K, one - h * D]])
    values, vectors = np.linalg.eig(step)
    fastest = int(np.abs(values).argmax())
    return math.log(max(float(abs(values[fastest])), 1e-300)) / h, int(np.abs(vectors[:n, fastest]).argmax())

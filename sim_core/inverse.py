"""Dynamics and kinematics of a system as functions of plain arrays: inverse, forward, poses.

Each call copies its arguments. For loops in Python there are `System.bind_*`, which work on the caller's arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.system import System


def _column(system: System, name: str, value: Any) -> np.ndarray:
    array = np.array(value, dtype=float).reshape(-1)
    if array.size != system.n_q:
        raise ValueError(f"{name} has {array.size} entries; {system.mechanism.name!r} takes {system.n_q}")
    return array


def inverse_dynamics(system: System, q: Any, v: Any, a: Any) -> np.ndarray:
    """Generalized forces tau (n_q,) that give accelerations a (n_q,) at q, v: M a - f, where f holds no actuators.

    N or N m, along the coordinates. Springs, joint loads and damping act; constraints do not: in a mechanism with
    loops tau + J' lam is what actuators and joints must give together. ValueError for arrays of another size.
    """
    tau = np.zeros(system.n_q)
    q, v, a = (_column(system, name, value) for name, value in (("q", q), ("v", v), ("a", a)))
    system.bind_inverse_dynamics(q, v, a, tau)()
    return tau


def forward_dynamics(system: System, q: Any, v: Any, tau: Any, configuration: int = 0) -> np.ndarray:
    """Accelerations a (n_q,) under generalized forces tau (n_q,) at q, v: the inverse of `inverse_dynamics`.

    Constraints hold at the acceleration level, J a = gamma, without stabilization.
    """
    a = np.zeros(system.n_q)
    q, v, tau = (_column(system, name, value) for name, value in (("q", q), ("v", v), ("tau", tau)))
    system.bind_forward_dynamics(q, v, tau, a, configuration)()
    return a


def forward_kinematics(system: System, q: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{body: (p_WB (3,), R_WB (3, 3))} at q: origin in m and axes of every body, seen from the world."""
    n = len(system.mechanism.bodies)
    positions, rotations = np.zeros((n, 3)), np.zeros((n, 3, 3))
    system.bind_forward_kinematics(_column(system, "q", q), positions, rotations)()
    return {body.name: (positions[index], rotations[index]) for index, body in enumerate(system.mechanism.bodies)}

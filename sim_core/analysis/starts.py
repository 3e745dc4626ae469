"""Initial states of a constrained system with some given components; the constraints determine the other components."""

from __future__ import annotations

import numpy as np

from sim_core.analysis.attitudes import Attitudes, component_names
from sim_core.errors import InvalidRequest
from sim_core.spatial import quaternion_of_rotation_vector, step_of_quaternion
from sim_core.system import System

Array = np.ndarray
NEWTON = 50
CLOSED = 1e-12  # permitted violation, in characteristic lengths
SMALL = 1e-3  # rad, below which the derivative of rotation coordinates is that at the angle 0


def completed(system: System, states: Array, given: Array, about: Array) -> Array:
    """Adapt n states to the constraints; the components `given` keep their values.

    states  (n, 2 n_q) in offsets, see `sim_core.analysis.attitudes`; the result has the same form
    given   indices of the components that keep their values
    about   coordinates (n_q,) of the equilibrium from which rotation vectors in `states` are measured
    Raises InvalidRequest for given values that the constraints do not permit.
    """
    n = system.n_q
    free_q = np.array([k for k in range(n) if k not in given], dtype=int)
    free_v = np.array([k for k in range(n) if k + n not in given], dtype=int)
    result = states.copy()
    attitudes = Attitudes(system, about)
    p = attitudes.parameters
    allowed = CLOSED * system.mechanism.characteristic_length
    for state in result:
        x, v = state[:n], state[n:]
        for _ in range(NEWTON):
            q, by_offset = _coordinates(attitudes, x)
            Phi, _ = system.residual(0.0, q, v, p)
            if np.abs(Phi).max(initial=0.0) <= allowed:
                break
            J = system.terms(0.0, q, v, None, p)[2][: len(Phi)] @ by_offset
            x[free_q] -= np.linalg.pinv(J[:, free_q], rcond=1e-9) @ Phi
        at = Attitudes(system, attitudes.states(state[None, :])[0][0])  # rotation coordinates are 0 at this attitude
        place = np.where(np.isin(np.arange(n), [k for turning in at.rotations for k in range(n)[turning]]), 0.0, x)
        J = system.terms(0.0, place, v, None, at.parameters)[2]
        v[free_v] -= np.linalg.pinv(J[:, free_v], rcond=1e-9) @ (J @ v)
        Phi, Phidot = system.residual(0.0, place, v, at.parameters)
        speed = max(1.0, float(np.abs(v).max()))
        if not np.abs(Phi).max(initial=0.0) <= allowed or not np.abs(Phidot).max(initial=0.0) <= 1e-9 * speed:
            raise InvalidRequest(
                f"{system.mechanism.name!r} cannot start from these values, because its constraints do not permit "
                f"{dict(zip([component_names(system)[k] for k in given], state[given].round(6).tolist(), strict=True))}"
                "; change these values or give fewer of them"
            )
    return result


def _coordinates(attitudes: Attitudes, x: Array) -> tuple[Array, Array]:
    """Return (q, dq/dx): coordinates (n_q,) for coordinates x in offsets, and the derivative (n_q, n_q).

    q has, for each spherical and free joint, rotation coordinates s relative to the attitude at the equilibrium.

    x  (n_q,) coordinates with rotation vectors r in place of s
    """
    q, by_offset = x.copy(), np.eye(len(x))
    for turning in attitudes.rotations:
        r = x[turning]
        angle = float(np.linalg.norm(r))
        q[turning] = step_of_quaternion(quaternion_of_rotation_vector(r))
        if angle > SMALL:  # s = 4 tan(|r| / 4) r / |r|
            scale = 4.0 * np.tan(angle / 4.0) / angle
            change = (1.0 / np.cos(angle / 4.0) ** 2 - scale) / angle**2
            by_offset[turning, turning] = scale * np.eye(3) + change * np.outer(r, r)
    return q, by_offset

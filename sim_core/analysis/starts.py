"""Initial states of a constrained system with some given components; the constraints determine the other components."""

from __future__ import annotations

import numpy as np

from sim_core.batch.peaks import state_rows
from sim_core.errors import InvalidRequest
from sim_core.system import System

Array = np.ndarray
NEWTON = 50
CLOSED = 1e-12  # permitted violation, in characteristic lengths


def completed(system: System, states: Array, given: Array) -> tuple[Array, Array]:
    """States q, v (n, n_q) that satisfy the constraints and keep the given components of `states` (n, 2 n_q).

    given  indices of the components (q, then v) that keep their values; all others are adapted
    Raises InvalidRequest for given values that the constraints do not permit.
    """
    n = system.n_q
    free_q = np.array([k for k in range(n) if k not in given], dtype=int)
    free_v = np.array([k for k in range(n) if k + n not in given], dtype=int)
    result = states.copy()
    allowed = CLOSED * system.mechanism.characteristic_length
    for state in result:
        q, v = state[:n], state[n:]
        for _ in range(NEWTON):
            Phi, _ = system.residual(0.0, q, v)
            if np.abs(Phi).max(initial=0.0) <= allowed:
                break
            J = system.terms(0.0, q, v)[2][: len(Phi)]
            q[free_q] -= np.linalg.pinv(J[:, free_q], rcond=1e-9) @ Phi
        J = system.terms(0.0, q, v)[2]
        v[free_v] -= np.linalg.pinv(J[:, free_v], rcond=1e-9) @ (J @ v)
        Phi, Phidot = system.residual(0.0, q, v)
        speed = max(1.0, float(np.abs(v).max()))
        if not np.abs(Phi).max(initial=0.0) <= allowed or not np.abs(Phidot).max(initial=0.0) <= 1e-9 * speed:
            raise InvalidRequest(
                f"{system.mechanism.name!r} cannot start from these values, because its constraints do not permit "
                f"{dict(zip([state_rows(system)[k] for k in given], state[given].round(6).tolist(), strict=True))}; "
                "change these values or give fewer of them"
            )
    return result[:, :n], result[:, n:]

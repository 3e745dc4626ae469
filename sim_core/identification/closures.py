"""Compiled closed loops of a mechanism: constraint rows, their Jacobian, and springs, without the dynamics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.identification.kernel_library import kernel_library
from sim_core.kernels.bound import BoundKernel
from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.validation import validate

if TYPE_CHECKING:
    import casadi as ca

Array = np.ndarray[Any, np.dtype[np.float64]]


class Closures:
    """Closed loops of a mechanism at one state: a call reads q and v, and writes Phi, J, gamma and springs.

    q, v     (n_q,) state, at first the start at rest
    Phi      (n_r,) values of the constraint rows, 0 if the loops are closed
    J        (n_r, n_q) their Jacobian
    gamma    (n_r,) right-hand side of J a = gamma
    springs  (n_q,) generalized forces of the springs
    joints   names (n_q,) of the coordinates' joints
    Raises InvalidRequest for constraints that are not closed loops.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        validate(mechanism)
        self.joints = tuple(joint.name for joint in mechanism.moving_joints for _ in joint.coordinates)
        library = kernel_library(mechanism, "closures", "the closed loops", _derived)
        (n_h, _), (rows, n), *_ = library.manifest["shapes"]
        if n_h != rows or any(isinstance(each, PrescribedMotion) for each in mechanism.constraints):
            raise InvalidRequest(
                f"robot {mechanism.name!r} has constraints that prescribe velocities or motions; a fit needs closed "
                "loops"
            )
        self.q, self.v = np.array(mechanism.initial_q[:n], dtype=float), np.zeros(n)
        self.Phi, self.gamma, self.springs = np.zeros(rows), np.zeros(rows), np.zeros(n)
        self.J = np.zeros((rows, n), order="F")
        p = np.array(mechanism.parameter_values(mechanism.start_constraint_mode))
        results = [self.Phi, self.J, self.gamma, self.springs]
        self._kernel = BoundKernel(library.addresses["closures"], [self.q, self.v, p], results, library)

    def __call__(self) -> None:
        """Write Phi, J, gamma and springs at q and v."""
        self._kernel()

    def along(self, q: Array, v: Array) -> Array:
        """gamma (n, n_r) at n states, (n, n_q) each."""
        gamma = np.empty((len(q), len(self.gamma)))
        for k in range(len(q)):
            self.q[:], self.v[:] = q[k], v[k]
            self._kernel()
            gamma[k] = self.gamma
        return gamma


def _derived(mechanism: Mechanism) -> ca.Function:
    from sim_core.derivation.closures import derive_closures  # it imports casadi, which a cached kernel does not need

    return derive_closures(mechanism)

"""The fastest modes of a mechanism with many coordinates, by the Arnoldi iteration. [Arnoldi1951]

The iteration converges to the largest eigenvalues of the linearized motion first, and needs no matrix of this motion:
each of its steps differences two accelerations. In a system with constraint rows, its vectors are moved onto the
directions that the rows leave free. The work does not depend on the state.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.system import System

STEPS = 30  # of the iteration
MOST = 6  # modes that are given
CONVERGED = 0.05  # residual of an eigenvalue, as a share of it
ON_SLOPE = 1e-6  # increment of first differences


class FastModes:
    """Finds the fastest modes of the motion about the current state of a workspace, which is not changed."""

    def __init__(self, system: System, w: Workspace) -> None:
        self._system, self._w, n, m = system, w, system.n_q, system.max_rows
        self._q, self._v, self._a, self._factor = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(system.max_factor)
        self._at_v = w.v
        state = [w.t, self._q, self._v, w.u, w.p]
        results = [self._a, np.zeros(m), self._factor]
        self._accelerate = system.bind("acceleration", [*state, np.zeros(m)], results)
        self._tau = np.zeros(n)
        self._find_efforts = system.bind("inverse_dynamics", [w.t, self._q, self._v, self._a, w.p], [self._tau])

    def find(self, at_v: np.ndarray, rate: float) -> list[tuple[complex, np.ndarray]]:
        """Eigenvalues, 1/s, and shapes (n_q,) of the fastest modes, fastest first.

        Of conjugate modes, that with Im >= 0 is given. The fastest one is always given, others if they have converged.
        The list is empty if an acceleration is not finite.

        at_v  velocities of the state
        rate  a rate, 1/s, that makes positions comparable with velocities
        """
        self._at_v = at_v
        basis, H = self._iterated(rate)
        if not np.all(np.isfinite(H)):
            return []
        k = H.shape[1]
        values, vectors = np.linalg.eig(H[:k])
        found: list[tuple[complex, np.ndarray]] = []
        for j in [j for j in np.argsort(-np.abs(values), kind="stable") if values[j].imag >= 0.0][:MOST]:
            if not found or abs(H[k, k - 1] * vectors[-1, j]) <= CONVERGED * abs(values[j]):
                shape = vectors[:, j] @ basis[:k, : self._system.n_q]
                found.append((self._refined(complex(values[j]), shape), shape))
        return sorted(found, key=lambda mode: -abs(mode[0]))

    def _iterated(self, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """(basis (k, 2 n_q), projection (k + 1, k) of the motion on it) after k steps, at most STEPS."""
        n, free = self._system.n_q, self._onto_free_directions()
        basis, H = np.zeros((STEPS + 1, 2 * n)), np.zeros((STEPS + 1, STEPS))
        start = free(np.random.default_rng(0).normal(size=2 * n))
        basis[0] = start / np.linalg.norm(start)
        for k in range(STEPS):
            dq, dv = basis[k, :n] / rate, basis[k, n:]
            x = free(np.concatenate([rate * dv, self._change(dq, dv)]))
            for _ in range(2):  # twice, against rounding
                parts = basis[: k + 1] @ x
                H[: k + 1, k] += parts
                x -= parts @ basis[: k + 1]
            H[k + 1, k] = np.linalg.norm(x)
            if not 0.0 < H[k + 1, k] < np.inf:
                return basis, H[: k + 2, : k + 1]
            basis[k + 1] = x / H[k + 1, k]
        return basis, H

    def _refined(self, value: complex, x: np.ndarray) -> complex:
        """Eigenvalue of a mode of shape x near `value`, from the stiffness and damping that x meets.

        Its error is of second order in that of x, if the matrices of stiffness and damping are symmetric.
        """
        none = np.zeros(len(x))
        by_q, by_v = (
            self._change(*pick(x.real)) + 1j * self._change(*pick(x.imag))
            for pick in (lambda part: (part, none), lambda part: (none, part))
        )
        weighted = (self.inertial(x.real) + 1j * self.inertial(x.imag)).conj()
        kinetic, stiffness, damping = (complex(weighted @ each) for each in (x, by_q, by_v))
        if not (abs(kinetic) > 0.0 and cmath.isfinite(stiffness) and cmath.isfinite(damping)):
            return value
        roots = np.roots([kinetic, -damping, -stiffness])
        return complex(roots[np.argmin(np.abs(roots - value))])

    def inertial(self, x: np.ndarray) -> np.ndarray:
        """Product M x (n_q,) with the mass matrix M of the current state, by inverse dynamics, without M."""
        self._q[:], self._v[:] = self._w.q, 0.0
        largest = float(np.abs(x).max(initial=0.0)) or 1.0
        found = []
        for sign in (1.0, -1.0):
            self._a[:] = sign / largest * x
            self._find_efforts()
            found.append(self._tau.copy())
        moved: np.ndarray = (found[0] - found[1]) * (largest / 2.0)
        return moved

    def _change(self, dq: np.ndarray, dv: np.ndarray) -> np.ndarray:
        """Derivative (n_q,) of the accelerations in the direction dq, dv, by a central difference."""
        size = ON_SLOPE * max(1.0, float(np.abs(self._w.q).max()), float(np.abs(self._at_v).max()))
        largest = max(float(np.abs(dq).max()), float(np.abs(dv).max()))
        if largest == 0.0:
            return np.zeros(len(dq))
        step = size / largest
        ahead, behind = (self._moved_acceleration(sign * step * dq, sign * step * dv) for sign in (1.0, -1.0))
        found: np.ndarray = (ahead - behind) / (2.0 * step)
        return found

    def _onto_free_directions(self) -> Callable[[np.ndarray], np.ndarray]:
        """Function that moves both halves of a vector (2 n_q,) onto the directions that the constraints leave free.

        A half x becomes x + y with the least y' M y for which J (x + y) = 0.
        """
        system, n, m = self._system, self._system.n_q, self._system.max_rows
        if m == 0:
            return lambda x: x
        self._moved_acceleration(np.zeros(n), np.zeros(n))
        factor, rates, w = self._factor.copy(), np.zeros((2, m)), self._w
        violations, y, ignored = np.zeros(system.constraint_modes[0].n_holonomic), np.zeros(n), np.zeros(m)
        v, zero, r2, q = np.zeros(n), np.zeros(n), np.zeros(m), w.q.copy()
        residuals = [system.bind("residual", [w.t, q, v, w.u, w.p], [violations, each]) for each in rates]
        apply = system.bind("apply", [factor, zero, r2], [y, ignored])

        def onto(x: np.ndarray) -> np.ndarray:
            for sign, residual in zip((1.0, -1.0), residuals, strict=True):
                v[:] = sign * x
                residual()
            r2[:] = (rates[1] - rates[0]) / 2.0
            apply()
            moved: np.ndarray = x + y
            return moved

        return lambda x: np.concatenate([onto(x[:n]), onto(x[n:])])

    def _moved_acceleration(self, dq: np.ndarray, dv: np.ndarray) -> np.ndarray:
        """Accelerations (n_q,) at the checked state, moved by dq and dv."""
        self._q[:], self._v[:] = self._w.q + dq, self._at_v + dv
        self._accelerate()
        return self._a.copy()

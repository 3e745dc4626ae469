"""Numbers of the equations with given constraint rows, which kernels compute that are compiled for this purpose."""

from __future__ import annotations

import numpy as np

from sim_core.derivation.rolled.constraints.checked_rows import CheckedRows
from sim_core.derivation.rolled.equations import EquationKernels
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.machine_code import native
from sim_core.kernels.rolled import module_of_rolled
from sim_core.mechanism.description import Mechanism


class RowProbe:
    """Numbers of the equations with given rows in any state, by kernels that are compiled for them.

    names  name of the constraint of each row
    """

    def __init__(self, mechanism: Mechanism, rows: CheckedRows) -> None:
        maker = EquationKernels(mechanism, rows)
        kernels = {"terms": maker.terms(), "residual": maker.residual()}
        for name, kernel in kernels.items():
            kernel.name = name
        self._library = native.linked(module_of_rolled(kernels.values(), maker.tables), [*kernels])
        self._n, self._rows, self._u = maker.n_q, maker.rows, np.zeros(len(mechanism.actuators))
        self.names = maker.rows.names

    def __call__(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Phi (n_h,), J (n_r, n_q), M (n_q, n_q)) at t = 0, without actuator inputs."""
        n, n_rows = self._n, self._rows.n_rows
        M, J = np.zeros((n, n), order="F"), np.zeros((n_rows, n), order="F")
        self._call("terms", q, v, p, [M, np.zeros(n), J, np.zeros(n_rows)])
        return self.residual(q, v, p)[0], J, M

    def residual(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(Phi (n_h,), Phidot (n_r,)) at t = 0, without actuator inputs."""
        found = np.zeros(self._rows.n_holonomic), np.zeros(self._rows.n_rows)
        self._call("residual", q, v, p, [*found])
        return found

    def _call(self, name: str, q: np.ndarray, v: np.ndarray, p: np.ndarray, outputs: list[np.ndarray]) -> None:
        inputs = [np.zeros(1), q.copy(), v.copy(), self._u, p.copy()]
        BoundKernel(self._library.addresses[name], inputs, outputs, self._library)()

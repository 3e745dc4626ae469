"""Base parameters: the combinations of inertial parameters on which the joint efforts depend. [Gautier1991]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.regressor import LinearEfforts

Array = np.ndarray[Any, np.dtype[np.float64]]
ROUNDING = 1e-9  # relative size below which a pivot or a coefficient is 0
SEED = 0  # of the random states at which the structural rank is found


@dataclass(frozen=True)
class BaseParameters:
    """Base parameters beta = B pi of a mechanism, with Y pi = Y[:, columns] beta at every state.

    columns     indices (n_b,) of independent columns of Y
    B           (n_b, n_pi); B[:, columns] is the identity
    parameters  names of the parameters pi
    """

    columns: Array
    B: Array
    parameters: tuple[str, ...]

    def name(self, k: int, most: int | None = None) -> str:
        """Base parameter k as a sum, such as "arm/Izz + 0.09 hand/m".

        most  largest number of terms, by default all
        """
        terms = [self.parameters[self.columns[k]]]
        for index in np.argsort(-np.abs(self.B[k]), kind="stable"):
            coefficient = self.B[k, index]
            if index != self.columns[k] and abs(coefficient) > 1e-6:
                sign = "-" if coefficient < 0.0 else "+"
                size = "" if abs(abs(coefficient) - 1.0) < 1e-6 else f"{abs(coefficient):.3g} "
                terms.append(f"{sign} {size}{self.parameters[index]}")
        if most is not None and len(terms) > most:
            terms = [*terms[:most], f"+ {len(terms) - most} more"]
        return " ".join(terms)

    def is_determined(self, direction: Array) -> bool:
        """Whether the efforts determine the combination direction' pi of the parameters."""
        solution = np.linalg.lstsq(self.B.T, direction, rcond=None)[0]
        return bool(np.abs(self.B.T @ solution - direction).max() <= 1e-6 * np.abs(direction).max())

    @property
    def only_in_sums(self) -> dict[str, int]:
        """{parameter: base parameter with most of it} of the parameters whose own value no effort determines."""
        from scipy.linalg import qr  # slow to load, seldom needed

        Q = qr(self.B.T, mode="economic")[0]
        known = np.sum(Q**2, axis=1)  # squared length of the projection of a single parameter on the determined ones
        return {
            name: int(np.argmax(np.abs(self.B[:, k])))
            for k, name in enumerate(self.parameters)
            if known[k] < 1.0 - 1e-9 and self.B[:, k].any()
        }

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Names of the parameters on which no effort depends."""
        return tuple(
            name for name, size in zip(self.parameters, np.abs(self.B).max(axis=0), strict=True) if size == 0.0
        )


def base_parameters(regressor: LinearEfforts) -> BaseParameters:
    """Structural base parameters, from a QR decomposition of the regressor at random states."""
    from scipy.linalg import qr  # slow to load, seldom needed

    rng, n_q, n_pi = np.random.default_rng(SEED), len(regressor.joints), len(regressor.parameters)
    count = 3 * n_pi
    q = regressor.random_positions(rng, count)
    v, a = (scale * rng.normal(size=(count, n_q)) for scale in (2.0, 5.0))
    Y = regressor(q, v, a).reshape(-1, n_pi)
    sizes = np.linalg.norm(Y, axis=0)
    some = np.flatnonzero(sizes > ROUNDING * sizes.max())
    R, pivots = qr(Y[:, some] / sizes[some], mode="r", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int(np.sum(diagonal > ROUNDING * diagonal[0]))
    columns = np.sort(some[pivots[:rank]])
    B = np.zeros((rank, n_pi))
    B[:, some] = np.linalg.lstsq(Y[:, columns], Y[:, some], rcond=None)[0]
    B[np.abs(B) < 1e-8] = 0.0
    return BaseParameters(columns, B, regressor.parameters)

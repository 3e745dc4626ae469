"""Choices of the constrained solve that are made once, at assembly, and its slow numpy reference."""

from __future__ import annotations

import numpy as np

RANK_TOLERANCE = 1e-9
REGULARIZATION = 1e-9


def regularization_for(M: np.ndarray, J: np.ndarray, penalty_rows: list[int], closed: bool) -> float:
    """What is added to the diagonal of S = J M^-1 J': 0 for rows that keep their rank.

    Rows are held to be able to lose rank when the constraints close a loop or J has less than full rank at the start.
    The figure is relative to the mean diagonal of S there.
    """
    if not len(J):
        return 0.0
    full = np.linalg.matrix_rank(J, tol=RANK_TOLERANCE * max(np.abs(J).max(), 1.0)) == len(J)
    if full and not closed:
        return 0.0
    penalty = J[penalty_rows]
    S = J @ np.linalg.solve(M + penalty.T @ penalty, J.T)
    return float(REGULARIZATION * np.trace(S) / len(J))


def reference_solution(M: np.ndarray, f: np.ndarray, J: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a and lam of M a + J' lam = f, J a = gamma: minimum-norm least-squares solution of the whole KKT system."""
    n, m = len(M), len(J)
    K = np.block([[M, J.T], [J, np.zeros((m, m))]])
    solution = np.linalg.lstsq(K, np.concatenate([f, gamma]), rcond=1e-13)[0]
    return solution[:n], solution[n:]

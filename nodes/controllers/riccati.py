"""Linear-quadratic regulator with numpy alone, since importing scipy.linalg would add 0.3 s to a node's start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def solve_riccati(A: Matrix, B: Matrix, Q: Matrix, R: Matrix) -> Matrix:
    """Stabilizing solution P of A'P + P A - P B R^-1 B' P + Q = 0; P is symmetric with shape (n, n).

    P is computed from the stable invariant subspace of the Hamiltonian matrix. Raises ValueError if there is no
    stabilizing solution: the pair (A, B) is not stabilizable, or Q does not observe a mode on the imaginary axis.
    """
    n = len(A)
    hamiltonian = np.block([[A, -B @ np.linalg.solve(R, B.T)], [-Q, -A.T]])
    eigenvalues, eigenvectors = np.linalg.eig(hamiltonian)
    stable = eigenvectors[:, eigenvalues.real < -1e-9 * float(np.abs(eigenvalues).max())]
    if stable.shape[1] != n or np.linalg.cond(stable[:n]) > 1e12:
        raise ValueError(
            f"no stabilizing regulator: the {stable.shape[1]} stable eigenvectors of the Hamiltonian matrix determine "
            f"no gain for {n} states; check that the pair (A, B) is stabilizable"
        )
    # columns of `stable` are [X1; X2] with P = X2 X1^-1
    P = np.linalg.solve(stable[:n].T, stable[n:].T).T.real
    return np.asarray((P + P.T) / 2.0, dtype=np.float64)


def lqr_gain(A: Matrix, B: Matrix, Q: Matrix, R: Matrix) -> Matrix:
    """Gain K (m, n) of u = -K x, which minimizes the integral of x'Q x + u'R u for dx/dt = A x + B u."""
    P = solve_riccati(A, B, Q, R)
    return np.asarray(np.linalg.solve(R, B.T @ P), dtype=np.float64)

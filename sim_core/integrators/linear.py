"""LU factorization with partial pivoting, in place, compiled into the stepping loops for small linear systems."""

from __future__ import annotations

from sim_core.kernels.compiled import inner


@inner
def factorize(A, pivots):  # type: ignore[no-untyped-def]
    """Replace A (n, n) by its factors L and U, P A = L U, and write the row exchanges P to the integers `pivots` (n,).

    Returns False if A is singular or has entries that are not finite.
    """
    n = A.shape[0]
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[p, k]):
                p = i
        pivots[k] = p
        if not abs(A[p, k]) > 0.0 or not abs(A[p, k]) < 1e300:
            return False
        if p != k:
            for j in range(n):
                A[k, j], A[p, j] = A[p, j], A[k, j]
        inverse = 1.0 / A[k, k]
        for i in range(k + 1, n):
            A[i, k] *= inverse
            factor = A[i, k]
            if factor != 0.0:
                for j in range(k + 1, n):
                    A[i, j] -= factor * A[k, j]
    return True


@inner
def solve_factorized(A, pivots, x):  # type: ignore[no-untyped-def]
    """Replace the right-hand side x (n,) by the solution; A and pivots are results of `factorize`."""
    n = A.shape[0]
    for k in range(n):
        p = pivots[k]
        x[k], x[p] = x[p], x[k]
    for i in range(n):
        total = x[i]
        for j in range(i):
            total -= A[i, j] * x[j]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= A[i, j] * x[j]
        x[i] = total / A[i, i]

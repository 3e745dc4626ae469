"""Intervals of least-squares estimates whose residuals are correlated in time."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
MOST_ORDER = 30  # of the autoregressive model of residuals


def autoregressive(residual: Array, most_order: int = MOST_ORDER) -> tuple[Array, float]:
    """(phi (order,), variance of the innovation) of the model e_t = sum phi_k e_t-k + innovation.

    By the Levinson-Durbin recursion; the order has the least information criterion of Akaike.
    """
    n = len(residual)
    e = residual - residual.mean()
    most_order = min(most_order, n // 4)
    r = np.array([e[: n - k] @ e[k:] / n for k in range(most_order + 1)])
    if r[0] <= 0.0:
        return np.zeros(0), 0.0
    best = (n * np.log(r[0]), np.zeros(0), float(r[0]))
    phi, variance = np.zeros(0), float(r[0])
    for order in range(1, most_order + 1):
        reflection = (r[order] - phi @ r[order - 1 : 0 : -1][: order - 1]) / variance
        phi = np.concatenate([phi - reflection * phi[::-1], [reflection]])
        variance *= 1.0 - reflection**2
        if not variance > 1e-12 * r[0]:
            break
        criterion = n * np.log(variance) + 2.0 * order
        if criterion < best[0]:
            best = (criterion, phi, float(variance))
    return best[1], best[2]


def correlated_sum(A: Array, residual: Array) -> tuple[Array, float]:
    """(A' Sigma A (k, k), effective number of samples) for rows A (n, k) whose errors have the covariance Sigma.

    Sigma is that of the autoregressive model of the residual (n,). The effective number is tr(Sigma)^2 / tr(Sigma^2).
    """
    n = len(A)
    phi, variance = autoregressive(residual)
    size = 1 << int(np.ceil(np.log2(2 * n)))
    response = np.fft.rfft(np.concatenate([[1.0], -phi]), size)
    spectrum = variance / np.maximum(np.abs(response) ** 2, 1e-300)
    transformed = np.fft.rfft(A, size, axis=0)
    weights = np.full(len(spectrum), 2.0)
    weights[0] = weights[-1] = 1.0
    scaled = transformed * np.sqrt(spectrum * weights / size)[:, None]
    covariance = np.fft.irfft(spectrum, size)[:n]
    lags = np.arange(n)
    squares = float(covariance[0] ** 2 * n + 2.0 * np.sum((n - lags[1:]) * covariance[1:] ** 2))
    effective = (n * covariance[0]) ** 2 / squares if squares > 0.0 else float(n)
    return np.real(scaled.conj().T @ scaled), float(effective)


def factor_with_sd(A: Array, y: Array) -> tuple[float, float]:
    """(coefficient, standard deviation) of the first column of A (n, k) in the least-squares fit of y (n,)."""
    sizes = np.sqrt(np.sum(A**2, axis=0))
    some = sizes > 0.0
    if not some[0]:
        return 0.0, np.inf
    scaled = A[:, some] / sizes[some]
    inverse = np.linalg.pinv(scaled.T @ scaled)
    found = inverse @ (scaled.T @ y)
    middle, _ = correlated_sum(scaled, y - scaled @ found)
    return float(found[0] / sizes[0]), float(np.sqrt((inverse @ middle @ inverse)[0, 0]) / sizes[0])

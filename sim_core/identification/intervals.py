"""Intervals of least-squares estimates whose residuals are correlated in time."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
MOST_ORDER = 30  # of the autoregressive model of residuals
LEAST_LEFT = 12.0  # periods (bins of the spectrum) that a band has to have beside those that the fit took up


def autocovariance(residual: Array, most: int) -> Array:
    """(at most `most` + 1,) autocovariance of a residual (n,) for lags from 0 on."""
    n = len(residual)
    e = residual - residual.mean()
    return np.array([e[: n - k] @ e[k:] / n for k in range(min(most, n // 4) + 1)])


def restored_autocovariance(A: Array, residual: Array, C: Array, most: int) -> Array:
    """`autocovariance` of the errors of a fit, from its residual, of which the fit took up a part.

    A fit of k parameters to a slow motion takes up nearly all errors at low frequencies, where the parameters are. At
    each frequency the part that is left is 1 - a* C a, where a is the transform of the rows. The spectrum is the sum of
    the residual's periodogram over a band, over the sum of what is left there.

    A  (n, k) rows;  C  (k, k) with A C A' the matrix by which the fit takes up errors
    """
    n = len(residual)
    transformed = np.fft.rfft(A, axis=0) / np.sqrt(n)
    taken = np.real(np.einsum("fk,kl,fl->f", transformed.conj(), C, transformed))
    left = np.clip(1.0 - taken, 0.0, 1.0)
    power = np.abs(np.fft.rfft(residual)) ** 2 / n
    low, high = _bands(left, LEAST_LEFT)
    sums = [np.concatenate([[0.0], np.cumsum(each)]) for each in (power, left)]
    whole, rest = (each[high] - each[low] for each in sums)
    spectrum = whole / np.maximum(rest, 1e-9)
    return np.asarray(np.fft.irfft(spectrum, n)[: min(most, n // 4) + 1])


def _bands(left: Array, least: float) -> tuple[Indices, Indices]:
    """(first, last + 1) of the narrowest band about each entry of `left` (m,) whose sum is at least `least`."""
    sums = np.concatenate([[0.0], np.cumsum(left)])
    places, width = np.arange(len(left)), 0
    low, high = places.copy(), places + 1
    while width < len(left):
        short = sums[high] - sums[low] < least
        if not short.any():
            break
        width += 1
        low[short] = np.maximum(places[short] - width, 0)
        high[short] = np.minimum(places[short] + width + 1, len(left))
    return low, high


def autoregressive(r: Array, n: int) -> tuple[Array, float]:
    """(phi (order,), variance of the innovation) of the model e_t = sum phi_k e_t-k + innovation.

    By the Levinson-Durbin recursion; the order has the least information criterion of Akaike.

    r  autocovariance of n samples for lags 0 up to the highest order
    """
    if r[0] <= 0.0:
        return np.zeros(0), 0.0
    best = (n * np.log(r[0]), np.zeros(0), float(r[0]))
    phi, variance = np.zeros(0), float(r[0])
    for order in range(1, len(r)):
        reflection = (r[order] - phi @ r[order - 1 : 0 : -1][: order - 1]) / variance
        phi = np.concatenate([phi - reflection * phi[::-1], [reflection]])
        variance *= 1.0 - reflection**2
        if not variance > 1e-12 * r[0]:
            break
        criterion = n * np.log(variance) + 2.0 * order
        if criterion < best[0]:
            best = (criterion, phi, float(variance))
    return best[1], best[2]


def correlated_sum(A: Array, residual: Array, C: Array | None = None) -> tuple[Array, float]:
    """(A' Sigma A (k, k), effective number of samples) for rows A (n, k) whose errors have the covariance Sigma.

    Sigma is that of the autoregressive model of the residual (n,). The effective number is tr(Sigma)^2 / tr(Sigma^2).

    C  see `restored_autocovariance`; None if the fit took up a negligible part of the errors
    """
    n = len(A)
    r = autocovariance(residual, MOST_ORDER) if C is None else restored_autocovariance(A, residual, C, MOST_ORDER)
    phi, variance = autoregressive(r, n)
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

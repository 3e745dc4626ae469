"""Least squares over inertial parameters that a body of positive density can have."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.identification.inertial_parameters import BASIS

Array = np.ndarray[Any, np.dtype[np.float64]]
MARGIN = 1e-3  # the pseudo-inertia of a result exceeds this share of the start's
PRECISION, SHARE = 1e-12, 1e-6  # largest error of the minimum: share of the start's, and of what consistency costs
SHRINK = 0.1  # of the barrier's weight, from one minimum to the next
NEAR = 0.1  # squared Newton decrement at which the minimum with a barrier is found
MOST_STEPS = 50  # of Newton's method per barrier weight; the usual number is about five
LEAST_STEP = 1e-10  # of a line search


def consistent_minimum(H: Array, g: Array, start: Array, links: int, not_negative: Array) -> Array:
    """The x (n,) of least x' H x / 2 - g' x whose parameters are consistent.

    x             ten inertial parameters of each of `links` links, then other unknowns
    start         x with consistent parameters, from which the search starts
    not_negative  (n - 10 links,) whether each other unknown must not be negative; such ones are set to 0

    The pseudo-inertia of each link is at least MARGIN times that of the start. The problem is convex: it has one
    minimum, whatever the start, which is followed while the weight of a barrier, the logarithm of the pseudo-inertias'
    determinants, decreases. [WensingEtAl2018], [BoydVandenberghe2004, ch. 11]
    """
    x = start.astype(float)
    signed = np.concatenate([np.zeros(10 * links, dtype=bool), not_negative])
    free = np.ones(len(x), dtype=bool)
    while True:
        right = g[free] - H[np.ix_(free, ~free)] @ x[~free]
        x[free] = _followed(H[np.ix_(free, free)], right, np.where(signed, np.maximum(start, 0.0), start)[free], links)
        driving = free & signed & (x < 0.0)
        if not driving.any():
            return x
        x[driving], free = 0.0, free & ~driving


def _followed(H: Array, g: Array, x: Array, links: int) -> Array:
    """The minimum with consistent parameters, from the start x."""
    from scipy.linalg import cho_factor, cho_solve  # slow to load, seldom needed

    if not links:
        return np.asarray(np.linalg.lstsq(H, g, rcond=None)[0])
    n_pi, size = 10 * links, 4 * links
    scale = 1.0 / np.sqrt(np.where(np.diag(H) > 0.0, np.diag(H), 1.0))
    values, vectors = np.linalg.eigh(H * np.outer(scale, scale))
    kept = values > 1e-14 * values[-1]
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T / scale
    right = (vectors[:, kept].T @ ((g - H @ x) * scale)) / np.sqrt(values[kept])
    begin, normal = x, root.T @ root
    floor = MARGIN * _pseudo(x, links)

    def parts(x: Array, weight: float) -> tuple[float, Array, Any]:
        """(squared error / 2 over the weight plus barrier, residual, pseudo-inertias above their least)."""
        P, residual = _pseudo(x, links) - floor, root @ (x - begin) - right
        try:
            lower = np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return np.inf, residual, P
        barrier = -2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum()
        return float(residual @ residual / (2.0 * weight) + barrier), residual, P

    first = float(right @ right) / 2.0
    weight = first / size
    while size * weight > PRECISION * first:
        now, residual, P = parts(x, weight)
        for _ in range(MOST_STEPS):
            slope, K = root.T @ residual / weight, normal / weight
            scaled = np.linalg.solve(P[:, None], BASIS)  # P^-1 of each link times each matrix of the basis
            slope[:n_pi] -= np.trace(scaled, axis1=2, axis2=3).ravel()
            for k, each in enumerate(scaled):
                K[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] += np.einsum("aij,bji->ab", each, each)
            size_of = 1.0 / np.sqrt(np.diag(K))
            step = -size_of * cho_solve(cho_factor(K * np.outer(size_of, size_of)), size_of * slope)
            decrement, length = -float(slope @ step), 1.0
            if decrement < NEAR:
                break
            while length > LEAST_STEP:
                then, residual_then, P_then = parts(x + length * step, weight)
                if then <= now - 0.1 * length * decrement:
                    break
                length /= 2.0
            else:
                break
            x, now, residual, P = x + length * step, then, residual_then, P_then
        if size * weight < SHARE * float(residual @ residual) / 2.0:
            break
        weight *= SHRINK
    return x


def _pseudo(x: Array, links: int) -> Array:
    """Pseudo-inertias (links, 4, 4)."""
    return np.asarray(np.einsum("ka,aij->kij", x[: 10 * links].reshape(links, 10), BASIS))

"""Least squares over inertial parameters that a body of positive density can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sim_core.identification.inertial_parameters import BASIS, pseudo_inertia

Array = np.ndarray[Any, np.dtype[np.float64]]
MARGIN = 1e-3  # the pseudo-inertia of a result exceeds this share of the start's
PRECISION = 1e-9  # relative decrease of the squared error at which the search ends
SLOPE = 1e-8  # gradient of half the squared error at which the search ends
MOST_STEPS = 300  # the usual number is about 20; a minimum at the border of the consistent set may need all
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-12  # relative to the diagonal of the normal equations
LOWER = np.tril_indices(4)
DIAGONAL = np.flatnonzero(LOWER[0] == LOWER[1])  # places of the diagonal among the entries of L
LEAST_SHRINK = 0.3  # of a diagonal entry in one step; at 0, the slope vanishes although the minimum is elsewhere
_DUAL = np.linalg.pinv(BASIS.reshape(10, 16).T)  # (10, 16): parameters of a pseudo-inertia


def consistent_minimum(H: Array, g: Array, start: Array, links: int, not_negative: Array) -> Array:
    """The x (n,) of least x' H x / 2 - g' x whose parameters are consistent.

    x             ten inertial parameters of each of `links` links, then other unknowns
    start         x with consistent parameters, from which the search starts
    not_negative  (n - 10 links,) whether each other unknown must not be negative

    The pseudo-inertia of each link is MARGIN P_0 + L L', where P_0 is that of the start and L a lower triangular
    matrix. [WensingEtAl2018]
    """
    n_pi = 10 * links
    scale = 1.0 / np.sqrt(np.where(np.diag(H) > 0.0, np.diag(H), 1.0))
    values, vectors = np.linalg.eigh(H * np.outer(scale, scale))
    kept = values > 1e-14 * values[-1]
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T / scale
    right = (vectors[:, kept].T @ ((g - H @ start) * scale)) / np.sqrt(values[kept])
    normal = root.T @ root
    first = [pseudo_inertia(start[10 * k : 10 * k + 10]) for k in range(links)]
    margins = np.concatenate([MARGIN * _parameters(P) for P in first]) if links else np.zeros(0)
    factors = np.concatenate([np.zeros(0), *(np.linalg.cholesky((1.0 - MARGIN) * P)[LOWER] for P in first)])

    def unknowns(u: Array) -> tuple[Array, list[Array]]:
        lowers = [_lower(u[10 * k : 10 * k + 10]) for k in range(links)]
        pi = margins + np.concatenate([np.zeros(0), *(_parameters(L @ L.T) for L in lowers)])
        return np.concatenate([pi, u[n_pi:]]), lowers

    def error(u: Array) -> tuple[float, Array]:
        x, lowers = unknowns(u)
        residual = root @ (x - start) - right
        slope = root.T @ residual
        for k, L in enumerate(lowers):
            at = slice(10 * k, 10 * k + 10)
            slope[at] = _derivative(L).T @ slope[at]
        return float(residual @ residual), slope

    def curvature(u: Array) -> Array:
        K = normal.copy()
        for k, L in enumerate(unknowns(u)[1]):
            at, D = slice(10 * k, 10 * k + 10), _derivative(L)
            K[:, at] = K[:, at] @ D
            K[at] = D.T @ K[at]
        return np.asarray(K)

    begin = np.concatenate([factors, np.where(not_negative, np.maximum(start[n_pi:], 1e-9), start[n_pi:])])
    low = np.concatenate([np.full(n_pi, -np.inf), np.where(not_negative, 0.0, -np.inf)])
    diagonal = (10 * np.arange(links)[:, None] + DIAGONAL).ravel()
    return unknowns(_least(error, curvature, begin, low, diagonal))[0]


def _least(
    error: Callable[[Array], tuple[float, Array]],
    curvature: Callable[[Array], Array],
    u: Array,
    low: Array,
    diagonal: Any,
) -> Array:
    """The u (n,) of least squared error, none below `low` (n,), by the method of Levenberg and Marquardt.

    error      gives the squared error, and half its gradient
    curvature  gives the matrix J'J of the residual's Jacobian J
    """
    from scipy.linalg import cho_factor, cho_solve  # slow to load, seldom needed

    damping, growth = FIRST_DAMPING, 2.0
    now, slope = error(u)
    for _ in range(MOST_STEPS):
        free = (u > low) | (slope < 0.0)
        if np.abs(slope[free]).max(initial=0.0) < SLOPE:
            break
        K = curvature(u)[np.ix_(free, free)]
        damped = K + damping * np.diag(np.maximum(np.diag(K), 1e-300))
        try:
            step = cho_solve(cho_factor(damped), -slope[free])
        except np.linalg.LinAlgError:
            damping *= 10.0
            continue
        there = u.copy()
        there[free] = np.maximum(u[free] + step, low[free])
        shrunk = np.abs(there[diagonal]) < LEAST_SHRINK * np.abs(u[diagonal])
        there[diagonal] = np.where(shrunk, LEAST_SHRINK * u[diagonal], there[diagonal])
        then, changed = error(there)
        moved = (there - u)[free]
        promised = -float(moved @ (2.0 * slope[free] + K @ moved))
        if not then < now:
            if promised <= PRECISION * now:
                break
            damping, growth = damping * growth, 2.0 * growth
            continue
        share, gained = (now - then) / promised if promised > 0.0 else 0.0, now - then
        factor = max(1.0 / 3.0, 1.0 - (2.0 * share - 1.0) ** 3)
        damping, growth = max(damping * factor, LEAST_DAMPING), 2.0
        u, slope, now = there, changed, then
        if gained <= PRECISION * now and share > 0.25:
            break
    return u


def _lower(entries: Array) -> Array:
    L = np.zeros((4, 4))
    L[LOWER] = entries
    return L


def _parameters(P: Array) -> Array:
    return np.asarray(_DUAL @ P.ravel())


def _derivative(L: Array) -> Array:
    """Derivative (10, 10) of the parameters of L L' by the entries of L."""
    columns = []
    for i, j in zip(*LOWER, strict=True):
        D = np.zeros((4, 4))
        D[i] = L[:, j]
        columns.append(_parameters(D + D.T))
    return np.stack(columns, axis=1)

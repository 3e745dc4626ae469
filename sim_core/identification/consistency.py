"""Least squares over inertial parameters that a body of positive density can have."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.identification.inertial_parameters import BASIS, pseudo_inertia

Array = np.ndarray[Any, np.dtype[np.float64]]
MARGIN = 1e-3  # the pseudo-inertia of a result exceeds this share of the start's
PRECISION = 1e-9  # relative decrease of the squared error at which the search ends
SLOPE = 1e-8  # gradient of half the squared error at which the search ends
MOST_STEPS = 300  # the usual number is about 20; a minimum at the border of the consistent set may need all
LOWER = np.tril_indices(4)
_DUAL = np.linalg.pinv(BASIS.reshape(10, 16).T)  # (10, 16): parameters of a pseudo-inertia


def consistent_minimum(H: Array, g: Array, start: Array, links: int, not_negative: Array) -> Array:
    """The x (n,) of least x' H x / 2 - g' x whose parameters are consistent.

    x             ten inertial parameters of each of `links` links, then other unknowns
    start         x with consistent parameters, from which the search starts
    not_negative  (n - 10 links,) whether each other unknown must not be negative

    The pseudo-inertia of each link is MARGIN P_0 + L L', where P_0 is that of the start and L a lower triangular
    matrix. [WensingEtAl2018]
    """
    from scipy.optimize import least_squares  # slow to load, seldom needed

    n_pi = 10 * links
    scale = np.concatenate([np.maximum(np.abs(start[:n_pi]), 1e-6), np.maximum(np.abs(start[n_pi:]), 1e-3)])
    values, vectors = np.linalg.eigh(H * np.outer(scale, scale))
    kept = values > 1e-14 * values[-1]
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T / scale
    right = (vectors[:, kept].T @ (g * scale)) / np.sqrt(values[kept])
    first = [pseudo_inertia(start[10 * k : 10 * k + 10]) for k in range(links)]
    margins = np.concatenate([MARGIN * _parameters(P) for P in first]) if links else np.zeros(0)
    factors = np.concatenate([np.zeros(0), *(np.linalg.cholesky((1.0 - MARGIN) * P)[LOWER] for P in first)])
    low = np.where(not_negative, 0.0, -np.inf)

    def unknowns(u: Array) -> tuple[Array, list[Array]]:
        lowers = [_lower(u[10 * k : 10 * k + 10]) for k in range(links)]
        pi = margins + np.concatenate([np.zeros(0), *(_parameters(L @ L.T) for L in lowers)])
        return np.concatenate([pi, u[n_pi:]]), lowers

    def residual(u: Array) -> Array:
        return np.asarray(root @ unknowns(u)[0] - right)

    def jacobian(u: Array) -> Array:
        J = np.empty((len(root), len(u)))
        for k, L in enumerate(unknowns(u)[1]):
            at = slice(10 * k, 10 * k + 10)
            J[:, at] = root[:, at] @ _derivative(L)
        J[:, n_pi:] = root[:, n_pi:]
        return J

    begin = np.concatenate([factors, np.where(not_negative, np.maximum(start[n_pi:], 1e-9), start[n_pi:])])
    bounds = np.concatenate([np.full(n_pi, -np.inf), low]), np.inf
    # scaled by the Jacobian: a prior is stiff in some directions, and a scale by sizes alone needs hundreds of steps
    found = least_squares(
        residual, begin, jacobian, bounds, x_scale="jac", xtol=None, ftol=PRECISION, gtol=SLOPE, max_nfev=MOST_STEPS
    )
    return unknowns(found.x)[0]


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

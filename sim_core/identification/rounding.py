"""Errors of positions that an encoder rounds to multiples of its step.

They are white in a fast motion and constant in a slow one, where zeros and loads are seen: no stationary model has
this, but the covariance follows from the motion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
HARMONICS = 30  # of the error over a step
NEIGHBOURS = 10  # steps between two values from which the step is found, and least number of such pairs
MOST_PARTS = 5  # of the least distance of two values, if no two of them are one step apart
ON_STEPS = 0.1  # largest rms distance from a multiple, in steps; 0.29 for values without steps


def step_of(values: Array) -> float:
    """The step of which all differences of the values (n,) are multiples; 0 if there is none.

    Values may be written with fewer digits than the step has.
    """
    apart = np.diff(np.unique(values[np.isfinite(values)]))
    apart = apart[apart > 1e-9 * max(float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values))), 1e-300)]
    near = apart[apart < (NEIGHBOURS + 0.5) * apart.min(initial=np.inf)]
    if len(near) < NEIGHBOURS:
        return 0.0
    for parts in range(1, MOST_PARTS + 1):
        multiples = np.round(near * parts / near.min())
        step = float(multiples @ near / (multiples @ multiples))
        if np.sqrt(np.mean((near / step - multiples) ** 2)) < ON_STEPS:
            return step
    return 0.0


def rounded_sum(A: Array, q: Array, step: float) -> Array:
    """A' Sigma A (k, k) for rows A (n, k) with the rounding errors of positions q (n,) as their errors.

    Sigma is the covariance over all phases of the steps: step^2 (1/12 - x (1 - x) / 2), where x is the fraction of the
    distance of two positions in steps. Its Fourier series has the terms step^2 cos(2 pi k x) / (2 pi^2 k^2), of which
    the last are taken to be white.
    """
    found, white = np.zeros((A.shape[1], A.shape[1])), np.pi**2 / 6.0
    for k in range(1, HARMONICS + 1):
        z = np.exp(2j * np.pi * k / step * (q - q[0])) @ A
        found += np.real(np.outer(z.conj(), z)) / k**2
        white -= 1.0 / k**2
    return (found + white * A.T @ A) * step**2 / (2.0 * np.pi**2)

"""The compiled laws: (phi, phidot, gains, memory, U, h, n_holonomic, n_rows) -> U, each a native function.

Rows past n_holonomic are nonholonomic: they have no position, so only Phidot acts on them.
"""

from __future__ import annotations

import math

from numba import types

from sim_core.kernels.compiled import inner, native_function

_array = types.CPointer(types.float64)
SIGNATURE = types.void(_array, _array, _array, _array, _array, types.float64, types.int64, types.int64)


@inner
def _degree(x, center, kind, width):  # type: ignore[no-untyped-def]
    """Membership of x in the set at `center`; kind 0 triangle, 1 trapezoid, 2 Gaussian."""
    distance = abs(x - center)
    if kind == 2.0:
        return math.exp(-(distance * distance) / (2.0 * width * width))
    flat = 0.0 if kind == 0.0 else width / 2.0
    return min(1.0, max(0.0, (0.5 - flat - distance) / (0.5 - 2.0 * flat)))


@inner
def fuzzy_output(x, y, kind, conjunction, width):  # type: ignore[no-untyped-def]
    """Sugeno output of the 25 rules, inputs clamped to the universe. [NadaBayoumi2024, eqs. 17, 18]"""
    x, y = min(1.0, max(-1.0, x)), min(1.0, max(-1.0, y))
    total, weights = 0.0, 0.0
    for i in range(-2, 3):
        a = _degree(x, 0.5 * i, kind, width)
        if a == 0.0:
            continue
        for j in range(-2, 3):
            b = _degree(y, 0.5 * j, kind, width)
            strength = a * b if conjunction == 0.0 else min(a, b)
            total += strength * (0.5 * max(-2, min(2, i + j)))
            weights += strength
    return total / weights


@inner
def _rule(i, j):  # type: ignore[no-untyped-def]
    return 0.5 * max(-2, min(2, i + j))


@inner
def triangle_output(x, y):  # type: ignore[no-untyped-def]
    """`fuzzy_output` for triangles and product: bilinear between the rules, in closed form."""
    x, y = min(1.0, max(-1.0, x)), min(1.0, max(-1.0, y))
    if abs(x) + abs(y) <= 0.5:
        return x + y  # all four rules around lie on the plane
    i, j = min(1, math.floor(2.0 * x)), min(1, math.floor(2.0 * y))
    a, b = 2.0 * x - i, 2.0 * y - j
    low = (1.0 - b) * _rule(i, j) + b * _rule(i, j + 1)
    high = (1.0 - b) * _rule(i + 1, j) + b * _rule(i + 1, j + 1)
    return (1.0 - a) * low + a * high


@native_function(SIGNATURE)
def baumgarte(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """U = 2 alpha Phidot + beta^2 Phi; gains alpha, beta. [Baumgarte1972] [NadaBayoumi2024, eq. 13]"""
    alpha, beta = gains[0], gains[1]
    for row in range(n_rows):
        U[row] = 2.0 * alpha * phidot[row]
        if row < n_holonomic:
            U[row] += beta * beta * phi[row]


@native_function(SIGNATURE)
def fuzzy(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """U = Ku FLC(Kp Phi, Kd Phidot); gains Kp, Kd, Ku, kind, conjunction, width. [NadaBayoumi2024, fig. 6]"""
    for row in range(n_rows):
        x = gains[0] * phi[row] if row < n_holonomic else 0.0
        U[row] = gains[2] * fuzzy_output(x, gains[1] * phidot[row], gains[3], gains[4], gains[5])


@native_function(SIGNATURE)
def sampled_fuzzy(phi, phidot, gains, memory, U, h, n_holonomic, n_rows):  # type: ignore[no-untyped-def]
    """U held over a step of h, both poles of the sampled double integrator at rho in the unsaturated range.

    gains: eps (saturation), rho, held lever c, largest slope g, kind, conjunction, width.
    k1 = (1 - rho)^2, k2 = 2 (1 - rho) - c k1; Kp = 1 / eps, Kd = (k2 / k1) h / eps, Ku = k1 eps / (g h^2).
    """
    eps, rho = gains[0], gains[1]
    k1 = (1.0 - rho) * (1.0 - rho)
    k2 = 2.0 * (1.0 - rho) - gains[2] * k1
    kp, kd, ku = 1.0 / eps, k2 / k1 * h / eps, k1 * eps / (gains[3] * h * h)
    closed_form = gains[4] == 0.0 and gains[5] == 0.0
    for row in range(n_rows):
        x = kp * phi[row] if row < n_holonomic else 0.0
        if closed_form:
            U[row] = ku * triangle_output(x, kd * phidot[row])
        else:
            U[row] = ku * fuzzy_output(x, kd * phidot[row], gains[4], gains[5], gains[6])

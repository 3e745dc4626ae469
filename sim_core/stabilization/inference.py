"""Compiled fuzzy inference: the control surface that rules.py defines with scikit-fuzzy, evaluated in nanoseconds.

With triangles or trapezoids, an input belongs to at most two neighbouring sets. Its two memberships add up to 1, and
only four of the 25 rules have a nonzero weight. With Gaussians, all memberships are nonzero. A common factor of the
memberships cancels in the weighted mean of the rule outputs, so that few exponentials are enough.
"""

from __future__ import annotations

import math

from sim_core.kernels.compiled import inner


@inner
def _clamped(x):  # type: ignore[no-untyped-def]
    return min(1.0, max(-1.0, x))


@inner
def _rule(i, j):  # type: ignore[no-untyped-def]
    return 0.5 * max(-2, min(2, i + j))


@inner
def _between(x, kind, width):  # type: ignore[no-untyped-def]
    """(index i of a fuzzy set, membership a of x in set i + 1), for x between the centres of the sets i and i + 1.

    The membership of x in set i is 1 - a.

    kind   0 triangle, 1 trapezoid
    width  plateau of a trapezoid
    """
    i = min(1, math.floor(2.0 * x))
    above = 2.0 * x - i
    if kind == 1.0:
        above = min(1.0, max(0.0, (0.5 * above - 0.5 * width) / (0.5 - width)))
    return i, above


@inner
def _piecewise_output(x, y, kind, conjunction, width):  # type: ignore[no-untyped-def]
    """Output of the fuzzy rules at the inputs (x, y) for triangles and trapezoids, from the four rules that fire.

    kind         0 triangle, 1 trapezoid
    conjunction  0 product, 1 minimum
    width        plateau of a trapezoid
    """
    i, a = _between(x, kind, width)
    j, b = _between(y, kind, width)
    z00, z01, z10, z11 = _rule(i, j), _rule(i, j + 1), _rule(i + 1, j), _rule(i + 1, j + 1)
    if conjunction == 0.0:
        return (1.0 - a) * ((1.0 - b) * z00 + b * z01) + a * ((1.0 - b) * z10 + b * z11)
    w00, w01, w10, w11 = min(1.0 - a, 1.0 - b), min(1.0 - a, b), min(a, 1.0 - b), min(a, b)
    return (w00 * z00 + w01 * z01 + w10 * z10 + w11 * z11) / (w00 + w01 + w10 + w11)


@inner
def _gaussians(x, width, neighbour):  # type: ignore[no-untyped-def]
    """Memberships of x in the four outer Gaussians, divided by the membership of x in the middle Gaussian.

    The membership in the middle Gaussian is exp(-x^2 / (2 sigma^2)) with sigma = `width`. For set i = -2, -1, 1, 2, the
    quotient is neighbour^(i^2) exp(x / (2 sigma^2))^i.
    neighbour  value of a Gaussian at the centre of a neighbouring set
    """
    up = math.exp(x / (2.0 * width * width))
    down = 1.0 / up
    far = neighbour * neighbour * neighbour * neighbour
    return far * down * down, neighbour * down, neighbour * up, far * up * up


@inner
def _gaussian_product(x, y, width, neighbour):  # type: ignore[no-untyped-def]
    """Output of the fuzzy rules at the inputs (x, y) for Gaussian sets with the product as AND.

    The output is the mean of the rule outputs clip(i + j, -2, 2) / 2, weighted by the products a_i b_j of the
    memberships a_i of x and b_j of y in the sets i, j = -2 ... 2.

    width      sigma of a Gaussian
    neighbour  value of a Gaussian at the centre of a neighbouring set
    """
    a0, a1, a3, a4 = _gaussians(x, width, neighbour)
    b0, b1, b3, b4 = _gaussians(y, width, neighbour)
    a, b = a0 + a1 + 1.0 + a3 + a4, b0 + b1 + 1.0 + b3 + b4
    high = a3 * b4 + a4 * b3 + 2.0 * a4 * b4
    low = a1 * b0 + a0 * b1 + 2.0 * a0 * b0
    first, second = 2.0 * (a4 - a0) + a3 - a1, 2.0 * (b4 - b0) + b3 - b1
    return 0.5 * (first * b + second * a - high + low) / (a * b)


@inner
def _gaussian_minimum(x, y, width, neighbour):  # type: ignore[no-untyped-def]
    """Output of the fuzzy rules at the inputs (x, y) for Gaussian sets with the minimum as AND, from all 25 rules.

    Rules of equal output are grouped. All memberships are divided by the membership of x in the middle set.

    width      sigma of a Gaussian
    neighbour  value of a Gaussian at the centre of a neighbouring set
    """
    a0, a1, a3, a4 = _gaussians(x, width, neighbour)
    b0, b1, b3, b4 = _gaussians(y, width, neighbour)
    a2, b2 = 1.0, math.exp((x - y) * (x + y) / (2.0 * width * width))
    b0, b1, b3, b4 = b0 * b2, b1 * b2, b3 * b2, b4 * b2
    low = min(a0, b0) + min(a0, b1) + min(a1, b0) + min(a0, b2) + min(a1, b1) + min(a2, b0)
    high = min(a4, b4) + min(a4, b3) + min(a3, b4) + min(a4, b2) + min(a3, b3) + min(a2, b4)
    below = min(a0, b3) + min(a1, b2) + min(a2, b1) + min(a3, b0)
    above = min(a4, b1) + min(a3, b2) + min(a2, b3) + min(a1, b4)
    level = min(a0, b4) + min(a1, b3) + min(a2, b2) + min(a3, b1) + min(a4, b0)
    return (high - low + 0.5 * (above - below)) / (low + below + level + above + high)


@inner
def fuzzy_output(x, y, kind, conjunction, width, neighbour):  # type: ignore[no-untyped-def]
    """Sugeno output of the 25 fuzzy rules at the inputs x, y, which are clamped to [-1, 1].

    [NadaBayoumi2024, eqs. 17, 18]
    kind         0 triangle, 1 trapezoid, 2 Gaussian
    conjunction  0 product, 1 minimum
    width        plateau of a trapezoid, sigma of a Gaussian
    neighbour    value of a Gaussian at the centre of a neighbouring set
    """
    x, y = _clamped(x), _clamped(y)
    if kind != 2.0:
        return _piecewise_output(x, y, kind, conjunction, width)
    if conjunction == 0.0:
        return _gaussian_product(x, y, width, neighbour)
    return _gaussian_minimum(x, y, width, neighbour)


@inner
def fuzzy_output_of_rate(y, kind, width, neighbour):  # type: ignore[no-untyped-def]
    """Output of the five fuzzy rules of a single input y: the third row of the rule table. [NadaBayoumi2024, sec. 5]

    kind       0 triangle, 1 trapezoid, 2 Gaussian
    width      plateau of a trapezoid, sigma of a Gaussian
    neighbour  value of a Gaussian at the centre of a neighbouring set
    """
    y = _clamped(y)
    if kind != 2.0:
        j, b = _between(y, kind, width)
        return 0.5 * (j + b)
    b0, b1, b3, b4 = _gaussians(y, width, neighbour)
    return (b4 - b0 + 0.5 * (b3 - b1)) / (b0 + b1 + 1.0 + b3 + b4)


@inner
def triangle_output(x, y):  # type: ignore[no-untyped-def]
    """Output of the 25 fuzzy rules at the inputs x, y for triangular sets with the product as AND.

    The output is bilinear between the centres of the sets.
    """
    x, y = _clamped(x), _clamped(y)
    if abs(x) + abs(y) <= 0.5:
        return x + y  # here the surrounding rules lie on the plane z = x + y
    return _piecewise_output(x, y, 0.0, 0.0, 0.0)

"""The default stabilizer's law as a function of the state, for kernels that stabilize many systems at once."""

from __future__ import annotations

import casadi as ca

CENTERS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # of the five triangular sets


def sampled_fuzzy(residual: ca.Function) -> ca.Function:
    """U of the sampled fuzzy law with triangles and product AND, as a function (t, q, v, u, p, gains) -> U.

    residual  function (t, q, v, u, p) -> Phi, Phidot
    gains     Kp, Kd, Ku of `sim_core.stabilization.laws.sampled_fuzzy`
    """
    inputs = dict(zip(residual.name_in(), residual.sx_in(), strict=True))
    results = dict(zip(residual.name_out(), residual.call(list(inputs.values())), strict=True))
    Phi, Phidot, *lifted = results.values()
    gains = ca.SX.sym("gains", 3)
    U = []
    for row in range(Phidot.numel()):
        x = gains[0] * Phi[row] if row < Phi.numel() else ca.SX(0)
        U.append(gains[2] * _surface(x, gains[1] * Phidot[row]))
    others = [name for name in inputs if name not in ("t", "q", "v", "u", "p")]
    ordered = {name: inputs[name] for name in ("t", "q", "v", "u", "p")} | {"gains": gains}
    ordered |= {name: inputs[name] for name in others}
    names = ["U", *list(results)[2:]]
    return ca.Function("correction", list(ordered.values()), [ca.vertcat(*U), *lifted], list(ordered), names)


def _surface(x: ca.SX, y: ca.SX) -> ca.SX:
    """Output of the rules clip(i + j, -2, 2) / 2, bilinear between the sets' centres; the inputs are clamped to +-1."""
    of_x, of_y = ([ca.fmax(0.0, 1.0 - 2.0 * ca.fabs(_clamped(z) - center)) for center in CENTERS] for z in (x, y))
    total = ca.SX(0)
    for i, a in enumerate(of_x):
        for j, b in enumerate(of_y):
            rule = max(-2, min(2, i + j - 4)) / 2
            total += rule * (a * b)
    return total


def _clamped(z: ca.SX) -> ca.SX:
    return ca.fmin(1.0, ca.fmax(-1.0, z))

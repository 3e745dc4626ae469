"""The default stabilizer, a sampled fuzzy control law, as a symbolic function of the state, for batches of systems."""

from __future__ import annotations

import casadi as ca

CENTERS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # of the five triangular sets


def sampled_fuzzy(residual: ca.Function) -> ca.Function:
    """Function (t, q, v, u, p, gains) that returns the stabilization U (n_r,) by the sampled fuzzy law.

    The law has triangular membership functions and the product as AND. `gains` are the scaling factors Kp, Kd, Ku of
    `sim_core.stabilization.laws.sampled_fuzzy`.

    residual  function (t, q, v, u, p) that returns the violations Phi (n_h,) of the holonomic constraint rows, which
              come first, and the rates Phidot (n_r,) of all rows
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
    """Output of the fuzzy rules for the inputs x and y, which are clamped to +-1.

    At the centres x = i / 2, y = j / 2 of the fuzzy sets i, j = -2 ... 2, the output is clip(i + j, -2, 2) / 2. Between
    the centres the output is bilinear.
    """
    of_x, of_y = ([ca.fmax(0.0, 1.0 - 2.0 * ca.fabs(_clamped(z) - center)) for center in CENTERS] for z in (x, y))
    total = ca.SX(0)
    for i, a in enumerate(of_x):
        for j, b in enumerate(of_y):
            rule = max(-2, min(2, i + j - 4)) / 2
            total += rule * (a * b)
    return total


def _clamped(z: ca.SX) -> ca.SX:
    return ca.fmin(1.0, ca.fmax(-1.0, z))

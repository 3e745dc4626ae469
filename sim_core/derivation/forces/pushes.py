"""External forces ("pushes") on bodies in the equations of motion.

Force and point of application are entries of the parameter vector p; the force is zero unless a body is pushed.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.symbols import Frames, Symbols
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import push_names


@dataclass(frozen=True)
class PushForce:
    """An external force on one body: its generalized force (n_q,), and its power (W)."""

    generalized: ca.SX
    power: ca.SX


def push_forces(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> list[PushForce]:
    """The PushForce on each body that can be pushed, in the order of `Mechanism.pushable`."""
    return [_force(frames, symbols, body) for body in mechanism.pushable]


def _force(frames: Frames, symbols: Symbols, body: str) -> PushForce:
    places = [symbols.parameter_names.index(name) for name in push_names(body)]
    F_W, p_BP = symbols.p[places[:3]], symbols.p[places[3:]]
    frame = frames[body]
    p_WP = frame.p + frame.R @ p_BP
    v_WP = ca.jtimes(p_WP, symbols.q, symbols.v)
    return PushForce(ca.jacobian(v_WP, symbols.v).T @ F_W, ca.dot(F_W, v_WP))

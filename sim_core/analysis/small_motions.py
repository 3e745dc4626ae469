"""Poles and frequencies of small motions about an equilibrium."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.analysis.equilibria import efforts_of
from sim_core.analysis.linearization import linearize
from sim_core.mechanism.constraints import BeamContact, PrescribedMotion
from sim_core.system import System

Array = np.ndarray
STEP = 1e-6  # rad, m, rad/s or m/s, of differences


def frequencies(system: System, about: Array, u: Any = None) -> Array:
    """Absolute values, rad/s, ascending, of the poles of the motion linearized about an equilibrium.

    about, u  as for `poles`
    """
    return np.sort(np.abs(poles(system, about, u)))


def is_unstable(system: System, about: Array, u: Any = None) -> bool:
    """Whether an equilibrium is unstable, that is, whether the linearized motion grows exponentially.

    about, u  as for `poles`
    """
    found = poles(system, about, u)
    return bool(found.real.max(initial=0.0) > 1e-3 * np.abs(found).max(initial=0.0))


def poles(system: System, about: Array, u: Any = None) -> Array:
    """Poles, 1/s, of the motion linearized about an equilibrium: two for each degree of freedom.

    They are those of `linearize`. For a system without a linear model, that is, with a contact of a beam or an actuator
    that commands a velocity, they come from central differences, two for each coordinate.

    about  coordinates (n_q,) of the equilibrium
    u      actuator efforts (n_u,), by default those at the start, or a function of q and v that returns them
    """
    n, efforts = system.n_q, efforts_of(system, u)
    at = np.concatenate([np.array(about, dtype=float), np.zeros(n)])

    def differences(function: Any) -> Array:
        return np.array([(function(at + e) - function(at - e)) / (2.0 * STEP) for e in STEP * np.eye(2 * n)]).T

    def input_at(x: Array) -> Array:
        return np.asarray(efforts(x[:n], x[n:]))

    constraints = system.mechanism.constraints
    if any(isinstance(c, BeamContact) or (isinstance(c, PrescribedMotion) and c.input) for c in constraints):
        a = differences(lambda x: system.acceleration(0.0, x[:n], x[n:], input_at(x))[0])
        return np.asarray(np.linalg.eigvals(np.vstack([np.hstack([np.zeros((n, n)), np.eye(n)]), a])))
    model = linearize(system, (at[:n], at[n:]), input_at(at), outputs=())
    feedback = differences(input_at) if callable(u) else np.zeros((system.n_u, 2 * n))
    return np.asarray(np.linalg.eigvals(model.A + model.B @ feedback @ model.basis))

"""Equilibria of a system, and the poles and frequencies of small motions about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sim_core.analysis.held import HeldInputs
from sim_core.errors import InvalidRequest
from sim_core.system import System

Array = np.ndarray
MOST_LISTED = 8  # coordinates that a message lists
STILL = 1e-9  # acceleration of an equilibrium, in characteristic lengths or rad per s^2, relative to that nearby


def equilibrium(system: System, near: Any, u: Any = None) -> Array:
    """Coordinates q (n_q,) of an equilibrium that satisfies the constraints, near the coordinates `near` (n_q,).

    u  actuator efforts (n_u,), by default those at the start, or a function of q and v that returns them
    Raises InvalidRequest if no equilibrium is found.
    """
    from scipy.optimize import least_squares  # slow to load, seldom needed

    start = np.array(near, dtype=float).reshape(-1)
    if start.shape != (system.n_q,) or not np.isfinite(start).all():
        raise InvalidRequest(
            f"argument 'near' is {near!r}; for {system.mechanism.name!r} give {system.n_q} finite numbers, in the "
            f"order {', '.join(system.coordinate_names)}"
        )
    rest, efforts = np.zeros(system.n_q), _efforts(system, u)

    def unrest(q: Array) -> Array:
        a = system.acceleration(0.0, q, rest, efforts(q, rest))[0]
        return np.concatenate([a, system.residual(0.0, q, rest)[0]])

    with np.errstate(all="ignore"):  # the search may pass coordinates at which the acceleration is not finite
        sizes = np.abs(unrest(start)), np.abs(unrest(start + 0.1))
        if not np.isfinite(sizes[0]).all():
            raise InvalidRequest(
                f"no equilibrium of {system.mechanism.name!r} was found: at {start.tolist()} the acceleration is not "
                "finite; give coordinates closer to an equilibrium"
            )
        size = max(1.0, float(sizes[0].max()), float(np.nan_to_num(sizes[1], posinf=0.0).max()))
        found = least_squares(unrest, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, x_scale=1.0)
        left = np.abs(unrest(found.x))
    if not left.max() <= STILL * size:
        raise InvalidRequest(
            f"no equilibrium of {system.mechanism.name!r} was found{_places(start, found.x)} "
            f"{_remaining_motion(system, left)}; give coordinates closer to an equilibrium"
        )
    return np.array(found.x)


def _places(start: Array, end: Array) -> str:
    """Clause of a message: where a search started and ended; without coordinates if there are more than MOST_LISTED."""
    if len(start) > MOST_LISTED:
        return ": where the search ended,"
    return f" near {start.tolist()}: at {end.round(6).tolist()}"


def _remaining_motion(system: System, left: Array) -> str:
    """Clause of a message that names why a state is no equilibrium: its largest acceleration or constraint violation.

    left  magnitudes of the accelerations (n_q,) of the coordinates, then of the residuals of the constraints
    """
    largest = int(np.argmax(left))
    if largest < system.n_q:
        return f"the coordinate {system.coordinate_names[largest]!r} still accelerates, by {left[largest]:.3g} per s^2"
    return f"the constraints are still violated, by {left[largest]:.3g}"


def frequencies(system: System, about: Array, u: Any = None) -> Array:
    """Absolute values (2 n_q,), rad/s, ascending, of the eigenvalues of the motion linearized about an equilibrium.

    about  coordinates (n_q,) of the equilibrium
    u      actuator efforts (n_u,), by default those at the start, or a function of q and v that returns them
    """
    return np.sort(np.abs(poles(system, about, u)))


def is_unstable(system: System, about: Array, u: Any = None) -> bool:
    """Whether an equilibrium is unstable, that is, whether the linearized motion grows exponentially.

    about  coordinates (n_q,) of the equilibrium
    u      actuator efforts (n_u,), by default those at the start, or a function of q and v that returns them
    """
    found = poles(system, about, u)
    return bool(found.real.max() > 1e-3 * np.abs(found).max())


def poles(system: System, about: Array, u: Any = None) -> Array:
    """Eigenvalues (2 n_q,), 1/s, of the motion linearized about an equilibrium by finite differences.

    about  coordinates (n_q,) of the equilibrium
    u      actuator efforts (n_u,), by default those at the start, or a function of q and v that returns them
    """
    n, step, efforts = system.n_q, 1e-6, _efforts(system, u)
    rest = np.zeros(n)
    A = np.zeros((2 * n, 2 * n))
    A[:n, n:] = np.eye(n)
    for k, e in enumerate(np.eye(n) * step):
        for column, (dq, dv) in ((k, (e, rest)), (n + k, (rest, e))):
            ahead, behind = (
                system.acceleration(0.0, about + sign * dq, sign * dv, efforts(about + sign * dq, sign * dv))[0]
                for sign in (1, -1)
            )
            A[n:, column] = (ahead - behind) / (2 * step)
    return np.asarray(np.linalg.eigvals(A))


def _efforts(system: System, u: Any) -> Callable[[Array, Array], Any]:
    """The actuator efforts `u` as a function of q and v.

    u  such a function, which is returned unchanged; or constant efforts (n_u,); or None, which means the efforts at the
       start
    """
    return u if callable(u) else HeldInputs.of(system, u).efforts

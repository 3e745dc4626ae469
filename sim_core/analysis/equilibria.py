"""Equilibria of a system."""

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
    rest, efforts = np.zeros(system.n_q), efforts_of(system, u)

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


def efforts_of(system: System, u: Any) -> Callable[[Array, Array], Any]:
    """The actuator efforts `u` as a function of q and v.

    u  such a function, which is returned unchanged; or constant efforts (n_u,); or None, which means the efforts at the
       start
    """
    return u if callable(u) else HeldInputs.of(system, u).efforts

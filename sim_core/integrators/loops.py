"""Functions that import and return the stepping loops.

The imports are inside the functions, so that numba is loaded only when a loop is needed.
"""

from __future__ import annotations

from typing import Any


def implicit() -> Any:
    """The compiled loop of implicit Runge-Kutta steppers with a fixed step."""
    from sim_core.integrators.methods.implicit import advance_implicit

    return advance_implicit


def one_stage() -> Any:
    """The compiled loop of the implicit midpoint rule and of generalized-alpha."""
    from sim_core.integrators.methods.one_stage import advance_one_stage

    return advance_one_stage


def adaptive() -> Any:
    """The compiled loop of Dormand-Prince 5(4) with error control within each tick."""
    from sim_core.integrators.methods.adaptive import advance_adaptive

    return advance_adaptive


def dense() -> Any:
    """The compiled loop of Dormand-Prince 5(4) whose steps are independent of the ticks."""
    from sim_core.integrators.methods.dense import advance_dense

    return advance_dense


def adams() -> Any:
    """The stepping loop around scipy's Adams integrator (VODE), in Python."""
    from sim_core.integrators.methods.variable_order import advance_adams

    return advance_adams


def radau() -> Any:
    """The stepping loop around scipy's Radau integrator, in Python."""
    from sim_core.integrators.methods.variable_order import advance_radau

    return advance_radau


def explicit() -> Any:
    """The compiled loop of explicit Runge-Kutta steppers with a fixed step."""
    from sim_core.integrators.methods.runge_kutta import advance_explicit

    return advance_explicit


def semi_implicit() -> Any:
    """The compiled loop of semi-implicit Euler."""
    from sim_core.integrators.methods.semi_implicit import advance_semi_implicit

    return advance_semi_implicit


def multistep() -> Any:
    """The compiled loop of Adams-Bashforth-Moulton."""
    from sim_core.integrators.methods.multistep import advance_multistep

    return advance_multistep

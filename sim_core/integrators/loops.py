"""Functions that import and return the compiled stepping loops, so that checking a plan does not load numba."""

from __future__ import annotations

from typing import Any


def implicit() -> Any:
    """The compiled loop of implicit Runge-Kutta steppers."""
    from sim_core.integrators.methods.implicit import advance_implicit

    return advance_implicit


def one_stage() -> Any:
    """The compiled loop of implicit midpoint and generalized-alpha."""
    from sim_core.integrators.methods.one_stage import advance_one_stage

    return advance_one_stage


def adaptive() -> Any:
    """The loop of Dormand-Prince with error control between ticks."""
    from sim_core.integrators.methods.adaptive import advance_adaptive

    return advance_adaptive


def dense() -> Any:
    """The loop of Dormand-Prince with steps independent of the ticks."""
    from sim_core.integrators.methods.dense import advance_dense

    return advance_dense


def adams() -> Any:
    """The loop of scipy's Adams integration (VODE)."""
    from sim_core.integrators.methods.variable_order import advance_adams

    return advance_adams


def radau() -> Any:
    """The loop of scipy's Radau integration."""
    from sim_core.integrators.methods.variable_order import advance_radau

    return advance_radau


def explicit() -> Any:
    """The loop of explicit Runge-Kutta steppers."""
    from sim_core.integrators.methods.runge_kutta import advance_explicit

    return advance_explicit


def semi_implicit() -> Any:
    """The loop of semi-implicit Euler."""
    from sim_core.integrators.methods.semi_implicit import advance_semi_implicit

    return advance_semi_implicit


def multistep() -> Any:
    """The loop of Adams-Bashforth-Moulton."""
    from sim_core.integrators.methods.multistep import advance_multistep

    return advance_multistep

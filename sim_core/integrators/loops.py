"""Functions that return the stepping loops; numba compiles a loop when it is first called."""

from __future__ import annotations

from typing import Any

from sim_core.integrators.methods.adaptive import advance_adaptive
from sim_core.integrators.methods.dense import advance_dense
from sim_core.integrators.methods.implicit import advance_implicit
from sim_core.integrators.methods.multistep import advance_multistep
from sim_core.integrators.methods.one_stage import advance_one_stage
from sim_core.integrators.methods.runge_kutta import advance_explicit
from sim_core.integrators.methods.semi_implicit import advance_semi_implicit
from sim_core.integrators.methods.variable_order import advance_adams, advance_radau


def implicit() -> Any:
    """The compiled loop of implicit Runge-Kutta steppers with a fixed step."""
    return advance_implicit


def one_stage() -> Any:
    """The compiled loop of the implicit midpoint rule and of generalized-alpha."""
    return advance_one_stage


def adaptive() -> Any:
    """The compiled loop of Dormand-Prince 5(4) with error control within each tick."""
    return advance_adaptive


def dense() -> Any:
    """The compiled loop of Dormand-Prince 5(4) whose steps are independent of the ticks."""
    return advance_dense


def adams() -> Any:
    """The stepping loop around scipy's Adams integrator (VODE), in Python."""
    return advance_adams


def radau() -> Any:
    """The stepping loop around scipy's Radau integrator, in Python."""
    return advance_radau


def explicit() -> Any:
    """The compiled loop of explicit Runge-Kutta steppers with a fixed step."""
    return advance_explicit


def semi_implicit() -> Any:
    """The compiled loop of semi-implicit Euler."""
    return advance_semi_implicit


def multistep() -> Any:
    """The compiled loop of Adams-Bashforth-Moulton."""
    return advance_multistep

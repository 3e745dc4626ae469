"""The stepping loops, each imported when a simulation asks for it: a plan is checked without loading numba."""

from __future__ import annotations

from typing import Any


def implicit() -> Any:
    """Return `advance_implicit`."""
    from sim_core.integrators.implicit import advance_implicit

    return advance_implicit


def one_stage() -> Any:
    """Return `advance_one_stage`."""
    from sim_core.integrators.one_stage import advance_one_stage

    return advance_one_stage


def adaptive() -> Any:
    """Return `advance_adaptive`."""
    from sim_core.integrators.adaptive import advance_adaptive

    return advance_adaptive


def dense() -> Any:
    """Return `advance_dense`."""
    from sim_core.integrators.dense import advance_dense

    return advance_dense


def adams() -> Any:
    """Return `advance_adams`."""
    from sim_core.integrators.variable_order import advance_adams

    return advance_adams


def radau() -> Any:
    """Return `advance_radau`."""
    from sim_core.integrators.variable_order import advance_radau

    return advance_radau


def explicit() -> Any:
    """Return `advance_explicit`."""
    from sim_core.integrators.runge_kutta import advance_explicit

    return advance_explicit


def semi_implicit() -> Any:
    """Return `advance_semi_implicit`."""
    from sim_core.integrators.semi_implicit import advance_semi_implicit

    return advance_semi_implicit


def multistep() -> Any:
    """Return `advance_multistep`."""
    from sim_core.integrators.multistep import advance_multistep

    return advance_multistep

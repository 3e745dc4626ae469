"""Parameters that change what is compiled: the cells of one value are run together, and the first compiles for all.

Equations of a robot are compared before any cell runs. Nodes may have models of their own, such as a planner's, which
are known only when they start; so each value of a node's parameter is taken to be compiled anew.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

from nodes.plan.key_checks import PlanError
from nodes.sweeps.axes import Axis, as_text
from nodes.sweeps.design import Sweep, plan_with
from sim_core.mechanism import Mechanism

METHODS = ("robot", "stepper", "stabilizer", "reactions")  # keys of [sim] that change what is compiled
LOOKED_AT = 4  # values of an axis that are compared
MOST_OF_NODES = 200  # values of a node's parameter beyond which they are not grouped


def structural(sweep: Sweep) -> list[Axis]:
    """Axes whose values change the equations of a robot or the integration method, so that each value needs its own
    compiled code."""
    return [axis for axis in sweep.axes if _is_structural(sweep, axis)]


def structures(sweep: Sweep) -> Callable[[int], tuple[int, int]]:
    """Function from a cell's number to (number of its robots' equations and methods, number of its structure).

    Cells of one structure share all compiled code, that of the nodes' models included.
    """
    robots = {axis.key for axis in structural(sweep) if not axis.random}
    nodes = {axis.key for axis in sweep.axes if not axis.random and is_of_node(axis)}
    of_robots, of_all = _place_among(sweep, robots), _place_among(sweep, robots | nodes)
    return lambda cell: (of_robots(cell), of_all(cell))


def is_of_node(axis: Axis) -> bool:
    """Whether an axis is a parameter of a node, with few enough values to be grouped."""
    owner, dot, _ = axis.key.partition(".")
    return bool(dot) and owner.rpartition("/")[2] != "sim" and len(axis.values) <= MOST_OF_NODES


def _place_among(sweep: Sweep, keys: set[str]) -> Callable[[int], int]:
    """Function from a cell's number to the number of its combination of values of some listed axes."""
    sizes = [(axis.key in keys, len(axis.values)) for axis in sweep.axes if not axis.random]

    def place_of(cell: int) -> int:
        rest, found, scale = cell // sweep.repeat, 0, 1
        for changes, size in reversed(sizes):
            rest, place = divmod(rest, size)
            if changes:
                found, scale = found + scale * place, scale * size
        return found

    return place_of


def _is_structural(sweep: Sweep, axis: Axis) -> bool:
    owner, _, key = axis.key.rpartition(".parameters.")
    first = axis.key.split(".")
    if len(first) > 1 and first[0].rpartition("/")[2] == "sim" and first[1] in METHODS:
        return True
    if not key or owner.rpartition("/")[2] != "sim":
        return False
    values = [axis.draw(seed) for seed in range(2)] if axis.random else spread(axis.values)
    found = {_hash(sweep, f"{axis.key}={as_text(value)}") for value in values}
    return len(found - {None}) > 1


def spread(values: tuple[Any, ...]) -> list[Any]:
    """Up to LOOKED_AT of the values: both ends, and some in between."""
    if len(values) <= LOOKED_AT:
        return list(values)
    return [values[k * (len(values) - 1) // (LOOKED_AT - 1)] for k in range(LOOKED_AT)]


def _hash(sweep: Sweep, override: str) -> str | None:
    """Hash of the robot's equations with one override; None where the plan is refused."""
    with contextlib.suppress(PlanError, ValueError, TypeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = plan_with(sweep, [override])
        return " ".join(_identity(view.sim.make_mechanism()) for view in plan.views)
    return None


def _identity(mechanism: Mechanism) -> str:
    """Text that differs between two mechanisms if `assemble` compiles different code for them."""
    bounds = [tunable.decades for tunable in mechanism.tunables]
    return f"{mechanism.canonical_hash}|{mechanism.reference_q or mechanism.initial_q}|{bounds}"

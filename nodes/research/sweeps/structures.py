"""Finds which parameters of a sweep change compiled code, and which cells share all compiled code.

A cell is one run of the sweep. The cells that share all compiled code form a structure: the first cell of a structure
compiles the code for the others. Which cells share code is determined before any cell runs. For the robots, this is
done by comparing their equations. For a node with a model of its own, such as a planner, this comparison is not
possible, because the model is known only when the node starts. Each value of a node's parameter is therefore assumed to
need its own compiled code.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from typing import Any

from nodes.framework.plan.key_checks import PlanError
from nodes.research.sweeps.axes import Axis, as_text
from nodes.research.sweeps.design import Sweep, plan_with
from sim_core.mechanism import Mechanism

METHODS = ("robot", "stepper", "stabilizer", "reactions")  # keys of [sim] that change what is compiled
LOOKED_AT = 4  # values of an axis that are compared
MOST_OF_NODES = 200  # values of a node's parameter beyond which they are not grouped


def structural(sweep: Sweep) -> list[Axis]:
    """Axes (varied parameters) whose values change the equations of a robot or the integration method.

    Each value of such an axis needs its own compiled code.
    """
    return [axis for axis in sweep.axes if _is_structural(sweep, axis)]


def structures(sweep: Sweep) -> Callable[[int], tuple[int, int]]:
    """Return a function from the number of a cell (run of the sweep) to two indices.

    The first index numbers the different combinations of robots' equations and integration method. Cells with the same
    first index have the same equations and the same method. The second index numbers the different sets of compiled
    code, which also include the code of the nodes' models, such as a planner's. Cells with the same second index share
    all compiled code.
    """
    robots = {axis.key for axis in structural(sweep) if not axis.random}
    nodes = {axis.key for axis in sweep.axes if not axis.random and is_of_node(axis)}
    of_robots, of_all = _place_among(sweep, robots), _place_among(sweep, robots | nodes)
    return lambda cell: (of_robots(cell), of_all(cell))


def groups(sweep: Sweep) -> tuple[int, int]:
    """(number of groups of cells that share the robots' code, number of groups that share all code) of a sweep.

    Each group compiles its code once. A random axis that changes the equations is not counted: each of its cells
    compiles code of its own.
    """
    robots = {axis.key: len(axis.values) for axis in structural(sweep) if not axis.random}
    nodes = {axis.key: len(axis.values) for axis in sweep.axes if not axis.random and is_of_node(axis)}
    return math.prod(robots.values()), math.prod((robots | nodes).values())


def is_of_node(axis: Axis) -> bool:
    """Whether an axis varies a parameter of a node, and has at most MOST_OF_NODES values.

    A node may compile code for its parameters, such as a planner's model. Runs with the same value of such an axis are
    therefore grouped. With more values, the groups would be too small.
    """
    owner, dot, _ = axis.key.partition(".")
    return bool(dot) and owner.rpartition("/")[2] != "sim" and len(axis.values) <= MOST_OF_NODES


def _place_among(sweep: Sweep, keys: set[str]) -> Callable[[int], int]:
    """Return a function from the number of a run to the index of its combination of values on the axes `keys`.

    Two runs have the same index if all axes named in `keys` have the same values in both. Random axes are ignored.
    """
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
    """Return at most LOOKED_AT values, at even distances in the list, including the first and the last value."""
    if len(values) <= LOOKED_AT:
        return list(values)
    return [values[k * (len(values) - 1) // (LOOKED_AT - 1)] for k in range(LOOKED_AT)]


def _hash(sweep: Sweep, override: str) -> str | None:
    """Text that identifies the robots' equations with one override; None if the plan is invalid with this override."""
    with contextlib.suppress(PlanError, ValueError, TypeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = plan_with(sweep, [override])
        return " ".join(_identity(view.sim.make_mechanism()) for view in plan.views)
    return None


def _identity(mechanism: Mechanism) -> str:
    """Return a text that differs for two mechanisms if `assemble` compiles different code for them."""
    bounds = [tunable.decades for tunable in mechanism.tunables]
    return f"{mechanism.canonical_hash}|{mechanism.reference_q or mechanism.initial_q}|{bounds}"

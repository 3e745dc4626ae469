"""Stabilizers by name: the stabilizers of this package, and stabilizers that installed packages register.

A package registers a class, or a function that returns a Stabilizer, as an entry point of the group
"armswing.stabilizers". The fuzzy controllers of the papers are registered by this package itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.stabilization.stabilizers import (
    PID,
    Baumgarte,
    DirectCorrection,
    FuzzyPaper,
    Projection,
    SampledFuzzy,
    Stabilizer,
)
from sim_core.tables import arguments

STABILIZERS: dict[str, Callable[..., Stabilizer]] = {
    kind.name: kind for kind in (Stabilizer, Baumgarte, PID, DirectCorrection, Projection, FuzzyPaper, SampledFuzzy)
}


def stabilizers_by_name() -> dict[str, Callable[..., Stabilizer]]:
    """{name: class or function} of all stabilizers: those of this package, then the registered ones alphabetically."""
    return STABILIZERS | _registered()


@cache
def _registered() -> dict[str, Callable[..., Stabilizer]]:
    points = {point.name: point for point in entry_points(group="armswing.stabilizers")}
    return {name: _loaded(points[name]) for name in sorted(points) if name not in STABILIZERS}


def _loaded(point: EntryPoint) -> Callable[..., Stabilizer]:
    """The class or function that an entry point names; if its import fails, a function that raises InvalidRequest."""
    try:
        return cast("Callable[..., Stabilizer]", point.load())
    except Exception as error:  # of a package of somebody else: its stabilizer alone is missing
        text = f"stabilizer {point.name!r} is registered as {point.value!r}, which cannot be imported: {error}"

        def failed() -> Stabilizer:
            raise InvalidRequest(text)

        return failed


def stabilizer_named(name: str, **parameters: Any) -> Stabilizer:
    """The stabilizer with this name and parameters.

    Raises InvalidRequest for an unknown name or parameter, and for an invalid value.
    """
    # looking through all installed packages takes longer than building a system
    known = STABILIZERS if name in STABILIZERS else stabilizers_by_name()
    if name not in known:
        raise UnknownName("sim_core", "stabilizer", name, known)
    made = known[name](**arguments(f"stabilizer {name!r}", known[name], parameters))
    object.__setattr__(made, "requested_name", name)  # the class is frozen; the name is for messages only
    return made

"""The stabilizers by name: the kinds, and the papers' controllers, which are scalings of one kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim_core.errors import UnknownName
from sim_core.stabilization.scalings import PAPERS
from sim_core.stabilization.stabilizers import (
    PID,
    Baumgarte,
    DirectCorrection,
    FuzzyPaper,
    Projection,
    SampledFuzzy,
    Stabilizer,
)
from sim_core.typed import typed

STABILIZERS: dict[str, Callable[..., Stabilizer]] = {
    kind.name: kind for kind in (Stabilizer, Baumgarte, PID, DirectCorrection, Projection, FuzzyPaper, SampledFuzzy)
}


def stabilizers_by_name() -> dict[str, Callable[..., Stabilizer]]:
    """All stabilizers by name: the kinds, then the papers' controllers."""
    return STABILIZERS | PAPERS


def stabilizer_named(name: str, **parameters: Any) -> Stabilizer:
    """The stabilizer with this name; unknown names and parameters and invalid values raise InvalidRequest."""
    known = stabilizers_by_name()
    if name not in known:
        raise UnknownName("sim_core", "stabilizer", name, known)
    made = known[name](**typed(f"stabilizer {name!r}", known[name], parameters))
    object.__setattr__(made, "requested_name", name)  # the class is frozen; the name is for messages only
    return made

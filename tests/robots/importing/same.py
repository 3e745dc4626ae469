"""Comparison of mechanisms whose numbers may differ by rounding."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sim_core.mechanism import Mechanism

ROUNDING = 1e-12
UNCOMPARED = {"name", "shapes", "ground", "parameters", "outputs", "arrows"}  # of a mechanism and its bodies


def assert_same(one: Mechanism, other: Mechanism, *leave_out: str) -> None:
    """Fails unless two mechanisms have the same parts, with numbers that differ by at most ROUNDING.

    leave_out  fields that are not compared
    """
    for field in dataclasses.fields(Mechanism):
        if field.name not in (*UNCOMPARED, *leave_out):
            assert_alike(field.name, getattr(one, field.name), getattr(other, field.name))


def assert_alike(where: str, one: Any, other: Any) -> None:
    """Fails unless two values are equal, apart from ROUNDING of numbers relative to 1 and to the number."""
    if isinstance(one, float) and isinstance(other, float):
        assert math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING), f"{where}: {one!r} and {other!r}"
    elif isinstance(one, tuple) and isinstance(other, tuple):
        assert len(one) == len(other), f"{where}: {len(one)} and {len(other)}"
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_alike(f"{where}[{getattr(mine, 'name', number)}]", mine, theirs)
    elif dataclasses.is_dataclass(one) and type(one) is type(other):
        for field in dataclasses.fields(one):
            if field.name not in ("shapes", "parameters"):
                assert_alike(f"{where}.{field.name}", getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other, f"{where}: {one!r} and {other!r}"

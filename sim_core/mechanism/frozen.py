"""Base class of a mechanism description's dataclasses: converts sequences to tuples, so that items are hashable."""

from __future__ import annotations

import dataclasses
import fractions
from typing import Any


class Frozen:
    """Base class: converts lists and numpy arrays in the fields to tuples, and numpy numbers to Python numbers."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # its subclasses are dataclasses
            value = getattr(self, field.name)
            if (plain := plain_value(value)) is not value:
                object.__setattr__(self, field.name, plain)


def plain_value(value: Any) -> Any:
    """`value` with lists and arrays as tuples, and numpy numbers as Python numbers.

    Returns `value` itself if nothing changes.
    """
    kind = value.__class__
    if kind is float or kind is str or kind is int:
        return value
    if kind is tuple:
        items = [plain_value(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else tuple(items)
    if isinstance(value, list):
        return tuple(plain_value(item) for item in value)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy, which is not imported for this
        return plain_value(value.tolist())
    if isinstance(value, fractions.Fraction):
        return float(value)
    return value

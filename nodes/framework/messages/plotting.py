"""Collects the values that a node plots in one callback, for one `PlotValues` message."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nodes.framework.messages.structs import PlotValues

MOST_NAMES = 256  # largest number of names that one node plots
MOST_NUMBERS = 64  # largest number of entries of a vector
LONGEST_NAME = 80  # characters
LONGEST_UNIT = 16  # characters
SCALAR = -1  # shape of a single number; the shape of a vector is its length


class PlottedValues:
    """The named values that a node has plotted since the last call of `take`.

    A value with an invalid name or shape is discarded, and the node keeps running: plotting must not stop a controller.

    refuse  called with the reason, one line, for each discarded value
    warn    called with one line for the first NaN or infinite number of each name
    """

    def __init__(self, refuse: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._refuse = refuse
        self._warn = warn
        self._values: dict[str, float | list[float]] = {}
        self._units: dict[str, str] = {}
        self._shapes: dict[str, int] = {}
        self._not_finite: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there are values to take."""
        return bool(self._values)

    def add(self, name: str, value: Any, unit: str = "") -> None:
        """Add a number or a vector. It replaces a value that was added with the same name since the last `take`."""
        if type(value) is not float:
            try:
                value = _numbers(value)
            except (TypeError, OverflowError) as error:
                self._refuse(f"{str(name)[:LONGEST_NAME]!r} is {error}")
                return
        shape = SCALAR if type(value) is float else len(value)
        if self._shapes.get(name) != shape and not self._is_new(name, shape):
            return
        if not math.isfinite(value if shape == SCALAR else sum(value)) and name not in self._not_finite:
            self._warn_not_finite(name, value)
        self._values[name] = value
        if unit != self._units.get(name, ""):
            if not isinstance(unit, str) or not unit.isprintable() or len(unit) > LONGEST_UNIT:
                self._refuse(
                    f"the unit {str(unit)[:80]!r} of {name!r} is not a text of at most {LONGEST_UNIT} characters"
                )
                return
            self._units[name] = unit

    def take(self) -> PlotValues:
        """A message with the values plotted since the last call."""
        values, units = self._values, self._units
        message = PlotValues(values=values, units={name: units[name] for name in values if name in units})
        self._values = {}
        return message

    def _is_new(self, name: str, shape: int) -> bool:
        """Whether `name` is a valid new name with a valid shape; if so, its later values must have the same shape.

        Otherwise, `refuse` is called with the reason.

        shape  SCALAR, or the length of the vector
        """
        if name in self._shapes:
            reason = f"{name!r} is {_text(shape)}, and was {_text(self._shapes[name])} before; give it another name"
        elif not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
            reason = f"the name {str(name)[:LONGEST_NAME]!r} is not a text of 1 to {LONGEST_NAME} printable characters"
        elif shape > MOST_NUMBERS:
            reason = f"{name!r} is {_text(shape)}; a node plots vectors of at most {MOST_NUMBERS} numbers: divide it"
        elif len(self._shapes) >= MOST_NAMES:
            reason = f"{name!r} is one name too many; a node plots at most {MOST_NAMES} names"
        else:
            self._shapes[name] = shape
            return True
        self._refuse(reason)
        return False

    def _warn_not_finite(self, name: str, value: float | list[float]) -> None:
        numbers = [value] if isinstance(value, float) else value
        wrong = [number for number in numbers if not math.isfinite(number)]
        if wrong:  # the sum of finite numbers may overflow
            self._not_finite.add(name)
            self._warn(f"plots {name!r} = {wrong[0]}, which is drawn as a gap and recorded as null")


def _numbers(value: Any) -> float | list[float]:
    """The value as a float or a list of floats.

    Raises TypeError for a value of another type, OverflowError for an integer above 1.8e308.
    """
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_number(item) for item in value]
    return _number(value)


def _number(value: Any) -> float:
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__")
    if not is_number:  # text has neither, although float("1") is 1.0
        raise TypeError(f"a {type(value).__name__}, not a number or a vector of numbers")
    try:
        return float(value)
    except OverflowError:
        raise OverflowError("an integer that is too large for a float, above 1.8e308") from None


def _text(shape: int) -> str:
    return "a single number" if shape == SCALAR else f"a vector of {shape} numbers"

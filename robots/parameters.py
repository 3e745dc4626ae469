"""Annotation of a robot's parameters with meaning and unit, and checks of parameter values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim_core.errors import InvalidRequest


@dataclass(frozen=True)
class ParameterInfo:
    """Meaning and unit of a robot parameter, for displays and documentation.

    Example: Annotated[float, ParameterInfo("distance between the bars", "m")].
    none  text that says which value is used if the default is None or empty
    """

    text: str
    unit: str = ""
    none: str = ""


def require_positive(robot: str, **values: float) -> None:
    """Raise InvalidRequest that names the first parameter that is not a positive finite number."""
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 < value < float("inf"):
            raise InvalidRequest(f"robot {robot!r}: {name} is {value!r}; it must be a positive number")


def require_not_negative(robot: str, **values: float) -> None:
    """Raise InvalidRequest that names the first parameter that is not a finite number of at least 0."""
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value < float("inf"):
            raise InvalidRequest(f"robot {robot!r}: {name} is {value!r}; it must be a number of at least 0")


def require_choice(robot: str, parameter: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise InvalidRequest if `value` is not one of `choices`."""
    if value not in choices:
        raise InvalidRequest(
            f"robot {robot!r}: {parameter} is {value!r}; it must be one of {', '.join(map(str, choices))}"
        )


def require_whole(robot: str, least: int, **values: object) -> None:
    """Raise InvalidRequest that names the first parameter that is not a whole number of at least `least`."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidRequest(f"robot {robot!r}: {name} is {value!r}; it must be a whole number of at least {least}")


def require_finite_number(robot: str, **values: float) -> None:
    """Raise InvalidRequest that names the first parameter that is not a finite number."""
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise InvalidRequest(f"robot {robot!r}: {name} is {value!r}; it must be a finite number")

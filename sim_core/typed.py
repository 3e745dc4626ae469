"""Conversion of plain values, as launch files hold them, to the annotated parameter types of a function."""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sim_core.errors import InvalidRequest, UnknownName


def typed(owner: str, function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values converted to the annotated types of the function's parameters.

    owner  label that begins the error message
    Raises UnknownName or InvalidRequest for the first unknown, missing or mistyped parameter.
    """
    known = inspect.signature(function).parameters
    hints = get_type_hints(getattr(function, "func", function))
    found = {}
    for name, value in values.items():
        if name not in known:
            raise UnknownName(owner, "parameter", name, known)
        found[name] = _as(f"{owner}: {name}", value, hints.get(name, Any))
    missing = [name for name, p in known.items() if p.default is p.empty and name not in values]
    if missing:
        raise InvalidRequest(f"{owner}: {', '.join(missing)} must be given")
    return found


def choices_of(function: Callable[..., Any]) -> dict[str, Any]:
    """{parameter: default} of a function or dataclass; `inspect.Parameter.empty` for a parameter without default."""
    made = {
        field.name: field.default_factory()
        for field in (dataclasses.fields(function) if dataclasses.is_dataclass(function) else ())
        if field.default_factory is not dataclasses.MISSING
    }
    return {name: made.get(name, p.default) for name, p in inspect.signature(function).parameters.items()}


def _as(where: str, value: Any, hint: Any) -> Any:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and type(None) in kinds:
        return None
    hint = next(kind for kind in kinds if kind is not type(None))
    if get_origin(hint) is Literal:
        return _one_of(where, value, get_args(hint))
    if hint is bool:
        return _one_of(where, value, (True, False), "true or false")
    if hint is float:
        return _number(where, value)
    if get_origin(hint) is tuple:
        size = len(get_args(hint))
        if not isinstance(value, list | tuple) or len(value) != size:
            raise InvalidRequest(f"{where} is {value!r}; it must be {size} numbers")
        return tuple(_number(where, entry) for entry in value)
    if isinstance(value, Mapping) and isinstance(hint, type):
        return hint(**typed(where, hint, value))
    if isinstance(hint, type) and not isinstance(value, hint):
        raise InvalidRequest(f"{where} is {value!r}; it must be a table of {', '.join(choices_of(hint))}")
    return value


def _one_of(where: str, value: Any, known: tuple[Any, ...], words: str = "") -> Any:
    if not any(value == entry and type(value) is type(entry) for entry in known):
        raise InvalidRequest(f"{where} is {value!r}; it must be {words or 'one of ' + ', '.join(map(repr, known))}")
    return value


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidRequest(f"{where} is {value!r}; it must be a finite number")
    return float(value)

"""Checks that the fields of a description, at every depth, hold values of their annotated types."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from sim_core.arguments import LARGEST
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.quantities import CapturedParameter, NotNegative, Tunable, Vector3

UNBOUNDED = {"least", "most"}  # fields that may be infinite
LIMITS = {"effort_limit", "velocity_limit", "lower", "upper", *UNBOUNDED}  # fields that may exceed LARGEST
COUNTED = {"inertia": "Ixx, Iyy, Izz, Ixy, Ixz, Iyz"}  # entries of a field, for its error message


@cache
def hints_of(kind: type) -> dict[str, tuple[Any, NotNegative | None]]:
    """{field of a class: (type, range of its number)}; cached, as resolving takes longer than all checks together."""
    noted = get_type_hints(kind, include_extras=True)
    return {name: (hint, _range_in(noted[name])) for name, hint in get_type_hints(kind).items()}


def _range_in(hint: Any) -> NotNegative | None:
    """The range in the annotation of a number or an optional number."""
    if get_origin(hint) is Annotated:
        return next((note for note in hint.__metadata__ if isinstance(note, NotNegative)), None)
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
    return next(filter(None, map(_range_in, kinds)), None)


def check_fields(item: Any, where: str, skip: Sequence[str] = ()) -> None:
    """Raise InvalidMechanism with a one-line message for the first field of a dataclass whose value has the wrong type
    or is outside its range.

    where  label of the mechanism and the item, which begins the error message
    skip   names of fields that are not checked
    """
    for name, (hint, within) in hints_of(item.__class__).items():
        if name in skip:
            continue
        value = getattr(item, name)
        _check(value, hint, name, where)
        if within is not None and value is not None:
            refuse(where, within.fault(name, value, getattr(item, "is_length", False)))


def refuse(where: str, *faults: str) -> None:
    """Raise InvalidMechanism for the first of the texts `faults` that is not empty.

    where  label of the mechanism and the item, which begins the error message
    """
    for fault in filter(None, faults):
        raise InvalidMechanism(f"{where}: {fault}")


@cache
def _kinds_of(hint: Any) -> tuple[bool, tuple[Any, ...], Any]:
    """Whether a field of this type may be None, its other types, and the origin of the first one, such as `tuple`."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    others = tuple(kind for kind in kinds if kind is not types.NoneType)
    return len(others) < len(kinds), others, Vector3 if hint == Vector3 else get_origin(others[0])


@cache
def _entries_of(hint: Any) -> tuple[tuple[Any, ...], tuple[bool, ...]]:
    """Types of the entries of a tuple's type, and whether an entry of the type is a number or a vector."""
    kinds = get_args(hint)
    return kinds, tuple(kind is float or float in get_args(kind) or kind == Vector3 for kind in kinds)


def _check(value: Any, hint: Any, name: str, where: str) -> None:
    optional, kinds, origin = _kinds_of(hint)
    if value is None and optional:
        return
    if float in kinds:
        _check_number(value, kinds, name, where)
    elif origin is Vector3:
        _check_vector(value, name, where)
    elif origin is Literal:
        words = get_args(kinds[0])
        if not any(value is word or (type(value) is type(word) and value == word) for word in words):
            raise InvalidMechanism(
                f"{where}: {name} is {_shown(value)}; it must be one of {', '.join(map(str, words))}"
            )
    elif origin is Callable:
        if not callable(value):
            raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be a function")
    elif origin is tuple:
        _check_tuple(value, kinds[0], name, where)
    elif origin is dict:
        _check_table(value, name, where)
    elif kinds[0] in WORDS:
        if type(value) is not kinds[0] and not (kinds[0] is str and isinstance(value, str)):
            raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be {WORDS[kinds[0]]}")
        if kinds[0] is int and abs(value) > LARGEST:
            raise InvalidMechanism(f"{where}: {name} holds {_shown(value)}; numbers must be within +-{LARGEST:g}")
        if name == "name" and not (value.strip() and value.isprintable()):
            raise InvalidMechanism(f"{where}: name is {_shown(value)}; it must be printable text")
    else:
        _check_item(value, kinds, name, where)


WORDS = {str: "text", bool: "True or False", int: "a whole number"}


def _check_number(value: Any, kinds: Sequence[Any], name: str, where: str) -> None:
    if isinstance(value, Tunable | CapturedParameter) and type(value) in kinds:
        check_fields(value, f"{where}: {name}")
        if isinstance(value, Tunable):
            _check_bounds(value, f"{where}: {name}")
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        fixed = " and cannot be tunable or captured" if isinstance(value, Tunable | CapturedParameter) else ""
        raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be a number{fixed}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise InvalidMechanism(f"{where}: {name} holds {_shown(value)}; numbers must be within +-{LARGEST:g}")
    if math.isnan(value) or (abs(value) == math.inf and name not in UNBOUNDED):
        raise InvalidMechanism(f"{where}: {name} holds {value}; numbers must be finite")
    if abs(value) > LARGEST and name not in LIMITS:
        raise InvalidMechanism(f"{where}: {name} holds {_shown(value)}; numbers must be within +-{LARGEST:g}")


def _check_bounds(tunable: Tunable, where: str) -> None:
    if tunable.least <= tunable.value <= tunable.most:
        return
    raise InvalidMechanism(
        f"{where}: tunable {tunable.name!r} is {tunable.value:g}; it must be within its own bounds, "
        f"{tunable.least:g} to {tunable.most:g}"
    )


def _check_vector(value: Any, name: str, where: str) -> None:
    if not isinstance(value, tuple) or len(value) != 3:
        raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be three numbers")
    for entry in value:
        _check_number(entry, (float,), name, where)


def _check_tuple(value: Any, hint: Any, name: str, where: str) -> None:
    kinds, plain = _entries_of(hint)
    repeated = kinds[-1] is Ellipsis
    if not isinstance(value, tuple):
        raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be a tuple")
    if not repeated and len(value) != len(kinds):
        takes = COUNTED.get(name, len(kinds))
        what = "numbers" if all(kind is float or float in get_args(kind) for kind in kinds) else "entries"
        raise InvalidMechanism(f"{where}: {name} has {len(value)} {what}; it must have {takes}")
    if kinds[0] is str and all(isinstance(entry, str) for entry in value) and len({*value}) < len(value):
        raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it may contain each name only once")
    if repeated and kinds[0] in (float, int) and {*map(type, value)} == {kinds[0]} and sum(map(abs, value)) <= LARGEST:
        return  # the many numbers of a mesh need no check one by one; the sum excludes nan and inf as well
    for index, entry in enumerate(value):
        place = 0 if repeated else index
        _check(entry, kinds[place], name if plain[place] else f"{name}[{index}]", where)


def _check_table(value: Any, name: str, where: str) -> None:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be a dict {{name: number}}")
    for key, number in value.items():
        _check_number(number, (float,), key, f"{where}: {name}")


def _check_item(value: Any, kinds: Sequence[Any], name: str, where: str) -> None:
    """Raise InvalidMechanism unless an item is of one of the classes `kinds` and its fields pass `check_fields`."""
    if type(value) not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds)
        must = f"a {known}" if len(kinds) == 1 else f"one of {known}"
        raise InvalidMechanism(f"{where}: {name} is {_shown(value)}; it must be {must}")
    if dataclasses.is_dataclass(value):
        own = getattr(value, "name", None)
        check_fields(value, f"{where}: {name}" if own is None else f"{where}: {_called(name)} {own!r}")


def _called(name: str) -> str:
    """Singular noun for an entry of a field, such as "body" for "bodies[2]"."""
    group = name.partition("[")[0]
    return {"bodies": "body"}.get(group, group.removesuffix("s"))


def _shown(value: Any) -> str:
    """The repr of a value, shortened to one line of at most 80 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an int of too many digits, or an object's own repr
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."

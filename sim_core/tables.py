"""Validation of values against annotated types, for launch files, parameter files, JSON and calls.

`misfit` checks a table of values against a msgspec struct; `arguments` checks values against the parameters of a
function or dataclass, and converts them with msgspec. The messages name the wrong key, its value, and the permitted
values.
"""

from __future__ import annotations

import dataclasses
import inspect as signatures
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.support.suggestion import did_you_mean

WHOLE = "the table"  # name of the top level, which has no key
BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
WITHIN = {
    "gt": lambda number, bound: number > bound,
    "ge": lambda number, bound: number >= bound,
    "lt": lambda number, bound: number < bound,
    "le": lambda number, bound: number <= bound,
}


@dataclass(frozen=True)
class Range:
    """Inclusive range and unit of a number, for annotations such as `Annotated[float, Range(0.001, 1000.0, "ms")]`."""

    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        ends = (str(end) if isinstance(end, int) else f"{end:g}" for end in (self.low, self.high))
        return f"{' .. '.join(ends)} {self.unit}".rstrip()


def ranges_of(kind: Any) -> Iterator[Range]:
    """Yield the Range annotations of a numeric or optional numeric type; annotations of list entries are left out."""
    if get_origin(kind) is Annotated:
        yield from (note for note in get_args(kind)[1:] if isinstance(note, Range))
    elif get_origin(kind) not in (list, tuple, dict):
        for one in get_args(kind):
            yield from ranges_of(one)


def out_of_range(value: object, kind: Any) -> str:
    """Text such as "is 1e-09, not in 0.001 .. 1000 ms" for a number outside every `Range` of the type `kind`; otherwise
    "".
    """
    ranges = list(ranges_of(kind))
    if isinstance(value, bool) or not isinstance(value, int | float) or not ranges:
        return ""
    if any(each.low <= value <= each.high for each in ranges):
        return ""
    wanted, low = " or ".join(map(str, ranges)), min(each.low for each in ranges)
    if value <= 0 < low:
        least = f"at least {low}" if isinstance(low, int) else "above zero"
        return f"is {_shown(value)}, not {least}; it must be in {wanted}"
    return f"is {_shown(value)}, not in {wanted}"


class Misfit(NamedTuple):
    """An error in a table of values.

    key   dotted key of the wrong value; "" for the whole table
    text  text of the message after the key, such as "is 3; it must be text"
    of    what joins the two: " " if the text is about the value of the key, ": " if it is about a key in the table
    """

    key: str
    text: str
    of: str = " "

    def __str__(self) -> str:
        if self.of == " ":
            return f"{self.key or WHOLE} {self.text}"
        return f"{self.key}{self.of}{self.text}" if self.key else self.text


def misfit(data: object, kind: Any, first: Mapping[str, int] | None = None, at: str = "") -> Misfit | None:
    """The first error found when `data` is checked against the type `kind`; None if there is no error.

    A number must be within a `Range` of its field, and finite unless the default of this field is not finite.

    first  {dotted key of a list: number that messages give to its first entry}. With {"axes": 1}, the first entry of
           the list `axes` is called axes.1 in messages; by default it is called axes[0]
    at     dotted key of `data` itself
    """
    schema = _schema(kind) if isinstance(kind, type) else inspect.type_info(kind)
    return _wrong(data, schema, at, first or {})


# Resolving annotations takes longer than the checks themselves. Few classes are kept: users reload files with classes.
@lru_cache(maxsize=256)
def _schema(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


@lru_cache(maxsize=256)
def fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Fields of a struct, in order, with resolved types."""
    return msgspec.structs.fields(kind)


def arguments(owner: str, function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """{parameter: value} with `values` converted to the annotated types of a function's parameters.

    A table for a parameter whose type is a dataclass is converted to this dataclass.
    owner  label that begins the error message
    Raises UnknownName or InvalidRequest for the first unknown, missing or mistyped parameter.
    """
    known = signatures.signature(function).parameters
    hints = get_type_hints(getattr(function, "func", function), include_extras=True)
    for name in values:
        if name not in known:
            raise UnknownName(owner, "parameter", name, known)
    found = {name: _argument(owner, name, value, hints.get(name, Any)) for name, value in values.items()}
    missing = [name for name, p in known.items() if p.default is p.empty and name not in values]
    if missing:
        raise InvalidRequest(f"{owner}: {', '.join(missing)} must be given")
    return found


def _argument(owner: str, name: str, value: Any, hint: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, hint):
            return value
        if not isinstance(value, Mapping):
            keys = ", ".join(defaults_of(hint))
            raise InvalidRequest(f"{owner}: {name} is {_shown(value)}; it must be a table of {keys}")
        return hint(**arguments(f"{owner}: {name}", hint, value))
    if line := misfit(value, hint, at=name):
        raise InvalidRequest(f"{owner}: {line}")
    return msgspec.convert(value, hint)


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """{parameter: default} of a function or dataclass; `inspect.Parameter.empty` for a parameter without default."""
    made = {
        field.name: field.default_factory()
        for field in (dataclasses.fields(function) if dataclasses.is_dataclass(function) else ())
        if field.default_factory is not dataclasses.MISSING
    }
    return {name: made.get(name, p.default) for name, p in signatures.signature(function).parameters.items()}


def _wrong(data: object, kind: inspect.Type, at: str, first: Mapping[str, int]) -> Misfit | None:
    if isinstance(kind, inspect.Metadata):
        return _wrong(data, kind.type, at, first)
    if isinstance(kind, inspect.StructType):
        return _wrong_table(data, kind, at, first)
    if isinstance(kind, inspect.UnionType):
        return _wrong_choice(data, kind, at, first)
    if isinstance(kind, inspect.TupleType | inspect.VarTupleType | inspect.ListType):
        return _wrong_list(data, kind, at, first)
    if isinstance(kind, inspect.DictType):
        if not isinstance(data, Mapping):
            return _mismatch(at, data, kind)
        entries = ((_joined(at, str(key)), item) for key, item in data.items())
        return next((found for key, item in entries if (found := _wrong(item, kind.value_type, key, first))), None)
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        known = words_of(kind)
        return None if data in known else _mismatch(at, data, kind, did_you_mean(data, known))
    return None if _fits(data, kind) else _mismatch(at, data, kind)


def _wrong_table(data: object, kind: inspect.StructType, at: str, first: Mapping[str, int]) -> Misfit | None:
    if isinstance(data, kind.cls):
        return None
    if not isinstance(data, Mapping):
        return _mismatch(at, data, kind)
    fields = {field.encode_name: field for field in kind.fields}
    if kind.forbid_unknown_fields and (unknown := [key for key in data if key not in fields]):
        return Misfit(at, unknown_key(unknown[0], fields), ": ")
    if missing := [name for name, field in fields.items() if field.required and name not in data]:
        return Misfit(at, f"lacks the key {missing[0]!r}; give it {article(fields[missing[0]].type)}")
    hints = {field.encode_name: field.type for field in fields_of(kind.cls)}
    for key, item in data.items():
        if key not in fields or not (_all_finite(item) or _all_finite(fields[key].default)):
            continue
        if found := _wrong(item, fields[key].type, _joined(at, key), first):
            return found
        if text := out_of_range(item, hints[key]):
            return Misfit(_joined(at, key), text)
    return None


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Text such as "unknown key 'masss'; did you mean 'mass'?"; if no known key is similar, the text lists all known
    keys.
    """
    names = list(known)
    hint = did_you_mean(key, names) or f"; the keys are {', '.join(names)}"
    return f"unknown key {key!r}{hint}"


def _all_finite(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_all_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _wrong_choice(data: object, kind: inspect.UnionType, at: str, first: Mapping[str, int]) -> Misfit | None:
    found = [_wrong(data, one, at, first) for one in kind.types]
    if not all(found):
        return None
    kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    if isinstance(data, Mapping) and any(isinstance(one, inspect.StructType) for one in kinds):
        kinds = [one for one in kinds if isinstance(one, inspect.StructType)]
    if len(kinds) == 1:
        return _wrong(data, kinds[0], at, first)
    inside = [each for each in found if each and each.key != at]
    return inside[0] if inside else _mismatch(at, data, kind)


def _wrong_list(data: object, kind: Any, at: str, first: Mapping[str, int]) -> Misfit | None:
    if not isinstance(data, list | tuple):
        return _mismatch(at, data, kind)
    least, most = _lengths(kind)
    if not least <= len(data) <= most:
        return Misfit(at, f"has {len(data)} entries; it must have {_count(least, most)}")
    items = kind.item_types if isinstance(kind, inspect.TupleType) else [kind.item_type] * len(data)
    start = first.get(at, 0)
    of_numbers = all(isinstance(item, inspect.FloatType | inspect.IntType) for item in items)
    for number, (entry, item) in enumerate(zip(data, items, strict=True), start=start):
        key = _joined(at, str(number)) if start else f"{at}[{number}]"
        if found := _wrong(entry, item, key, first):
            return _mismatch(at, data, kind) if of_numbers and not start else found
    return None


def _fits(data: object, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.FloatType | inspect.IntType):
        if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
            return False
        if isinstance(kind, inspect.IntType) and data != int(data):
            return False
        limits = ((name, getattr(kind, name)) for name in BOUNDS)
        return all(WITHIN[name](data, limit) for name, limit in limits if limit is not None)
    python = {inspect.StrType: str, inspect.BoolType: bool, inspect.NoneType: type(None)}.get(type(kind))
    return python is None or isinstance(data, python)


def _mismatch(at: str, data: object, kind: inspect.Type, hint: str = "") -> Misfit:
    wanted = article(kind)
    if not _all_finite(data):
        wanted = wanted.replace("number", "finite number", 1)
    verb = "choose" if _is_choice(kind) else "it must be"
    return Misfit(at, f"is {_shown(data)}; {verb} {wanted}{hint}")


def _is_choice(kind: inspect.Type) -> bool:
    """Whether the permitted values of a type are words."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    first = next((one for one in kinds if not isinstance(one, inspect.NoneType)), kind)
    return isinstance(first, inspect.LiteralType | inspect.EnumType)


def article(kind: inspect.Type) -> str:
    """Description of the permitted values of a type, such as "a number above 0", "a list of 3 numbers", "one of x, y,
    z".
    """
    if isinstance(kind, inspect.FloatType | inspect.IntType):
        limits = [f"{word} {getattr(kind, name):g}" for name, word in BOUNDS.items() if getattr(kind, name) is not None]
        number = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
        return " ".join([number, " and ".join(limits)]).strip()
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        return f"one of {', '.join(map(str, words_of(kind)))}"
    if isinstance(kind, inspect.TupleType | inspect.VarTupleType | inspect.ListType):
        return _list_text(kind)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(article(one) for one in kind.types if not isinstance(one, inspect.NoneType))
    words = {inspect.StrType: "text", inspect.BoolType: "true or false", inspect.NoneType: "nothing"}
    return words.get(type(kind), "a table")


def _list_text(kind: Any) -> str:
    items = set(map(article, kind.item_types)) if isinstance(kind, inspect.TupleType) else {article(kind.item_type)}
    least, most = _lengths(kind)
    count = "" if (least, most) == (0, math.inf) else f"{_count(least, most)} "
    item = min(items) if len(items) == 1 else "values"
    plural = item.removeprefix("a ").replace("number", "numbers", 1).replace("table", "tables", 1)
    return f"a list of {count}{plural}"


def _lengths(kind: Any) -> tuple[int, float]:
    if isinstance(kind, inspect.TupleType):
        return len(kind.item_types), len(kind.item_types)
    return kind.min_length or 0, math.inf if kind.max_length is None else kind.max_length


def _count(least: int, most: float) -> str:
    if least == most:
        return f"{least}"
    return f"at least {least}" if most == math.inf else f"{least} to {most:g}"


def words_of(kind: inspect.LiteralType | inspect.EnumType) -> Sequence[Any]:
    """The values allowed by a Literal or enum type."""
    if isinstance(kind, inspect.LiteralType):
        return list(kind.values)
    return [member.value for member in kind.cls]


def _shown(data: object) -> str:
    """A value as text, written as in a launch file and shortened to 60 characters."""
    if isinstance(data, Mapping):
        return "a table"
    if isinstance(data, list | tuple):
        text = f"[{', '.join(map(_shown, data))}]"
    elif isinstance(data, bool):
        text = str(data).lower()
    else:
        text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _joined(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key

"""Readable error messages for tables (as TOML and JSON hold them) that do not fit their msgspec type.

msgspec converts and checks; this module names the wrong key, its value, and what would be right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from msgspec import inspect

from sim_core.errors import did_you_mean

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
    """Inclusive range of a number, and its unit: `Annotated[float, Range(0.001, 1000.0, "ms")]`."""

    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        ends = (str(end) if isinstance(end, int) else f"{end:g}" for end in (self.low, self.high))
        return f"{' .. '.join(ends)} {self.unit}".rstrip()


def ranges_of(kind: Any) -> Iterator[Range]:
    """The ranges that a type allows for a number, optional types included; not those of list entries."""
    if get_origin(kind) is Annotated:
        yield from (note for note in get_args(kind)[1:] if isinstance(note, Range))
    elif get_origin(kind) not in (list, tuple, dict):
        for one in get_args(kind):
            yield from ranges_of(one)


def out_of_range(value: object, kind: Any) -> str:
    """ "1e-09 is not in 0.001 .. 1000 ms" for a number that is in no range of its type; "" otherwise."""
    ranges = list(ranges_of(kind))
    if isinstance(value, bool) or not isinstance(value, int | float) or not ranges:
        return ""
    if any(each.low <= value <= each.high for each in ranges):
        return ""
    wanted, low = " or ".join(map(str, ranges)), min(each.low for each in ranges)
    if value <= 0 < low:
        least = f"at least {low}" if isinstance(low, int) else "above zero"
        return f"{_shown(value)} is not {least}; it takes {wanted}"
    return f"{_shown(value)} is not in {wanted}"


def misfit(data: object, kind: Any, first: Mapping[str, int] | None = None) -> str:
    """The first error in `data` as a `kind`, in one line that begins with its dotted key; "" if there is none.

    first  {dotted key of a list: number of its first entry}; entries of other lists are written as key[0]
    """
    return _wrong(data, inspect.type_info(kind), "", first or {})


def _wrong(data: object, kind: inspect.Type, at: str, first: Mapping[str, int]) -> str:
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
        return next((line for key, item in entries if (line := _wrong(item, kind.value_type, key, first))), "")
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        known = words_of(kind)
        return "" if data in known else f"{_mismatch(at, data, kind)}{did_you_mean(data, known)}"
    return "" if _fits(data, kind) else _mismatch(at, data, kind)


def _wrong_table(data: object, kind: inspect.StructType, at: str, first: Mapping[str, int]) -> str:
    if not isinstance(data, Mapping):
        return _mismatch(at, data, kind)
    fields = {field.encode_name: field for field in kind.fields}
    owner = at or WHOLE
    if kind.forbid_unknown_fields and (unknown := [key for key in data if key not in fields]):
        hint = did_you_mean(unknown[0], fields) or f"; its keys are {', '.join(fields)}"
        return f"{owner} has a key {unknown[0]!r}, which is not known{hint}"
    if missing := [name for name, field in fields.items() if field.required and name not in data]:
        return f"{owner} lacks the key {missing[0]!r}; it takes {article(fields[missing[0]].type)}"
    entries = ((_joined(at, key), item, fields[key].type) for key, item in data.items() if key in fields)
    return next((line for key, item, field in entries if (line := _wrong(item, field, key, first))), "")


def _wrong_choice(data: object, kind: inspect.UnionType, at: str, first: Mapping[str, int]) -> str:
    lines = [_wrong(data, one, at, first) for one in kind.types]
    if not all(lines):
        return ""
    inside = [line for line in lines if not line.startswith(f"{at} is ")]
    return inside[0] if inside else _mismatch(at, data, kind)


def _wrong_list(data: object, kind: Any, at: str, first: Mapping[str, int]) -> str:
    if not isinstance(data, list | tuple):
        return _mismatch(at, data, kind)
    least, most = _lengths(kind)
    if not least <= len(data) <= most:
        return f"{at} has {len(data)} entries; it takes {_count(least, most)}"
    items = kind.item_types if isinstance(kind, inspect.TupleType) else [kind.item_type] * len(data)
    start = first.get(at, 0)
    of_numbers = all(isinstance(item, inspect.FloatType | inspect.IntType) for item in items)
    for number, (entry, item) in enumerate(zip(data, items, strict=True), start=start):
        key = _joined(at, str(number)) if start else f"{at}[{number}]"
        if line := _wrong(entry, item, key, first):
            return f"{at} is {_shown(data)}; it must be {article(kind)}" if of_numbers and not start else line
    return ""


def _fits(data: object, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.FloatType | inspect.IntType):
        allowed = int if isinstance(kind, inspect.IntType) else int | float
        if isinstance(data, bool) or not isinstance(data, allowed) or math.isnan(data):
            return False
        limits = ((name, getattr(kind, name)) for name in BOUNDS)
        return all(WITHIN[name](data, limit) for name, limit in limits if limit is not None)
    python = {inspect.StrType: str, inspect.BoolType: bool, inspect.NoneType: type(None)}.get(type(kind))
    return python is None or isinstance(data, python)


def _mismatch(at: str, data: object, kind: inspect.Type) -> str:
    wanted = article(kind)
    verb = "it is" if wanted.startswith("one of") else "it must be"
    return f"{at or WHOLE} is {_shown(data)}; {verb} {wanted}"


def article(kind: inspect.Type) -> str:
    """Words for the values of a type: "a number above 0", "a list of 3 numbers", "one of x, y, z"."""
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
    """A value as its file would show it, shortened to 60 characters."""
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

"""Conversion of launch-file tables to structs, with error messages that name the key and the correct form."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from sim_core.errors import did_you_mean
from sim_core.tables import misfit, out_of_range, ranges_of

T = TypeVar("T", bound=msgspec.Struct)
RENAMED = {"every": "decimation", "deadline": "overrun_policy"}  # keys of earlier launch files


LONGEST_LINE = 1500  # characters of an error; a longer one is cut in the middle


class PlanError(ValueError):
    """A plan that cannot run; the only argument is one line for the user."""

    def __init__(self, line: str) -> None:
        line = " ".join(line.splitlines())
        super().__init__(line if len(line) <= LONGEST_LINE else f"{line[:1000]} ... {line[-400:]}")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Text such as "; did you mean 'step_ms'?", or the list of known names when none is similar."""
    names = sorted(known)
    return did_you_mean(word, names) or f"; known are {', '.join(names)}"


def convert(value: Mapping[str, Any], kind: type[T], where: str) -> T:
    """`value` as a struct of type `kind`; PlanError names `where`, the key and the nearest known key.

    Numbers must be finite unless the field's default is not; tables without a schema are checked where they are used.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    value = worded(value, kind)
    for key, item in value.items():
        if RENAMED.get(key) in fields:
            raise PlanError(f"{where}: key {key!r}: renamed to {RENAMED[key]!r}")
        if key not in fields:
            raise PlanError(f"{where}: unknown key {key!r}{suggestion(key, fields)}")
        if not (_is_finite(item) or fields[key].type == dict[str, Any] or not _is_finite(fields[key].default)):
            raise PlanError(f"{where}: key {key!r}: {item} is not finite")
        if line := out_of_range(item, fields[key].type):
            raise PlanError(f"{where}: key {key!r}: {line}")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, key = str(error).partition(" - at `$")
        key = key.rstrip("`").lstrip(".")
        field, part = _key_and_rest(key)
        allowed = choices(fields[field].type) if field in fields else []
        if allowed and not part:
            text = f"{value[field]!r} is none of {', '.join(allowed)}{did_you_mean(str(value[field]), allowed)}"
        elif line := misfit(value, kind):
            found, _, rest = line.partition(" is ")
            raise PlanError(f"{where}: key {found!r} is {rest}" if rest else f"{where}: {line}") from None
        raise PlanError(f"{where}: {f'key {key!r}: ' if key else ''}{text}") from None


def worded(value: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The values, with TOML's floats nan and inf as text where `kind` expects text."""
    words = {field.encode_name for field in msgspec.structs.fields(kind) if field.type is str}
    return {
        key: str(item) if key in words and isinstance(item, float) and not math.isfinite(item) else item
        for key, item in value.items()
    }


def _key_and_rest(path: str) -> tuple[str, str]:
    """Key of a path and the rest: "modes[0]" as ("modes", "[0]"), "mode" as ("mode", "")."""
    key = re.split(r"[.\[]", path, maxsplit=1)[0]
    return key, path[len(key) :]


def _is_finite(value: Any) -> bool:
    """Whether every number in a value of TOML or JSON types is finite."""
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def choices(kind: Any) -> list[str]:
    """Values of a Literal or an enumeration, also inside an Optional or a list; empty for any other type."""
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(member.value) for member in kind]
    return [choice for part in get_args(kind) for choice in choices(part)]


def type_text(kind: Any) -> str:
    """Text of a type for users: "number", "realtime | fast | lockstep", "list of number"."""
    if words := choices(kind):
        return " | ".join(words)
    if get_origin(kind) is Annotated:
        return ", ".join([type_text(get_args(kind)[0]), *map(str, ranges_of(kind))])
    name = getattr(kind, "__name__", str(kind))
    inner = [part for part in get_args(kind) if part is not type(None)]
    if name == "dict" or not inner:
        return {"float": "number", "int": "whole number", "str": "text", "bool": "true | false", "dict": "table"}.get(
            name, name
        )
    if name == "list":
        return f"list of {type_text(inner[0])}"
    return " or ".join(dict.fromkeys(map(type_text, inner)))

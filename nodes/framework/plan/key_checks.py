"""Conversion of launch-file tables to structs, with error messages that name the key and the correct form."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from nodes.framework.plan.files.source import Source, at
from sim_core.support.suggestion import did_you_mean
from sim_core.tables import fields_of, misfit, ranges_of, unknown_key

T = TypeVar("T", bound=msgspec.Struct)
RENAMED = {"every": "decimation", "deadline": "overrun_policy"}  # keys of earlier launch files


LONGEST_LINE = 1500  # characters of an error; a longer one is cut in the middle


class PlanError(ValueError):
    """A plan that cannot run; the only argument is one line for the user."""

    exit_code = 2

    def __init__(self, line: str) -> None:
        line = " ".join(line.splitlines())
        super().__init__(line if len(line) <= LONGEST_LINE else f"{line[:1000]} ... {line[-400:]}")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Text to add to a message about an unknown word, such as "; did you mean 'step_ms'?".

    Where no known name is similar, the text lists the known names.
    """
    names = sorted(known)
    return did_you_mean(word, names) or (f"; known are {', '.join(names)}" if names else "; none are known")


def convert(
    value: Mapping[str, Any],
    kind: type[T],
    where: Source | str,
    elsewhere: Callable[[str, type[T]], str] = lambda key, kind: "",
) -> T:
    """A table of a launch file as a struct of type `kind`.

    Raises PlanError if a key is unknown, even if the struct permits unknown keys, or if a value does not fit the key's
    type. The message begins with `where` and names the wrong key and the nearest known key. Inner tables whose type has
    no schema are not checked.

    elsewhere  function of an unknown key and `kind` that returns text about the table to which the key belongs, or ""
    """
    fields = fields_of(kind)
    known = [field.encode_name for field in fields]
    value = worded(value, kind)
    for key in value:
        if RENAMED.get(key) in known:
            raise PlanError(f"{at(where, key)}: key {key!r} was renamed to {RENAMED[key]!r}")
        if key not in known:
            told = elsewhere(key, kind)
            raise PlanError(f"{at(where, key)}: {f'unknown key {key!r}{told}' if told else unknown_key(key, known)}")
    if wrong := misfit(value, kind):
        line = f"key {wrong.key!r} {wrong.text}" if wrong.key else wrong
        raise PlanError(f"{at(where, *_path(wrong.key))}: {line}")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:  # from the __post_init__ of a node's own struct
        raise PlanError(f"{where}: {error}") from None


def worded(value: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A copy of the table in which the floats nan and inf become text if `kind` expects text there.

    This is needed because TOML reads the bare words nan and inf as numbers.
    """
    words = {field.encode_name for field in fields_of(kind) if field.type is str}
    return {
        key: str(item) if key in words and isinstance(item, float) and not math.isfinite(item) else item
        for key, item in value.items()
    }


def _path(key: str) -> list[str | int]:
    """The keys and list indices of a path: ["joints", 0, "name"] of "joints[0].name"."""
    return [int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", key) if part]


def choices(kind: Any) -> list[str]:
    """The values that a Literal or an enumeration allows, also inside an Optional or a list; [] for any other type."""
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
    inner = [part for part in get_args(kind) if part not in (type(None), msgspec.UnsetType)]
    if name == "dict" or not inner:
        return {"float": "number", "int": "whole number", "str": "text", "bool": "true | false", "dict": "table"}.get(
            name, name
        )
    if name == "list":
        return f"list of {type_text(inner[0])}"
    return " or ".join(dict.fromkeys(map(type_text, inner)))

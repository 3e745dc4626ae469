"""Parts of equal structure, whose forces are the same function of their numbers ("templates").

Two parts have one template if they differ in numbers alone: a spring without a cubic term and one with such a term have
two. A number that is zero, None or an exponent belongs to the structure, because derivations leave out terms for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import casadi as ca

from sim_core.derivation.symbols import Symbols
from sim_core.mechanism.quantities import CapturedParameter, Number, Tunable

STRUCTURE = ("exponent", "name")  # fields whose values belong to the structure, or do not matter
PLAIN = ("lower", "upper", "elastic_share", "radius", "other_radius")  # fields that derivations read without `number`


@dataclass(frozen=True)
class Template:
    """A part in which every number is a symbol.

    part     the part, with symbols in place of its numbers
    numbers  column of these symbols
    symbols  Symbols whose parameters are `numbers`
    """

    part: Any
    numbers: ca.SX
    symbols: Symbols


def structure_of(part: Any) -> tuple[Hashable, list[Number]]:
    """The structure of a part, equal for parts of one template, and the part's numbers."""
    structure, numbers = list[Hashable](), list[Number]()
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value) and not isinstance(value, Tunable):
            inner, found = structure_of(value)
            structure.append((field.name, inner))
            numbers += found
        elif _is_number(field.name, value):
            structure.append(field.name)
            numbers.append(value)
        elif field.name != "name":
            structure.append((field.name, value))
    return (type(part).__name__, *structure), numbers


def template_of(part: Any, symbols: Symbols) -> Template:
    """The template of a part.

    symbols  symbols of which the template has q, v and the states
    """
    count = len(structure_of(part)[1])
    numbers, names = ca.SX.sym("number", count), tuple(f"number_{k}" for k in range(count))
    own = replace(symbols, p=numbers, parameter_names=names)
    return Template(_with_symbols(part, list(zip(names, ca.vertsplit(numbers), strict=True))), numbers, own)


def numbers_of(part: Any, symbols: Symbols) -> ca.SX:
    """Column of the numbers of a part; expressions of the parameters p for tunables."""
    return ca.vertcat(*[ca.SX(symbols.number(number)) for number in structure_of(part)[1]], ca.SX(0, 1))


def _with_symbols(part: Any, left: list[tuple[str, ca.SX]]) -> Any:
    """A copy of a part with symbols in place of its numbers; they are removed from the begin of `left`."""
    changes = dict[str, Any]()
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value) and not isinstance(value, Tunable):
            changes[field.name] = _with_symbols(value, left)
        elif _is_number(field.name, value):
            name, symbol = left.pop(0)
            changes[field.name] = symbol if field.name in PLAIN else Tunable(name, 0.0)
    return replace(part, **changes)


def _is_number(name: str, value: Any) -> bool:
    if name in STRUCTURE or isinstance(value, CapturedParameter):
        return False
    return isinstance(value, Tunable) or (
        isinstance(value, int | float) and not isinstance(value, bool) and bool(value)
    )


def by_structure(parts: Sequence[Any]) -> list[list[int]]:
    """Indices of the parts of each structure, in ascending order."""
    found = dict[Hashable, list[int]]()
    for k, part in enumerate(parts):
        found.setdefault(structure_of(part)[0], []).append(k)
    return list(found.values())

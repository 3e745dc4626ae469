"""Converts the messages of one topic, as plain data, to arrays: one column per field, one row per message."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns(dict[str, NDArray[Any]]):
    """{field: array}. An unknown field raises a KeyError that names the nearest field and lists all of them."""

    def __missing__(self, field: str) -> NDArray[Any]:
        near = get_close_matches(field, self, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise KeyError(f"no field {field!r}{hint}; the fields are {', '.join(self)}")


def columns(log_time: NDArray[np.float64], rows: list[dict[str, Any]]) -> Columns:
    """Arrays by field name; a dictionary field "outputs" becomes columns "outputs.<key>".

    log_time  one per row, s
    """
    found = Columns(log_time=log_time)
    for name in dict.fromkeys(chain.from_iterable(rows)):
        values = [row.get(name) for row in rows]
        maps = [value for value in values if isinstance(value, dict)]
        if maps and len(maps) + values.count(None) == len(values):
            for key in dict.fromkeys(chain.from_iterable(maps)):
                found[f"{name}.{key}"] = _column([None if value is None else value.get(key) for value in values])
        else:
            found[name] = _column(values)
    return found


def _column(values: list[Any]) -> NDArray[Any]:
    """Array of a suitable type for `values`: integers, floats (None becomes NaN), text, vectors, or objects."""
    kinds = {type(value) for value in values}
    if kinds == {int}:
        return np.asarray(values, dtype=np.int64)
    if kinds == {bool} or kinds == {str}:
        return np.asarray(values)
    if kinds <= {int, float, type(None)}:
        return np.asarray(values, dtype=np.float64)
    if kinds == {list} and (vectors := _vectors(values)) is not None:
        return vectors
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _vectors(values: list[list[Any]]) -> NDArray[Any] | None:
    """The (n, length) array of lists of equal length, of numbers or of text; None for other lists."""
    length = len(values[0])
    if any(len(value) != length for value in values):
        return None
    kinds = {type(item) for value in values for item in value}
    if kinds <= {int, float, type(None)}:
        return np.asarray(values, dtype=np.float64).reshape(len(values), length)
    if kinds == {str}:
        if all(value == values[0] for value in values):  # such as joint names: all rows share memory, read-only
            return np.broadcast_to(np.asarray(values[0]), (len(values), length))
        return np.asarray(values)
    return None

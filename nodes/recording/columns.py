"""Messages of one topic, as plain data, turned into arrays: one column per field, one row per message."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns(dict[str, NDArray[Any]]):
    """{field: array}; a field that is not there is a KeyError that names the nearest one and all there are."""

    def __missing__(self, field: str) -> NDArray[Any]:
        near = get_close_matches(field, self, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise KeyError(f"no field {field!r}{hint}; the fields are {', '.join(self)}")


def columns(log_time: NDArray[np.float64], rows: list[dict[str, Any]]) -> Columns:
    """Arrays by field name; a dictionary field "outputs" becomes the columns "outputs.<key>".

    Where a message has None in place of the dictionary, its columns have None.
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
    """The tightest array for `values`: whole numbers, floats (None is NaN), text, vectors, or objects."""
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
    """The (n, length) array of equally long lists of numbers or of text, None when they are not that."""
    length = len(values[0])
    if any(len(value) != length for value in values):
        return None
    kinds = {type(item) for value in values for item in value}
    if kinds <= {int, float, type(None)}:
        return np.asarray(values, dtype=np.float64).reshape(len(values), length)
    if kinds == {str}:
        if all(value == values[0] for value in values):  # joint names: one row serves all, read-only
            return np.broadcast_to(np.asarray(values[0]), (len(values), length))
        return np.asarray(values)
    return None

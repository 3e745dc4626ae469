"""Converts the messages of one topic, given as dictionaries, to arrays: one array per field, one row per message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_core.support.suggestion import did_you_mean

UNNAMED = ("frames", "twists")  # vectors whose entries the field "name" does not name


class UnknownFieldError(KeyError):
    """A topic of a recording has no field of this name. The text is one line for the user."""

    exit_code = 2

    def __str__(self) -> str:
        return str(self.args[0])


class Columns(dict[str, NDArray[Any]]):
    """{field: array} of the messages of one topic; each array has one entry per message.

    An unknown field raises UnknownFieldError. Its message lists all fields and suggests the most similar name.

    present  {field: (n,) bool array, true for the messages that have the field}, for the fields that some of the n
             messages lack; an example is a value that a node plots only sometimes. In the array of such a field, the
             entry of a message without the field is NaN
    log_time_ns  log time of each message in ns, exact also for wall-clock times, which the column "log_time" rounds to
                 0.2 us; None if unknown
    """

    def __init__(self, *given: Any, **fields: NDArray[Any]) -> None:
        super().__init__(*given, **fields)
        self.present: dict[str, NDArray[np.bool_]] = {}
        self.log_time_ns: NDArray[np.int64] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """The data from which pickle rebuilds this object.

        If all rows of a column are the same vector, such as names of joints, this vector is stored once.
        """
        return _unpickled, ({name: _packed(values) for name, values in self.items()}, self.present)

    def __missing__(self, field: str) -> NDArray[Any]:
        raise UnknownFieldError(
            f"there is no field {field!r}; the fields are {', '.join(self)}{did_you_mean(field, self)}"
        )


def is_constant(values: NDArray[Any]) -> bool:
    """Whether all rows of a column of vectors share one vector in memory, because all these vectors are equal."""
    return values.ndim == 2 and len(values) > 0 and values.strides[0] == 0


def _packed(values: NDArray[Any]) -> Any:
    return (values[0].copy(), len(values)) if is_constant(values) else values


def _unpickled(packed: dict[str, Any], present: dict[str, NDArray[np.bool_]]) -> Columns:
    found = Columns()
    for name, values in packed.items():
        row, count = values if isinstance(values, tuple) else (values, 0)
        found[name] = np.broadcast_to(row, (count, len(row))) if isinstance(values, tuple) else row
    found.present = present
    return found


def columns(log_time: NDArray[np.float64], rows: list[dict[str, Any]]) -> Columns:
    """Arrays by field name; a dictionary field "outputs" becomes columns "outputs.<key>".

    log_time  log time of each message, s
    rows      each message as a dictionary of plain data
    """
    found = Columns(log_time=log_time)
    for name in dict.fromkeys(chain.from_iterable(rows)):
        values = _values(rows, name)
        kinds = set(map(type, values))
        if dict in kinds and kinds <= {dict, type(None)}:
            maps = [value for value in values if value is not None]
            for key in dict.fromkeys(chain.from_iterable(maps)):
                heading = _unused(f"{name}.{key}", found)
                if len(maps) == len(values) and all(map(dict.__contains__, maps, repeat(key))):
                    found[heading] = column(list(map(itemgetter(key), maps)))
                    continue
                first = next(value[key] for value in maps if key in value)
                absent = {key: [None] * len(first) if isinstance(first, list) else None}
                found[heading] = column([(value or absent).get(key, absent[key]) for value in values])
                found.present[heading] = np.array([isinstance(value, dict) and key in value for value in values])
        else:
            found[_unused(name, found)] = column(values)
    return found


def _unused(name: str, found: Columns) -> str:
    """The name of a column, with " (2)" if it is taken: by `log_time`, or by a field of another program's message."""
    return name if name not in found else _unused(f"{name} (2)", found)


def _values(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """The field `name` of each row; None for a row without this field."""
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def labelled(fields: Columns) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield (heading, (n,) array) for each column of a table with one row per message.

    A vector field becomes one column per vector entry. The heading is "position[arm]" if the field `name` of the
    messages names the entries and is the same in all messages; otherwise it is "position[0]". A field `name` that gives
    the headings has no column.
    """
    names = _constant_names(fields)
    for field, values in fields.items():
        if values.ndim == 1:
            yield field, values
        elif field != "name" or names is None:
            width = values.shape[1]
            labels = (
                names
                if names is not None and len(names) == width and field not in UNNAMED
                else [str(i) for i in range(width)]
            )
            for index, label in enumerate(labels):
                yield f"{field}[{label}]", values[:, index]


def _constant_names(fields: Columns) -> list[str] | None:
    """Value of the field "name", a list of names, if all messages have the same value; otherwise None."""
    names = fields.get("name")
    if names is None or names.ndim != 2 or len(names) == 0 or not bool(np.all(names == names[0])):
        return None
    return [str(name) for name in names[0]]


def column(values: list[Any]) -> NDArray[Any]:
    """`values` as an array of integers, truth values, text, floats or vectors.

    In an array of floats, None becomes NaN. If no single one of these types fits all values, the result is an array of
    objects.
    """
    kinds = set(map(type, values))
    if kinds == {int}:
        return np.asarray(values, dtype=np.int64 if max(map(abs, values)) < 1 << 63 else np.float64)
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
    """Array (n, length) of n lists of equal length that hold only numbers or only text; None for other lists."""
    length = len(values[0])
    if set(map(len, values)) != {length}:
        return None
    kinds = set(map(type, chain.from_iterable(values)))
    if kinds <= {int, float}:
        flat = np.fromiter(chain.from_iterable(values), np.float64, len(values) * length)
        return flat.reshape(len(values), length)
    if kinds <= {int, float, type(None)}:
        return np.asarray(values, dtype=np.float64).reshape(len(values), length)
    if kinds == {str}:
        if values.count(values[0]) == len(values):  # such as joint names: all rows share memory, read-only
            return np.broadcast_to(np.asarray(values[0]), (len(values), length))
        return np.asarray(values)
    return None

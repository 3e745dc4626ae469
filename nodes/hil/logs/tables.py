"""Tables of numbers: the columns of a log, whatever file they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_SHOWN = 30  # columns in an error message


class LogError(ValueError):
    """Raised for a log that cannot be imported, with a one-line message for the user."""


@dataclass(frozen=True)
class Table:
    """Columns of numbers from one file, or from one topic of a bag; all have the same length.

    name     name of the file or topic
    columns  {name of a column: (n,) values, NaN where the log has no value}
    texts    {name of a column that is not of numbers: line and content of its first cell that is no number}
    notes    one line about each part of the file that is left out
    """

    name: str
    columns: dict[str, Floats]
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_column(tables: Sequence[Table], name: str) -> tuple[int, Floats]:
    """(index of the table, values) of the column `name`; "table:column" selects one of several tables.

    Raises LogError for a column that is missing, is in several tables, or is not of numbers.
    """
    places = [index for index, table in enumerate(tables) if name in table.columns]
    part, _, column = name.rpartition(":")
    if not places:
        places = [i for i, table in enumerate(tables) if table.name == part and column in table.columns]
        name = column if places else name
    if len(places) > 1:
        options = " or ".join(repr(f"{tables[index].name}:{name}") for index in places)
        raise LogError(f"column {name!r} is in {len(places)} tables; name it {options}")
    if places:
        return places[0], tables[places[0]].columns[name]
    for table in tables:
        if name in table.texts:
            raise LogError(f"{table.name}: column {name!r} is not of numbers, {table.texts[name]}")
    known = [each for table in tables for each in table.columns]
    shown = ", ".join(repr(each) for each in known[:MOST_SHOWN]) + (" ..." if len(known) > MOST_SHOWN else "")
    raise LogError(f"the log has no column {name!r}; its columns are {shown}")

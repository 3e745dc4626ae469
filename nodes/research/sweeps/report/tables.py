"""Tables of a sweep: one row per cell (run), in the order of the cells' numbers.

`cells.csv` contains only values that do not change when the same sweep is run again.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nodes.framework.recording.new_file import new_file
from nodes.research.sweeps.axes import as_text
from nodes.research.sweeps.cells import Row, number
from nodes.research.sweeps.design import Sweep

CELLS, TIMES, PARQUET = "cells.csv", "times.csv", "cells.parquet"
FIRST, LAST = ("cell",), ("repeat", "seed", "result", "reason", "warnings")


def figure_names(rows: Iterable[Row]) -> list[str]:
    """Names of the figures (results of a run) of all rows, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row.figures))


def in_order(rows: Mapping[int, Row]) -> list[Row]:
    """Rows of the finished cells (runs of the sweep), sorted by cell number.

    rows  {cell number: row}
    """
    return [rows[cell] for cell in sorted(rows)]


def header(sweep: Sweep, figures: Sequence[str]) -> list[str]:
    """Names of the columns of `cells.csv`."""
    return [*FIRST, *(axis.key for axis in sweep.axes), *LAST, *figures]


def line_of(sweep: Sweep, row: Row, figures: Sequence[str]) -> list[Any]:
    """Values of a row in the order of the columns in `header`; None for a missing value."""
    cell = sweep.cell(row.cell)
    values = [value if isinstance(value, int | float | str) else as_text(value) for value in cell.values.values()]
    ours = [cell.repeat, row.seed, row.result, row.reason or None, "; ".join(row.warnings) or None]
    return [row.cell, *values, *ours, *(row.figures.get(name) for name in figures)]


def write_tables(folder: Path, sweep: Sweep, rows: Mapping[int, Row]) -> list[Path]:
    """Write the tables with one row for each finished cell (run of the sweep), and return the paths written.

    A Parquet file is written only where pyarrow is installed.
    """
    ordered = in_order(rows)
    figures = figure_names(ordered)
    lines = (line_of(sweep, row, figures) for row in ordered)
    _write_csv(folder / CELLS, header(sweep, figures), lines)
    _write_csv(
        folder / TIMES,
        ("cell", "cpu_s", "wall_s"),
        ((row.cell, f"{row.cpu_s:.6f}", f"{row.wall_s:.6f}") for row in ordered),
    )
    written = [folder / CELLS, folder / TIMES]
    if importlib.util.find_spec("pyarrow") is not None:
        _write_parquet(folder / PARQUET, sweep, ordered, figures)
        written.append(folder / PARQUET)
    return written


def _write_csv(path: Path, names: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    with new_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(lines)


def differing(sweep: Sweep, row: Row, other: Row) -> list[str]:
    """Names of the columns of `cells.csv` in which two rows with results of the same cell differ."""
    figures = figure_names([row, other])
    pairs = zip(header(sweep, figures), line_of(sweep, row, figures), line_of(sweep, other, figures), strict=True)
    return [name for name, one, two in pairs if one != two]


def _write_parquet(path: Path, sweep: Sweep, rows: Sequence[Row], figures: Sequence[str]) -> None:
    """Write the table as Parquet. The column of a figure (a result) has doubles, or text if the figure is a text."""
    import pyarrow
    from pyarrow import parquet

    lines = [line_of(sweep, row, figures) for row in rows]
    columns: dict[str, Any] = {}
    for place, name in enumerate(header(sweep, figures)):
        values = [line[place] for line in lines]
        columns[name] = _column(values)
    with new_file(path) as part:
        parquet.write_table(pyarrow.table(columns), part)


def _column(values: list[Any]) -> Any:
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} and kinds:
        return pyarrow.array(values, pyarrow.int64())
    if all(value is None or number(value) is not None for value in values) and kinds:
        return pyarrow.array([number(value) for value in values], pyarrow.float64())
    return pyarrow.array([None if value is None else str(value) for value in values], pyarrow.string())

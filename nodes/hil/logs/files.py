"""Reads the files of a log as tables: text tables and numpy arrays here, bags of ROS and MCAP by bags.py."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median_low

import numpy as np

from nodes.hil.logs.bags import read_bag
from nodes.hil.logs.tables import Floats, LogError, Table

DELIMITERS = (";", "\t", ",")  # with decimal commas there are commas in every line, too
EMPTY = {"", "nan", "na", "n/a", "null", "none", "-"}  # cells without a value
MOST_BYTES = 4 << 30


def read_tables(path: Path) -> list[Table]:
    """The tables of one file or folder of a log: CSV or text, .npy, .npz, a rosbag2 folder, .mcap, .db3 or .bag.

    Raises LogError for a file that cannot be read.
    """
    if not path.exists():
        raise LogError(f"{str(path)!r}: no such file")
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in (".mcap", ".db3", ".bag"):
        return read_bag(path)
    if path.stat().st_size > MOST_BYTES:
        raise LogError(f"{str(path)!r} is larger than {MOST_BYTES >> 30} GB; cut it into parts")
    return [_numpy_table(path)] if suffix in (".npy", ".npz") else [_text_table(path)]


def _text_table(path: Path) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip() and line[0] not in "#%"]
    except UnicodeDecodeError:
        raise LogError(f"{str(path)!r} is no text; expected CSV, a text table, .npy, .npz or a bag of ROS") from None
    except OSError as error:
        raise LogError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if not lines:
        raise LogError(f"{str(path)!r} is empty")
    split = list(_split([line for _, line in lines]))
    decimal_comma = _has_decimal_commas(split)
    header = any(_number(cell, decimal_comma) is None for cell in split[0])
    names = _unique([cell.strip() for cell in split[0]]) if header else [str(place) for place in range(len(split[0]))]
    rows, notes = split[header:], list[str]()
    if len(rows) > 1 and len(rows[-1]) < len(names) and not lines[-1][1].endswith("\n"):
        rows.pop()
        notes.append(f"{path.name}: the last line, {lines[-1][0]}, was cut off and is left out")
    if not rows:
        raise LogError(f"{str(path)!r} has a header and no rows")
    for (number, _), row in zip(lines[header:], rows, strict=False):
        if len(row) != len(names):
            raise LogError(f"{str(path)!r}: line {number} has {len(row)} cells, the first line has {len(names)}")
    columns: dict[str, Floats] = {}
    texts: dict[str, str] = {}
    for place, name in enumerate(names):
        values = [_number(row[place], decimal_comma) for row in rows]
        if None in values:
            index = values.index(None)
            texts[name] = f"line {lines[header:][index][0]}: {rows[index][place].strip()[:40]!r}"
        else:
            columns[name] = np.array(values, dtype=float)
    return Table(path.name, columns, texts, notes)


def _split(lines: Sequence[str]) -> Iterator[list[str]]:
    """Cells of each line, split at the delimiter that most of the first lines have, otherwise at spaces."""
    first = list(islice(lines, 20))
    counts = {each: median_low(line.count(each) for line in first) for each in DELIMITERS}
    delimiter = next((each for each in DELIMITERS if counts[each]), None)
    if delimiter is None:
        return (line.split() for line in lines)
    return iter(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    return any("," in cell and _number(cell, True) is not None for row in rows[1:3] for cell in row)


def _number(cell: str, decimal_comma: bool) -> float | None:
    """Value of a cell; NaN for a cell without a value, None for a text."""
    text = cell.strip()
    if text.lower() in EMPTY:
        return math.nan
    try:
        return float(text.replace(",", ".") if decimal_comma else text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower())


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with "#2", "#3" and so on after those that occur again."""
    found: list[str] = []
    for name in names:
        number = sum(name == each for each in names[: len(found)]) + 1
        found.append(name if number == 1 else f"{name}#{number}")
    return found


def _numpy_table(path: Path) -> Table:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise LogError(f"{str(path)!r} cannot be read as an array: {str(error).splitlines()[0]}") from None
    arrays = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    columns: dict[str, Floats] = {}
    for name, array in arrays.items():
        if array.dtype.names is not None:
            columns |= {each: np.asarray(array[each], dtype=float) for each in array.dtype.names}
        elif array.dtype.kind in "fiub" and array.ndim == 1:
            columns[name or "0"] = array.astype(float)
        elif array.dtype.kind in "fiub" and array.ndim == 2:
            columns |= {f"{name}[{k}]" if name else str(k): array[:, k].astype(float) for k in range(array.shape[1])}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        found = ", ".join(f"{name or 'array'} {array.dtype} {array.shape}" for name, array in arrays.items())
        raise LogError(f"{str(path)!r} must hold arrays of numbers with one row per sample; it holds {found}")
    return Table(path.name, columns)

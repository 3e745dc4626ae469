"""Via-point files: positions of several joints at given times, as CSV or TOML.

Every error message names the file and, where possible, the line.

CSV: a header, then one row per time. A column is named by a joint and the unit of its numbers, `joint_deg`,
`joint_rad`, `joint_m` or `joint_mm`; columns of velocity add `_s` (`joint_deg_s`), of acceleration `_s2`. Empty lines
and lines that begin with # are ignored.

    time_s, lift_mm, tilt_deg, tilt_deg_s
    0.0,    10,      0,        0
    2.0,    80,      -20,      5

TOML: joints and their units once, then one table per time; velocity and acceleration are optional.

    joints = ["lift", "tilt"]
    units = ["mm", "deg"]

    [[via]]
    time_s = 0.0
    position = [10, 0]
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import lt
from pathlib import Path
from typing import Any

from sim_core.support.limited import read_limited
from sim_core.support.toml_text import load_toml

UNITS = {"deg": math.pi / 180.0, "rad": 1.0, "m": 1.0, "mm": 1e-3}  # to SI
ANGLES = ("deg", "rad")
COLUMN = re.compile(r"(?P<joint>\w+?)_(?P<unit>deg|rad|mm|m)(?P<per>|_s|_s2)")
TABLE_KEYS = {"time_s", "position", "velocity", "acceleration"}

Rows = list[list[float]]


ROWS = 250_000  # most via points or segments
LARGEST_BYTES = {".csv": 32_000_000, ".toml": 8_000_000}
MOST_NUMBERS = 4_000_000  # in a CSV file
LATEST_S = 1e8  # s, latest time of a via point; also the largest number in a file


class ViaPointError(ValueError):
    """A via-point file that cannot be used. The only argument is a one-line message that names the file."""


@dataclass(frozen=True)
class ViaPoints:
    """Via points: times (n,) in s, and for each time one number per joint in SI units.

    Velocities and accelerations that the file does not give are 0.

    units   units in the file, one per joint
    named   place in the file that names the joints, such as "points.csv: line 1", for error messages; "" if the via
            points come from no file
    places  text for error messages for each via point: file and line, or number of the waypoint, counted from 1; empty
            if there is no such text
    whole   source of the via points for error messages: the file, or "waypoints"
    span    times (s) at which segments begin or end, from the first to the last
    """

    joints: list[str]
    units: list[str]
    times: list[float]
    positions: Rows
    velocities: Rows
    accelerations: Rows
    named: str = ""
    places: Sequence[str] = ()
    whole: str = ""
    span: Sequence[float] = ()


def read_via_points(path: Path) -> ViaPoints:
    """The via points of a .csv or .toml file."""
    readers = {".csv": _read_csv, ".toml": _read_toml}
    if path.suffix not in readers:
        raise ViaPointError(f"{path}: a via-point file must be a .csv or a .toml file")
    try:
        text = read_limited(path, LARGEST_BYTES[path.suffix]).decode()
    except FileNotFoundError:
        raise ViaPointError(f"{path}: no such via-point file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ViaPointError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    return readers[path.suffix](path, text)


def _read_csv(path: Path, text: str) -> ViaPoints:
    if text.count("\n") > 2 * ROWS or text.count(",") > MOST_NUMBERS:
        raise ViaPointError(f"{path}: the file has more than {ROWS} via points or {MOST_NUMBERS} numbers; use fewer")
    lines = [
        (n, line) for n, line in enumerate(text.splitlines(), start=1) if (bare := line.lstrip()) and bare[0] != "#"
    ]
    if not lines:
        raise ViaPointError(
            f"{path}: no header; the first line must be time_s and one column name per joint, such as elbow_deg"
        )
    try:
        rows = list(csv.reader(line for _, line in lines))
    except csv.Error as error:
        raise ViaPointError(f"{path}: no valid CSV: {error}") from None
    head_line, header = lines[0][0], [cell.strip() for cell in rows.pop(0)]
    joints, units, places = _columns(header, f"{path}: line {head_line}")
    rows_at = [f"{path}: line {number}" for number, _ in lines[1:]]
    try:
        numbers = [list(map(float, row)) for row in rows]
    except ValueError:
        numbers = []
    times = [row[0] for row in numbers]
    if not _is_valid(numbers, len(header)) or not all(map(lt, times, times[1:])) or len(times) > ROWS or times[0] < 0:
        _refuse(header, rows, rows_at)

    def table(per: str) -> Rows:
        columns = [(places.get((joint, per)), UNITS[unit]) for joint, unit in zip(joints, units, strict=True)]
        return [[0.0 if i is None else row[i] * factor for i, factor in columns] for row in numbers]

    tables = table(""), table("_s"), table("_s2")
    return _whole(path, f"{path}: line {head_line}", joints, units, times, tables, rows_at)


def _is_valid(numbers: Rows, width: int) -> bool:
    """Whether all rows have `width` numbers, all of them finite and not too large."""
    return set(map(len, numbers)) == {width} and all(map(LATEST_S.__ge__, map(abs, chain.from_iterable(numbers))))


def _refuse(header: Sequence[str], rows: Sequence[Sequence[str]], rows_at: Sequence[str]) -> None:
    """Raise ViaPointError for the first invalid row."""
    times: list[float] = []
    for where, row in zip(rows_at, rows, strict=True):
        if len(row) != len(header):
            first = (
                f"column {header[len(row)]!r} has no value"
                if len(row) < len(header)
                else f"value {row[len(header)].strip()!r} has no column"
            )
            raise ViaPointError(f"{where}: {len(row)} values for {len(header)} columns; {first}")
        numbers = [_number(cell.strip(), f"column {name!r}", where) for cell, name in zip(row, header, strict=True)]
        times.append(_next_time(numbers[0], times, where))


def _columns(header: list[str], where: str) -> tuple[list[str], list[str], dict[tuple[str, str], int]]:
    """(joints, unit of each joint, {(joint, suffix): column index}) of the header of a CSV file.

    The suffix at the end of a column's name is "" for positions, "_s" for velocities (per s), and "_s2" for
    accelerations (per s^2).
    """
    if header[0] != "time_s":
        raise ViaPointError(f"{where}: the first column is {header[0]!r}; it must be time_s")
    units: dict[str, str] = {}
    places: dict[tuple[str, str], int] = {}
    for index, name in enumerate(header[1:], start=1):
        found = COLUMN.fullmatch(name)
        if found is None:
            raise ViaPointError(
                f"{where}: column {name!r} does not name a joint and a unit ({', '.join(UNITS)}), "
                "such as elbow_deg or lift_mm_s"
            )
        joint, unit, per = found["joint"], found["unit"], found["per"]
        if (joint, per) in places:
            raise ViaPointError(
                f"{where}: column {name!r} gives joint {joint!r} a second time; remove one of the columns"
            )
        if units.setdefault(joint, unit) != unit:
            raise ViaPointError(
                f"{where}: column {name!r}: another column gives joint {joint!r} in {units[joint]}; use one unit"
            )
        places[joint, per] = index
    for joint in units:
        if (joint, "") not in places:
            raise ViaPointError(f"{where}: joint {joint!r} has no position column; add {joint}_{units[joint]}")
    return list(units), list(units.values()), places


def _read_toml(path: Path, text: str) -> ViaPoints:
    try:
        document = load_toml(text)
    except (ValueError, RecursionError) as error:
        raise ViaPointError(f"{path}: not valid TOML: {error}") from None
    joints, units, via = document.get("joints", []), document.get("units", []), document.get("via")
    if not (_is_words(joints) and _is_words(units)) or len(joints) != len(units) or not isinstance(via, list):
        raise ViaPointError(
            f'{path}: the file must have joints = ["..."], units = ["deg"] with one unit per joint, and tables [[via]]'
        )
    if unknown := sorted(set(document) - {"joints", "units", "via"}):
        raise ViaPointError(f"{path}: unknown key {unknown[0]!r}; the keys are joints, units, via")
    if unknown := [unit for unit in units if unit not in UNITS]:
        raise ViaPointError(f"{path}: unknown unit {unknown[0]!r}; the units are {', '.join(UNITS)}")
    if len(set(joints)) < len(joints):
        raise ViaPointError(f"{path}: key 'joints' is {joints}; name each joint once")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.strip().startswith("[[via]]")]
    times: list[float] = []
    tables: tuple[Rows, Rows, Rows] = ([], [], [])
    places = [
        f"{path}: line {lines[index]}: [[via]]" if index < len(lines) else f"{path}: via {index + 1}"
        for index in range(len(via))
    ]
    for table, where in zip(via, places, strict=True):
        _take_table(table, units, where, times, tables)
    return _whole(path, f"{path}: joints", joints, units, times, tables, places)


def _take_table(table: Any, units: list[str], where: str, times: list[float], tables: tuple[Rows, Rows, Rows]) -> None:
    if not isinstance(table, dict) or not {"time_s", "position"} <= table.keys() <= TABLE_KEYS:
        keys = ", ".join(table) if isinstance(table, dict) else table
        raise ViaPointError(
            f"{where} has {keys}; it must have time_s and position, and may have velocity and acceleration"
        )
    times.append(_next_time(_number(table["time_s"], "time_s", where), times, where))
    for key, rows in zip(("position", "velocity", "acceleration"), tables, strict=True):
        values = table.get(key, [0.0] * len(units))
        if not isinstance(values, list) or len(values) != len(units):
            raise ViaPointError(f"{where}: {key} is {values}; it must be {len(units)} numbers, one per joint")
        rows.append([_number(value, key, where) * UNITS[unit] for value, unit in zip(values, units, strict=True)])


def _whole(
    path: Path,
    named: str,
    joints: list[str],
    units: list[str],
    times: list[float],
    tables: tuple[Rows, Rows, Rows],
    places: list[str],
) -> ViaPoints:
    if not times or not joints:
        raise ViaPointError(f"{named}: there are no via points; give at least one joint and one via point with a time")
    return ViaPoints(joints, units, times, *tables, named=named, places=places, whole=f"{path}", span=times)


def _next_time(time: float, times: list[float], where: str) -> float:
    if times and time <= times[-1]:
        raise ViaPointError(
            f"{where}: time_s is {time:g}; it must be above {times[-1]:g}, the time_s of the previous via point"
        )
    if not 0.0 <= time <= LATEST_S:
        raise ViaPointError(f"{where}: time_s is {time:g}; it must be in 0 .. {LATEST_S:g} s")
    if len(times) >= ROWS:
        raise ViaPointError(f"{where}: the file has more than {ROWS} via points; use fewer")
    return time


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ViaPointError(f"{where}: {name} is {value!r}; it must be a finite number")
    if abs(number) > LATEST_S:
        raise ViaPointError(f"{where}: {name} is {number:g}; it must be in {-LATEST_S:g} .. {LATEST_S:g}")
    return number


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)

"""Finds where a result of a sweep crosses a threshold along one axis, by bisection with additional runs."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.recording.new_file import new_file
from nodes.research.journal import Journal
from nodes.research.sweeps.axes import Axis, as_text
from nodes.research.sweeps.cells import Row, values_text
from nodes.research.sweeps.design import Cell, Sweep, SweepError, plan_with
from nodes.research.sweeps.engine import CellRunner, Report
from nodes.research.sweeps.report.statistics import value_of
from sim_core.support.suggestion import did_you_mean

PROBES, TABLE = "boundary.jsonl", "boundary.csv"
OF_SEARCH = ("result", "threshold", "along")  # first columns of the table; the axes of the sweep are between them
OF_BRACKET = ("from", "to", "result there", "and there")  # last columns
HALVINGS = 6  # the boundary is found to 1/64 of the distance between two values of the axis


class Probe(msgspec.Struct, frozen=True):
    """An additional run, with a value of the axis `key` that does not occur in the sweep.

    The seed and the values of all other axes are taken from a run of the sweep.
    """

    key: str
    value: float
    row: Row


@dataclass
class Bracket:
    """Two values of an axis (varied parameter of a sweep) between which the mean of a result crosses the threshold.

    others               {key: fixed value} of the other axes with listed values
    bases                indices of the runs at the value `first`; the runs of the bisection use the seeds of these
                         runs
    first, second        the two values of the axis; they are equal if the mean does not cross the threshold
    at_first, at_second  mean of the result at `first` and at `second`
    """

    others: dict[str, Any]
    bases: Sequence[int]
    first: float
    second: float
    at_first: float
    at_second: float

    @property
    def crosses(self) -> bool:
        """Whether the mean of the result crosses the threshold between the two values."""
        return self.first != self.second

    def middle(self, whole: bool) -> float | int | None:
        """The value halfway between `first` and `second`.

        whole  whether only whole numbers are valid; the result is then rounded down, and None if no whole number lies
               between `first` and `second`
        """
        middle = (self.first + self.second) / 2.0
        if not whole:
            return middle
        found = math.floor(middle)
        return None if found in (self.first, self.second) else found


def parse_target(text: str) -> tuple[str, float]:
    """(name of a result, threshold) from a text such as "pass_rate=0.9". Raises SweepError for another text."""
    name, _, given = text.rpartition("=")
    try:
        threshold = float(given)
    except ValueError:
        threshold = math.nan
    if not name or not math.isfinite(threshold):
        raise SweepError(
            f"--find-boundary {text!r}: write the name of a result and a threshold, NAME=NUMBER, such as pass_rate=0.9"
        )
    if name == "pass_rate" and not 0.0 < threshold <= 1.0:
        raise SweepError(f"--find-boundary {text!r}: a pass rate is a share; give a number above 0, up to 1")
    return name, threshold


def axis_along(sweep: Sweep, key: str) -> Axis:
    """The axis with this key, with its values in ascending order.

    Raises SweepError with a one-line message if no axis has this key, if the axis is random, or if it has values that
    are not numbers.
    """
    axis = next((axis for axis in sweep.axes if axis.key == key), None)
    keys = [axis.key for axis in sweep.axes]
    if axis is None:
        raise SweepError(
            f"--along {key!r}: the sweep has no such axis{did_you_mean(key, keys)}; use one of {', '.join(keys)}"
        )
    numbers = [value for value in axis.values if isinstance(value, int | float) and not isinstance(value, bool)]
    if axis.random or len(numbers) < len(axis.values):
        raise SweepError(
            f"--along {key!r}: the values of this axis are random or not numbers; choose an axis with listed numbers, "
            "because a boundary lies between two numbers"
        )
    return msgspec.structs.replace(axis, values=tuple(sorted(numbers)))


def brackets(sweep: Sweep, rows: Mapping[int, Row], figure: str, threshold: float, axis: Axis) -> list[Bracket]:
    """Find between which neighbouring values of `axis` the mean of the result `figure` crosses `threshold`.

    Returns one bracket for each combination of values of the other axes with listed values: the first pair of values
    between which the mean crosses, or the smallest value twice if the mean does not cross. Raises SweepError with a
    one-line message if a run of the sweep has no results yet.
    """
    if missing := sweep.cells - len(rows):
        raise SweepError(
            f"{missing} runs of this sweep are not done; run them with 'armswing sweep FOLDER', where FOLDER is the "
            "folder of the sweep"
        )
    groups: dict[str, dict[str, list[Row]]] = {}
    values: dict[str, dict[str, Any]] = {}
    random = {each.key for each in sweep.axes if each.random}
    for number in range(sweep.cells):
        cell = sweep.cell(number)
        others = {key: value for key, value in cell.values.items() if key != axis.key and key not in random}
        values.setdefault(name := values_text(others), others)
        groups.setdefault(name, {}).setdefault(as_text(cell.values[axis.key]), []).append(rows[number])
    return [_bracket(values[name], group, figure, threshold, axis) for name, group in groups.items()]


def _bracket(
    others: dict[str, Any], group: Mapping[str, Sequence[Row]], figure: str, threshold: float, axis: Axis
) -> Bracket:
    means = [(value, mean(group[as_text(value)], figure)) for value in axis.values]
    for (first, at_first), (second, at_second) in pairwise(means):
        if (at_first >= threshold) != (at_second >= threshold):
            bases = [row.cell for row in group[as_text(first)]]
            return Bracket(others, bases, first, second, at_first, at_second)
    return Bracket(others, [], means[0][0], means[0][0], means[0][1], means[0][1])


def mean(rows: Iterable[Row], figure: str) -> float:
    """Mean of a result over the runs that have this result; NaN if no run has it."""
    found = [value for row in rows if (value := value_of(row, figure)) is not None]
    return sum(found) / len(found) if found else math.nan


def find(
    sweep: Sweep,
    folder: Path,
    found: Sequence[Bracket],
    figure: str,
    threshold: float,
    axis: Axis,
    run: CellRunner,
    report: Report,
) -> None:
    """Narrow every bracket in `found`: halve it HALVINGS times, with additional runs at the middle of the bracket.

    A bracket is a pair of values of `axis` between which the mean of the result `figure` crosses `threshold`.

    The brackets are changed in place. Each finished run is written to the file `boundary.jsonl` in `folder`. A run that
    is already in this file is not repeated.

    run  function that runs cells, from `local_runner` for this computer or `cluster.dask_runner` for a Dask cluster
    """
    whole = takes_whole_numbers(sweep, axis)
    busy = f"{folder}: another process is searching a boundary in this sweep now; wait until that process has ended"
    with Journal(folder / PROBES, Probe, busy) as journal:
        done = {(probe.key, probe.value, probe.row.cell): probe.row for probe in journal.lines}
        for _ in range(HALVINGS):
            middles = [(each, each.middle(whole)) for each in found if each.crosses]
            wanted = [(each, middle) for each, middle in middles if middle is not None]
            cells = [
                Cell(base, {**sweep.cell(base).values, axis.key: middle}, *_rest(sweep.cell(base)))
                for each, middle in wanted
                for base in each.bases
                if (axis.key, middle, base) not in done
            ]

            def note(cell: Cell, row: Row) -> None:
                value = cell.values[axis.key]
                journal.add(Probe(axis.key, value, row))
                done[axis.key, value, row.cell] = row

            if cells:
                run(cells, note, report)
            for each, middle in wanted:
                at_middle = mean((done[axis.key, middle, base] for base in each.bases), figure)
                if (at_middle >= threshold) == (each.at_first >= threshold):
                    each.first, each.at_first = middle, at_middle
                else:
                    each.second, each.at_second = middle, at_middle


def takes_whole_numbers(sweep: Sweep, axis: Axis) -> bool:
    """Whether the launch accepts only whole numbers for the key of the axis."""
    if not all(isinstance(value, int) for value in axis.values):
        return False
    try:
        plan_with(sweep, [f"{axis.key}={axis.values[0] + 0.5}"])
    except PlanError:
        return True
    return False


class Search(NamedTuple):
    """A search for boundaries: the result, its threshold, and the axis along which the result crosses the threshold."""

    figure: str
    threshold: float
    axis: Axis

    @property
    def key(self) -> list[str]:
        """The first three columns of the search's rows in the table of boundaries."""
        return [self.figure, repr(self.threshold), self.axis.key]

    def __str__(self) -> str:
        return f"{self.figure}={self.threshold:g} along {self.axis.key}"


def header_of(sweep: Sweep) -> list[str]:
    """Names of the columns of the table of boundaries, which has the rows of all searches in the sweep."""
    return [*OF_SEARCH, *_keys(sweep), *OF_BRACKET]


def lines(sweep: Sweep, found: Sequence[Bracket], search: Search) -> list[list[str]]:
    """Rows of a search in the table of boundaries, as text: one row per bracket.

    The cell of the axis that is searched, which has no fixed value, is empty. A bracket without a crossing has a row,
    too: its column `from` has the text "no crossing", its column `result there` the mean of the result, and its columns
    `to` and `and there` are empty.
    """
    rows = []
    for each in found:
        others = [as_text(each.others[key]).strip('"') if key in each.others else "" for key in _keys(sweep)]
        ends = [f"{x:g}" for x in (each.first, each.second, each.at_first, each.at_second)]
        rows.append([*search.key, *others, *(ends if each.crosses else ["no crossing", "", ends[2], ""])])
    return rows


def add_to_table(folder: Path, sweep: Sweep, found: Sequence[Bracket], search: Search) -> list[str]:
    """Write the rows of a search to the file `boundary.csv` in `folder`, and return the other searches in this file.

    The rows of other searches stay in the file. Rows of the same search are replaced.
    """
    before = read_table(folder, sweep)
    kept = [line for line in before if line[: len(OF_SEARCH)] != search.key]
    with new_file(folder / TABLE) as part, part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header_of(sweep), *kept, *lines(sweep, found, search)])
    return list(dict.fromkeys(f"{line[0]}={float(line[1]):g} along {line[2]}" for line in kept))


def read_table(folder: Path, sweep: Sweep) -> list[list[str]]:
    """Rows of all searches in the file `boundary.csv` in `folder`; [] if there is no such file.

    Raises SweepError with a one-line message for a file with other columns.
    """
    path = folder / TABLE
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = [*csv.reader(file)] or [[]]
    if header != header_of(sweep):
        raise SweepError(
            f"{path} has other columns than {', '.join(header_of(sweep))}, and is therefore not overwritten; rename or "
            "remove this file"
        )
    return rows


def _keys(sweep: Sweep) -> list[str]:
    return [axis.key for axis in sweep.axes if not axis.random]


def _rest(cell: Cell) -> tuple[int, int]:
    return cell.repeat, cell.seed

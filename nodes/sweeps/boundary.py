"""Finds where a result of a sweep crosses a threshold along one axis, by bisection with further runs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from nodes.plan.key_checks import PlanError
from nodes.sweeps.axes import Axis, as_text
from nodes.sweeps.cells import Row, values_text
from nodes.sweeps.design import Cell, Sweep, SweepError, plan_with
from nodes.sweeps.engine import CellRunner, Report
from nodes.sweeps.report.statistics import value_of
from sim_core.support.suggestion import did_you_mean

PROBES, TABLE = "boundary.jsonl", "boundary.csv"
HALVINGS = 6  # the boundary is found to 1/64 of the distance between two values of the axis


class Probe(msgspec.Struct, frozen=True):
    """A further run at a value of the axis `key` that no cell has. The other values and the seed are those of a
    cell.
    """

    key: str
    value: float
    row: Row


@dataclass
class Bracket:
    """Two values of the axis between which the mean of a figure crosses the threshold; all other values are equal.

    others   {key: value} of the other listed axes
    bases    cells at the first value, whose seeds the further runs use
    first, second  values of the axis; equal where the threshold is not crossed
    at_first, at_second  mean of the figure at these values
    """

    others: dict[str, Any]
    bases: Sequence[int]
    first: float
    second: float
    at_first: float
    at_second: float

    @property
    def crosses(self) -> bool:
        """Whether the threshold is crossed between the two values."""
        return self.first != self.second

    def middle(self, whole: bool) -> float | int | None:
        """The value in the middle of the two. With `whole`, a whole number, or None where no whole number is between
        them."""
        middle = (self.first + self.second) / 2.0
        if not whole:
            return middle
        found = math.floor(middle)
        return None if found in (self.first, self.second) else found


def parse_target(text: str) -> tuple[str, float]:
    """(figure, threshold) of a text "figure=0.9". SweepError, one line, for other texts."""
    name, _, given = text.rpartition("=")
    try:
        threshold = float(given)
    except ValueError:
        threshold = math.nan
    if not name or not math.isfinite(threshold):
        raise SweepError(f"--find-boundary {text!r}: expected figure=NUMBER, such as pass_rate=0.9")
    return name, threshold


def axis_along(sweep: Sweep, key: str) -> Axis:
    """The axis with this key. SweepError, one line, for an unknown key, or an axis whose values are not ordered
    numbers."""
    axis = next((axis for axis in sweep.axes if axis.key == key), None)
    keys = [axis.key for axis in sweep.axes]
    if axis is None:
        raise SweepError(
            f"--along {key!r}: the sweep has no such axis{did_you_mean(key, keys)}; it has {', '.join(keys)}"
        )
    numbers = [value for value in axis.values if isinstance(value, int | float) and not isinstance(value, bool)]
    if axis.random or len(numbers) < len(axis.values):
        raise SweepError(f"--along {key!r}: a boundary lies between numbers, and this axis has none in order")
    return msgspec.structs.replace(axis, values=tuple(sorted(numbers)))


def brackets(sweep: Sweep, rows: Mapping[int, Row], figure: str, threshold: float, axis: Axis) -> list[Bracket]:
    """The first bracket of the threshold along the axis, for each combination of the other listed axes."""
    if missing := sweep.cells - len(rows):
        raise SweepError(f"{missing} runs of this sweep are not done; armswing sweep FOLDER goes on with them")
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
    """Mean of a figure over the runs that have it; NaN where no run has it."""
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
    """Halve every bracket HALVINGS times. Finished runs are in `boundary.jsonl`, and are not run again.

    run  runs some cells: `local_runner` on this computer, `cluster.dask_runner` on a Dask cluster
    """
    whole = takes_whole_numbers(sweep, axis)
    done = {(probe.key, probe.value, probe.row.cell): probe.row for probe in _read(folder / PROBES)}
    with (folder / PROBES).open("ab") as journal:
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
                journal.write(msgspec.json.encode(Probe(axis.key, value, row)) + b"\n")
                journal.flush()
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
    """Whether the launch refuses a value between two whole numbers on the axis."""
    if not all(isinstance(value, int) for value in axis.values):
        return False
    try:
        plan_with(sweep, [f"{axis.key}={axis.values[0] + 0.5}"])
    except PlanError:
        return True
    return False


def lines(found: Sequence[Bracket], figure: str, axis: Axis) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the table of boundaries, as text."""
    keys = list(found[0].others) if found else []
    header = [*keys, f"{axis.key} from", "to", f"{figure} there", "and there"]
    rows = []
    for each in found:
        ends = [f"{x:g}" for x in (each.first, each.second, each.at_first, each.at_second)]
        shown = ends if each.crosses else ["no crossing", "", ends[2], ""]
        rows.append([*(as_text(value).strip('"') for value in each.others.values()), *shown])
    return header, rows


def _rest(cell: Cell) -> tuple[int, int]:
    return cell.repeat, cell.seed


def _read(path: Path) -> Iterator[Probe]:
    """Probes in the journal, a file. A last line that is incomplete, because the process was killed, is removed."""
    if not path.exists():
        return
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        os.truncate(path, end)
    decoder = msgspec.json.Decoder(Probe)
    for line in content[:end].splitlines():
        yield decoder.decode(line)

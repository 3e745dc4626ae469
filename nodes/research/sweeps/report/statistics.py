"""Pass rates with their confidence intervals, and means of figures (numeric results) over two axes of a sweep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from nodes.research.sweeps.axes import Axis, as_text
from nodes.research.sweeps.cells import ENDED, FAILED, LOST, PASSED, Row, number
from nodes.research.sweeps.design import Sweep

PASS_RATE = "pass_rate"  # name of the share of passed runs, beside the names of figures
ROUNDING = 1e-9  # share of a figure below which its differences are not shown
Z95 = 1.959963984540054  # normal quantile of a two-sided 95 % interval


@dataclass
class PassRate:
    """Pass rate of runs: the number of runs, how many of them passed, and how many did not reach their end (`lost`)."""

    runs: int = 0
    passed: int = 0
    lost: int = 0

    def add(self, row: Row) -> None:
        """Count a run."""
        self.runs += 1
        self.passed += row.result == PASSED
        self.lost += row.result in LOST

    @property
    def rate(self) -> float:
        """Number of passed runs divided by the number of runs; lost runs count as not passed. NaN if no run was
        counted.
        """
        return self.passed / self.runs if self.runs else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Return (low, high), Wilson's score interval of the pass rate at a confidence of 95 %."""
        return wilson(self.passed, self.runs)

    def text(self) -> str:
        """Pass rate with its interval as text, such as "83.3 % (55.2 to 95.3 %)"."""
        low, high = self.interval
        return f"{100 * self.rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)" if self.runs else "–"


def wilson(passed: int, runs: int, z: float = Z95) -> tuple[float, float]:
    """Return (low, high), Wilson's score interval of the share passed / runs; (0, 1) if `runs` is 0.

    z  quantile of the standard normal distribution for the confidence level
    """
    if not runs:
        return 0.0, 1.0
    rate, square = passed / runs, z * z / runs
    middle = rate + square / 2.0
    half = z * math.sqrt(rate * (1.0 - rate) / runs + square / (4.0 * runs))
    low, high = (middle - half) / (1.0 + square), (middle + half) / (1.0 + square)
    return (0.0 if passed == 0 else low), (1.0 if passed == runs else high)


def pass_rate(rows: Iterable[Row]) -> PassRate:
    """Pass rate of some rows."""
    found = PassRate()
    for row in rows:
        found.add(row)
    return found


def repeats_change_nothing(sweep: Sweep, rows: Iterable[Row]) -> bool:
    """Whether the repeated runs of each combination of values have equal results.

    Only completed runs are compared. Returns False if no two completed runs have the same values.
    """
    first: dict[int, Row] = {}
    compared = False
    for row in rows:
        if row.result not in ENDED:
            continue
        other = first.setdefault(row.cell // sweep.repeat, row)
        if other is not row:
            compared = True
            if other.figures != row.figures or other.result != row.result:
                return False
    return compared


def independent(sweep: Sweep, rows: Iterable[Row]) -> list[Row]:
    """The rows that count in pass rates: all rows, or one row per combination of values if repeats change nothing.

    Equal repeats say nothing new, so that counting them would make the confidence intervals too narrow. Repeats with
    random axes have drawn values of their own, so that all of them count.
    """
    given = list(rows)
    if any(axis.random for axis in sweep.axes) or sweep.repeat == 1 or not repeats_change_nothing(sweep, given):
        return given
    first: dict[int, Row] = {}
    for row in given:
        kept = first.setdefault(row.cell // sweep.repeat, row)
        if kept.result in LOST and row.result in ENDED:
            first[row.cell // sweep.repeat] = row
    return list(first.values())


def failures(rows: Iterable[Row], most: int = 3) -> list[tuple[str, int]]:
    """[(reason, number of runs)] of the `most` most frequent reasons for which runs failed, most frequent first."""
    return Counter(row.reason for row in rows if row.result == FAILED).most_common(most)


def by_value(sweep: Sweep, axis: Axis, rows: Iterable[Row]) -> list[tuple[str, PassRate]]:
    """Return [(value, pass rate)] for the listed values of an axis.

    The pass rate of a value includes the runs with all values of the other axes.
    """
    found = {as_text(value): PassRate() for value in axis.values}
    for row in rows:
        found[as_text(sweep.cell(row.cell).values[axis.key])].add(row)
    return list(found.items())


def value_of(row: Row, figure: str) -> float | None:
    """Return a figure (numeric result) of a row; None if the row has no such number.

    The figure `pass_rate` is 1.0 for a run that passed, otherwise 0.0.
    """
    if figure == PASS_RATE:
        return float(row.result == PASSED)
    return number(row.figures.get(figure))


def varying(rows: Sequence[Row]) -> list[str]:
    """Names of the figures (results of runs) that are numbers and differ between runs by more than rounding.

    The names are in the order of the HTML report: milestones, figures of nodes, processor loads, and so on.
    """
    least: dict[str, float] = {}
    most: dict[str, float] = {}
    for row in rows:
        for name, value in row.figures.items():
            x = number(value)
            if row.result in ENDED and x is not None and math.isfinite(x):
                least[name] = min(x, least.get(name, x))
                most[name] = max(x, most.get(name, x))
    names = [name for name in least if most[name] - least[name] > ROUNDING * max(-least[name], most[name])]
    return sorted(names, key=_rank)


def _rank(name: str) -> int:
    """Sort key, from 0, of a figure (numeric result of a run) in the HTML report of a sweep.

    The order is: milestones, figures of nodes, processor loads, exceeded joint limits, figures of the simulation,
    outputs, positions, velocities, and refused commands.

    name  name of the figure, such as "milestone.NAME"
    """
    first, dot, _ = name.partition(".")
    ranks = {"milestone": 0, "load": 2, "beyond": 3, "output": 5, "position": 6, "velocity": 7, "refused": 8}
    return ranks.get(first, 1) if dot else 4


@dataclass(frozen=True)
class Grid:
    """Statistics of a figure (numeric result) over two axes (varied parameters) `up` and `across`.

    The arrays have the shape (number of values of `up`, number of values of `across`).

    mean    mean of the figure over the runs with these two values; NaN if the figure is a number in none of them
    failed  whether any completed run with these two values did not pass
    lost    whether any run with these two values was lost, which means that it did not reach its end
    """

    figure: str
    across: Axis
    up: Axis
    mean: list[list[float]]
    failed: list[list[bool]]
    lost: list[list[bool]]


def grid(sweep: Sweep, rows: Iterable[Row], figure: str, across: Axis, up: Axis) -> Grid:
    """Return the statistics of a figure (numeric result) for each pair of values of two axes (varied parameters)."""
    columns = {as_text(value): place for place, value in enumerate(across.values)}
    lines = {as_text(value): place for place, value in enumerate(up.values)}
    shape = range(len(lines))
    total = [[0.0] * len(columns) for _ in shape]
    count = [[0] * len(columns) for _ in shape]
    failed = [[False] * len(columns) for _ in shape]
    lost = [[False] * len(columns) for _ in shape]
    for row in rows:
        values = sweep.cell(row.cell).values
        y, x = lines[as_text(values[up.key])], columns[as_text(values[across.key])]
        failed[y][x] |= row.result in ENDED and row.result != PASSED
        lost[y][x] |= row.result in LOST
        if (value := value_of(row, figure)) is not None and (row.result in ENDED or figure == PASS_RATE):
            total[y][x] += value
            count[y][x] += 1
    mean = [
        [t / n if n else math.nan for t, n in zip(totals, counts, strict=True)]
        for totals, counts in zip(total, count, strict=True)
    ]
    return Grid(figure, across, up, mean, failed, lost)


def pairs(axes: Sequence[Axis]) -> list[tuple[Axis, Axis]]:
    """All pairs of the axes that have a list of values."""
    return list(combinations([axis for axis in axes if not axis.random], 2))

"""Plots for any study: curves over time, trajectories, and plots of cost and precision."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nodes.research.pages.style import INK, LOST, MUTED, appearance, draw_empty, hidden_in, legend_below, line
from nodes.research.studies.framework.claims import at_common_times, sci
from nodes.research.studies.framework.runs import Outcome, Run

BINS = 240
FEW = 400
MOST_TICKS = 6  # largest number of step sizes that each get a tick on an axis
FLOOR = 1e-17  # value drawn for zero on a logarithmic axis
CEILING = 1e3
HIDDEN = 0.02  # distance in decades below which one of two curves hides the other
SHOWN_S = 30.0  # duration of the path drawn, s; longer paths would fill the circle
PHI, PHIDOT = r"$|\Phi|_1$", r"$|\mathrm{d}\Phi/\mathrm{d}t|_1$"
LEVELS = {"phi": PHI + " (m, rad, 1)", "phidot": PHIDOT + " (the same per s)"}

Named = tuple[str, Run]


def envelope(t: np.ndarray, series: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """Envelope of a long series for a plot: at most `bins` points, one for each section of consecutive samples.

    Returns (time at the end of each section, largest value in each section).
    """
    size = max(1, -(-len(t) // bins))
    ends = range(0, len(t), size)
    return np.array([t[min(i + size, len(t)) - 1] for i in ends]), np.array([series[i : i + size].max() for i in ends])


def _log_time_axis(axis: Any, named: Sequence[Named], label: str) -> None:
    axis.set_yscale("log")
    axis.set_xlim(0, max(run.seconds for _, run in named))
    axis.set_ylabel(label)


def _between_bounds(axes: Iterable[Any]) -> None:
    """Restrict the ranges of logarithmic axes to values between FLOOR and CEILING."""
    for axis in axes:
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, FLOOR), min(high, CEILING))


def _curve(axis: Any, t: np.ndarray, series: np.ndarray, outcomes: Sequence[Outcome], label: str, shown: Any) -> None:
    """Draw a curve whose values are clipped to FLOOR .. CEILING.

    outcomes  outcomes of the runs from which the curve is computed; a cross marks the earliest time at which one of
              these runs failed
    shown     keyword arguments of matplotlib's `plot`, such as the colour
    """
    there = np.clip(series, FLOOR, CEILING)
    axis.plot(t, there, label=label, **shown)
    lost = min((found.lost_at for found in outcomes if found.lost_at is not None), default=None)
    if lost is not None:
        axis.plot([lost], there[-1:], "x", color=shown["color"], markersize=8, mew=2, clip_on=False, label=f"_{LOST}")


def _note_hidden(axis: Any, curves: Mapping[str, np.ndarray]) -> None:
    """Record the curves that are hidden under other curves, so that the legend can name the hidden curves.

    curves  {label: values (n,)}, in the order in which the curves are drawn
    """
    names = list(curves)
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            a, b = (np.clip(curves[n], FLOOR, None) for n in (name, other))
            with np.errstate(invalid="ignore"):
                if len(a) == len(b) and np.nanmax(np.abs(np.log10(a / b))) < HIDDEN:
                    hidden_in(axis.figure)[name] = other
                    break


def violation_curves(axis: Any, results: Any, named: Sequence[Named], level: str) -> None:
    """Draw the constraint violation |Phi| or its rate |Phidot| over time, one curve per run.

    A cross marks the time at which a run failed.

    level  "phi" or "phidot"
    """
    curves = {}
    for index, (label, run) in enumerate(named):
        found: Outcome = results[run]
        t, series = envelope(found.t, getattr(found, level))
        _curve(axis, t, series, [found], label, line(label, index))
        curves[label] = series
    _note_hidden(axis, curves)
    _log_time_axis(axis, named, LEVELS[level])
    axis.set_xlabel("time (s)")


def violations(results: Any, figure: Any, columns: Mapping[str, Sequence[Named]]) -> None:
    """Draw the constraint violation |Phi| (upper row) and its rate |Phidot| (lower row) over time.

    columns  {title of a column of plots: (label, run) of each curve in this column}
    """
    axes = figure.subplots(2, len(columns), sharey="row", squeeze=False)
    for column, (title, named) in enumerate(columns.items()):
        for row, level in enumerate(LEVELS):
            axis = axes[row, column]
            violation_curves(axis, results, named, level)
            if row == 0:
                axis.set_title(title)
                axis.set_xlabel("")
            if column:
                axis.set_ylabel("")
    _between_bounds(axes[:, 0])
    legend_below(figure, axes.flat)


def watched_curves(
    results: Any, figure: Any, name: str, columns: Mapping[str, Sequence[Named]], labels: Sequence[str]
) -> None:
    """Draw the absolute values of the k components of the sampled quantity `name` over time, in k rows of plots.

    columns  {title of a column of plots: (label, run) of each curve in this column}
    """
    axes = figure.subplots(len(labels), len(columns), sharey="row", squeeze=False)
    for column, (title, named) in enumerate(columns.items()):
        for row, label in enumerate(labels):
            axis = axes[row, column]
            for index, (method, run) in enumerate(named):
                found: Outcome = results[run]
                t, series = envelope(found.t, np.abs(found.watched[name][:, row]))
                _curve(axis, t, series, [found], method, line(method, index))
            _log_time_axis(axis, named, label if column == 0 else "")
            if row == 0:
                axis.set_title(title)
            if row == len(labels) - 1:
                axis.set_xlabel("time (s)")
    _between_bounds(axes[:, 0])
    legend_below(figure, axes.flat)


def trajectories(results: Any, figure: Any, named: Sequence[Named], reach: float) -> None:
    """Draw the path of the pendulum's tip, one plot per run, with a circle of radius `reach` (m).

    The tip can leave this circle only if the joint constraints are violated.
    """
    axes = figure.subplots(1, len(named), sharex=True, sharey=True, squeeze=False)[0]
    angle = np.linspace(0, 2 * np.pi, 200)
    span = 1.25 * reach
    for axis, (label, run) in zip(axes, named, strict=True):
        found: Outcome = results[run]
        path = found.watched["outputs"]
        color = line(label)["color"]
        axis.plot(reach * np.cos(angle), reach * np.sin(angle), color=INK, lw=0.9, ls=(0, (4, 3)), label="reach")
        drawn = path[found.t <= SHOWN_S]
        axis.plot(drawn[:, 0], drawn[:, 1], color=color, ls="-", lw=0.6, alpha=0.75)
        axis.set(title=textwrap.fill(label, 26), xlabel="x (m)", xlim=(-span, span), ylim=(-span, span), aspect="equal")
        out = float(np.hypot(path[:, 0], path[:, 1]).max()) / reach - 1
        note = "stays within its reach" if out < 1e-3 else f"leaves its reach by {sci(100 * out)} %"
        note += f" in {found.t[-1]:.3g} s"
        axis.text(0.5, 0.02, note, transform=axis.transAxes, ha="center", color=MUTED, fontsize=8.5)
    axes[0].set_ylabel("y (m)")


def motions(
    results: Any, figure: Any, name: str, named: Sequence[Named], labels: Sequence[str], rows: Sequence[int]
) -> None:
    """Draw components of the sampled quantity `name` over time, one plot for each component index in `rows`.

    A series of fewer than FEW samples is drawn as points, except the series of the first run.
    """
    axes = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for axis, row, label in zip(axes, rows, labels, strict=True):
        for index, (method, run) in enumerate(named):
            found: Outcome = results[run]
            shown = line(method, index)
            if index > 0 and len(found.t) < FEW:
                shown |= {"linestyle": "", "marker": "o", "markersize": 3.5}
            axis.plot(found.t, found.watched[name][:, row], label=method, **shown)
        axis.set_ylabel(label)
    axes[-1].set_xlabel("time (s)")
    legend_below(figure, axes, 2)


def separation(results: Any, axis: Any, name: str, pairs: Sequence[tuple[str, Run, Run]], unit: str) -> None:
    """Draw the distance between the motions of each pair of runs over time, on a logarithmic axis.

    The distance is the largest absolute difference between the components of the sampled quantity `name`.
    """
    for index, (label, one, other) in enumerate(pairs):
        a, b = results[one], results[other]
        t, first, second = at_common_times(a, b, name)
        t, series = envelope(t, np.abs(first - second).max(axis=1))
        _curve(axis, t, series, [a, b], label, line(f"pair {label}", index))
    axis.set(yscale="log", xlabel="time (s)", ylabel=f"distance of the motions ({unit})")
    legend_below(axis.figure, [axis], 2)


def against_step(
    axis: Any, named: Mapping[str, Sequence[Run]], value: Callable[[Run], float | None], label: str
) -> None:
    """Draw a quantity of every run against `Run.dt`, the time step of the paper (ms), one curve per label.

    value  function that returns the quantity for a run, or None for a run that gets no point
    """
    against(axis, {name: [(1e3 * run.dt, value(run)) for run in runs] for name, runs in named.items()})
    axis.set(xlabel="step (ms)", ylabel=label)
    steps = sorted({1e3 * run.dt for runs in named.values() for run in runs})
    if axis.get_xscale() == "log" and len(steps) <= MOST_TICKS:
        axis.set_xticks(steps)
        axis.set_xticks([], minor=True)


def plain_number(value: float, _place: int | None = None) -> str:
    """Tick label of a logarithmic axis as a plain number: 0.1, 1, 10, 1000."""
    return f"{value:g}"


def against(
    axis: Any,
    named: Mapping[str, Sequence[tuple[float | None, float | None]]],
    empty: str = "every run failed",
) -> None:
    """Draw one curve through the points (x, y) of each label, on two logarithmic axes.

    Points whose x or y is None are left out.

    empty  text that is drawn if no points are left
    """
    drawn = {}
    for index, (name, points) in enumerate(named.items()):
        there = [(x, max(y, FLOOR)) for x, y in points if x is not None and y is not None]
        if there:
            axis.plot(*zip(*there, strict=True), label=name, **appearance(name, index))
            drawn[name] = np.array(there).ravel()
    _note_hidden(axis, drawn)
    if drawn:
        axis.set(xscale="log", yscale="log")
        axis.xaxis.set_major_formatter(plain_number)
        axis.xaxis.set_minor_formatter("")
    else:
        draw_empty(axis, empty)


def precision(results: Any, figure: Any, named: Mapping[str, Sequence[Run]]) -> None:
    """Draw a work-precision diagram of the peak constraint violation |Phi|.

    The left plot shows this peak against the step size, the right plot against the computing time.
    """
    left, right = figure.subplots(1, 2, sharey=True)
    against_step(left, named, results.peak, "peak " + LEVELS["phi"])

    def time_of(run: Run) -> float | None:
        cost = results.cost(run)
        return None if cost is None else 1e3 * cost.per_second

    against(right, {name: [(time_of(run), results.peak(run)) for run in runs] for name, runs in named.items()})
    right.set_xlabel("time per simulated second (ms)")
    legend_below(figure, [left])

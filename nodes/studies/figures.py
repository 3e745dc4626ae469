"""Curves over time, trajectories, cost and precision: one function per kind of picture, for any study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nodes.studies.runs import Outcome, Run
from nodes.studies.style import INK, MUTED, appearance, legend_below, line, say_empty

BINS = 240
FLOOR = 1e-17  # what a logarithmic axis shows for nothing
LEVELS = {"phi": "|Φ|₁ (m, rad, 1)", "phidot": "|Φ̇|₁ (the same per s)"}

Named = tuple[str, Run]


def envelope(t: np.ndarray, series: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """The largest of each bin of samples, and the times of the bins' ends: what a thin curve hides in oscillation."""
    size = max(1, -(-len(t) // bins))
    ends = range(0, len(t), size)
    return np.array([t[min(i + size, len(t)) - 1] for i in ends]), np.array([series[i : i + size].max() for i in ends])


def _log_time_axis(axis: Any, seconds: float, label: str) -> None:
    axis.set_yscale("log")
    axis.set_xlim(0, seconds)
    axis.set_ylabel(label)
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, FLOOR), min(high, 1e3))


def violation_curves(axis: Any, results: Any, named: Sequence[Named], level: str) -> None:
    """|Phi| or |Phidot| of several runs over time; a cross marks where one was lost."""
    for index, (label, run) in enumerate(named):
        found: Outcome = results[run]
        t, series = envelope(found.t, getattr(found, level))
        shown = line(label, index)
        axis.plot(t, np.clip(series, FLOOR, 1e3), label=label, **shown)
        if not found.held:
            axis.plot(t[-1:], np.clip(series[-1:], FLOOR, 0.9e3), "x", color=shown["color"], markersize=8, mew=2)
    _log_time_axis(axis, max(run.seconds for _, run in named), LEVELS[level])
    axis.set_xlabel("time (s)")


def violations(results: Any, figure: Any, columns: Mapping[str, Sequence[Named]]) -> None:
    """Two rows (position, velocity), one column per title."""
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
    legend_below(figure, axes.flat)


def watched_curves(
    results: Any, figure: Any, name: str, columns: Mapping[str, Sequence[Named]], labels: Sequence[str]
) -> None:
    """The absolute values of a watched quantity (n, k), k rows, one column per title."""
    axes = figure.subplots(len(labels), len(columns), sharey="row", squeeze=False)
    for column, (title, named) in enumerate(columns.items()):
        for row, label in enumerate(labels):
            axis = axes[row, column]
            for index, (method, run) in enumerate(named):
                found: Outcome = results[run]
                t, series = envelope(found.t, np.abs(found.watched[name][:, row]))
                axis.plot(t, np.clip(series, FLOOR, 1e3), label=method, **line(method, index))
            _log_time_axis(axis, max(run.seconds for _, run in named), label if column == 0 else "")
            if row == 0:
                axis.set_title(title)
            if row == len(labels) - 1:
                axis.set_xlabel("time (s)")
    legend_below(figure, axes.flat)


def trajectories(results: Any, figure: Any, named: Sequence[Named], reach: float) -> None:
    """Paths of the tip in its plane, one axis each, with the circle it cannot leave while the joints hold."""
    axes = figure.subplots(1, len(named), sharex=True, sharey=True, squeeze=False)[0]
    angle = np.linspace(0, 2 * np.pi, 200)
    span = 1.25 * reach
    for axis, (label, run) in zip(axes, named, strict=True):
        found: Outcome = results[run]
        path = found.watched["outputs"]
        color = line(label)["color"]
        axis.plot(reach * np.cos(angle), reach * np.sin(angle), color=INK, lw=0.9, ls=(0, (4, 3)), label="reach")
        axis.plot(path[:, 0], path[:, 1], color=color, lw=0.5, alpha=0.75)
        axis.set(title=label, xlabel="x (m)", xlim=(-span, span), ylim=(-span, span), aspect="equal")
        out = float(np.hypot(path[:, 0], path[:, 1]).max()) / reach - 1
        note = "never leaves its reach" if out < 1e-3 else f"leaves its reach by {100 * min(out, 99):.2g} %"
        axis.text(0.5, 0.02, note, transform=axis.transAxes, ha="center", color=MUTED, fontsize=8.5)
    axes[0].set_ylabel("y (m)")


def motions(
    results: Any, figure: Any, name: str, named: Sequence[Named], labels: Sequence[str], rows: Sequence[int]
) -> None:
    """Watched quantities over time as they are, one axis each."""
    axes = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for axis, row, label in zip(axes, rows, labels, strict=True):
        for index, (method, run) in enumerate(named):
            found: Outcome = results[run]
            axis.plot(found.t, found.watched[name][:, row], label=method, **line(method, index))
        axis.set_ylabel(label)
    axes[-1].set_xlabel("time (s)")
    legend_below(figure, axes, 2)


def separation(results: Any, axis: Any, name: str, pairs: Sequence[tuple[str, Run, Run]], unit: str) -> None:
    """How far two runs are apart over time, largest component, on a logarithmic axis."""
    for index, (label, one, other) in enumerate(pairs):
        a, b = results[one], results[other]
        n = min(len(a.t), len(b.t))
        apart = np.abs(a.watched[name][:n] - b.watched[name][:n]).max(axis=1)
        t, series = envelope(a.t[:n], apart)
        axis.plot(t, np.clip(series, FLOOR, None), label=label, **line(f"pair {label}", index))
    axis.set(yscale="log", xlabel="time (s)", ylabel=f"distance of the motions ({unit})")
    axis.legend(loc="lower right")


def against_step(
    results: Any, axis: Any, named: Mapping[str, Sequence[Run]], value: Callable[[Run], float | None], label: str
) -> None:
    """A figure of every run over the paper's dt, one curve per label; lost runs have no point."""
    against(axis, {name: [(1e3 * run.dt, value(run)) for run in runs] for name, runs in named.items()})
    axis.set(xlabel="step (ms)", ylabel=label)


def against(axis: Any, named: Mapping[str, Sequence[tuple[float | None, float | None]]]) -> None:
    """Points (x, y) joined by a curve per label, both axes logarithmic; points without a value are left out."""
    drawn = False
    for index, (name, points) in enumerate(named.items()):
        there = [(x, max(y, FLOOR)) for x, y in points if x is not None and y is not None]
        if there:
            axis.plot(*zip(*there, strict=True), label=name, **appearance(name, index))
            drawn = True
    if drawn:
        axis.set(xscale="log", yscale="log")
    else:
        say_empty(axis, "no run held at any step")

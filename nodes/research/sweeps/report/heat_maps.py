"""Pictures of a sweep: a figure over two axes as a heat map, or over one axis as points.

A figure is a numeric result of the runs. An axis is a varied parameter of the sweep.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, FAINT, INK, PAPER, VERMILION, draw_empty, settings
from nodes.research.sweeps.axes import Axis, as_text
from nodes.research.sweeps.cells import ENDED, PASSED, Row
from nodes.research.sweeps.design import Sweep
from nodes.research.sweeps.report.statistics import PASS_RATE, Grid, PassRate, value_of
from nodes.research.sweeps.report.units import with_unit

MOST_TICKS, MOST_CHARACTERS = 9, 52  # of the labels along an axis
SIZE, DPI = (5.6, 4.4), 120
FAILED_HATCH, LOST_HATCH, HATCH_WIDTH = "///", "xxx", 0.6
PASSED_SHARE = "share of runs that passed"
FEW_CELLS = 400  # cells up to which a heat map has lines between them
LONGEST = 34  # characters of a label before it is shortened in the middle


def draw_map(path: Path, found: Grid, units: dict[str, str] | None = None) -> None:
    """Write a heat map of a figure (a numeric result) over two axes as PNG.

    A cell of the map is hatched if it contains a failed run, and cross-hatched if it contains a lost run. A lost run
    did not reach its end.

    units  {key of an axis or name of a figure: unit}
    """
    from matplotlib import rc_context
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    mean = np.ma.masked_invalid(np.array(found.mean, dtype=float))
    named = partial(with_unit, units=units or {})
    with settings(), rc_context({"hatch.linewidth": HATCH_WIDTH}):
        figure, axis = _figure()
        axis.grid(visible=False)
        axis.set_facecolor(FAINT)
        if mean.count():
            rate = found.figure == PASS_RATE
            ends = {"vmin": 0.0, "vmax": 1.0} if rate else {}
            drawn = axis.pcolormesh(mean, cmap=colors_of(rate), rasterized=True, **ends, **_lines_between(mean.size))
            figure.colorbar(drawn, ax=axis, label=PASSED_SHARE if rate else f"mean {named(found.figure)}")
        else:
            draw_empty(axis, "no run has a value of this figure")
        failed, lost = np.array(found.failed), np.array(found.lost)
        if found.figure == PASS_RATE:
            failed = failed & False  # shown by the colour
        patches = []
        for mask, hatch, label in (
            (failed & ~lost, FAILED_HATCH, "runs failed"),
            (lost, LOST_HATCH, "runs were lost"),
        ):
            if mask.any():
                places = [Rectangle((x, y), 1.0, 1.0) for y, x in np.argwhere(mask).tolist()]
                style: dict[str, Any] = {"hatch": hatch, "facecolor": "none", "edgecolor": INK, "linewidth": 0.0}
                axis.add_collection(PatchCollection(places, **style))
                patches.append(Patch(facecolor="none", edgecolor=INK, hatch=hatch, label=label))
        _ticks(axis.xaxis, found.across)
        _ticks(axis.yaxis, found.up)
        axis.set(xlabel=_short(named(found.across.key)), ylabel=_short(named(found.up.key)))
        axis.set_title("pass rate" if found.figure == PASS_RATE else found.figure)
        if patches:
            figure.legend(handles=patches, loc="outside lower center", ncols=2)
        _save(figure, path)


def colors_of(rate: bool) -> Any:
    """Colours of a heat map, as a matplotlib colormap on which hatching in INK is visible.

    rate  whether the map shows a pass rate, whose colours run from red to blue
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    name, first, last = ("RdYlBu", 0.15, 0.85) if rate else ("viridis", 0.42, 1.0)
    return ListedColormap(colormaps[name](np.linspace(first, last, 256)))


def draw_points(
    path: Path, sweep: Sweep, rows: Sequence[Row], figure_name: str, axis_of: Axis, units: dict[str, str] | None = None
) -> None:
    """Write a plot of a figure (a numeric result) over one axis as PNG, with a point per run.

    For the pass rate over an axis with a list of values, the plot has a point per value, with its confidence interval.

    units  {key of an axis or name of a figure: unit}
    """
    named = partial(with_unit, units=units or {})
    with settings():
        figure, axis = _figure()
        if figure_name == PASS_RATE and not axis_of.random:
            _rates(axis, sweep, rows, axis_of)
        else:
            _runs(axis, sweep, rows, figure_name, axis_of)
        axis.set(xlabel=named(axis_of.key), ylabel=PASSED_SHARE if figure_name == PASS_RATE else named(figure_name))
        axis.set_title("pass rate" if figure_name == PASS_RATE else figure_name)
        handles, _ = axis.get_legend_handles_labels()
        if handles:
            figure.legend(loc="outside lower center", ncols=3)
        _save(figure, path)


def _rates(axis: Any, sweep: Sweep, rows: Sequence[Row], axis_of: Axis) -> None:
    """Draw the pass rate at each value of the axis, with its 95 % confidence interval."""
    places, texts = _places(axis_of)
    rates = {text: PassRate() for text in texts}
    for row in rows:
        rates[as_text(sweep.cell(row.cell).values[axis_of.key])].add(row)
    labels = "95 % interval", PASSED_SHARE
    for place, rate in zip(places, rates.values(), strict=True):
        if rate.runs:
            low, high = rate.interval
            axis.plot([place, place], [low, high], color=INK, lw=1.2, label=labels[0])
            axis.plot([place], [rate.rate], "o", color=BLUE, label=labels[1])
            labels = "_", "_"
    axis.set_ylim(-0.05, 1.05)
    _name_places(axis, axis_of)


def _runs(axis: Any, sweep: Sweep, rows: Sequence[Row], figure_name: str, axis_of: Axis) -> None:
    """Draw one point per run, coloured by its result."""
    places, texts = _places(axis_of)
    at = dict(zip(texts, places, strict=True))
    for label, color, marker in (("passed", BLUE, "o"), ("did not pass", VERMILION, "x")):
        points = []
        for row in rows:
            y = value_of(row, figure_name)
            if y is None or row.result not in ENDED or (row.result == PASSED) != (label == "passed"):
                continue
            value = sweep.cell(row.cell).values[axis_of.key]
            points.append((float(value) if axis_of.random else at[as_text(value)], y))
        if points:
            axis.plot(*zip(*points, strict=True), marker, color=color, ls="", label=label, ms=4.5, alpha=0.8)
    if lost := sum(row.result not in ENDED for row in rows):
        axis.plot([], [], ls="", label=f"{lost} lost, without a point")
    if not axis_of.random:
        _name_places(axis, axis_of)


def _places(axis_of: Axis) -> tuple[list[float], list[str]]:
    """Return (positions of the values on an axis of a plot, texts of the values).

    A number is its own position. Values that are not numbers get the positions 0, 1, 2, ...
    """
    texts = [as_text(value) for value in axis_of.values]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in axis_of.values):
        return [float(value) for value in axis_of.values], texts
    return [float(place) for place in range(len(texts))], texts


def _name_places(axis: Any, axis_of: Axis) -> None:
    places, texts = _places(axis_of)
    if not texts or all(isinstance(value, int | float) and not isinstance(value, bool) for value in axis_of.values):
        return
    axis.set_xticks(places, [text.strip('"') for text in texts], rotation=30 if len(texts) > 4 else 0)


def _figure() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _lines_between(cells: int) -> dict[str, Any]:
    """Keyword arguments of pcolormesh for lines between a heat map's cells; {} for more than FEW_CELLS cells."""
    return {"edgecolor": PAPER, "linewidth": 1.0} if cells <= FEW_CELLS else {}


def _ticks(axis: Any, axis_of: Axis) -> None:
    """Label the ticks of a heat map's axis with the values, or with some of the values if there are many."""
    texts = [_tick(value) for value in axis_of.values]
    most = max(2, min(MOST_TICKS, MOST_CHARACTERS // max(map(len, texts))))
    shown = range(0, len(texts), math.ceil(len(texts) / most))
    axis.set_ticks([k + 0.5 for k in shown], [texts[k] for k in shown])


def _tick(value: Any) -> str:
    return _short(f"{value:.3g}" if isinstance(value, float) else str(value))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2 - 1]}…{text[-LONGEST // 2 :]}"


def _save(figure: Any, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # values in scripts that the font does not have
        figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})

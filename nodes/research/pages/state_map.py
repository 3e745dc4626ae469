"""Draws a measure of stability, IS1, as a colour map over two components of the initial state.

IS1 is the largest distance of a motion from the equilibrium, divided by this distance at the start of the motion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nodes.research.pages.style import INK, PAPER, PINK, VERMILION, draw_empty, settings

DARKEST = 0.58  # end of the colours, as a share of matplotlib's "viridis_r"
MARGIN = 0.15  # inches around the parts of a picture
MOST = 99.0  # percentile of the measure at which the colours end


def draw_state_map(
    path: Path,
    title: str,
    labels: tuple[str, str],
    axes: list[Any],
    is1: Any,
    over: Any,
    about: tuple[float, float],
    center: str = "equilibrium",
    units: str = "",
) -> None:
    """Write a PNG with a colour map of the measure IS1 over two components of the initial state.

    IS1 is the largest distance of a motion from the equilibrium, divided by this distance at the start. Motions in
    which an angle departs by more than pi from the equilibrium have one colour, diverged motions another; both colours
    lie outside the colour scale of IS1. A cross marks the equilibrium if it is in the picture.

    labels  axis labels of the picture: of the horizontal axis, then of the vertical axis
    axes    values of the horizontal component (one per column), then of the vertical component (one per row)
    is1     (rows, columns) measure IS1; NaN for diverged motions
    over    (rows, columns) bool, whether an angle departs by more than pi from the equilibrium
    about   values of the two components at the equilibrium
    center  noun for the equilibrium in labels
    units   units of the distances, as text for the label of the colours; "" to leave them out
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    with settings():
        figure = Figure(figsize=(7.4, 6.4), layout=ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN / 2))
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        axis.set(xlabel=labels[0], ylabel=labels[1], title=title)
        axis.grid(visible=False)
        edges = [_edges(values) for values in axes]
        lost = np.isnan(is1)
        far = f"an angle goes further than 180° from the {center}"
        marks = [(over & ~lost, INK, far), (lost, VERMILION, "the simulation diverged")]
        kept = np.ma.masked_where(over | lost, is1)
        if kept.count():
            most = max(1.1, float(np.percentile(kept.compressed(), MOST)))
            drawn = axis.pcolormesh(*edges, kept, cmap=colors(), vmin=1.0, vmax=most, rasterized=True)
            extend = "max" if kept.max() > most else "neither"
            label = f"IS1: largest distance from the {center}, in distances of the start"
            label += f"\n({units})" if units else ""
            figure.colorbar(drawn, ax=axis, extend=extend, label=label)
        elif not any(mask.any() for mask, _, _ in marks):
            draw_empty(axis, "no motion")
        for mask, color, _ in marks:
            if mask.any():
                shown = np.ma.masked_where(~mask, np.ones(mask.shape))
                axis.pcolormesh(*edges, shown, cmap=ListedColormap([color]), rasterized=True)
        if all(edge[0] <= at <= edge[-1] for edge, at in zip(edges, about, strict=True)):
            axis.plot(*about, "+", color=PAPER, ms=15, mew=5)
            handles = axis.plot(*about, "+", color=PINK, ms=13, mew=2, ls="", label=center)
        else:
            handles = []
        patches = [Patch(color=color, label=label) for mask, color, label in marks if mask.any()]
        if patches or handles:
            figure.legend(handles=[*handles, *patches], loc="outside lower center", ncols=3)
        with mpl.rc_context({"svg.hashsalt": "armswing"}):
            figure.savefig(path, format="png", dpi=150, metadata={"Software": None})


def colors() -> Any:
    """Colours of the stability measure IS1 as a matplotlib colormap.

    All these colours differ from INK, the colour of motions in which an angle departs by more than pi from the
    equilibrium.
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis_r"](np.linspace(0.0, DARKEST, 256)))


def _edges(values: Any) -> Any:
    half = (values[1] - values[0]) / 2
    return np.concatenate([values - half, [values[-1] + half]])

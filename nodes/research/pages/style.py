"""Plot style of all pages: one colour and dash per method, distinct for colour-blind readers and in print."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

INK, MUTED, FAINT, PAPER = "#1c2430", "#5c6773", "#d5dae0", "#ffffff"
BLUE, VERMILION, GREEN, PINK, OCHRE, SKY, VIOLET, GREY = (
    "#0072b2",
    "#d55e00",
    "#00845f",
    "#b0488a",
    "#a87400",
    "#3a9bd0",
    "#6b4fb3",
    "#4d4d4d",
)
BROWN = "#8a5a44"
LOST = "lost"  # legend entry of the crosses, which mark runs that failed
SOLID: Any = "-"
DASHED: Any = (0, (5, 2))
DOTTED: Any = (0, (1.2, 1.6))
DASH_DOT: Any = (0, (6, 1.6, 1.2, 1.6))

# {label of a curve: (colour, dash, marker)}
APPEARANCE: dict[str, tuple[str, Any, str]] = {
    "none": (GREY, DOTTED, "x"),
    "reference, tolerances 10⁻¹⁰": (INK, SOLID, ""),
    "direct correction inside the right-hand side": (BROWN, DASH_DOT, "v"),
    "direct correction, mass-weighted": (VIOLET, DASHED, "X"),
    "direct correction, fed back": (INK, SOLID, "P"),
    "Baumgarte (5, 5)": (OCHRE, DASHED, "<"),
    "Baumgarte (5, 12)": (OCHRE, SOLID, ">"),
    "Baumgarte (20, 20)": (OCHRE, SOLID, ">"),
    "Baumgarte (20, 20), crank-slider": (OCHRE, SOLID, ">"),
    "Baumgarte (1/δt, √2/δt), δt = 1 ms": (PINK, DOTTED, "D"),
    "Baumgarte (1/δt, √2/δt), δt = 10 ms": (PINK, DASHED, "D"),
    "Baumgarte (1/δt, √2/δt), δt = 50 ms": (PINK, DASH_DOT, "D"),
    "Baumgarte (1/δt, √2/δt)": (PINK, SOLID, "D"),
    "PID (gains follow δt)": (OCHRE, DOTTED, "d"),
    "fuzzy, case 1": (BLUE, SOLID, "o"),
    "fuzzy, case 1, triple pendulum": (BLUE, SOLID, "o"),
    "fuzzy, case 2": (BLUE, DASHED, "s"),
    "fuzzy, case 2, crank-slider": (BLUE, DASHED, "s"),
    "fuzzy, set III (Gaussians)": (BLUE, SOLID, "o"),
    "fuzzy, set II (trapezoids)": (VIOLET, DASH_DOT, "^"),
    "fuzzy, set I (triangles)": (SKY, DASHED, "s"),
    "sampled fuzzy (armswing)": (VERMILION, SOLID, "*"),
    "sampled fuzzy (armswing), crank-slider": (VERMILION, SOLID, "*"),
    "projection (armswing)": (GREEN, DASHED, "h"),
    # steppers
    "RK4": (BLUE, SOLID, "o"),
    "Dormand–Prince 5, fixed": (VERMILION, DASHED, "s"),
    "semi-implicit Euler": (GREEN, DASH_DOT, "^"),
    "Adams–Bashforth–Moulton 4": (PINK, DOTTED, "D"),
    "TR-BDF2": (OCHRE, SOLID, "v"),
    "Radau IIA 5, fixed": (VIOLET, DASHED, "P"),
    "Dormand–Prince 5(4), adaptive": (INK, SOLID, "X"),
    "Adams, variable order": (BROWN, DASHED, "h"),
    "Radau IIA 5, adaptive": (SKY, DASH_DOT, "d"),
}
OTHERS = (BLUE, VERMILION, GREEN, PINK, OCHRE, VIOLET, GREY)
DASHES = (SOLID, DASHED, DASH_DOT, DOTTED)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def appearance(label: str, index: int = 0) -> dict[str, Any]:
    """Colour, dash and marker of a method's curve, as arguments of matplotlib's `plot`.

    A label without a style of its own gets one by `index`, the number of its curve in the plot.
    """
    others = OTHERS[index % len(OTHERS)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
    color, dash, marker = APPEARANCE.get(label, others)
    return {"color": color, "linestyle": dash, "marker": marker}


def line(label: str, index: int = 0) -> dict[str, Any]:
    """Colour and dash of a method's curve without marker, for plots over time.

    A label without a style of its own gets one by `index`, the number of its curve in the plot.
    """
    found = appearance(label, index)
    del found["marker"]
    return found


SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
}


@contextmanager
def settings() -> Iterator[None]:
    """Context manager for matplotlib's default settings with SETTINGS on top.

    Inside the context, the user's own configuration of matplotlib has no effect.
    """
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


_hidden: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def hidden_in(figure: Any) -> dict[str, str]:
    """Dictionary {hidden curve: curve drawn over it} that belongs to a figure.

    Plotting functions fill the dictionary; the legend names the hidden curves.
    """
    return _hidden.setdefault(figure, {})


def legend_below(figure: Any, axes: Iterable[Any], columns: int = 4) -> None:
    """Draw one legend below several axes, in which each label appears once.

    The legend explains the mark of diverged runs if there are any, and names curves that lie hidden under others.
    """
    axes = list(axes)
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if any(curve.get_label() == f"_{LOST}" for axis in axes for curve in axis.get_lines()):
        from matplotlib.lines import Line2D

        entries[LOST] = Line2D([], [], color=INK, ls="", marker="x", markersize=8, mew=2)
    if entries:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=len(entries) if len(entries) <= columns + 1 else columns,
            handlelength=3.2,
            title=textwrap.fill("; ".join(_hiding(hidden_in(figure), list(entries))), 130) or None,
            title_fontsize=8,
        )


def _hiding(hidden: dict[str, str], shown: list[str]) -> list[str]:
    """Sentences for the legend that name each hidden curve and the visible curve over it."""
    under: dict[str, list[str]] = {}
    for name in (name for name in shown if name in hidden):
        above = hidden[name]
        while above in hidden:
            above = hidden[above]
        under.setdefault(above, []).append(name)
    return [
        f"where missing, {' and '.join(f'“{name}”' for name in names)} {'lie' if names[1:] else 'lies'} under “{above}”"
        for above, names in under.items()
    ]


def draw_empty(axis: Any, text: str) -> None:
    """Write a text into an axis without data."""
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color=MUTED, wrap=True)
    axis.set_xticks([])
    axis.set_yticks([])

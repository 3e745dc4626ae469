"""Values of curves at the cursor, and their statistics over the selected interval."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyqtgraph.Qt import QtCore, QtWidgets

from viewer.data.series import Floats
from viewer.qt import theme
from viewer.source import Source
from viewer.window.plots.plot import Plot

GAP = 14  # pixels between the pointer and the values
MOST_VALUES = 12  # most values at the cursor: those nearest to the pointer


class Readout(QtWidgets.QLabel):
    """Label beside the pointer with the values of curves."""

    def __init__(self, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("readout")
        self.setAttribute(QtCore.Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_text(self, text: str, at: Any, view: Any) -> None:
        """Show rich text beside the pointer; hide the label if the text is empty.

        at    position of the pointer in the parent widget, pixels
        view  part of the parent widget that is in view, pixels
        """
        self.setVisible(bool(text))
        if not text:
            return
        self.setText(text)
        self.adjustSize()
        left = at.x() + GAP if at.x() + GAP + self.width() < view.width() else at.x() - GAP - self.width()
        lowest = view.top() + view.height() - self.height()
        self.move(max(0, left), max(view.top(), min(at.y() + GAP, lowest)))


def value_at(times: Floats, values: Floats, time: float) -> float:
    """Value at the last time at or before `time`, s; NaN for a time before the first value."""
    place = int(np.searchsorted(times, time, side="right")) - 1
    return float(values[place]) if place >= 0 else float("nan")


def readout_html(plot: Plot, sources: Sequence[Source], differs: bool, time: float, pointer: float | None) -> str:
    """Rich text with the time, and the values at this time of the curves nearest to the pointer.

    Returns "" for a plot without curves.

    pointer  position of the pointer on the value axis; None if the pointer is in another plot
    """
    found = []
    for drawn in plot.drawn(sources, differs):
        columns = plot.values(drawn, sources, differs)
        if columns is None or len(columns[0]) == 0:
            continue
        value = value_at(*columns, time)
        if np.isfinite(value):
            drawn_at = float(plot.scaled(np.array([value]))[0])
            distance = abs(drawn_at - (pointer or 0.0)) if np.isfinite(drawn_at) and pointer is not None else np.inf
            label = drawn.name if len(sources) == 1 else f"{drawn.name} {sources[drawn.source].label}"
            found.append((distance, drawn.color, label, value))
    if not found:
        return ""
    nearest = min(found)[0] if pointer is not None else -1.0  # no curve is marked as the nearest
    kept = sorted(found)[:MOST_VALUES]
    kept.sort(key=lambda row: -row[3])
    rows = "".join(
        f"<tr><td style='color:{color};padding-right:8px'>{_bold(html.escape(label), distance == nearest)}</td>"
        f"<td align='right' style='color:{theme.INK}'>{_bold(f'{value:.5g}', distance == nearest)}</td></tr>"
        for distance, color, label, value in kept
    )
    more = f"<tr><td colspan='2'>and {len(found) - len(kept)} more</td></tr>" if len(found) > len(kept) else ""
    muted = f"style='color:{theme.MUTED}'"
    head = "" if pointer is None else f"<tr><td {muted}>t</td><td align='right' {muted}>{time:.4f} s</td></tr>"
    return f"<table cellspacing='0' style='font-size:9pt'>{head}{rows}{more}</table>"


def _bold(text: str, bold: bool) -> str:
    return f"<b>{text}</b>" if bold else text


@dataclass(frozen=True)
class Statistics:
    """Smallest and largest value with their times in s, mean, and root mean square of the samples of one curve.

    plot  name of the plot
    name  name of the curve
    """

    plot: str
    name: str
    color: str
    unit: str
    samples: int
    least: float
    least_at: float
    most: float
    most_at: float
    mean: float
    rms: float


def statistics(plot: Plot, sources: Sequence[Source], differs: bool, interval: tuple[float, float]) -> list[Statistics]:
    """Statistics of all curves of a plot that have finite samples in the interval (start, end), s."""
    found = []
    for drawn in plot.drawn(sources, differs):
        columns = plot.values(drawn, sources, differs)
        if columns is None:
            continue
        inside = (columns[0] >= interval[0]) & (columns[0] <= interval[1]) & np.isfinite(columns[1])
        x, y = columns[0][inside], columns[1][inside]
        if len(y) == 0:
            continue
        label = drawn.name if len(sources) == 1 else f"{drawn.name} {sources[drawn.source].label}"
        low, high = int(np.argmin(y)), int(np.argmax(y))
        found.append(
            Statistics(
                plot.name,
                label,
                drawn.color,
                plot.spec.unit,
                len(y),
                float(y[low]),
                float(x[low]),
                float(y[high]),
                float(x[high]),
                float(y.mean()),
                float(np.sqrt(np.mean(y * y))),
            )
        )
    return found

"""Plots over time: one per panel, curves by joint, references dashed over measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore

from viewer.data.series import Floats, Series, decimated
from viewer.data.signals import SCALARS, Signals
from viewer.panels import Field, Panel, arrange, series_of
from viewer.qt import theme
from viewer.qt.axes import PlainAxis, PowerAxis
from viewer.qt.titles import Curve, Title, compose, table

WIDE_COLUMNS = 4
MOST_CHANGES = 60  # upright lines in a plot
CHANGE_OPACITY = 0.45
HOLE_OPACITY = 0.12
POINTS = 2400  # drawn per curve: two per pixel of a wide plot
AXIS_WIDTH = 62
OFF_PAPER = 10.0  # times the height of the axis: where a curve that leaves it is cut
SMALLEST = 1e-17  # what a logarithmic axis shows of anything smaller: rounding, and exact zeros
ROOMY = 0.6  # of its axis a curve must fill, or the axis is drawn closer


class FieldPlot:
    """One plot: its curves follow the labels of the series it is given."""

    def __init__(self, plot: Any, title: Title, panel: Panel, last_row: bool) -> None:
        self.panel = panel
        self.field = panel.field
        self.plot = plot
        self.title = title
        self.unnamed: list[Curve] = []  # those that its title has no room for
        self._curves: dict[tuple[str, str], Any] = {}
        self._changes: list[Any] = []
        self._bands: list[Any] = []
        self._still = False
        self._sane_until = math.inf
        self._x_range = self._y_range = (0.0, 0.0)
        plot.showGrid(x=True, y=True, alpha=0.25)
        plot.hideButtons()
        plot.setMenuEnabled(False)
        plot.getViewBox().setDefaultPadding(0.0)
        plot.getAxis("left").setWidth(AXIS_WIDTH)
        if panel.remark:
            plot.getAxis("left").setTicks([])  # no numbers where nothing is measured
        elif self.field.words:
            plot.getAxis("left").setTicks([list(enumerate(self.field.words))])
        if last_row:
            plot.getAxis("bottom").name("time [s]")
        self.cursor = pg.InfiniteLine(angle=90, pen=pg.mkPen(theme.MUTED, width=1), movable=False)
        self.cursor.setVisible(False)
        plot.addItem(self.cursor, ignoreBounds=True)
        broken = pg.mkPen(theme.ALARM, width=1.5, style=QtCore.Qt.PenStyle.DashLine)
        self.divergence = pg.InfiniteLine(angle=90, pen=broken, movable=False)
        self.divergence.setVisible(False)
        plot.addItem(self.divergence, ignoreBounds=True)

    def set_still(self) -> None:
        """Draw for a picture that is looked at closely: smooth, a little wider, axes as close as can be."""
        self._still = True
        self._y_range = (0.0, 0.0)
        for curve in self._curves.values():
            self.plot.removeItem(curve)
        self._curves.clear()

    def show(self, signals: Signals, start: float, end: float) -> None:
        """Draw the signals between two times, seconds; what came after a divergence began sets no limits."""
        self._sane_until = signals.sane_until
        self.divergence.setVisible(signals.diverged_at is not None)
        if signals.diverged_at is not None:
            self.divergence.setPos(signals.diverged_at)
        self._show_changes(signals.changes, start, end)
        self._show_holes(signals.holes)
        bounds: list[tuple[float, float]] = []
        shown = set()
        known = self._places(signals)
        for role in ("", self.field.over) if self.field.over else ("",):
            series = signals.series.get(role) if role else series_of(self.field, signals)
            if series is None or len(series.times) == 0:
                continue
            for column, label in enumerate(series.labels):
                if not self.panel.takes(label):
                    continue
                place = known.get(label, column)
                shown.add((role, label))
                bounds += self._draw(role, label, place, series, column, start, end)
        for key in set(self._curves) - shown:
            self.plot.removeItem(self._curves.pop(key))
        if (start, end) != self._x_range:
            self._x_range = (start, end)
            self.plot.setXRange(start, end, padding=0.03)  # the first and last label need the room
            self.plot.getAxis("bottom").space(end - start, 5)
        self._set_y_range(bounds)
        self.show_title(signals)

    def _show_changes(self, changes: Sequence[tuple[float, str]], start: float, end: float) -> None:
        """Thin upright lines at changes of constraint mode, in the colour of their kind; none where too many."""
        colors = theme.change_colors(changes)
        near = [(time, kind) for time, kind in changes if start <= time <= end]
        near = near if len(near) <= MOST_CHANGES else []
        while len(self._changes) < len(near):
            line = pg.InfiniteLine(angle=90, movable=False)
            line.setZValue(-5.0)
            self.plot.addItem(line, ignoreBounds=True)
            self._changes.append(line)
        for line, change in zip_longest(self._changes, near):
            line.setVisible(change is not None)
            if change is not None:
                line.setPos(change[0])
                line.setPen(pg.mkPen(theme.faded(colors[change[1]], CHANGE_OPACITY), width=1))

    def _show_holes(self, holes: Sequence[tuple[float, float]]) -> None:
        """Shaded bands where a recording lacks messages."""
        for span in holes[len(self._bands) : MOST_CHANGES]:
            band = pg.LinearRegionItem(
                span, movable=False, brush=theme.faded(theme.ALARM, HOLE_OPACITY), pen=pg.mkPen(None)
            )
            band.setZValue(-10.0)
            self.plot.addItem(band, ignoreBounds=True)
            self._bands.append(band)

    def show_title(self, signals: Signals) -> None:
        """Title, unit and legend above the plot, for the width it has now."""
        known = self._places(signals)
        curves = [
            (label, theme.curve_color(i), self._dash(i)[0]) for label, i in known.items() if self.panel.takes(label)
        ]
        named = self.field.name not in SCALARS  # a scalar's title says it all
        text, lines, all_named = compose(
            self.field.title,
            self.panel.unit,
            curves if named else [],
            any(role for role, _ in self._curves),
            self.panel.remark,
            self.plot.size().width() - AXIS_WIDTH,
        )
        self.title.set_html(text, lines)
        self.unnamed = [] if all_named else curves

    def _places(self, signals: Signals) -> dict[str, int]:
        """The place of each label, by which it has its colour: a joint's is the same in all panels."""
        if self.field.curve:  # alone it needs no dashes to be told apart
            return {self.field.curve: 0}
        main = series_of(self.field, signals)
        return {label: place for place, label in enumerate(main.labels if main is not None else ())}

    def _draw(
        self, role: str, label: str, place: int, series: Series, column: int, start: float, end: float
    ) -> list[tuple[float, float]]:
        times = series.times
        first, last = np.searchsorted(times, (start, end))
        part = slice(max(0, int(first) - 1), int(last) + 1)
        x, y = decimated(times[part], self._scaled(series.values[part, column]), POINTS)
        curve = self._curves.get((role, label))
        if curve is None:
            curve = pg.PlotCurveItem(pen=self._pen(role, place), skipFiniteCheck=True, antialias=self._still)
            curve.setZValue(1.0 if role else 0.0)
            self.plot.addItem(curve)
            self._curves[(role, label)] = curve
        bounds = self._bounds(x, y)
        if bounds and self._sane_until < math.inf:  # Qt draws no line to where a diverged simulation went
            ((low, high),) = bounds
            room = OFF_PAPER * (high - low + 1.0)
            y = np.clip(y, low - room, high + room)
        if np.isfinite(y).all():
            curve.setData(x, y, connect="all", skipFiniteCheck=True)
        else:
            curve.setData(x, y, connect="finite", skipFiniteCheck=False)
        return bounds

    def _bounds(self, x: Floats, y: Floats) -> list[tuple[float, float]]:
        """What the axis has to hold of a curve; nothing for one that holds no number."""
        counted = y[np.isfinite(y) & (x <= self._sane_until)]
        if len(counted) == 0:
            return []
        # the rare exact zero-crossings of a violation would squeeze all the rest
        low = float(np.quantile(counted, 0.005)) if self.field.log else float(counted.min())
        return [(low, float(counted.max()))]

    def _scaled(self, values: Floats) -> Floats:
        if not self.field.log:
            return values
        positive = values[values > 0.0]
        floor = max(float(positive.min()), SMALLEST) if len(positive) else SMALLEST
        scaled: Floats = np.log10(np.maximum(values, floor))
        return scaled

    def _pen(self, role: str, place: int) -> Any:
        if role:
            pen = pg.mkPen(theme.INK, width=1.2 if self._still else 1)
            pen.setDashPattern([1.5, 6])  # wide gaps: the measurement stays visible below
            return pen
        pen = pg.mkPen(theme.curve_color(place), width=1.6 if self._still else 1)
        if pattern := self._dash(place)[1]:
            pen.setDashPattern(pattern)
        return pen

    def _dash(self, place: int) -> tuple[str, list[float]]:
        """Mark and pattern of a curve; live all are solid, as dashes cost too much."""
        return theme.curve_dash(place if self._still else 0)

    def _set_y_range(self, bounds: list[tuple[float, float]]) -> None:
        if not bounds:
            return
        if self.field.words:
            bounds = [(0.0, len(self.field.words) - 1.0)]
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        largest = max(abs(low), abs(high))
        least = 1.2 if self.field.log else (0.01 * largest if largest > 1e-12 else 2.0)
        if high - low < least:
            low, high = 0.5 * (low + high - least), 0.5 * (low + high + least)
        shown_low, shown_high = self._y_range
        if shown_low <= low and high <= shown_high and high - low > ROOMY * (shown_high - shown_low):
            return  # new numbers on the axis cost more than all curves, and hop about
        self._y_range = (low, high)
        self.plot.setYRange(low, high, padding=0.07)
        if not self.field.log and not self.field.words:
            self.plot.getAxis("left").space(high - low, 4)


class PlotGrid:
    """The plots in two columns, or four where they are wide, under one time axis.

    widget      the Qt widget; `caption` says what has no plot
    keep_empty  whether a field that has no curve of this robot keeps its place
    """

    def __init__(self, fields: Sequence[Field], keep_empty: bool = False) -> None:
        self.widget = pg.GraphicsLayoutWidget()
        self.widget.ci.layout.setSpacing(6)
        self.widget.ci.layout.setContentsMargins(4, 0, 14, 0)
        self.plots: list[FieldPlot] = []
        self.caption = ""
        self._fields = tuple(fields)
        self._keep_empty = keep_empty
        self.wide = False  # whether there is room for more columns
        self._laid_out: tuple[tuple[Panel, ...], int] = ((), 0)
        self._still = False

    def _arrange(self, signals: Signals) -> None:
        """Lay the panels out anew where this robot needs others."""
        panels, self.caption = arrange(self._fields, signals, self._keep_empty)
        columns = max(1, min(WIDE_COLUMNS if self.wide and len(panels) > WIDE_COLUMNS else 2, len(panels)))
        if (panels, columns) == self._laid_out:
            return
        self._laid_out = panels, columns
        self.widget.clear()
        self.plots = []
        place, spans = 0, _spans(panels, columns)
        for panel, span in zip(panels, spans, strict=True):
            row, column = divmod(place, columns)
            last_row = place + columns >= sum(spans)
            place += span
            title = Title(AXIS_WIDTH)
            self.widget.addItem(title, row=2 * row, col=column, colspan=span)
            axes = {"left": (PowerAxis if panel.field.log else PlainAxis)("left"), "bottom": PlainAxis("bottom")}
            plot = self.widget.addPlot(row=2 * row + 1, col=column, colspan=span, axisItems=axes)
            self.plots.append(FieldPlot(plot, title, panel, last_row))
            if len(self.plots) > 1:
                _link(self.plots[0].plot, plot, alike=span == spans[0])
            if self._still:
                self.plots[-1].set_still()

    def set_still(self) -> None:
        """Draw for a picture."""
        self._still = True
        for plot in self.plots:
            plot.set_still()

    def show(self, signals: Signals, start: float, end: float) -> None:
        """Draw the signals between two times, seconds."""
        self._arrange(signals)
        for plot in self.plots:
            plot.show(signals, start, end)

    def lay_out_titles(self, signals: Signals) -> None:
        """Fit titles and legends to the widths the plots have now."""
        self.widget.ci.layout.activate()
        for plot in self.plots:
            plot.show_title(signals)

    def key(self) -> str:
        """The names of all curves that their titles have no room for, as rich text."""
        curves = dict.fromkeys(curve for plot in self.plots for curve in plot.unnamed)
        return table(list(curves), self.widget.width() - AXIS_WIDTH)

    def mark(self, time: float | None) -> None:
        """Show the instant of the picture, None for nowhere."""
        for plot in self.plots:
            if plot.cursor.isVisible() != (time is not None):
                plot.cursor.setVisible(time is not None)
            if time is not None:
                plot.cursor.setPos(time)


def _spans(panels: Sequence[Panel], columns: int) -> list[int]:
    """How many columns each panel takes: of two the wide ones take both, of more the last takes what is left."""
    if columns <= 2:
        return [columns if panel.wide else 1 for panel in panels]
    return [1] * (len(panels) - 1) + [columns - (len(panels) - 1) % columns]


def _link(first: Any, other: Any, alike: bool) -> None:
    """One time axis for both: pyqtgraph's own link, which is by pixels, only where they are equally wide."""
    if alike:
        other.setXLink(first)
        return
    for source, target in ((first, other), (other, first)):
        source.sigXRangeChanged.connect(lambda _, span, target=target: target.setXRange(*span, padding=0.0))

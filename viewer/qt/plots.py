"""Plots over time: one plot per panel and one curve per label; reference curves are dashed."""

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
MOST_CHANGES = 60  # most vertical lines in a plot
CHANGE_OPACITY = 0.45
HOLE_OPACITY = 0.12
POINTS = 2400  # points drawn per curve: two per pixel of a wide plot
AXIS_WIDTH = 62
NUMBER_WIDTH = 72  # width of a plot (pixels) for each interval that its time axis has at least
NUMBER_HEIGHT = 32  # height of a plot (pixels) for each interval that its value axis has at least
OFF_PAPER = 10.0  # distance outside the axis, in axis heights, at which a diverging curve is clipped
SMALLEST = 1e-17  # smaller values, that is rounding and exact zeros, are drawn as this on a logarithmic axis
ROOMY = 0.6  # fraction of the axis that the curves must fill; below it the axis range is reduced


class FieldPlot:
    """The plot of one panel; it has a curve for each label of its series."""

    def __init__(self, plot: Any, title: Title, panel: Panel, last_row: bool) -> None:
        self.panel = panel
        self.field = panel.field
        self.plot = plot
        self.title = title
        self.unnamed: list[Curve] = []  # curves that the title's legend has no room for
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
        """Draw from now on as for a still picture: antialiased, with wider lines and tight axis ranges."""
        self._still = True
        self._y_range = (0.0, 0.0)
        for curve in self._curves.values():
            self.plot.removeItem(curve)
        self._curves.clear()

    def show(self, signals: Signals, start: float, end: float) -> None:
        """Draw the signals between two times, s.

        Values after the start of a divergence do not affect the range of the axis.
        """
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
            self.plot.setXRange(start, end, padding=0.03)  # room for the first and last label
        self._set_y_range(bounds)
        self.space_numbers()
        self.show_title(signals)

    def _show_changes(self, changes: Sequence[tuple[float, str]], start: float, end: float) -> None:
        """Draw a thin vertical line at each change of the set of active constraints, coloured by the kind of change.

        No lines are drawn if there are more than MOST_CHANGES changes between `start` and `end`.
        """
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
        """Draw a shaded band over each gap (start, end), s, in which the recording lacks messages."""
        for span in holes[len(self._bands) : MOST_CHANGES]:
            band = pg.LinearRegionItem(
                span, movable=False, brush=theme.faded(theme.ALARM, HOLE_OPACITY), pen=pg.mkPen(None)
            )
            band.setZValue(-10.0)
            self.plot.addItem(band, ignoreBounds=True)
            self._bands.append(band)

    def show_title(self, signals: Signals) -> None:
        """Write title, unit and legend above the plot, laid out for its current width."""
        known = self._places(signals)
        curves = [
            (label, theme.curve_color(i), self._dash(i)[0]) for label, i in known.items() if self.panel.takes(label)
        ]
        named = self.field.name not in SCALARS  # the title suffices for a scalar
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
        """{label of a curve: index that sets the curve's colour}. A joint has the same colour in all panels."""
        if self.field.curve:  # a single curve is solid, in the first colour
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
        if bounds and self._sane_until < math.inf:  # Qt cannot draw lines to the huge values of a divergence
            ((low, high),) = bounds
            room = OFF_PAPER * (high - low + 1.0)
            y = np.clip(y, low - room, high + room)
        if np.isfinite(y).all():
            curve.setData(x, y, connect="all", skipFiniteCheck=True)
        else:
            curve.setData(x, y, connect="finite", skipFiniteCheck=False)
        return bounds

    def _bounds(self, x: Floats, y: Floats) -> list[tuple[float, float]]:
        """Range of values of a curve that the value axis must show.

        Returns a list with one pair (lowest value, highest value), or an empty list if the curve has no finite value.
        """
        counted = y[np.isfinite(y) & (x <= self._sane_until)]
        if len(counted) == 0:
            return []
        # a quantile, because rare zero crossings of a violation would compress the rest of a logarithmic axis
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
        """(legend mark, dash pattern) of a curve with the colour index `place`.

        In a live window all curves are solid, because dashes are slow to draw.
        """
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
            return  # new axis numbers take longer to draw than all curves, and distract
        self._y_range = (low, high)
        self.plot.setYRange(low, high, padding=0.07)

    def space_numbers(self) -> None:
        """Place the numbers of the axes so that they do not overlap in the present size of the plot."""
        box = self.plot.getViewBox()
        (start, end), (low, high) = self._x_range, self._y_range
        if end > start:
            self.plot.getAxis("bottom").space(end - start, max(1, min(5, int(box.width()) // NUMBER_WIDTH)))
        if high > low and not self.field.log and not self.field.words:
            self.plot.getAxis("left").space(high - low, max(2, min(4, int(box.height()) // NUMBER_HEIGHT)))


class PlotGrid:
    """The plots on a common time axis, in two columns, or in four columns of a wide window.

    widget      Qt widget of all plots
    caption     sentence that lists the fields without a plot
    keep_empty  whether a field that has no curve for this robot keeps its plot
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
        """Choose the panels for the signals. If these are not the panels that are shown, replace all plots."""
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
        """Draw all plots from now on as for a still picture: antialiased, with wider lines and tight axis ranges."""
        self._still = True
        for plot in self.plots:
            plot.set_still()

    def show(self, signals: Signals, start: float, end: float) -> None:
        """Draw the signals between two times, s."""
        self._arrange(signals)
        for plot in self.plots:
            plot.show(signals, start, end)

    def lay_out_titles(self, signals: Signals) -> None:
        """Fit titles and legends to the current widths of the plots."""
        self.widget.ci.layout.activate()
        for plot in self.plots:
            plot.show_title(signals)
            plot.space_numbers()

    def key(self) -> str:
        """Rich text with the names of the curves that do not fit into the titles."""
        curves = dict.fromkeys(curve for plot in self.plots for curve in plot.unnamed)
        return table(list(curves), self.widget.width() - AXIS_WIDTH)

    def mark(self, time: float | None) -> None:
        """Show a vertical cursor at `time`, s, the time whose pose the picture shows; None hides the cursor."""
        for plot in self.plots:
            if plot.cursor.isVisible() != (time is not None):
                plot.cursor.setVisible(time is not None)
            if time is not None:
                plot.cursor.setPos(time)


def _spans(panels: Sequence[Panel], columns: int) -> list[int]:
    """Number of columns that each panel spans.

    In a grid of two columns, a wide panel spans both. In a grid of four columns, the last panel spans the rest of its
    row.
    """
    if columns <= 2:
        return [columns if panel.wide else 1 for panel in panels]
    return [1] * (len(panels) - 1) + [columns - (len(panels) - 1) % columns]


def _link(first: Any, other: Any, alike: bool) -> None:
    """Link the time axes of two plots.

    alike  whether the plots have equal widths. Only then is pyqtgraph's own link used, because this link aligns pixels
    """
    if alike:
        other.setXLink(first)
        return
    for source, target in ((first, other), (other, first)):
        source.sigXRangeChanged.connect(lambda _, span, target=target: target.setXRange(*span, padding=0.0))

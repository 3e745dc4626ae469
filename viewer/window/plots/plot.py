"""One plot of the window: axes, title with legend, curves, cursors, and the selected interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore

from viewer.curves import common_name, styled
from viewer.data.series import Floats, decimated
from viewer.layout import SMALLEST, Curve, PlotSpec
from viewer.qt import theme
from viewer.qt.axes import PlainAxis, PowerAxis
from viewer.qt.titles import ELLIPSIS, Title, compose
from viewer.qt.titles import Curve as Key
from viewer.source import Source, difference
from viewer.window.mouse import GestureBox
from viewer.window.plots.curves import CurvesItem, Frame, Line

AXIS_WIDTH = 58
NUMBER_PIXELS = 32  # height of a plot for each number that its value axis has at least
NUMBER_WIDTH = 72  # width of a plot for each number that its time axis has at least
PREFERRED = 10_000.0  # pixels, more than there are: then all rows of plots are equally high
ROOMY = 0.6  # fraction of the axis that the curves must fill; below it the axis range is reduced
PADDING = 0.07
NO_DATA = "no data"
NEGATIVE = "negative values not drawn"
DIFFERENCE, MAGNITUDE = "difference to the first", "|difference to the first|"
SECOND_DASH = (4.0, 3.0)
DOTS = "┈┈"  # mark of a reference in the legend
REFERENCE_DASH = (1.5, 3.5)


@dataclass(frozen=True)
class Drawn:
    """A curve of one run as it is drawn.

    name    name in the legend
    source  index of the run
    mark    mark in the legend
    is_reference  whether the curve is the reference of another curve of the plot
    """

    name: str
    curve: Curve
    source: int
    color: str
    dash: tuple[float, ...]
    mark: str
    is_reference: bool = False


class Plot:
    """One plot in a pyqtgraph layout.

    spec        description of the plot's curves and axes
    bottom      whether the plot is the lowest of its column
    has_dashes  whether more than the first curves are told apart by dashes
    """

    def __init__(self, spec: PlotSpec, bottom: bool, has_dashes: bool = False) -> None:
        self.spec, self._has_dashes = spec, has_dashes
        self.box = GestureBox("plot")
        self.box.disableAutoRange()
        self.box.setPreferredHeight(PREFERRED)
        self.title = Title(AXIS_WIDTH)
        axes = {"left": (PowerAxis if spec.log else PlainAxis)("left"), "bottom": PlainAxis("bottom")}
        self.item = pg.PlotItem(axisItems=axes, viewBox=self.box, enableMenu=False)
        self.item.hideButtons()
        self.left_axis, self.bottom = self.item.getAxis("left"), self.item.getAxis("bottom")
        self.left_axis.setWidth(AXIS_WIDTH)
        if spec.words:
            self.left_axis.setTicks([list(enumerate(spec.words))])
        self._is_lowest = bottom
        if bottom:
            self.bottom.name("time [s]")
        else:  # one time axis serves a column
            self.item.hideAxis("bottom")
        self.curves = CurvesItem(self.box)
        self.span = (0.0, 0.0)
        self.unnamed: list[Key] = []
        self.current = False
        self._time = (0.0, 0.0)
        self._key: Any = None
        self._order: tuple[Any, list[Drawn]] | None = None
        self._drawn_rows: dict[tuple[int, Curve], int] = {}
        self._bounds: tuple[float, float] | None = None
        self._is_flat = False  # whether all values were equal when the value axis was fitted
        self._missing: frozenset[Curve] = frozenset()
        self._has_negative = False  # whether a logarithmic axis leaves out negative values
        self._shows_magnitude = False  # whether a logarithmic axis shows the magnitudes of differences
        self._spaced: tuple[Any, ...] | None = None
        self.now_line = self._line(theme.MUTED, QtCore.Qt.PenStyle.SolidLine)
        self.hover_line = self._line(theme.ACCENT, QtCore.Qt.PenStyle.DotLine)
        self.divergence = self._line(theme.ALARM, QtCore.Qt.PenStyle.DashLine)
        self.selection = pg.LinearRegionItem(movable=False, brush=theme.faded(theme.ACCENT, 0.12), pen=pg.mkPen(None))
        self.selection.setVisible(False)
        self.item.addItem(self.selection, ignoreBounds=True)

    def show_times(self, every: bool) -> None:
        """Show the time axis: below every plot, or only below the lowest plot of a column."""
        self.item.showAxis("bottom", every or self._is_lowest)

    def _line(self, color: str, style: Any) -> Any:
        line = pg.InfiniteLine(angle=90, pen=pg.mkPen(color, width=1, style=style), movable=False)
        line.setVisible(False)
        self.item.addItem(line, ignoreBounds=True)
        return line

    def drawn(self, sources: Sequence[Source], differs: bool) -> list[Drawn]:
        """The curves in the order of drawing: all curves of the first run, then all curves of the second run, etc.

        differs  whether the plot shows the difference between each further run and the first run; the curves of the
                 first run are then left out
        """
        key = (self.spec, len(sources), differs, id(sources[0].signals.description))
        if self._order is None or self._order[0] != key:
            self._order = key, self._find_order(sources, differs)
        return self._order[1]

    def _find_order(self, sources: Sequence[Source], differs: bool) -> list[Drawn]:
        found = []
        shown = range(1, len(sources)) if differs and len(sources) > 1 else range(len(sources))
        curves = styled(self.spec.curves, sources[0].signals.description)
        is_live = any(source.live for source in sources)
        for order, source in enumerate(shown):
            for curve, name, place, followed in curves:
                color = theme.INK if followed else theme.curve_color(place)
                own = theme.curve_dash(place if self._has_dashes else 0)
                dash = REFERENCE_DASH if followed else SECOND_DASH if order == 1 else (1.5, 2.0) if order else own[1]
                mark = DOTS if followed else "╍╍" if order else own[0]
                found.append(Drawn(name, curve, source, color, tuple(dash), own[0] if is_live else mark, followed))
        # live curves have no dashes: the references lie below the curves that follow them
        return sorted(found, key=lambda each: not each.is_reference) if is_live else found

    def values(self, drawn: Drawn, sources: Sequence[Source], differs: bool) -> tuple[Floats, Floats] | None:
        """(times in s, values) of a curve; None if its run does not have the curve.

        The values are not logarithms, even on a logarithmic axis.
        """
        own = sources[drawn.source].column(drawn.curve)
        if own is None or not differs or len(sources) < 2:
            return own
        first = sources[0].column(drawn.curve)
        return None if first is None else difference(first, own)

    def show(
        self,
        sources: Sequence[Source],
        time: tuple[float, float],
        differs: bool,
        marks: Sequence[tuple[float, str]],
        bands: Sequence[tuple[float, float]],
        unread: tuple[float, float] | None = None,
    ) -> bool:
        """Draw the curves between two times, s. Returns whether the title has to be written anew.

        For a live run, only the newest pieces of the curves are drawn if nothing else has changed.

        time   the two times
        marks  (time, colour) of the vertical lines to draw
        bands  (start, end), s, of the shaded gaps to draw
        unread  (start, end), s, of the part of the first run that was not read yet; None if all was read
        """
        drawn = self.drawn(sources, differs)
        live = any(source.live for source in sources)
        shown = self._missing, self._has_negative, self._shows_magnitude
        is_difference = differs and len(sources) > 1
        key = (time, differs, self.curves.size, len(sources), tuple(marks), tuple(bands), unread)
        if live and key == self._key and not is_difference and self._append(drawn, sources, time):
            return self._has_negative != shown[1]
        if not live and key == self._key:
            return False
        found = [self.values(each, sources, differs) for each in drawn]
        self._shows_magnitude, self._has_negative = self.spec.log and is_difference, False
        lines, bounds = [], []
        sane = min(source.signals.sane_until + source.offset for source in sources)
        for each, columns in zip(drawn, found, strict=True):
            if columns is None or len(columns[0]) == 0:
                continue
            first, last = np.searchsorted(columns[0], time)
            part = slice(max(0, int(first) - 1), int(last) + 1)
            self._note_negative(columns[1][part])
            x, y = decimated(columns[0][part], self.scaled(columns[1][part]), 2 * self.curves.size[0])
            inside = y[np.isfinite(y) & (x <= sane)]
            if len(inside):
                low = float(np.quantile(inside, 0.005)) if self.spec.log else float(inside.min())
                bounds.append((low, float(inside.max())))
            dash = () if sources[each.source].live else each.dash
            lines.append(Line(x, y, each.color, 1.3 if not live else 1.0, dash))
        self._drawn_rows = {
            (each.source, each.curve): sources[each.source].store.total(each.curve.topic, each.curve.field)
            for each in drawn
        }
        self._missing = frozenset(each.curve for each, columns in zip(drawn, found, strict=True) if columns is None)
        self._fit(bounds)
        self.set_time(time)
        self._space_numbers()
        self._key = key
        self.curves.redraw(Frame(time, self.span, self._grid(time), marks, bands, unread), lines, smooth=not live)
        return (self._missing, self._has_negative, self._shows_magnitude) != shown

    @property
    def name(self) -> str:
        """Title of the plot; for a plot without a title, the kinds of its curves, such as "Position and velocity"."""
        return self.spec.title or common_name(self.spec.curves)

    def invalidate(self) -> None:
        """Make the next call of `show` draw the whole plot again."""
        self._key = None

    def scaled(self, values: Floats) -> Floats:
        """The values as drawn: decimal exponents on a logarithmic axis.

        On a logarithmic axis, differences are drawn as magnitudes, and other negative values are not drawn (NaN).
        """
        if not self.spec.log:
            return values
        if self._shows_magnitude:
            values = np.abs(values)
        exponents: Floats = np.log10(np.maximum(values, SMALLEST))
        negative = values < 0.0
        if negative.any():
            exponents[negative] = np.nan
        return exponents

    def _note_negative(self, values: Floats) -> None:
        """Record whether a logarithmic axis leaves out some of the values."""
        if self.spec.log and not self._shows_magnitude and not self._has_negative:
            self._has_negative = bool((values < 0.0).any())

    def _append(self, drawn: Sequence[Drawn], sources: Sequence[Source], time: tuple[float, float]) -> bool:
        """Draw the newest pieces of live curves. Returns False if the whole plot has to be drawn again instead."""
        lines = []
        low, high = self.span
        for each in drawn:
            store, key = sources[each.source].store, (each.source, each.curve)
            total = store.total(each.curve.topic, each.curve.field)
            new = total - self._drawn_rows.get(key, 0)
            if new == 0:
                continue
            columns = store.column(each.curve.topic, each.curve.field)
            if columns is None:
                continue
            if new < 0 or new >= len(columns[0]):
                return False
            self._note_negative(columns[1][-new - 1 :])
            x, y = columns[0][-new - 1 :], self.scaled(columns[1][-new - 1 :])
            if each.curve in self._missing or x[-1] > time[1]:
                return False
            self._drawn_rows[key] = total
            lines.append(Line(x, y, each.color))
        if self.spec.span is None and lines:
            values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
            least, most = values.min(initial=math.inf), values.max(initial=-math.inf)
            if least < low or most > high or (self._is_flat and least < most):
                return False
        self.curves.append(lines)
        return True

    def _fit(self, bounds: Sequence[tuple[float, float]]) -> None:
        """Set the range of the value axis: the range `spec.span` or, if this is None, a range that contains the curves.

        bounds  (lowest value, highest value) of each curve
        """
        if self.spec.span is not None:
            low, high = self.spec.span
        elif self.spec.words:
            low, high = -0.2, len(self.spec.words) - 0.8
        else:
            low = min((each[0] for each in bounds), default=0.0 if not self.spec.log else -1.0)
            high = max((each[1] for each in bounds), default=1.0)
            self._is_flat = high <= low
            largest = max(abs(low), abs(high))
            least = 1.2 if self.spec.log else (0.01 * largest if largest > 1e-12 else 2.0)
            if high - low < least:
                low, high = 0.5 * (low + high - least), 0.5 * (low + high + least)
            shown_low, shown_high = self.span
            if shown_low <= low and high <= shown_high and high - low > ROOMY * (shown_high - shown_low):
                return
            margin = PADDING * (high - low)
            low, high = low - margin, high + margin
        if (low, high) != self.span:
            self.span = (low, high)
            self.box.setRange(yRange=self.span, padding=0.0)

    def _space_numbers(self) -> None:
        """Place the numbers of the time axis, and of a linear value axis, so that they do not overlap."""
        key = (self.span, self._time, self.curves.size)
        if key == self._spaced:
            return
        self._spaced = key
        width, height = self.curves.size
        self.bottom.space(self._time[1] - self._time[0], max(1, min(5, width // NUMBER_WIDTH)))
        if not self.spec.log and not self.spec.words:
            self.left_axis.space(self.span[1] - self.span[0], max(2, min(4, height // NUMBER_PIXELS)))

    def set_time(self, time: tuple[float, float]) -> None:
        """Set the range of the time axis, s."""
        if time != self._time:
            self._time = time
            self.box.setRange(xRange=time, padding=0.0)

    def _grid(self, time: tuple[float, float]) -> tuple[Sequence[float], Sequence[float]]:
        """(positions of the numbers on the time axis, positions of the numbers on the value axis)."""
        width, height = self.curves.size
        across = self.bottom.tickValues(*time, width)
        up = self.left_axis.tickValues(*self.span, height)
        return (across[0][1] if across else ()), (up[0][1] if up else ())

    def show_title(self, sources: Sequence[Source], differs: bool, below: bool = True) -> None:
        """Write title, unit and legend above the plot, laid out for its current width.

        below  whether curves that the title does not name are named below the plots
        """
        drawn, is_live = self.drawn(sources, differs), any(source.live for source in sources)
        if is_live:
            drawn = sorted(drawn, key=lambda each: each.is_reference)
        several = len({each.source for each in drawn}) > 1
        names = [f"{each.name} ({NO_DATA})" if each.curve in self._missing else each.name for each in drawn]
        keys = [(name, each.color, each.mark) for name, each in zip(names, drawn, strict=True)]
        if several:
            keys = keys[: len(self.spec.curves)]
        title = self.spec.title or ("drag a field here" if not self.spec.curves else "")
        named = len(self.spec.curves) > 1 or title not in ("", self.spec.title)
        if len(keys) == 1 and "." in self.spec.curves[0].field:
            named = True
        if not title:
            title, keys = (names[0], keys[1:]) if len(keys) == 1 else (common_name(self.spec.curves), keys)
        unit = self.spec.unit or ("SI" if self.spec.curves else "empty plot")
        text, lines, whole = compose(
            ("▸ " if self.current else "") + title,
            unit,
            keys if named else [],
            False,
            self._remark(differs and len(sources) > 1),
            self.item.size().width() - AXIS_WIDTH,
            below,
        )
        self.title.set_html(text, lines, "\n".join([title, *(name for name, *_ in keys)]) if ELLIPSIS in text else "")
        self.unnamed = [] if whole else keys

    def _remark(self, is_difference: bool) -> str:
        """Remark in the title if differences are drawn or negative values are left out; "" otherwise."""
        if is_difference:
            return MAGNITUDE if self.spec.log else DIFFERENCE
        return NEGATIVE if self._has_negative else ""

"""The plots of the window on one time axis: their arrangement, their data, and the selected interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyqtgraph.Qt import QtCore, QtWidgets

from viewer.layout import Layout, PlotSpec
from viewer.qt import theme
from viewer.qt.titles import ELLIPSIS, table
from viewer.source import Source
from viewer.window.history import ViewHistory
from viewer.window.plots.canvas import Canvas, CanvasArea
from viewer.window.plots.plot import AXIS_WIDTH, Plot

MOST_MARKS = 60  # most vertical lines in a plot
MOST_COLUMNS = 4
NAMES = 0.25  # share of the height for the names of curves, at most
ASPECT = 2.2  # width to height that plots should have
FLATTEST = 64  # pixels of a plot's value axis; the area scrolls instead of making plots flatter
SCROLLED = 96  # pixels of a plot's value axis in an area that scrolls, at least
TIME_AXIS_HEIGHT = 22  # pixels of a time axis without its name


class PlotGrid(QtWidgets.QWidget):
    """The plots of the window.

    selected  Qt signal for a change of the selected interval
    """

    selected = QtCore.pyqtSignal()

    def __init__(self, history: ViewHistory, time_shown: Callable[[Layout], tuple[float, float]]) -> None:
        super().__init__()
        self.sources: list[Source] = []
        self.plots: list[Plot] = []
        self.specs: tuple[PlotSpec, ...] = ()
        self.interval: tuple[float, float] | None = None
        self.marks: list[tuple[float, str]] = []
        self.current = 0
        self.history, self.time_shown = history, time_shown
        self._is_picture = False
        self._columns = 1
        self._redraws = False
        self._now: float | None = None
        self._may_scroll = True
        self.canvas = Canvas()
        self.area = CanvasArea(self.canvas)
        self.area.scrolled.connect(self._on_resized)
        self.area.resized.connect(lambda: QtCore.QTimer.singleShot(0, self.lay_out_titles))
        self._scrolls = False
        self.key, self.caption = QtWidgets.QLabel(), QtWidgets.QLabel()
        self.key.setObjectName("key")
        self.names = QtWidgets.QScrollArea()  # the key, which scrolls where it is longer than its share of the height
        self.names.setObjectName("names")
        self.names.setWidget(self.key)
        self.names.setWidgetResizable(True)
        self.names.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
        self.names.setHorizontalScrollBarPolicy(QtCore.Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.caption.setObjectName("caption")
        self.caption.setWordWrap(True)
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.area, 1)
        column.addWidget(self.names)
        column.addWidget(self.caption)

    @property
    def differs(self) -> bool:
        """Whether the plots show the difference between each further run and the first run."""
        return self.history.layout.difference

    def set_specs(self, specs: tuple[PlotSpec, ...]) -> None:
        """Show the plots that `specs` describe."""
        columns = self._suitable_columns(len(specs))
        alike = [(spec.log, spec.words) for spec in specs] == [(p.spec.log, p.spec.words) for p in self.plots]
        if alike and columns == self._columns:
            for plot, spec in zip(self.plots, specs, strict=True):
                if plot.spec != spec:
                    plot.spec = spec
                    plot.invalidate()
            self.specs = specs
        else:
            self.specs = specs
            self._build(columns)
        self.current = min(self.current, max(0, len(specs) - 1))
        self.lay_out_titles()

    def _suitable_columns(self, count: int) -> int:
        width, height = max(self.area.width(), 1), max(self.area.height(), 1)
        wanted = round(math.sqrt(count * width / height / ASPECT)) if count else 1
        return max(1, min(MOST_COLUMNS, count, wanted)) if count else 1

    def _build(self, columns: int) -> None:
        self._columns = columns
        self.canvas.clear()
        self.plots = []
        is_wide = self._is_picture and len(self.specs) % columns > 0  # whether the last plot has the rest of its row
        for place, spec in enumerate(self.specs):
            row, column = divmod(place, columns)
            # the last of its column; its time axis is that of the plots above it, which are as wide
            last = place + columns >= len(self.specs) - is_wide
            plot = Plot(spec, last, self._is_picture)
            span = columns - column if is_wide and place == len(self.specs) - 1 else 1
            self.canvas.addItem(plot.title, row=2 * row, col=column, colspan=span)
            self.canvas.addItem(plot.item, row=2 * row + 1, col=column, colspan=span)
            self._connect(plot, place)
            self.plots.append(plot)
        self.set_interval(self.interval)

    def _connect(self, plot: Plot, place: int) -> None:
        """Connect the mouse with a new plot."""
        plot.box.sigResized.connect(self._on_resized)

    def show_data(self, now: float | None) -> None:
        """Draw the data of the present frame.

        now  time of the scene, s, which a vertical line marks; if None, no line is drawn
        """
        self._now = now
        layout = self.history.layout
        time = self.time_shown(layout)
        if self._suitable_columns(len(self.specs)) != self._columns:
            self._build(self._suitable_columns(len(self.specs)))
            self.lay_out_titles()
        near = [mark for mark in self.marks if time[0] <= mark[0] <= time[1]]
        near = near if len(near) <= MOST_MARKS else []
        bands = [
            (start + source.offset, end + source.offset)
            for source in self.sources
            for start, end in source.signals.holes
        ]
        diverged = next((s.signals.diverged_at for s in self.sources if s.signals.diverged_at is not None), None)
        view, has_news = self.area.in_view, False
        for plot in self.plots:
            if not self._is_in_view(plot, view):
                plot.set_time(time)
                continue
            has_news |= plot.show(self.sources, time, layout.difference, near, bands, self.sources[0].unread)
            for line, at in ((plot.now_line, now), (plot.divergence, diverged)):
                if line.isVisible() != (at is not None):
                    line.setVisible(at is not None)
                if at is not None and line.value() != at:
                    line.setPos(at)
        if has_news:
            self.lay_out_titles()

    def _is_in_view(self, plot: Plot, view: Any) -> bool:
        if not (self._scrolls and self.isVisible()):
            return True
        rect = plot.item.sceneBoundingRect()
        return bool(rect.bottom() >= view.top() and rect.top() <= view.bottom())

    def show_current(self) -> None:
        if self.current < len(self.plots):
            plot = self.plots[self.current]
            self.area.show_part(plot.title.sceneBoundingRect().top(), plot.item.sceneBoundingRect().bottom())

    def show_all(self) -> None:
        """Make all plots as flat as necessary to show them at once, without a scroll bar, as for a film."""
        self._may_scroll = False
        self.lay_out_titles()

    def set_still(self, is_picture: bool) -> None:
        """Draw the plots as for a picture or a film, in which no plot is the current one.

        is_picture  whether dashes tell curves apart, and the last plot has the rest of its row
        """
        self.current, self._is_picture = -1, is_picture
        self._build(self._columns)

    def _lay_out_heights(self) -> None:
        """Let the area scroll if the plots would become too flat. Each plot then has a time axis of its own."""
        rows = [self.plots[start : start + self._columns] for start in range(0, len(self.plots), self._columns or 1)]
        titles = sum(max(plot.title.minimumHeight() for plot in row) for row in rows)
        gaps = self.canvas.ci.layout.verticalSpacing() * max(0, 2 * len(rows) - 1)
        rest = round(titles + gaps) + 2 * TIME_AXIS_HEIGHT
        self._scrolls = self._may_scroll and rest + FLATTEST * len(rows) > self.area.height()
        scrolled = rest + SCROLLED * len(rows) + TIME_AXIS_HEIGHT * (len(rows) - 1)
        self.area.set_least_height(scrolled if self._scrolls else 0)
        for plot in self.plots:
            plot.show_times(every=self._scrolls)

    def invalidate(self) -> None:
        """Draw all plots again at the next frame, because other data are shown."""
        for plot in self.plots:
            plot.invalidate()

    def lay_out_titles(self) -> None:
        """Fit titles, legends and heights to the present size of the area."""
        self.canvas.ci.layout.activate()
        differs = self.history.layout.difference
        for place, plot in enumerate(self.plots):
            plot.current = place == self.current and len(self.plots) > 1
            plot.show_title(self.sources, differs)
        curves = dict.fromkeys(key for plot in self.plots for key in plot.unnamed)
        text = table(list(curves), self.area.width() - AXIS_WIDTH)
        if text != self.key.text():
            self.key.setText(text)
            self.key.setToolTip("\n".join(label for label, *_ in curves) if ELLIPSIS in text else "")
        height, most = self.key.sizeHint().height(), round(NAMES * self.height())
        self.names.setFixedHeight(min(height, most))
        is_hidden = height > most and not self._may_scroll  # nobody can scroll the names in a film
        self.names.setVisible(bool(text) and not is_hidden)
        for plot in self.plots if is_hidden else ():
            plot.show_title(self.sources, differs, below=False)
        self._lay_out_heights()

    def _on_resized(self) -> None:
        """Draw the plots at their new sizes, once Qt has laid out all of them."""
        if not self._redraws:
            self._redraws = True
            QtCore.QTimer.singleShot(0, self._redraw)

    def _redraw(self) -> None:
        self._redraws = False
        self.show_data(self._now)

    def restyle(self) -> None:
        self.canvas.setBackground(theme.PAPER)
        self._build(self._columns)
        self.lay_out_titles()

    def set_interval(self, interval: tuple[float, float] | None) -> None:
        """Select an interval of time, (start, end) in s; None clears the selection."""
        self.interval = interval
        for plot in self.plots:
            plot.selection.setVisible(interval is not None)
            if interval is not None:
                plot.selection.setRegion(interval)
        if interval is None:
            self.selected.emit()

"""The plots of the window with their mouse gestures, and the changes that the user makes to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from pyqtgraph.Qt import QtCore, QtWidgets

from viewer.data.signals import unit_of
from viewer.layout import Curve, Layout, PlotSpec
from viewer.window.history import ViewHistory
from viewer.window.plots.grid import PlotGrid
from viewer.window.plots.plot import Plot
from viewer.window.plots.readout import Readout, readout_html

WHEEL_STEP = 1.0012  # zoom per unit of wheel angle
SHORTEST_S = 1e-6  # of a time axis


class PlotArea(PlotGrid):
    """The plots of the window, which the user changes with the mouse.

    sought  Qt signal with a time, s, to go to
    """

    sought = QtCore.pyqtSignal(float)

    def __init__(self, history: ViewHistory, time_shown: Callable[[Layout], tuple[float, float]]) -> None:
        super().__init__(history, time_shown)
        self.canvas.dropped.connect(self._on_drop)
        self.canvas.scene().sigMouseMoved.connect(self._on_hover)
        self.readout = Readout(self.canvas)
        self.other_readouts: list[Readout] = []  # of the plots without the pointer

    def _connect(self, plot: Plot, place: int) -> None:
        super()._connect(plot, place)
        box = plot.box
        box.dragged.connect(lambda name, start, now, step: self._on_drag(place, name, start, now, step))
        box.released.connect(self._on_release)
        box.wheeled.connect(lambda angle, at, ctrl: self._on_wheel(place, angle, at.x(), at.y(), ctrl))
        box.clicked.connect(lambda at: self._on_click(place, at.x()))
        box.doubled.connect(lambda: self.fit(place))
        box.menued.connect(lambda at: self._menu(place).exec_(at.toPoint()))

    # -- changes of the plots

    def add(self, curve: Curve, place: int | None = None) -> None:
        """Add a curve to the plot with index `place`.

        Without `place`, the curve is added to the current plot, or to a new plot if the current one has another unit.
        """
        unit = unit_of(self.sources[0].signals, curve.topic, curve.field) if self.sources else ""
        if place is None:
            spec = self.specs[self.current] if self.specs else None
            if spec is not None and (not spec.curves or spec.unit == unit) and not spec.words:
                place = self.current
        specs = list(self.specs)
        if place is None or place >= len(specs):
            specs.append(PlotSpec((curve,), unit=unit))
            self.current = len(specs) - 1
        elif curve not in specs[place].curves:
            spec = specs[place]
            same = not spec.curves or spec.unit == unit
            changed = {"curves": (*spec.curves, curve), "unit": unit if same else "several units"}
            title = spec.title if spec.curves and same else ""
            specs[place] = msgspec.structs.replace(spec, **changed, title=title)
            self.current = place
        self._change(specs, f"curve {curve.field}")
        QtCore.QTimer.singleShot(0, self.show_current)

    def remove(self, place: int, curve: Curve) -> None:
        """Remove a curve from the plot with index `place`."""
        spec = self.specs[place]
        kept = tuple(each for each in spec.curves if each != curve)
        self._replace(place, msgspec.structs.replace(spec, curves=kept), f"removal of {curve.field}")

    def add_plot(self) -> None:
        self.current = len(self.specs)
        self._change([*self.specs, PlotSpec()], "new plot")
        QtCore.QTimer.singleShot(0, self.show_current)

    def remove_plot(self, place: int | None = None) -> None:
        """Remove the plot with index `place`; None for the current plot."""
        place = self.current if place is None else place
        if 0 <= place < len(self.specs):
            self._change([spec for i, spec in enumerate(self.specs) if i != place], "removal of a plot")

    def toggle_log(self, place: int | None = None) -> None:
        """Make the value axis of a plot logarithmic, or linear again; None for the current plot."""
        place = self.current if place is None else place
        if 0 <= place < len(self.specs) and not self.specs[place].words:
            spec = self.specs[place]
            self._replace(place, msgspec.structs.replace(spec, log=not spec.log, span=None), "logarithmic axis")

    def fit(self, place: int) -> None:
        """Show all times in every plot, and all values in the plot with index `place`."""
        specs = list(self.specs)
        specs[place] = msgspec.structs.replace(specs[place], span=None)
        self._change(specs, "fit of a plot", time=None, window=None)

    def _replace(self, place: int, spec: PlotSpec, text: str) -> None:
        self._change([spec if i == place else each for i, each in enumerate(self.specs)], text)

    def _change(self, specs: Sequence[PlotSpec], text: str, **others: Any) -> None:
        layout = self.history.layout
        plots = tuple(specs) if tuple(specs) != self.specs or layout.plots is not None else None
        self.history.change(msgspec.structs.replace(layout, plots=plots, **others), text)

    # -- mouse

    def _on_drag(self, place: int, name: str, start: Any, now: Any, step: Any) -> None:
        if name == "select":
            self.make_current(place)
            self.set_interval(self._inside(min(start.x(), now.x()), max(start.x(), now.x())))
            return
        plot = self.plots[place]
        low, high = self.time_shown(self.history.layout)
        width, height = plot.curves.size
        dt = -step.x() * (high - low) / width
        time = (low + dt, high + dt)
        specs = list(self.specs)
        if step.y() != 0.0 and not plot.spec.words:
            bottom, top = plot.span
            dy = step.y() * (top - bottom) / height
            specs[place] = msgspec.structs.replace(specs[place], span=(bottom + dy, top + dy))
        self._change(specs, "move of the plots", time=time)

    def _inside(self, start: float, end: float) -> tuple[float, float]:
        """The part of an interval, s, between the start of the first run and the end of the last run."""
        spans = [source.span for source in self.sources if source.signals.states]
        if not spans:
            return start, end
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        return min(max(start, first), last), min(max(end, first), last)

    def _on_release(self, name: str) -> None:
        if name == "select":
            self.selected.emit()
        else:
            self.history.seal()

    def _on_wheel(self, place: int, angle: float, time: float, value: float, on_values: bool) -> None:
        factor = WHEEL_STEP**-angle
        layout = self.history.layout
        if on_values:
            plot = self.plots[place]
            low, high = plot.span
            span = (value + factor * (low - value), value + factor * (high - value))
            self._replace(place, msgspec.structs.replace(plot.spec, span=span), "zoom of a value axis")
            return
        low, high = self.time_shown(layout)
        if self.sources and self.sources[0].live and layout.time is None:
            window = max(SHORTEST_S, factor * (layout.window or high - low))
            self._change(self.specs, "zoom of the time axis", window=window)
            return
        span = (time + factor * (low - time), time + factor * (high - time))
        if span[1] - span[0] >= SHORTEST_S:
            self._change(self.specs, "zoom of the time axis", time=span)

    def _on_click(self, place: int, time: float) -> None:
        self.make_current(place)
        self.sought.emit(time)

    def make_current(self, place: int) -> None:
        """Make the plot with index `place` the current one, to which new curves are added."""
        if place != self.current:
            self.current = place
            self.lay_out_titles()

    def _menu(self, place: int) -> Any:
        self.make_current(place)
        menu = QtWidgets.QMenu(self)
        plot = self.plots[place]
        log = menu.addAction("Logarithmic axis", lambda: self.toggle_log(place))
        log.setCheckable(True)
        log.setChecked(plot.spec.log)
        log.setEnabled(not plot.spec.words)
        menu.addAction("Fit", lambda: self.fit(place))
        removal = menu.addMenu("Remove curve")
        removal.setEnabled(bool(plot.spec.curves))
        for each in plot.spec.curves:
            removal.addAction(f"{each.topic}  {each.field}", lambda each=each: self.remove(place, each))
        menu.addSeparator()
        menu.addAction("Remove plot", lambda: self.remove_plot(place))
        menu.addAction("Add an empty plot", self.add_plot)
        return menu

    def plot_at(self, position: Any) -> int | None:
        """Index of the plot at a position in the graphics scene; None if no plot is there."""
        for place, plot in enumerate(self.plots):
            if plot.item.sceneBoundingRect().contains(position) or plot.title.sceneBoundingRect().contains(position):
                return place
        return None

    def _on_drop(self, position: Any, text: str) -> None:
        place = self.plot_at(position)
        self.add(msgspec.json.decode(text, type=Curve), len(self.specs) if place is None else place)

    def _on_hover(self, position: Any) -> None:
        place = self.plot_at(position)
        plot = None if place is None else self.plots[place]
        inside = plot is not None and plot.box.sceneBoundingRect().contains(position)
        self.hover(plot.box.mapSceneToView(position) if inside and plot is not None else None, place)

    def hover(self, point: Any, place: int | None) -> None:
        """Show a cursor line in all plots, and the values of their curves at the cursor.

        point  position (time, value) of the pointer in the plot with index `place`; None to hide the cursor line and
               the values
        """
        unread = self.sources[0].unread if self.sources else None
        if point is not None and unread is not None and point.x() > unread[0]:
            point = None  # no value is known there yet
        for plot in self.plots:
            plot.hover_line.setVisible(point is not None)
            if point is not None:
                plot.hover_line.setPos(point.x())
        others = [each for index, each in enumerate(self.plots) if index != place]
        while len(self.other_readouts) < len(others):
            self.other_readouts.append(Readout(self.canvas))
        self._read(self.readout, None if place is None else self.plots[place], point, is_pointed=True)
        for readout, other in zip_longest(self.other_readouts, others):
            self._read(readout, other, point, is_pointed=False)

    def _read(self, readout: Readout, plot: Plot | None, point: Any, is_pointed: bool) -> None:
        """Show the values of a plot's curves at the cursor: beside the pointer, or at the top of the plot."""
        text, at = "", None
        if point is not None and plot is not None:
            value = point.y() if is_pointed else plot.box.viewRange()[1][1]
            differs = self.history.layout.difference
            text = readout_html(plot, self.sources, differs, point.x(), value if is_pointed else None)
            at = self.canvas.mapFromScene(plot.box.mapViewToScene(QtCore.QPointF(point.x(), value)))
            if not is_pointed and not self.area.in_view.top() <= at.y() < self.area.in_view.bottom():
                text = ""  # of a plot that is scrolled out of view
        readout.show_text(text, at, self.area.in_view)

    def leaveEvent(self, event: Any) -> None:
        """Qt override: hide the cursor."""
        super().leaveEvent(event)
        self.hover(None, None)

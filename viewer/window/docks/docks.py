"""Panels around the scene and the plots.

Every run has panels for topics, events and statistics. A live run also has panels for the simulation, the parameters,
the joints and the timing.
"""

from __future__ import annotations

from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from nodes.framework.messages import Status
from viewer.data.live_store import LiveStore
from viewer.qt import theme
from viewer.window.docks.calls import ServiceCalls
from viewer.window.docks.joints import JointPanel
from viewer.window.docks.parameters import ParameterPanel
from viewer.window.docks.steering import SteeringPanel
from viewer.window.docks.tables import EventTable, StatisticsTable
from viewer.window.docks.timing import TimingPanel
from viewer.window.docks.topic_tree import TopicTree
from viewer.window.live_run import LiveRun
from viewer.window.menus.menus import Menus
from viewer.window.plots.area import PlotArea
from viewer.window.plots.readout import statistics

_AREAS = QtCore.Qt.DockWidgetArea
TOPICS_WIDTH, STEERING_WIDTH = 236, 320
TABLE_HEIGHT = 190
STEERING = ("docks.steering.pause_or_resume", "docks.steering.step", "docks.steering.reset")
UPDATE_MS = 500  # between two updates of what need not be drawn in every frame
_KINDS = QtCore.QEvent.Type
# events at which Qt draws the buttons again with the icons of its style, which are dark
REDRAWN = (_KINDS.StyleChange, _KINDS.LayoutDirectionChange, _KINDS.ParentChange)
BUTTONS = {"qt_dockwidget_closebutton": "close", "qt_dockwidget_floatbutton": "float"}
SIZE, INSET = 16, 4  # pixels


class Docks:
    """The panels of a window. The panels that only a live run has are None for a recording.

    run     the live run; None for a recording
    domain  number of the live domain
    """

    def __init__(self, window: QtWidgets.QMainWindow, plots: PlotArea, run: LiveRun | None, domain: int | None) -> None:
        self._window, self._plots, self.run = window, plots, run
        self._steering_actions: list[Any] = []
        self.docks: dict[str, Panel] = {}
        self._opened_by_selection = False  # the panel Selection was opened by a selection, not by the user
        self.topics = TopicTree()
        self.topics.chosen.connect(plots.add)
        self.events = EventTable()
        self.statistics = StatisticsTable()
        self.calls = None if domain is None else ServiceCalls(domain)
        self._add("Topics", self.topics, _AREAS.LeftDockWidgetArea)
        self.steering: SteeringPanel | None = None
        self.parameters: ParameterPanel | None = None
        self.timing: TimingPanel | None = None
        self.joints: JointPanel | None = None
        if self.calls is not None:
            self.steering = SteeringPanel(self.calls)
            self.parameters = ParameterPanel(self.calls)
            self.timing = TimingPanel()
            self.joints = JointPanel(self.calls)
            self._add("Simulation", self.steering, _AREAS.RightDockWidgetArea)
            self._add("Parameters", self.parameters, _AREAS.RightDockWidgetArea)
            self._add("Joints", self.joints, _AREAS.RightDockWidgetArea)
            self._add("Timing", self.timing, _AREAS.RightDockWidgetArea)
            window.tabifyDockWidget(self.docks["Parameters"], self.docks["Joints"])
            window.tabifyDockWidget(self.docks["Joints"], self.docks["Timing"])
            self.docks["Parameters"].raise_()
        self._add("Events", self.events, _AREAS.BottomDockWidgetArea, shown=False)
        self._add("Selection", self.statistics, _AREAS.BottomDockWidgetArea, shown=False)
        window.tabifyDockWidget(self.docks["Events"], self.docks["Selection"])
        plots.selected.connect(self._follow_selection)
        if run is not None:
            run.began.connect(self.forget)
            run.status_came.connect(self.process_status)
        self._timer = QtCore.QTimer(window)
        self._timer.timeout.connect(self.update)
        self._timer.start(UPDATE_MS)

    def _add(self, name: str, widget: Any, area: Any, shown: bool = True) -> None:
        dock = Panel(name, widget, self._window)
        self._window.addDockWidget(area, dock)
        dock.setVisible(shown)
        self.docks[name] = dock

    def fit_widths(self) -> None:
        names = ["Topics", *(["Simulation"] if self.steering is not None else [])]
        narrow = min(1.0, self._window.width() / 1600)
        widths = [round(narrow * TOPICS_WIDTH), round(narrow * STEERING_WIDTH)][: len(names)]
        self._window.resizeDocks([self.docks[name] for name in names], widths, QtCore.Qt.Orientation.Horizontal)

    def add_menus(self, menus: Menus) -> None:
        """Add a menu that shows and hides the panels, and enable the commands of a live simulation while it is live."""
        menu = menus.insert("Panels", before="Help")
        for dock in self.docks.values():
            menu.addAction(dock.toggleViewAction())
        self._steering_actions = [action for name, action in menus.actions.items() if name in STEERING]

    def find_field(self) -> None:
        """Show the topics, and put the keyboard focus into the search field above the topics."""
        self.docks["Topics"].show()
        self.topics.search.setFocus()
        self.topics.search.selectAll()

    def update(self) -> None:
        """Update all panels."""
        source = self._plots.sources[0]
        self.update_tables()
        if self._plots.interval is not None and not self.docks["Selection"].isHidden():
            self.show_statistics()
        run = self.run
        if run is None or self.calls is None or self.parameters is None or self.steering is None:
            return
        live = run.is_receiving
        self.steering.show_state(run.simulation_state, live)
        self.steering.show_emergency(live and run.is_stopped)
        for action in self._steering_actions:
            action.setEnabled(live)
        if live:
            self.calls.call("sim", "status", self._show_timing, quiet=True)
            self.parameters.read()
            if self.joints is not None:
                self.joints.show_signals(source.signals)
                self.joints.renew()

    def update_tables(self) -> None:
        source = self._plots.sources[0]
        self.topics.show_source(source, *(("", 0.0) if self.run is None else self.run.resting))
        self.events.show_events(source.events, is_whole=not source.live and source.share >= 1.0)

    def restyle(self) -> None:
        """Use the colours of the present theme."""
        for dock in self.docks.values():
            dock.draw_buttons()
        self.events.restyle()
        if self._plots.interval is not None:
            self.show_statistics()
        self.update()

    def forget(self) -> None:
        """Clear the panels of a live run, whose contents belong to a launch that has ended."""
        for panel in (self.steering, self.parameters, self.timing, self.joints):
            if panel is not None:
                panel.forget()
        self.update_tables()

    def process_status(self, status: Status) -> None:
        if self.timing is not None:
            self.timing.process_status(status)

    def _show_timing(self, status: dict[str, Any]) -> None:
        store = self._plots.sources[0].store
        if self.joints is not None:
            self.joints.show_status(status)
        if self.timing is not None and self.run is not None and isinstance(store, LiveStore):
            self.timing.show_status(status, self.run.frames, store.lost)

    def _follow_selection(self) -> None:
        """Show the statistics of a new interval, and open their panel, which closes again with the interval.

        A panel that the user opened stays open, and one that the user closed stays closed until the next interval.
        """
        dock = self.docks["Selection"]
        self.show_statistics()
        if self._plots.interval is None:
            if self._opened_by_selection:
                dock.hide()
            self._opened_by_selection = False
            return
        if dock.isHidden():
            self._opened_by_selection = True
            dock.show()
            self._window.resizeDocks([dock], [TABLE_HEIGHT], QtCore.Qt.Orientation.Vertical)
            QtCore.QTimer.singleShot(0, self._plots.show_current)  # there is less room for the plots now
        dock.raise_()

    def show_statistics(self) -> None:
        """Update the statistics of the curves of all plots in the selected interval."""
        plots, interval = self._plots, self._plots.interval
        rows = []
        if interval is not None and plots.plots:
            here = plots.plots[plots.current] if plots.current < len(plots.plots) else None
            for plot in sorted(plots.plots, key=lambda each: each is not here):  # the current plot first
                rows += statistics(plot, plots.sources, plots.differs, interval)
        unread = plots.sources[0].unread if plots.sources else None
        self.statistics.show_statistics(interval, rows, None if unread is None else unread[0])

    def visible(self) -> tuple[str, ...]:
        return tuple(name for name, dock in self.docks.items() if not dock.isHidden())

    def show_only(self, names: tuple[str, ...]) -> None:
        """Show the panels with these names, and no others."""
        for name, dock in self.docks.items():
            dock.setVisible(name in names)

    def close(self) -> None:
        """Stop the updates and the service calls, and end a recording."""
        self._timer.stop()
        if self.steering is not None:
            self.steering.close_recording()
        if self.calls is not None:
            self.calls.close()


class Panel(QtWidgets.QDockWidget):
    """Panel with a title, a button that closes it, and a button that makes it a window."""

    def __init__(self, name: str, widget: Any, window: QtWidgets.QMainWindow) -> None:
        super().__init__(name, window)
        self.setObjectName(name)
        self.setWidget(widget)
        self.topLevelChanged.connect(lambda _: self.draw_buttons())
        self.draw_buttons()

    def event(self, event: Any) -> bool:
        """Qt override: draw the buttons in the colours of the theme after Qt has drawn them."""
        done = super().event(event)
        if event.type() in REDRAWN:
            self.draw_buttons()
        return bool(done)

    def draw_buttons(self) -> None:
        """Draw the buttons in the colours of the present theme."""
        for button in self.findChildren(QtWidgets.QAbstractButton):
            if (kind := BUTTONS.get(button.objectName())) is not None:
                button.setIcon(_icon(kind))


def _icon(kind: str) -> Any:
    """Icon of a button: a cross for "close", a square for "float"."""
    picture = QtGui.QPixmap(SIZE, SIZE)
    picture.fill(QtCore.Qt.GlobalColor.transparent)
    painter = QtGui.QPainter(picture)
    painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing, kind == "close")
    painter.setPen(QtGui.QPen(QtGui.QColor(theme.INK), 1.6 if kind == "close" else 1.0))
    far = SIZE - INSET
    if kind == "close":
        painter.drawLine(INSET, INSET, far, far)
        painter.drawLine(INSET, far, far, INSET)
    else:
        painter.drawRect(INSET, INSET, far - INSET - 1, far - INSET - 1)
    painter.end()
    return QtGui.QIcon(picture)

"""Tree of topics and their fields, with a search field.

The user drags a field into a plot, or double-clicks it to plot it.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer.data.live_store import LiveStore
from viewer.data.recorded_store import RecordedStore
from viewer.data.signals import unit_of
from viewer.layout import Curve
from viewer.qt import theme
from viewer.qt.focus import only_when_clicked
from viewer.source import Source
from viewer.window.plots.canvas import MIME

CURVE = QtCore.Qt.ItemDataRole.UserRole
TOPIC = QtCore.Qt.ItemDataRole.UserRole + 1
COLOR = QtCore.Qt.ItemDataRole.UserRole + 2  # of the rate, in the theme with which it was drawn
RARE = 3.0  # a topic is silent only after this many of its mean intervals
UNIT_WIDTH = 104  # pixels
NAME_WIDTH = 110  # pixels of the names, at least
STATUS = "status/"  # topics of the nodes' statuses, which nodes publish also while the simulation is paused
SILENT_S = 3.0  # a topic without a message for this long is shown as silent
ENDED_S = 0.1  # a recorded topic ended before the run if its last message came at least this long before the end


def rate_text(rate_hz: float) -> str:
    """A rate as text: three digits below 100 Hz, such as "59.4 Hz", otherwise a whole number, such as "1020 Hz"."""
    return f"{rate_hz:.0f} Hz" if rate_hz >= 100.0 else f"{rate_hz:.3g} Hz"


class FieldTree(QtWidgets.QTreeWidget):
    """Tree of topics and fields from which fields can be dragged into plots."""

    def __init__(self) -> None:
        super().__init__()
        self.setColumnCount(2)
        self.setHeaderLabels(["field", "unit, rate"])
        self.setDragEnabled(True)
        self.setUniformRowHeights(True)
        self.header().setStretchLastSection(False)
        self.header().setSectionResizeMode(0, QtWidgets.QHeaderView.ResizeMode.Stretch)
        self.header().setMinimumSectionSize(30)
        self.setMinimumWidth(UNIT_WIDTH + NAME_WIDTH)
        self.header().resizeSection(1, UNIT_WIDTH)
        self.setIndentation(12)

    def mimeData(self, items: Any) -> Any:
        """Qt override: drag-and-drop data with the Curve of the dragged field as JSON."""
        data = QtCore.QMimeData()
        curve = items[0].data(0, CURVE) if items else None
        if curve is not None:
            data.setData(MIME, msgspec.json.encode(curve))
        return data


class TopicTree(QtWidgets.QWidget):
    """Search field and tree of topics of one run.

    chosen  Qt signal with the Curve of the field to plot. The signal is emitted when the user double-clicks a field, or
            presses Enter while exactly one field matches the search text
    """

    chosen = QtCore.pyqtSignal(object)

    def __init__(self) -> None:
        super().__init__()
        self.search = QtWidgets.QLineEdit()
        self.search.setPlaceholderText("search")
        self.search.setClearButtonEnabled(True)
        only_when_clicked(self.search)
        self.search.textChanged.connect(self._filter)
        self.search.returnPressed.connect(self._choose_only)
        self.tree = FieldTree()
        self.tree.itemDoubleClicked.connect(self._on_double_click)
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(2, 2, 2, 2)
        column.addWidget(self.search)
        column.addWidget(self.tree)
        self._shown: Any = None
        self._store: Any = None
        self._counts: dict[str, tuple[float, int]] = {}

    def show_source(self, source: Source, resting: str = "", since: float = 0.0) -> None:
        """Show the topics of a run with their rates. A recording that is still being read has no rates yet.

        resting  state of a simulation that does not advance, such as "paused"; "" for a simulation that advances
        since    time (monotonic clock, s) at which the simulation entered the state `resting`
        """
        store = source.store
        if store is not self._store:
            self._store = store
            self._counts.clear()
        content = [(topic, tuple(store.fields(topic))) for topic in sorted(store.topics)]
        if (id(source), content, source.signals.description is None) != self._shown:
            self._shown = (id(source), content, source.signals.description is None)
            self._fill(source, content)
        if isinstance(store, LiveStore):
            self._show_rates(store, resting, since)
        elif isinstance(store, RecordedStore) and source.share >= 1.0:
            self._show_recorded_rates(store, source.span[1] - source.offset)

    def _fill(self, source: Source, content: list[tuple[str, tuple[str, ...]]]) -> None:
        opened = {item.data(0, TOPIC) for item in self._topic_items() if item.isExpanded()} or {
            f"{source.signals.robot}/{source.signals.states_topic}"
        }
        self.tree.clear()
        for topic, fields in content:
            own = topic.removeprefix(f"{source.signals.robot}/")  # the title above has the robot's name
            top = QtWidgets.QTreeWidgetItem(self.tree, [own, ""])
            top.setData(0, TOPIC, topic)
            top.setToolTip(0, topic)
            top.setFlags(top.flags() & ~QtCore.Qt.ItemFlag.ItemIsDragEnabled)
            top.setExpanded(topic in opened)
            groups: dict[str, Any] = {}
            for field in fields:
                kind, _, rest = field.partition(".")
                parent = top
                if rest:
                    if kind not in groups:
                        groups[kind] = QtWidgets.QTreeWidgetItem(top, [kind, ""])
                        groups[kind].setFlags(top.flags())
                    parent = groups[kind]
                unit = unit_of(source.signals, topic, field)
                item = QtWidgets.QTreeWidgetItem(parent, [rest or kind, unit])
                item.setToolTip(1, unit)
                item.setData(0, CURVE, Curve(topic, field))
                item.setToolTip(0, f"{topic} {field}: double click or drag to plot it")
        self._filter(self.search.text())

    def _show_rates(self, store: LiveStore, resting: str, since: float) -> None:
        """Show the rate of each topic; if no messages arrive, show the state `resting` or the time without messages."""
        instant = time.monotonic()
        for item in self._topic_items():
            topic = item.data(0, TOPIC)
            received_at, count = store.received_at.get(topic), store.received.get(topic, 0)
            if received_at is None:
                continue
            counted_at, before = self._counts.get(topic, (instant, count))
            silence, passed = instant - received_at, instant - counted_at
            rests = resting and count == before and passed > 0.0 and received_at > since - SILENT_S
            if rests and not topic.startswith(STATUS):
                text, color = resting, theme.MUTED
            elif silence > SILENT_S and count == 1:
                text, color = "once", theme.MUTED
            elif silence > SILENT_S and silence < RARE * (
                interval := (received_at - store.first_received_at[topic]) / (count - 1)
            ):
                text, color = rate_text(1.0 / interval), theme.MUTED
            elif silence > SILENT_S:
                text, color = f"silent for {silence:.0f} s", theme.ALARM
            elif passed >= 0.9:
                text, color = rate_text((count - before) / passed), theme.MUTED
            else:
                self._counts.setdefault(topic, (instant, count))
                continue
            self._counts[topic] = (instant, count)
            _set_rate(item, text, color)

    def _show_recorded_rates(self, store: RecordedStore, end: float) -> None:
        """Show the mean rate of each topic, or the time of its last message if it ended before the run.

        end  time of the run's last state, s
        """
        for item in self._topic_items():
            extent = store.extent(item.data(0, TOPIC))
            if extent is None:
                continue
            _, last, interval = extent
            if interval <= 0.0:
                _set_rate(item, "once", theme.MUTED)
            elif end - last > max(ENDED_S, RARE * interval):
                _set_rate(item, f"until {last:.3f} s", theme.ALARM)
                item.setToolTip(1, f"last message at t = {last:.3f} s; the run ends at t = {end:.3f} s")
            else:
                _set_rate(item, rate_text(1.0 / interval), theme.MUTED)
                item.setToolTip(1, "messages per second of simulation time")

    def _topic_items(self) -> list[Any]:
        return [self.tree.topLevelItem(place) for place in range(self.tree.topLevelItemCount())]

    def _filter(self, text: str) -> None:
        """Show only the fields whose topic and name together contain all words of `text`."""
        words = text.lower().split()

        def show(item: Any, path: str) -> bool:
            path = f"{path} {item.text(0)}".lower()
            children = [item.child(place) for place in range(item.childCount())]
            if children:
                shown = [show(child, path) for child in children]  # all of them, not up to the first
                visible = any(shown)
            else:
                visible = all(word in path for word in words)
            item.setHidden(not visible)
            if words and children:
                item.setExpanded(visible)
            return visible

        for item in self._topic_items():
            show(item, item.data(0, TOPIC))

    def visible_curves(self) -> list[Curve]:
        """Curves of the fields that match the search text."""
        found: list[Curve] = []
        walk = QtWidgets.QTreeWidgetItemIterator(self.tree, QtWidgets.QTreeWidgetItemIterator.IteratorFlag.NotHidden)
        while walk.value() is not None:
            if (curve := walk.value().data(0, CURVE)) is not None:
                found.append(curve)
            walk += 1
        return found

    def _choose_only(self) -> None:
        """Plot the field that matches the search text, if exactly one field does."""
        curves = self.visible_curves()
        if len(curves) == 1:
            self.chosen.emit(curves[0])

    def _on_double_click(self, item: Any, _column: int) -> None:
        if (curve := item.data(0, CURVE)) is not None:
            self.chosen.emit(curve)


def _set_rate(item: Any, text: str, color: str) -> None:
    """Show a text of a colour in the second column of a topic."""
    if (item.text(1), item.data(1, COLOR)) != (text, color):
        item.setText(1, text)
        item.setData(1, COLOR, color)
        item.setForeground(1, QtGui.QColor(color))

"""Tree of topics and their fields, with a search line; fields are dragged or double-clicked into plots."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer.data.topics import LiveStore, unit_of
from viewer.qt import theme
from viewer.window.layout import Curve
from viewer.window.plots.area import MIME
from viewer.window.source import Source

CURVE = QtCore.Qt.ItemDataRole.UserRole
TOPIC = QtCore.Qt.ItemDataRole.UserRole + 1
UNIT_WIDTH = 76  # pixels
NAME_WIDTH = 110  # pixels of the names, at least
SILENT_S = 3.0  # a topic without a message for this long is shown as silent


class FieldTree(QtWidgets.QTreeWidget):
    """Tree of topics and fields, whose fields can be dragged into plots."""

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
        """Qt override: the curve of the dragged field."""
        data = QtCore.QMimeData()
        curve = items[0].data(0, CURVE) if items else None
        if curve is not None:
            data.setData(MIME, msgspec.json.encode(curve))
        return data


class TopicTree(QtWidgets.QWidget):
    """Search line and tree of one run.

    chosen  Qt signal with a Curve: a field was double-clicked
    """

    chosen = QtCore.pyqtSignal(object)

    def __init__(self) -> None:
        super().__init__()
        self.search = QtWidgets.QLineEdit()
        self.search.setPlaceholderText("search")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.search.returnPressed.connect(self._choose_only)
        self.tree = FieldTree()
        self.tree.itemDoubleClicked.connect(self._on_double_click)
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(2, 2, 2, 2)
        column.addWidget(self.search)
        column.addWidget(self.tree)
        self._shown: Any = None
        self._counts: dict[str, tuple[float, int]] = {}

    def show_source(self, source: Source) -> None:
        """Show the topics of a run; of a live run also their rates."""
        store = source.store
        content = [(topic, tuple(store.fields(topic))) for topic in sorted(store.topics)]
        if (id(store), content, source.signals.description is None) != self._shown:
            self._shown = (id(store), content, source.signals.description is None)
            self._fill(source, content)
        if isinstance(store, LiveStore):
            self._show_rates(store)

    def _fill(self, source: Source, content: list[tuple[str, tuple[str, ...]]]) -> None:
        opened = {item.data(0, TOPIC) for item in self._topic_items() if item.isExpanded()} or {
            f"{source.signals.robot}/state"
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
                item = QtWidgets.QTreeWidgetItem(parent, [rest or kind, unit_of(source.signals, topic, field)])
                item.setData(0, CURVE, Curve(topic, field))
                item.setToolTip(0, f"{topic} {field}: double click or drag to plot it")
        self._filter(self.search.text())

    def _show_rates(self, store: LiveStore) -> None:
        instant = time.monotonic()
        for item in self._topic_items():
            topic = item.data(0, TOPIC)
            heard, count = store.heard.get(topic), store.received.get(topic, 0)
            if heard is None:
                continue
            since, before = self._counts.get(topic, (instant, count))
            silence = instant - heard
            if silence > SILENT_S:
                text, color = f"silent for {silence:.0f} s", theme.ALARM
            elif instant - since >= 0.9:
                text, color = f"{(count - before) / (instant - since):.3g} Hz", theme.MUTED
            else:
                self._counts.setdefault(topic, (instant, count))
                continue
            self._counts[topic] = (instant, count)
            if item.text(1) != text:
                item.setText(1, text)
                item.setForeground(1, QtGui.QColor(color))

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
        """Curves of the fields that match the search."""
        found: list[Curve] = []
        walk = QtWidgets.QTreeWidgetItemIterator(self.tree, QtWidgets.QTreeWidgetItemIterator.IteratorFlag.NotHidden)
        while walk.value() is not None:
            if (curve := walk.value().data(0, CURVE)) is not None:
                found.append(curve)
            walk += 1
        return found

    def _choose_only(self) -> None:
        """Plot the field that matches the search, if only one does."""
        curves = self.visible_curves()
        if len(curves) == 1:
            self.chosen.emit(curves[0])

    def _on_double_click(self, item: Any, _column: int) -> None:
        if (curve := item.data(0, CURVE)) is not None:
            self.chosen.emit(curve)

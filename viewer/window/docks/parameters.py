"""Panel that shows and sets the parameters of the live nodes, with their units and limits."""

from __future__ import annotations

from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from nodes.framework.transport.service import ServiceError
from viewer.data.parameters import limits_text, outside, parse_value, read_all, value_text
from viewer.qt import theme
from viewer.window.docks.calls import ServiceCalls

WAITING = "the parameters of the nodes appear when a launch is live"
VALUE, UNIT = 1, 2  # columns
LEAST_NAME = 110  # pixels of the column of names
PLACE = QtCore.Qt.ItemDataRole.UserRole


class ParameterPanel(QtWidgets.QWidget):
    """Tree of nodes and their parameters. A double click on a value lets the user change it."""

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__()
        self._calls = calls
        self._values: dict[str, dict[str, Any]] = {}
        self._limits: dict[str, dict[str, dict[str, Any]]] = {}
        self._filling = False
        self.tree = QtWidgets.QTreeWidget()
        self.tree.setHeaderLabels(["parameter", "value", "unit", "limits"])
        self.tree.setEditTriggers(QtWidgets.QAbstractItemView.EditTrigger.NoEditTriggers)
        self.tree.itemDoubleClicked.connect(self._on_double_click)
        self.tree.currentItemChanged.connect(self._on_current)
        self.tree.setIndentation(12)
        self.tree.itemChanged.connect(self._on_change)
        self.message = QtWidgets.QLabel(WAITING)
        self.message.setObjectName("caption")
        self.message.setWordWrap(True)
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(4, 4, 4, 4)
        column.addWidget(self.tree)
        column.addWidget(self.message)

    def read(self) -> None:
        """Request the parameters of all nodes, and show them."""
        self._calls.run(read_all, self._show, quiet=True)

    def _show(self, found: tuple[dict[str, Any], dict[str, Any]]) -> None:
        values, limits = found
        if (values, limits) == (self._values, self._limits):
            return
        self._values, self._limits = values, limits
        self._filling = True
        self.tree.clear()
        for node, parameters in values.items():
            if not parameters:
                continue
            top = QtWidgets.QTreeWidgetItem(self.tree, [node])
            for key, value in parameters.items():
                limit = limits.get(node, {}).get(key, {})
                item = QtWidgets.QTreeWidgetItem(
                    top, [key, value_text(value), limit.get("unit", ""), limits_text(limit)]
                )
                item.setData(0, PLACE, (node, key))
                item.setToolTip(0, key)
                item.setFlags(item.flags() | QtCore.Qt.ItemFlag.ItemIsEditable)
            top.setExpanded(True)
        for place in range(4):
            self.tree.resizeColumnToContents(place)
        self.tree.setColumnWidth(VALUE, max(50, min(70, self.tree.columnWidth(VALUE))))
        # the unit has to be in view: the start of "N m s" reads like another unit
        bar = self.tree.verticalScrollBar().sizeHint().width()
        room = self.tree.width() - bar - self.tree.columnWidth(VALUE) - self.tree.columnWidth(UNIT) - 4
        self.tree.setColumnWidth(0, max(LEAST_NAME, min(self.tree.columnWidth(0), room)))
        self._filling = False
        count = sum(len(each) for each in values.values())
        self._tell("" if count else "no node of this launch has parameters")

    def forget(self) -> None:
        """Remove the parameters, which are of a launch that has ended."""
        self._values, self._limits = {}, {}
        self.tree.clear()
        self._tell(WAITING)

    def item(self, node: str, key: str) -> Any:
        """The tree row of a parameter; None for an unknown parameter."""
        for i in range(self.tree.topLevelItemCount()):
            top = self.tree.topLevelItem(i)
            for j in range(top.childCount()):
                if top.child(j).data(0, PLACE) == (node, key):
                    return top.child(j)
        return None

    def _on_current(self, item: Any, _before: Any = None) -> None:
        """Show name, unit and limits of the parameter in the current row."""
        place = None if item is None else item.data(0, PLACE)
        if place is not None and not self._filling:
            limits = " ".join(filter(None, (item.text(3), item.text(2))))
            self._tell(f"{place[0]}.{place[1]}" + (f": {limits}" if limits else ""))

    def _on_double_click(self, item: Any, column: int) -> None:
        if item.data(0, PLACE) is not None and column == VALUE:
            self.tree.editItem(item, VALUE)

    def _on_change(self, item: Any, column: int) -> None:
        place = item.data(0, PLACE)
        if self._filling or place is None or column != VALUE:
            return
        node, key = place
        before = self._values[node][key]
        try:
            value = parse_value(item.text(VALUE), before)
        except ValueError as error:
            self._refuse(item, before, f"{node}.{key}: {error}")
            return
        limit = self._limits.get(node, {}).get(key, {})
        if outside(value, limit):
            unit = limit.get("unit", "")
            self._refuse(item, before, f"{node}.{key} = {value:g} is outside {limits_text(limit)} {unit}".rstrip())
            return

        def work(client: Any) -> Any:
            try:
                client.call(node, "set_parameters", **{key: value})
                return client.call(node, "get_parameters"), ""
            except ServiceError as error:
                return None, str(error)

        self._calls.run(work, lambda result: self._answered(node, key, before, *result))

    def _answered(self, node: str, key: str, before: Any, now: dict[str, Any] | None, error: str) -> None:
        item = self.item(node, key)
        if item is None:
            return
        if now is None:
            self._refuse(item, before, error)
            return
        self._values[node] = now
        self._write(item, now[key])
        self._tell(f"{node}.{key} = {value_text(now[key])}")

    def _refuse(self, item: Any, before: Any, text: str) -> None:
        """Show the value `before` of a parameter again, and the reason `text` for which another value was refused."""
        self._write(item, before)
        self._tell(text, f"color: {theme.ALARM}")

    def _tell(self, text: str, style: str = "") -> None:
        self.message.setStyleSheet(style)
        self.message.setText(text)

    def _write(self, item: Any, value: Any) -> None:
        self._filling = True
        item.setText(VALUE, value_text(value))
        item.setForeground(VALUE, QtGui.QColor(theme.INK))
        self._filling = False

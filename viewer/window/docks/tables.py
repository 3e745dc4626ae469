"""Panels with tables: events, to which the user can jump, and statistics of the selected interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer.data.store import EventMark
from viewer.qt import theme
from viewer.window.plots.readout import Statistics

ROW_HEIGHT = 22  # pixels


def _table(columns: Sequence[str]) -> Any:
    table = QtWidgets.QTableWidget(0, len(columns))
    table.setHorizontalHeaderLabels(list(columns))
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
    table.verticalHeader().setMinimumSectionSize(ROW_HEIGHT)
    table.setEditTriggers(QtWidgets.QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QtWidgets.QAbstractItemView.SelectionBehavior.SelectRows)
    table.horizontalHeader().setStretchLastSection(True)
    return table


class EventTable(QtWidgets.QWidget):
    """Table of events, in the order in which they happened. Events from before a reset are grey.

    chosen  Qt signal with the time, s, of an event that was double-clicked
    """

    chosen = QtCore.pyqtSignal(float)

    def __init__(self) -> None:
        super().__init__()
        self.table = _table(("t [s]", "event", "detail"))
        self.table.itemDoubleClicked.connect(self._on_double_click)
        self.empty = QtWidgets.QLabel("no event so far")
        self.empty.setObjectName("caption")
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(2, 2, 2, 2)
        column.addWidget(self.empty)
        column.addWidget(self.table)
        self._events: list[EventMark] = []

    def show_events(self, events: Sequence[EventMark], is_whole: bool = False) -> None:
        """Show these events in the table.

        is_whole  whether `events` has all events of a recording
        """
        self.empty.setText("no events were recorded" if is_whole else "no event so far")
        if list(events) == self._events:
            return
        self._events = list(events)
        self.empty.setVisible(not events)
        self.table.setRowCount(len(self._events))
        colors = theme.change_colors([(mark.time, mark.kind) for mark in self._events])
        for row, mark in enumerate(self._events):
            detail = f"before the {mark.before}: {mark.detail}".rstrip(": ") if mark.before else mark.detail
            for column, text in enumerate((f"{mark.time:.3f}", mark.kind, detail)):
                item = QtWidgets.QTableWidgetItem(text)
                if mark.before:
                    item.setForeground(QtGui.QColor(theme.MUTED))
                elif column == 1:
                    item.setForeground(QtGui.QColor(colors[mark.kind]))
                self.table.setItem(row, column, item)
        self.table.resizeColumnsToContents()

    def restyle(self) -> None:
        """Use the colours of the present theme at the next `show_events`."""
        self._events = []

    def _on_double_click(self, item: Any) -> None:
        mark = self._events[item.row()]
        if not mark.before:  # its time is not on the present time axis
            self.chosen.emit(mark.time)


CURVE, UNIT = 1, 2  # columns of the statistics


class StatisticsTable(QtWidgets.QWidget):
    """Table with the smallest and largest value, the mean and the RMS of each curve in the selected interval."""

    COLUMNS = ("plot", "curve", "unit", "min", "at t [s]", "max", "at t [s]", "mean", "rms", "samples")

    def __init__(self) -> None:
        super().__init__()
        self.caption = QtWidgets.QLabel("no interval is selected: drag in a plot with the left button")
        self.caption.setObjectName("caption")
        self.table = _table(self.COLUMNS)
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(2, 2, 2, 2)
        column.addWidget(self.caption)
        column.addWidget(self.table)

    def show_statistics(
        self, interval: tuple[float, float] | None, rows: Sequence[Statistics], read_to: float | None = None
    ) -> None:
        """Show statistics in the table.

        interval  (start, end) of the interval, s; None if none is selected
        rows      statistics of each curve
        read_to   time up to which the recording was read so far, s; None if the recording was read to its end
        """
        self.table.setRowCount(len(rows))
        if interval is None:
            self.caption.setText("no interval is selected: drag in a plot with the left button")
            return
        start, end = interval
        partly = f"; read so far up to t = {read_to:.4f} s" if read_to is not None and read_to < end else ""
        self.caption.setText(f"from t = {start:.4f} s to {end:.4f} s ({end - start:.4f} s); of the samples{partly}")
        for row, one in enumerate(rows):
            texts = (
                *(one.plot, one.name, one.unit, f"{one.least:.6g}", f"{one.least_at:.4f}", f"{one.most:.6g}"),
                *(f"{one.most_at:.4f}", f"{one.mean:.6g}", f"{one.rms:.6g}", str(one.samples)),
            )
            for column, text in enumerate(texts):
                item = QtWidgets.QTableWidgetItem(text)
                if column == CURVE:
                    item.setForeground(QtGui.QColor(one.color))
                elif column > UNIT:
                    item.setTextAlignment(QtCore.Qt.AlignmentFlag.AlignRight | QtCore.Qt.AlignmentFlag.AlignVCenter)
                self.table.setItem(row, column, item)
        self.table.resizeColumnsToContents()

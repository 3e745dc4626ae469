"""Undo and redo of every change of the view, on Qt's undo stack."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyqtgraph.Qt import QtCore, QtWidgets

from viewer.layout import Layout

MERGED_S = 0.7  # changes of one kind within this time of each other are undone together
MOST_CHANGES = 500


class ViewHistory(QtCore.QObject):
    """The current layout of the window, and the earlier and undone layouts for undo and redo.

    changed  Qt signal with the new current layout, emitted after each change, undo and redo
    """

    changed = QtCore.pyqtSignal(object)

    def __init__(self, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self.layout = Layout()
        self.stack = QtWidgets.QUndoStack(self)
        self.stack.setUndoLimit(MOST_CHANGES)
        self._sealed = False

    def change(self, layout: Layout, text: str) -> None:
        """Change to another layout.

        text  name of the change in the menu; changes with the same name in quick succession are undone together
        """
        if layout != self.layout:
            self.stack.push(_Change(text, self.layout, layout, self._show, self._sealed))
            self._sealed = False

    def seal(self) -> None:
        """Record the end of a mouse gesture. The next change is then not merged with earlier ones, and is undone
        separately."""
        self._sealed = True

    def _show(self, layout: Layout) -> None:
        self.layout = layout
        self.changed.emit(layout)


class _Change(QtWidgets.QUndoCommand):
    """Change from one layout to another on the undo stack."""

    def __init__(
        self, text: str, before: Layout, after: Layout, show: Callable[[Layout], None], starts_gesture: bool
    ) -> None:
        super().__init__(text)
        self._before, self._after, self._show = before, after, show
        self._starts_gesture = starts_gesture
        self._at = time.monotonic()

    def redo(self) -> None:
        self._show(self._after)

    def undo(self) -> None:
        self._show(self._before)

    def id(self) -> int:
        """Qt override: number of the kind of change; only changes with equal numbers may be merged."""
        return hash(self.text()) & 0x3FFFFFFF

    def mergeWith(self, other: Any) -> bool:
        """Qt override: merge the change `other` into this one if it has the same kind and follows within MERGED_S."""
        if other._starts_gesture or other.text() != self.text() or other._at - self._at > MERGED_S:
            return False
        self._after, self._at = other._after, other._at
        return True

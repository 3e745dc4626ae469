"""The mouse in the scene and in the plots: a ViewBox that reports gestures."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from pyqtgraph.Qt import QtCore

from viewer.window.menus.commands import gesture


class GestureBox(pg.ViewBox):
    """ViewBox that emits Qt signals for the actions of the mouse instead of changing its range.

    Points are QPointF in the coordinates of the view. Button and keys at the start of a drag select its gesture.

    dragged   emitted during a drag, with the name of the gesture, the points at its start and at the pointer, and the
              pixels (QPointF, to the right and down) moved since the last signal
    released  emitted at the end of a drag, with the name of the gesture
    wheeled   emitted when the wheel is turned, with the angle of the wheel, the point at the pointer, and whether Ctrl
              is pressed
    clicked   emitted at a left click, with the point at the pointer
    doubled   emitted at a double click
    menued    emitted at a right click, with the position on the screen
    """

    dragged = QtCore.pyqtSignal(str, object, object, object)
    released = QtCore.pyqtSignal(str)
    wheeled = QtCore.pyqtSignal(float, object, bool)
    clicked = QtCore.pyqtSignal(object)
    doubled = QtCore.pyqtSignal()
    menued = QtCore.pyqtSignal(object)

    def __init__(self, area: str) -> None:
        """Make a box for gestures of one area of the window, "scene" or "plot"."""
        super().__init__(enableMenu=False)
        self._area, self._gesture = area, ""

    def mouseDragEvent(self, ev: Any, axis: Any = None) -> None:
        """pyqtgraph override: emit the signals of a drag."""
        ev.accept()
        if ev.isStart():
            self._gesture = gesture(self._area, ev.button(), ev.modifiers())
        if self._gesture:
            start, now = self.mapToView(ev.buttonDownPos()), self.mapToView(ev.pos())
            self.dragged.emit(self._gesture, start, now, ev.pos() - ev.lastPos())
        if ev.isFinish():
            self.released.emit(self._gesture)

    def wheelEvent(self, ev: Any, axis: Any = None) -> None:
        """pyqtgraph override: emit the signal of the mouse wheel."""
        ev.accept()
        is_ctrl = bool(ev.modifiers() & QtCore.Qt.KeyboardModifier.ControlModifier)
        self.wheeled.emit(float(ev.delta()), self.mapToView(ev.pos()), is_ctrl)

    def mouseClickEvent(self, ev: Any) -> None:
        """pyqtgraph override: emit the signal of a click."""
        ev.accept()
        if ev.button() == QtCore.Qt.MouseButton.RightButton:
            self.menued.emit(ev.screenPos())
        elif ev.double():
            self.doubled.emit()
        elif ev.button() == QtCore.Qt.MouseButton.LeftButton:
            self.clicked.emit(self.mapToView(ev.pos()))

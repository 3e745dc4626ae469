"""Widget that draws the plots of the window, in an area that scrolls where the plots would become too flat."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtWidgets

MIME = "application/x-armswing-curve"
SMALLEST = (240, 160)  # pixels
NOTCH = 120  # angle of one notch of a mouse wheel, eighths of a degree
NOTCH_PIXELS = 60  # by which one notch scrolls


class Canvas(pg.GraphicsLayoutWidget):
    """Widget that draws the plots and accepts fields dragged from the tree of topics.

    dropped  Qt signal with the position of a drop in the scene, and the dropped curve as JSON
    wheeled  Qt signal with the angle of the wheel, in eighths of a degree, if the pointer is outside of all plots
    """

    dropped = QtCore.pyqtSignal(object, str)
    wheeled = QtCore.pyqtSignal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAcceptDrops(True)
        self.ci.layout.setSpacing(4)
        self.ci.layout.setContentsMargins(2, 0, 8, 0)

    def wheelEvent(self, event: Any) -> None:
        """Qt override: emit the signal of the wheel if the pointer is outside of all plots."""
        super().wheelEvent(event)
        if not event.isAccepted():
            self.wheeled.emit(event.angleDelta().y())
            event.accept()

    def dragEnterEvent(self, event: Any) -> None:
        """Qt override: accept dragged fields."""
        if event.mimeData().hasFormat(MIME):
            event.acceptProposedAction()

    def dragMoveEvent(self, event: Any) -> None:
        """Qt override: accept dragged fields at any position."""
        if event.mimeData().hasFormat(MIME):
            event.acceptProposedAction()

    def dropEvent(self, event: Any) -> None:
        """Qt override: report the dropped curve and its position."""
        self.dropped.emit(self.mapToScene(event.pos()), bytes(event.mimeData().data(MIME)).decode())
        event.acceptProposedAction()


class CanvasArea(QtWidgets.QScrollArea):
    """Area that shows the canvas. It scrolls vertically if the canvas is higher than the area.

    scrolled  Qt signal that is emitted when another part of the canvas has come into view
    resized   Qt signal that is emitted when the size of the area has changed
    """

    scrolled = QtCore.pyqtSignal()
    resized = QtCore.pyqtSignal()

    def __init__(self, canvas: Canvas) -> None:
        super().__init__()
        self._canvas = canvas
        self.setObjectName("canvas")
        self.setWidget(canvas)
        self.setWidgetResizable(True)
        self.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(QtCore.Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(QtCore.Qt.FocusPolicy.NoFocus)
        self.setMinimumSize(*SMALLEST)
        self.verticalScrollBar().valueChanged.connect(lambda _: self.scrolled.emit())
        canvas.wheeled.connect(self._scroll)

    def resizeEvent(self, event: Any) -> None:
        """Qt override: emit the signal of a new size."""
        super().resizeEvent(event)
        self.resized.emit()

    def set_least_height(self, pixels: int) -> None:
        """Set the height below which the canvas is not shrunk; the area scrolls instead."""
        if pixels != self._canvas.minimumHeight():
            self._canvas.setMinimumHeight(pixels)

    def _scroll(self, angle: int) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() - angle * NOTCH_PIXELS // NOTCH)

    @property
    def in_view(self) -> Any:
        """QRect of the part of the canvas that is in view, in pixels of the canvas."""
        top = self.verticalScrollBar().value()
        return QtCore.QRect(0, top, self._canvas.width(), self.viewport().height())

    def show_part(self, top: float, bottom: float) -> None:
        """Scroll as little as necessary for the part between two heights of the canvas, in pixels, to be in view."""
        bar, height = self.verticalScrollBar(), self.viewport().height()
        if bottom > bar.value() + height:
            bar.setValue(round(bottom - height))
        if top < bar.value():
            bar.setValue(round(top))

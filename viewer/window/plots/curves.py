"""Draws the curves of one plot into an image. For a live curve, only the newest piece is added to the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui

from viewer.data.series import Floats
from viewer.qt import theme

SMOOTHED_POINTS = 30_000  # most points of a plot that are drawn with antialiasing
HOLE_OPACITY, EVENT_OPACITY = 0.12, 0.45
UNREAD = "not read yet"
FAR = 1e6  # pixels: points farther outside are clipped, because Qt cannot draw lines to them


@dataclass(frozen=True)
class Line:
    """One curve: times and values, colour, width and dash pattern.

    y  values; decimal exponents on a logarithmic axis
    """

    x: Floats
    y: Floats
    color: str
    width: float = 1.0
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Frame:
    """Ranges of the axes, and the background behind the curves.

    grid   positions of grid lines on the time axis and on the value axis
    marks  (time, colour) of vertical lines
    bands  (start, end), s, of shaded gaps in a recording
    unread  (start, end), s, of the hatched part of a recording that was not read yet; None if all was read
    """

    x: tuple[float, float]
    y: tuple[float, float]
    grid: tuple[Sequence[float], Sequence[float]] = ((), ())
    marks: Sequence[tuple[float, str]] = ()
    bands: Sequence[tuple[float, float]] = ()
    unread: tuple[float, float] | None = None


class CurvesItem(pg.GraphicsObject):
    """Graphics item that shows an image of its curves over the whole ViewBox `box`."""

    def __init__(self, box: Any) -> None:
        super().__init__()
        self.setParentItem(box)
        self.setZValue(-1.0)  # cursors and selections are above
        self._box = box
        self._image = QtGui.QImage()
        self._frame: Frame | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the ViewBox, pixels."""
        rect = self._box.rect()
        return max(1, int(rect.width())), max(1, int(rect.height()))

    def boundingRect(self) -> Any:
        return QtCore.QRectF(self._box.rect())

    def paint(self, painter: Any, *_: Any) -> None:
        painter.drawImage(QtCore.QPointF(0.0, 0.0), self._image)

    def redraw(self, frame: Frame, lines: Sequence[Line], smooth: bool) -> None:
        """Draw the whole image again, with the background `frame` and the curves.

        smooth  whether to use antialiasing
        """
        self._frame = frame
        self.prepareGeometryChange()
        width, height = self.size
        ratio = self._ratio()
        self._image = QtGui.QImage(
            round(width * ratio), round(height * ratio), QtGui.QImage.Format.Format_ARGB32_Premultiplied
        )
        self._image.setDevicePixelRatio(ratio)
        self._image.fill(QtGui.QColor(theme.PAPER))
        painter = QtGui.QPainter(self._image)
        self._draw_behind(painter, frame, width, height)
        smooth = smooth and sum(len(line.x) for line in lines) <= SMOOTHED_POINTS
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing, smooth)
        for line in lines:
            self._draw_line(painter, line)
        painter.end()
        self.update()

    def append(self, lines: Sequence[Line]) -> None:
        """Draw further pieces of curves into the image."""
        if self._frame is None or not lines:
            return
        painter = QtGui.QPainter(self._image)
        for line in lines:
            self._draw_line(painter, line)
        painter.end()
        width, height = self.size
        start, scale = self._frame.x[0], width / (self._frame.x[1] - self._frame.x[0])
        left = (min(float(line.x[0]) for line in lines) - start) * scale
        right = (max(float(line.x[-1]) for line in lines) - start) * scale
        self.update(QtCore.QRectF(left - 3.0, 0.0, right - left + 6.0, height))

    def _draw_behind(self, painter: Any, frame: Frame, width: int, height: int) -> None:
        def across(time: float) -> float:
            return (time - frame.x[0]) / (frame.x[1] - frame.x[0]) * width

        if frame.unread is not None:
            left = across(frame.unread[0])
            rest = QtCore.QRectF(left, 0.0, across(frame.unread[1]) - left, height)
            painter.fillRect(rest, theme.hatched())
            painter.setPen(pg.mkPen(theme.MUTED))
            if painter.fontMetrics().horizontalAdvance(UNREAD) < rest.width():
                painter.drawText(rest, QtCore.Qt.AlignmentFlag.AlignCenter, UNREAD)
        for start, end in frame.bands:
            left = across(start)
            rect = QtCore.QRectF(left, 0.0, max(1.0, across(end) - left), height)
            painter.fillRect(rect, theme.faded(theme.ALARM, HOLE_OPACITY))
        painter.setPen(pg.mkPen(theme.faded(theme.FAINT, 0.8), width=1))
        for time in frame.grid[0]:
            painter.drawLine(QtCore.QPointF(across(time), 0.0), QtCore.QPointF(across(time), height))
        for value in frame.grid[1]:
            down = (frame.y[1] - value) / (frame.y[1] - frame.y[0]) * height
            painter.drawLine(QtCore.QPointF(0.0, down), QtCore.QPointF(width, down))
        for time, color in frame.marks:
            painter.setPen(pg.mkPen(theme.faded(color, EVENT_OPACITY), width=1))
            painter.drawLine(QtCore.QPointF(across(time), 0.0), QtCore.QPointF(across(time), height))
        painter.setPen(pg.mkPen(theme.FAINT, width=1))
        painter.drawRect(QtCore.QRectF(0.0, 0.0, width - 1.0, height - 1.0))

    def _draw_line(self, painter: Any, line: Line) -> None:
        frame = self._frame
        if frame is None or len(line.x) == 0:
            return
        width, height = self.size
        points = np.empty((len(line.x), 2))
        np.multiply(line.x - frame.x[0], width / (frame.x[1] - frame.x[0]), out=points[:, 0])
        np.multiply(frame.y[1] - line.y, height / (frame.y[1] - frame.y[0]), out=points[:, 1])
        np.minimum(np.maximum(points, -FAR, out=points), FAR, out=points)
        painter.setPen(_pen(line.color, line.width, line.dash))
        gaps = [] if np.isfinite(points).all() else np.flatnonzero(~np.isfinite(points[:, 1])).tolist()
        for start, end in zip([0, *(gap + 1 for gap in gaps)], [*gaps, len(points)], strict=True):
            if end - start == 1:
                painter.drawPoint(QtCore.QPointF(*points[start].tolist()))
            elif end > start:
                polygon = pg.functions.create_qpolygonf(end - start)
                pg.functions.ndarray_from_qpolygonf(polygon)[:] = points[start:end]
                painter.drawPolyline(polygon)

    def _ratio(self) -> float:
        views = self.scene().views() if self.scene() is not None else []
        return float(views[0].devicePixelRatioF()) if views else 1.0


@lru_cache(maxsize=1024)
def _pen(color: str, width: float, dash: tuple[float, ...]) -> Any:
    pen = QtGui.QPen(QtGui.QColor(color))
    pen.setWidthF(width)
    pen.setCosmetic(True)
    if dash:
        pen.setDashPattern(list(dash))
    return pen

"""Qt picture of the bodies: the current pose, faint earlier poses, paths of the tips, forces as arrows, and polylines
from messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui

from viewer.data.series import Floats
from viewer.data.signals import Signals
from viewer.qt import theme
from viewer.qt.axes import PlainAxis
from viewer.qt.ground import GroundPlane
from viewer.scene.bodies import Outline
from viewer.scene.scene import Key, Label, Layer, Scene

RING = 2.0  # pixels, the width of a hollow ball's ring
EDGE, FAST_EDGE = 1.2, 1.0  # pixels; Qt strokes a line of at most 1 pixel in less than half the time
LABEL_GAP, BESIDE_ARROW = 4, 12  # pixels between the tip of an arrow and its label


class BodiesItem(pg.GraphicsObject):
    """Graphics item that draws outlines and coloured paths from back to front.

    The outlines are grouped in layers. All outlines of a layer have the same opacity.
    """

    def __init__(self) -> None:
        super().__init__()
        self._layers: list[Layer] = []
        self._around: tuple[list[Layer], list[Layer]] = ([], [])
        self._paths: list[tuple[Floats, Any]] = []
        self._bounds = QtCore.QRectF()
        self.edge = EDGE  # pixels, width of the edges of surfaces
        self._present: Any = None

    def show_layers(
        self, layers: list[Layer], paths: list[tuple[Floats, Any]], behind: list[Layer], over: list[Layer]
    ) -> None:
        """Replace all layers and paths.

        layers  outlines of the bodies; the last layer has the bodies at the present pose
        paths   (points, pen) of each path
        behind  layers that are drawn behind the paths and the bodies
        over    layers that are drawn over the bodies
        """
        self.prepareGeometryChange()
        self._layers, self._paths, self._around = layers, paths, (behind, over)
        self._present = None
        outlines = [outline for layer, _ in (*behind, *layers, *over) for outline in layer]
        corners = [outline.corners for outline in outlines] + [points for points, _ in paths]
        if corners:
            pad = max((outline.radius for outline in outlines), default=0.0)
            self._bounds = _around(np.concatenate(corners), pad)
        self.update()

    @property
    def present(self) -> Any:
        """Bounding rectangle of the last layer, which contains the bodies at the present pose."""
        if self._present is None:
            drawn = self._layers[-1][0] if self._layers else []
            corners = [outline.corners + side * outline.radius for outline in drawn for side in (-1.0, 1.0)]
            self._present = _around(np.concatenate(corners), 0.0) if corners else QtCore.QRectF()
        return self._present

    def boundingRect(self) -> Any:
        return self._bounds

    def paint(self, painter: Any, *_: Any) -> None:
        """Qt override: draw first the layers behind the bodies, then the paths, the bodies and the layers over them."""
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        behind, over = self._around
        self._paint_layers(painter, behind)
        painter.setBrush(QtCore.Qt.BrushStyle.NoBrush)
        for points, pen in self._paths:
            painter.setPen(pen)
            painter.drawPath(pg.arrayToQPath(points[:, 0], points[:, 1], connect="finite"))
        self._paint_layers(painter, self._layers)
        self._paint_layers(painter, over)

    def _paint_layers(self, painter: Any, layers: list[Layer]) -> None:
        for outlines, opacity in layers:
            for outline in outlines:
                self._paint(painter, outline, opacity)

    def _paint(self, painter: Any, outline: Outline, opacity: float) -> None:
        color, edge, brush = _style(outline.body, outline.color, round(100 / outline.shade), opacity, self.edge)
        if outline.closed and outline.radius <= 0.0:
            painter.setPen(edge if outline.edged else pg.mkPen(brush.color(), width=0))
            painter.setBrush(brush)
            painter.drawPolygon(_polygon(outline.corners))
            return
        points = [QtCore.QPointF(x, y) for x, y in outline.corners.tolist()]
        if outline.radius > 0.0 and outline.hollow:
            painter.setPen(pg.mkPen(theme.faded(color, opacity), width=RING))
            painter.setBrush(pg.mkBrush(theme.PAPER) if opacity > 0.9 else pg.mkBrush(None))
            painter.drawEllipse(points[0], outline.radius, outline.radius)
        elif outline.radius > 0.0:
            painter.setPen(edge)
            painter.setBrush(_ball(points[0], outline.radius, color, opacity))
            painter.drawEllipse(points[0], outline.radius, outline.radius)
        elif outline.fine:
            painter.setPen(edge)
            painter.drawPolyline(QtGui.QPolygonF(points))
        else:
            bold, thin = (outline.width, 0.45 * outline.width) if outline.width else (4.0, 2.5)
            pen = pg.mkPen(theme.faded(color, opacity), width=bold if opacity > 0.9 else thin)
            if outline.dashed:
                pen.setDashPattern([3, 2])
            pen.setCapStyle(QtCore.Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(QtCore.Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            painter.drawPolyline(QtGui.QPolygonF(points))


@lru_cache(maxsize=4096)
def _style(body: int, requested: str, darkness: int, opacity: float, width: float) -> tuple[Any, Any, Any]:
    """(colour, pen of the edge, brush) of a surface.

    The result is cached, because making these objects for each outline would take most of the time of a frame.
    """
    color = theme.body_color(body, requested).darker(darkness)
    edge = pg.mkPen(theme.faded(color.darker(150), opacity), width=width)
    return color, edge, pg.mkBrush(theme.faded(color, opacity))


@lru_cache(maxsize=1024)
def _path_pen(color: str, opacity: float) -> Any:
    return pg.mkPen(theme.faded(color, opacity), width=1)


def _polygon(corners: Floats) -> Any:
    polygon = pg.functions.create_qpolygonf(len(corners))
    pg.functions.ndarray_from_qpolygonf(polygon)[:] = corners
    return polygon


def _around(points: Floats, pad: float) -> Any:
    """Rectangle that contains the points (k, 2), extended by `pad` on all sides; NaN is ignored."""
    if len(points) == 0:
        return QtCore.QRectF()
    x, y = points.T.copy()
    left, right = float(np.fmin.reduce(x)) - pad, float(np.fmax.reduce(x)) + pad
    bottom, top = float(np.fmin.reduce(y)) - pad, float(np.fmax.reduce(y)) + pad
    if not math.isfinite(left + right + bottom + top):
        return QtCore.QRectF()
    return QtCore.QRectF(left, bottom, right - left, top - bottom)


def _ball(center: Any, radius: float, color: Any, opacity: float) -> Any:
    light = QtCore.QPointF(center.x() - 0.35 * radius, center.y() + 0.35 * radius)
    shade = QtGui.QRadialGradient(light, 1.5 * radius)
    shade.setColorAt(0.0, theme.faded(color.lighter(150), opacity))
    shade.setColorAt(1.0, theme.faded(color, opacity))
    return QtGui.QBrush(shade)


class BodyPicture:
    """Qt picture of the bodies.

    widget   the Qt widget
    caption  sentence that names the view
    """

    def __init__(self, plane: str = "auto", box: Any = None) -> None:
        """Make an empty picture.

        plane  viewing plane: auto, xy, xz, yz or space
        box    pyqtgraph ViewBox to draw in; None for the default ViewBox
        """
        self.widget = pg.GraphicsLayoutWidget()
        self.widget.ci.layout.setContentsMargins(4, 0, 4, 0)
        axes = {"left": PlainAxis("left"), "bottom": PlainAxis("bottom")}
        self.plot = self.widget.addPlot(axisItems=axes, viewBox=box)
        self.plot.setAspectLocked(True)
        self.plot.hideButtons()
        self.plot.setMenuEnabled(False)
        for name in ("left", "bottom"):  # until there is something to measure
            self.plot.hideAxis(name)
        self.caption = ""
        self._scene = Scene(plane)
        self._numbers: list[Any] = []
        self._labelled: list[tuple[Any, Floats, Floats]] = []
        self._surroundings = GroundPlane(self.plot)
        self._bodies = BodiesItem()
        self._bodies.setZValue(10.0)
        self.plot.addItem(self._bodies)

    @property
    def wide(self) -> bool:
        """Whether the picture should span the whole width of the window."""
        return self._scene.wide

    @property
    def share(self) -> float:
        """Fraction that the picture should fill: of the window's height if `wide`, otherwise of the window's width."""
        return self._scene.share

    def show_measured(self, shown: bool) -> None:
        """Set whether the measured robot is drawn over the model, from the next `show` on."""
        self._scene.shows_measured = shown

    def restyle(self) -> None:
        """Use the colours of the present theme from the next `survey` and `show` on."""
        self.widget.setBackground(theme.PAPER)
        _style.cache_clear()
        for number in self._numbers:
            self.plot.removeItem(number)
        self._numbers, self._labelled = [], []
        for name in ("left", "bottom"):
            self.plot.getAxis(name).restyle()
        self._scene.skeleton = None  # its overlay has colours, too

    def show(self, signals: Signals, time: float, since: float, ghosts: bool) -> None:
        """Draw the pose at `time`, s, and the paths of the tips since the time `since`, s.

        ghosts  whether to add faint poses of the bodies between the times `since` and `time`
        """
        frame = self._scene.frame(signals, time, since, ghosts)
        if frame is None:
            return
        self._show_labels(frame.labels)
        paths = [(points, _path_pen(color, opacity)) for points, color, opacity in frame.paths]
        self._bodies.show_layers(frame.bodies, paths, frame.behind, frame.over)

    def _show_labels(self, labels: Sequence[Label]) -> None:
        self._labelled = []
        while len(self._numbers) < len(labels):
            number = pg.TextItem(anchor=(0.0, 0.5), fill=theme.faded(theme.PAPER, 0.7))
            number.setFont(theme.font(10.0, bold=True))
            number.setZValue(20.0)
            self.plot.addItem(number, ignoreBounds=True)
            self._numbers.append(number)
        for number, label in zip_longest(self._numbers, labels):
            number.setVisible(label is not None)
            if label is not None:
                number.setText(label.text, color=label.color)
                self._labelled.append((number, label.start, label.tip))
        self.place_labels()

    def place_labels(self) -> None:
        """Place the label of each force beyond the tip of the force's arrow.

        A label for which there is no room beyond the tip is placed beside the tip, inside the picture.
        """
        box = self.plot.getViewBox()
        frame, (pixel_x, pixel_y) = box.viewRect(), box.viewPixelSize()
        for number, start, tip in self._labelled:
            size = number.textItem.boundingRect()
            width, height = size.width() * pixel_x, size.height() * pixel_y
            along = (tip - start) / max(float(np.linalg.norm(tip - start)), 1e-12)
            left = tip[0] - 0.5 * width + along[0] * (0.5 * width + LABEL_GAP * pixel_x)
            middle = tip[1] + along[1] * (0.5 * height + LABEL_GAP * pixel_y)
            inside = min(max(middle, frame.top() + 0.5 * height), frame.bottom() - 0.5 * height)
            if inside != middle:  # no room beyond the tip: beside it
                left = tip[0] - width - BESIDE_ARROW * pixel_x if along[0] < 0.0 else tip[0] + BESIDE_ARROW * pixel_x
                middle = inside
            left = min(max(left, frame.left()), frame.right() - width)
            number.setPos(left, middle)

    def keys(self, signals: Signals) -> list[Key]:
        """Legend entries (mark, name, colour) of bodies, polylines, springs, forces and grippers."""
        rect = self.plot.getViewBox().viewRect()
        return self._scene.keys(
            signals, lambda spots: any(rect.contains(QtCore.QPointF(x, y)) for x, y in spots.tolist())
        )

    @property
    def outgrown(self) -> bool:
        """Whether the present pose extends beyond the limits of the picture, so that `survey` has to be called."""
        return not self.plot.getViewBox().viewRect().contains(self._bodies.present)

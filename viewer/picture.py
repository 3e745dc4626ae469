"""The picture of the bodies: the present pose, faint earlier ones, the paths of the tips, and the ground."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui

from nodes.wire.messages import Description
from viewer import theme
from viewer.axes import PlainAxis
from viewer.bodies import Outline, Skeleton, evenly_along
from viewer.projection import Seen, View, choose_view
from viewer.series import Floats, Series, row_at
from viewer.surroundings import Surroundings

GHOSTS = 14
SURVEYED = 400  # poses looked at to choose the view and its limits
TRACE_POINTS = 3000
TRACE_PIECES = 24  # of fading opacity


class BodiesItem(pg.GraphicsObject):
    """Paths in their colours, over them outlines of bodies, each list with an opacity, drawn in order."""

    def __init__(self) -> None:
        super().__init__()
        self._layers: list[tuple[list[Outline], float]] = []
        self._paths: list[tuple[Floats, Any]] = []
        self._bounds = QtCore.QRectF()
        self.present = QtCore.QRectF()  # what the last layer takes up

    def show_layers(self, layers: list[tuple[list[Outline], float]], paths: list[tuple[Floats, Any]]) -> None:
        """Replace what is drawn."""
        self.prepareGeometryChange()
        self._layers, self._paths = layers, paths
        corners = [outline.corners for outlines, _ in layers for outline in outlines if len(outline.corners)]
        corners += [points[np.isfinite(points).all(axis=1)] for points, _ in paths]
        pad = max((outline.radius for outlines, _ in layers for outline in outlines), default=0.0)
        if corners:
            self._bounds = _around(np.concatenate(corners), pad)
        present = [o.corners + side * o.radius for o in (layers[-1][0] if layers else ()) for side in (-1.0, 1.0)]
        if present:
            self.present = _around(np.concatenate(present), 0.0)
        self.update()

    def boundingRect(self) -> Any:
        """Qt asks for this."""
        return self._bounds

    def paint(self, painter: Any, *_: Any) -> None:
        """Qt asks for this."""
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        for points, color in self._paths:
            painter.setPen(pg.mkPen(color, width=1))
            painter.drawPath(pg.arrayToQPath(points[:, 0], points[:, 1], connect="finite"))
        for outlines, opacity in self._layers:
            for outline in outlines:
                self._paint(painter, outline, opacity)

    def _paint(self, painter: Any, outline: Outline, opacity: float) -> None:
        color = theme.body_color(outline.body, outline.color).darker(round(100 / outline.shade))
        edge = pg.mkPen(theme.faded(color.darker(150), opacity), width=1.2)
        points = [QtCore.QPointF(x, y) for x, y in outline.corners.tolist()]
        if outline.radius > 0.0:
            painter.setPen(edge)
            painter.setBrush(_ball(points[0], outline.radius, color, opacity))
            painter.drawEllipse(points[0], outline.radius, outline.radius)
        elif outline.closed:
            painter.setPen(edge)
            painter.setBrush(pg.mkBrush(theme.faded(color, opacity)))
            painter.drawPolygon(QtGui.QPolygonF(points))
        elif outline.fine:
            painter.setPen(edge)
            painter.drawPolyline(QtGui.QPolygonF(points))
        else:
            pen = pg.mkPen(theme.faded(color, opacity), width=4.0 if opacity > 0.9 else 2.5)
            pen.setCapStyle(QtCore.Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(QtCore.Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            painter.drawPolyline(QtGui.QPolygonF(points))


def _around(points: Floats, pad: float) -> Any:
    if len(points) == 0:
        return QtCore.QRectF()
    (left, bottom), (right, top) = points.min(axis=0) - pad, points.max(axis=0) + pad
    return QtCore.QRectF(left, bottom, right - left, top - bottom)


def _ball(center: Any, radius: float, color: Any, opacity: float) -> Any:
    light = QtCore.QPointF(center.x() - 0.35 * radius, center.y() + 0.35 * radius)
    shade = QtGui.QRadialGradient(light, 1.5 * radius)
    shade.setColorAt(0.0, theme.faded(color.lighter(150), opacity))
    shade.setColorAt(1.0, theme.faded(color, opacity))
    return QtGui.QBrush(shade)


class BodyPicture:
    """The picture. `widget` is the Qt widget; `caption` says in words what is seen."""

    def __init__(self, plane: str = "auto") -> None:
        self.widget = pg.GraphicsLayoutWidget()
        self.widget.ci.layout.setContentsMargins(4, 0, 4, 0)
        self.plot = self.widget.addPlot(axisItems={"left": PlainAxis("left"), "bottom": PlainAxis("bottom")})
        self.plot.setAspectLocked(True)
        self.plot.hideButtons()
        self.plot.setMenuEnabled(False)
        for name in ("left", "bottom"):  # until there is something to measure
            self.plot.hideAxis(name)
        self.caption = ""
        self._plane = plane
        self._view: View | None = None
        self._skeleton: Skeleton | None = None
        self._seen: Seen | None = None
        self._surroundings = Surroundings(self.plot)
        self._bodies = BodiesItem()
        self._bodies.setZValue(10.0)
        self.plot.addItem(self._bodies)

    def survey(self, description: Description, poses: Series, until: float = math.inf) -> None:
        """Choose the view and its limits for these poses, up to a time in seconds."""
        skeleton = self._know(description)
        rows = poses.values[poses.times <= until]
        picked = rows[np.unique(np.linspace(0, len(rows) - 1, SURVEYED).astype(int))] if len(rows) else rows
        spots = skeleton.spots(picked[np.isfinite(picked).all(axis=1)])
        if spots.size == 0 or self._seen is None:
            return
        self._seen.add(spots)
        plane = self._seen.plane(skeleton.gravity) if self._plane == "auto" else self._plane
        self._view = choose_view(plane, skeleton.gravity)
        self.caption = self._surroundings.draw(self._view, skeleton.gravity, skeleton.reach(spots))

    def _know(self, description: Description) -> Skeleton:
        """The skeleton of this robot; for another one than before, all that was seen is forgotten."""
        if self._skeleton is None or not self._skeleton.is_of(description):
            self._skeleton = Skeleton(description)
            self._seen = self._skeleton.seen()
            self._view = None
        return self._skeleton

    def show(self, poses: Series, time: float, since: float, ghosts: bool) -> None:
        """Draw the pose at `time`, the tips' paths since `since`, and with `ghosts` poses between the two."""
        skeleton, view = self._skeleton, self._view
        present = row_at(poses.times, time)
        if skeleton is None or view is None or present is None:
            return
        first = row_at(poses.times, since) or 0
        rows = poses.values[first : present + 1]
        stride = max(1, len(rows) // TRACE_POINTS)
        paths = view.project(skeleton.tips(rows[::stride]))[..., :2]
        layers: list[tuple[list[Outline], float]] = []
        if ghosts:
            marks = evenly_along(paths.reshape(len(paths), -1), GHOSTS + 1)[:-1]
            for place, mark in enumerate(marks):
                opacity = 0.20 + 0.20 * place / max(1, len(marks) - 1)
                layers.append((list(skeleton.outlines(rows[mark * stride], view)), opacity))
        layers.append((list(skeleton.outlines(rows[-1], view)), 1.0))
        self._bodies.show_layers(layers, self._fading(paths))

    @property
    def outgrown(self) -> bool:
        """Whether the present pose sticks out of the limits of the picture, which are due for a survey."""
        return not self.plot.getViewBox().viewRect().contains(self._bodies.present)

    def _fading(self, paths: Floats) -> list[tuple[Floats, Any]]:
        """Tips' paths (n, bodies, 2) in pieces with their colours, older ones fainter; none for tips at rest."""
        if len(paths) < 2 or self._skeleton is None:
            return []
        span = np.nan_to_num(np.ptp(paths, axis=0)).max(axis=1)
        edges = np.linspace(0, len(paths) - 1, TRACE_PIECES + 1).astype(int).tolist()
        pieces = []
        for body in np.flatnonzero(span > 0.05 * max(float(span.max()), 1e-9)).tolist():
            color = theme.body_color(body, self._skeleton.colors[body])
            for place, (start, end) in enumerate(pairwise(edges)):
                if end > start:
                    opacity = 0.25 + 0.45 * (place / (TRACE_PIECES - 1)) ** 1.5
                    pieces.append((paths[start : end + 1, body], theme.faded(color, opacity)))
        return pieces


def body_names(description: Description) -> Sequence[tuple[str, str]]:
    """(name, colour) of each body, for a legend."""
    colors = Skeleton(description).colors
    return [(body.name, theme.body_color(index, colors[index]).name()) for index, body in enumerate(description.bodies)]

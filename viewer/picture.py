"""The picture of the bodies: the present pose, faint earlier ones, paths of the tips, and what is beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui

from nodes.messages import Description
from viewer import theme
from viewer.axes import PlainAxis
from viewer.bodies import Outline, Skeleton, evenly_along
from viewer.holds import Hold, Holds, marks
from viewer.projection import Seen, View, choose_view
from viewer.series import Drawn, Floats, row_at
from viewer.signals import Signals
from viewer.stage import LONGEST_ARROW, STANDS, Force, Stage, around, arrow, ends, lines, words
from viewer.surroundings import Surroundings

GHOSTS = 9
LINE_GHOSTS = 4  # of them show the lines beside the bodies
OLDEST, LATEST = 0.14, 0.32  # opacity of the ghosts
FAINT_LINES = 0.5  # of the opacity of a ghost's bodies, that of the lines beside it
STACKED = 0.5  # of its radius: where a ghost's ball lies closer to one drawn already, it is left out
SURVEYED = 400  # poses looked at to choose the view and its limits
SURVEYED_LINES = 60
BODY = "●"  # in a legend
WIDE = 1.8  # times higher
SHARES = (0.38, 0.54)  # of the window, least and most, that the picture takes
RING = 2.0  # pixels, the width of a hollow ball's ring
TRACE_POINTS = 3000
LABEL_GAP, BESIDE_ARROW = 4, 12  # pixels between the tip of an arrow and its label
GHOST_LINE = 2.5  # pixels, of lines beside an earlier pose
TRACE_PIECES = 24  # of fading opacity


Layer = tuple[list[Outline], float]


class BodiesItem(pg.GraphicsObject):
    """Paths in their colours, outlines in layers with an opacity each, drawn in order: behind, bodies, over them."""

    def __init__(self) -> None:
        super().__init__()
        self._layers: list[Layer] = []
        self._around: tuple[list[Layer], list[Layer]] = ([], [])
        self._paths: list[tuple[Floats, Any]] = []
        self._bounds = QtCore.QRectF()
        self.present = QtCore.QRectF()  # what the last layer takes up

    def show_layers(
        self, layers: list[Layer], paths: list[tuple[Floats, Any]], behind: list[Layer], over: list[Layer]
    ) -> None:
        """Replace what is drawn."""
        self.prepareGeometryChange()
        self._layers, self._paths, self._around = layers, paths, (behind, over)
        everything = [*behind, *layers, *over]
        corners = [outline.corners for outlines, _ in everything for outline in outlines if len(outline.corners)]
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
        behind, over = self._around
        self._paint_layers(painter, behind)
        painter.setBrush(QtCore.Qt.BrushStyle.NoBrush)
        for points, color in self._paths:
            painter.setPen(pg.mkPen(color, width=1))
            painter.drawPath(pg.arrayToQPath(points[:, 0], points[:, 1], connect="finite"))
        self._paint_layers(painter, self._layers)
        self._paint_layers(painter, over)

    def _paint_layers(self, painter: Any, layers: list[Layer]) -> None:
        for outlines, opacity in layers:
            for outline in outlines:
                self._paint(painter, outline, opacity)

    def _paint(self, painter: Any, outline: Outline, opacity: float) -> None:
        color = theme.body_color(outline.body, outline.color).darker(round(100 / outline.shade))
        edge = pg.mkPen(theme.faded(color.darker(150), opacity), width=1.2)
        points = [QtCore.QPointF(x, y) for x, y in outline.corners.tolist()]
        if outline.radius > 0.0 and outline.hollow:
            painter.setPen(pg.mkPen(theme.faded(color, opacity), width=RING))
            painter.setBrush(pg.mkBrush(theme.PAPER) if opacity > 0.9 else pg.mkBrush(None))
            painter.drawEllipse(points[0], outline.radius, outline.radius)
        elif outline.radius > 0.0:
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
            bold, thin = (outline.width, 0.45 * outline.width) if outline.width else (4.0, 2.5)
            pen = pg.mkPen(theme.faded(color, opacity), width=bold if opacity > 0.9 else thin)
            if outline.dashed:
                pen.setDashPattern([3, 2])
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
        self._stage = Stage(Description())
        self.wide = False  # once much wider than high, the picture wants the whole width
        self.share = SHARES[0]  # of the window's width, or height when wide, that suits what is seen
        self._size, self._largest_force = 1.0, 0.0
        self._numbers: list[Any] = []
        self._labelled: list[tuple[Any, Floats, Floats]] = []
        self._holds = Holds(Description())
        self._surroundings = Surroundings(self.plot)
        self._bodies = BodiesItem()
        self._bodies.setZValue(10.0)
        self.plot.addItem(self._bodies)

    def survey(self, signals: Signals) -> None:
        """Choose the view and its limits for all that was seen so far; of a run that diverged, until then."""
        if signals.description is None or signals.poses is None:
            return
        skeleton, poses = self._know(signals.description), signals.poses
        rows = poses.values[poses.times <= signals.sane_until]
        picked = rows[np.unique(np.linspace(0, len(rows) - 1, SURVEYED).astype(int))] if len(rows) else rows
        spots = skeleton.spots(picked[np.isfinite(picked).all(axis=1)])
        if spots.size == 0 or self._seen is None:
            return
        self._seen.add(spots)
        plane = self._seen.plane(skeleton.gravity) if self._plane == "auto" else self._plane
        self._view = choose_view(plane, skeleton.gravity, skeleton.front(picked))
        cloud = skeleton.reach(spots)
        drawn = signals.lines.cloud(signals.sane_until, SURVEYED_LINES)
        beside = around(cloud, np.concatenate([drawn, self._stage.ground_spots()]))
        planned = signals.overlay.at(signals.sane_until)
        led = np.concatenate([np.zeros((0, 3)), *(planned.lines if planned is not None else ())])
        cloud = np.concatenate([cloud, beside, around(cloud, led)])
        outputs = signals.series.get("outputs")
        if outputs is not None:
            sane = outputs.times <= signals.sane_until
            self._largest_force = self._stage.largest_force(outputs.labels, outputs.values[sane])
        self.caption = self._surroundings.draw(self._view, skeleton.gravity, cloud)
        width, height = np.ptp(self._view.project(cloud)[:, :2], axis=0).tolist()
        self._size = max(min(max(width, height), 2.0 * min(width, height)), 1e-9)
        self.wide = self.wide or bool(width > WIDE * height)
        aspect = width / max(height, 1e-9)
        self.share = min(max(1.8 / aspect if self.wide else 0.5 * aspect, SHARES[0]), SHARES[1])

    def _know(self, description: Description) -> Skeleton:
        """The skeleton of this robot; for another one than before, all that was seen is forgotten."""
        if self._skeleton is None or not self._skeleton.is_of(description):
            self._skeleton = Skeleton(description)
            self._stage, self._holds = Stage(description), Holds(description)
            self._seen = self._skeleton.seen()
            self._view, self.wide = None, False
        return self._skeleton

    def show(self, signals: Signals, time: float, since: float, ghosts: bool) -> None:
        """Draw the pose at `time`, the tips' paths since `since`, and with `ghosts` poses between the two."""
        skeleton, view, poses = self._skeleton, self._view, signals.poses
        present = None if poses is None else row_at(poses.times, time)
        if skeleton is None or view is None or poses is None or present is None:
            return
        first = row_at(poses.times, since) or 0
        rows, times = poses.values[first : present + 1], poses.times[first : present + 1]
        stride = max(1, len(rows) // TRACE_POINTS)
        paths = view.project(skeleton.tips(rows[::stride]))[..., :2]
        layers: list[Layer] = []
        behind: list[Layer] = [(self._stage.ground(view), 1.0)]
        if ghosts:
            chosen = evenly_along(paths.reshape(len(paths), -1), GHOSTS + 1)[:-1]
            lined = set(np.linspace(0, len(chosen) - 1, LINE_GHOSTS).round().astype(int).tolist())
            for place, mark in enumerate(chosen):
                opacity = OLDEST + (LATEST - OLDEST) * place / max(1, len(chosen) - 1)
                layers.append((_unstacked(list(skeleton.outlines(rows[mark * stride], view)), layers), opacity))
                if place in lined:
                    past = lines(signals.lines.at(float(times[mark * stride])), view)
                    behind.append(([replace(line, width=GHOST_LINE) for line in past], FAINT_LINES * opacity))
        behind.append((lines(signals.lines.at(time, first=True), view), 1.0))
        planned = signals.overlay.at(time)
        behind.append((lines(planned, view, overlay=True), 1.0))
        p_WB, R_WB = skeleton.place(rows[-1])
        bodies = list(skeleton.outlines(rows[-1], view))
        if len(p_WB):
            bodies += self._stage.springs(p_WB, R_WB, view, self._size)
            bodies.sort(key=lambda outline: round(outline.depth, 6))  # which keeps the order of equals
        layers.append((bodies, 1.0))
        outputs = signals.outputs_at(time)
        forces = self._stage.forces(p_WB, R_WB, outputs) if len(p_WB) else []
        held = self._show_holds(self._holds.at(p_WB, R_WB, outputs) if len(p_WB) else [], view)
        over: list[Layer] = [([*held, *ends(planned, view, self._size), *self._show_forces(forces, view)], 1.0)]
        self._bodies.show_layers(layers, self._fading(paths), behind, over)

    def _show_holds(self, holds: Sequence[Hold], view: View) -> list[Outline]:
        """Marks over the balls of grippers."""
        skeleton = self._skeleton
        if skeleton is None:
            return []
        found: list[Outline] = []
        for hold in holds:
            found += marks(hold, view, skeleton.colors[hold.body], skeleton.radius(hold.body), self._size)
        return found

    def _show_forces(self, forces: Sequence[Force], view: View) -> list[Outline]:
        """Arrows, and beyond the tip of each its name and its size in N."""
        scale = LONGEST_ARROW * self._size / self._largest_force if self._largest_force > 0.0 else 0.0
        found: list[Outline] = []
        self._labelled = []
        while len(self._numbers) < len(forces):
            number = pg.TextItem(anchor=(0.0, 0.5), fill=theme.faded(theme.PAPER, 0.7))
            number.setFont(theme.font(10.0, bold=True))
            number.setZValue(20.0)
            self.plot.addItem(number, ignoreBounds=True)
            self._numbers.append(number)
        for number, force in zip_longest(self._numbers, forces):
            parts = arrow(force, view, scale, self._size) if force is not None else []
            number.setVisible(bool(parts))
            if parts and force is not None:
                found += parts
                number.setText(f"{words(force.name)} {float(np.linalg.norm(force.newton)):.0f} N", color=force.color)
                self._labelled.append((number, parts[0].corners[0], parts[-1].corners[1]))
        self.place_labels()
        return found

    def place_labels(self) -> None:
        """Put the numbers of forces beyond the tips of their arrows, inside the frame, at the size it has now."""
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

    def keys(self, signals: Signals) -> list[tuple[str, str, str]]:
        """(mark, name, colour) of everything for a legend: bodies, lines, springs, forces."""
        if signals.description is None:
            return []
        self._know(signals.description)
        found = [(BODY, name, color) for name, color in body_names(signals.description)]
        for drawn, mark, color in ((signals.lines.last, "━", theme.LINE), (signals.overlay.last, "╍", theme.OVERLAY)):
            found += [(mark, name, color) for name in _names(drawn)]
        found += [("✕", f"end of the {name}", theme.OVERLAY) for name in _names(signals.overlay.last)]
        beside = [key for key in self._stage.keys if key != STANDS or self._shows_ground()]
        return found + beside + self._holds.keys

    def _shows_ground(self) -> bool:
        """Whether something that stands still is within the picture: a cable's ends seldom are."""
        spots = self._stage.ground_spots()
        if self._view is None or not len(spots):
            return False
        rect = self.plot.getViewBox().viewRect()
        return any(rect.contains(QtCore.QPointF(x, y)) for x, y in self._view.project(spots)[:, :2].tolist())

    @property
    def outgrown(self) -> bool:
        """Whether the present pose sticks out of the limits of the picture, which are due for a survey."""
        return not self.plot.getViewBox().viewRect().contains(self._bodies.present)

    def _fading(self, paths: Floats) -> list[tuple[Floats, Any]]:
        """Tips' paths (n, bodies, 2) in pieces with their colours, older ones fainter; none for tips at rest."""
        if len(paths) < 2 or self._skeleton is None:
            return []
        span = np.where(self._skeleton.visible, np.nan_to_num(np.ptp(paths, axis=0)).max(axis=1), 0.0)
        edges = np.linspace(0, len(paths) - 1, TRACE_PIECES + 1).astype(int).tolist()
        pieces = []
        for body in np.flatnonzero(span > 0.05 * max(float(span.max()), 1e-9)).tolist():
            color = theme.body_color(body, self._skeleton.colors[body])
            for place, (start, end) in enumerate(pairwise(edges)):
                if end > start:
                    opacity = 0.25 + 0.45 * (place / (TRACE_PIECES - 1)) ** 1.5
                    pieces.append((paths[start : end + 1, body], theme.faded(color, opacity)))
        return pieces


def _unstacked(outlines: list[Outline], layers: Sequence[Layer]) -> list[Outline]:
    """A ghost's outlines with its balls hollow, without those that lie on one of the same body in earlier layers."""
    drawn = [outline for earlier, _ in layers for outline in earlier if outline.radius > 0.0]
    found = []
    for outline in outlines:
        if outline.radius > 0.0:
            near = STACKED * outline.radius
            if any(o.body == outline.body and np.linalg.norm(o.corners - outline.corners) < near for o in drawn):
                continue
            outline = replace(outline, hollow=True)
        found.append(outline)
    return found


def body_names(description: Description) -> Sequence[tuple[str, str]]:
    """(name, colour) of each body that has a shape, for a legend."""
    colors = Skeleton(description).colors
    return [
        (body.name, theme.body_color(index, colors[index]).name())
        for index, body in enumerate(description.bodies)
        if body.shapes
    ]


def _names(drawn: Drawn | None) -> Sequence[str]:
    return drawn.names if drawn is not None else ()

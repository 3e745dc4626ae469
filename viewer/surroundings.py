"""What the bodies stand in: a floor grid with the world's axes in space, axes with numbers in a plane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore

from viewer import theme
from viewer.axes import nice_step
from viewer.projection import View
from viewer.series import Floats

TRIAD_AT = np.array([0.2, -0.5])  # of a square of the floor, from the left lower corner of what the bodies take
AXIS_COLORS = ("#b3261e", "#1b7a3d", "#0b62a8")  # x, y, z as in every robot's manual


class Surroundings:
    """Draws into one plot, and sets its limits."""

    def __init__(self, plot: Any) -> None:
        self.plot = plot
        self._items: list[Any] = []

    def draw(self, view: View, gravity: Floats, cloud: Floats) -> str:
        """Draw what suits the view around the points `cloud` (k, 3); says in words what is seen."""
        for item in self._items:
            self.plot.removeItem(item)
        self._items = []
        for name in ("left", "bottom"):
            self.plot.showAxis(name, view.planar)
        return self._draw_axes(view, cloud) if view.planar else self._draw_floor(view, gravity, cloud)

    def _draw_axes(self, view: View, cloud: Floats) -> str:
        right, up = ("xyz"[int(np.argmax(np.abs(axis)))] for axis in view.axes[:2])
        for name, letter in (("bottom", right), ("left", up)):
            self.plot.getAxis(name).name(f"{letter} [m]")
        self.plot.showGrid(x=True, y=True, alpha=0.25)
        self._fit(view.project(cloud)[:, :2])
        return f"seen face on, in the plane {right}{up}"

    def _draw_floor(self, view: View, gravity: Floats, cloud: Floats) -> str:
        """A grid below everything, with the directions of the world's axes at its corner."""
        vertical = int(np.argmax(np.abs(gravity))) if np.any(gravity) else 2
        below = float(np.sign(gravity[vertical]) or -1.0)
        size = float(np.ptp(cloud, axis=0).max())
        step = nice_step(size / 8.0)
        height = below * (float((below * cloud[:, vertical]).max()) + 0.04 * size)
        self._add_segments(view.project(floor_lines(cloud, vertical, height, step))[..., :2], theme.FAINT)
        bodies = view.project(cloud)[:, :2]
        triad = self._draw_triad(view, bodies.min(axis=0) + TRIAD_AT * step, step)
        self._fit(np.concatenate([bodies, triad]))  # the floor goes on beyond the picture: the bodies are what counts
        return f"seen from above and aside; one square of the ground is {step:g} m"

    def _add_segments(self, segments: Floats, color: str) -> None:
        points = segments.reshape(-1, 2)
        pen = pg.mkPen(color, width=1)
        item = pg.PlotCurveItem(points[:, 0], points[:, 1], pen=pen, connect="pairs", antialias=True)
        item.setZValue(-10.0)
        self.plot.addItem(item, ignoreBounds=True)
        self._items.append(item)

    def _draw_triad(self, view: View, origin: Floats, length: float) -> Floats:
        """The world's directions from a place (2,) on the paper; what they take there, (k, 2)."""
        taken = []
        for axis, (letter, color) in enumerate(zip("xyz", AXIS_COLORS, strict=True)):
            along = view.project(np.eye(3)[axis] * length)[:2]
            ends = origin + np.stack([0.0 * along, along, 1.3 * along])
            self._add_segments(ends[None, :2], color)
            text = pg.TextItem(letter, color=color, anchor=(0.5, 0.5))
            text.setFont(theme.font(9.0, bold=True))
            text.setPos(*ends[2])
            self.plot.addItem(text, ignoreBounds=True)
            self._items.append(text)
            taken.append(ends)
        return np.concatenate(taken)

    def _fit(self, points: Floats) -> None:
        (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
        margin = 0.04 * max(right - left, top - bottom, 1e-6)
        width, height = right - left + 2 * margin, top - bottom + 2 * margin
        self.plot.setRange(QtCore.QRectF(left - margin, bottom - margin, width, height), padding=0.0)


def floor_lines(cloud: Floats, vertical: int, height: float, step: float) -> Floats:
    """The grid lines (k, 2, 3) of a floor under `cloud` at `height`."""
    a, b = (axis for axis in range(3) if axis != vertical)
    low = {axis: math.floor(float(cloud[:, axis].min()) / step) for axis in (a, b)}
    high = {axis: math.ceil(float(cloud[:, axis].max()) / step) for axis in (a, b)}
    lines = []
    for along, across in ((a, b), (b, a)):
        for place in range(low[across], high[across] + 1):
            ends = np.zeros((2, 3))
            ends[:, vertical], ends[:, across] = height, place * step
            ends[:, along] = low[along] * step, high[along] * step
            lines.append(ends)
    return np.stack(lines)

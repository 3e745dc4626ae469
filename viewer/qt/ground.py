"""Background of the bodies: a floor grid with world axes in an oblique view, or numbered axes in a planar view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore

from viewer.data.series import Floats
from viewer.palette import axis_colors
from viewer.qt import theme
from viewer.scene.projection import View
from viewer.scene.scene import floor, limits, plane_letters, view_text

ABOVE_BODIES = 15.0  # z value of the world axes


class GroundPlane:
    """Draws the background of the bodies into one plot, and sets the plot's limits."""

    def __init__(self, plot: Any) -> None:
        self.plot = plot
        self._items: list[Any] = []
        self._fits = True

    def draw(self, view: View, gravity: Floats, cloud: Floats, is_covered: bool, fit: bool = True) -> str:
        """Draw the background of a view, and return a sentence that names the view.

        cloud       points (k, 3), m, that the picture must contain
        is_covered  whether a ground shape lies below all points, so that there is no floor grid
        fit         whether to set the plot's limits so that they contain the points
        """
        self._fits = fit
        for item in self._items:
            self.plot.removeItem(item)
        self._items = []
        for name in ("left", "bottom"):
            self.plot.showAxis(name, view.planar)
        return self._draw_axes(view, cloud) if view.planar else self._draw_floor(view, gravity, cloud, is_covered)

    def _draw_axes(self, view: View, cloud: Floats) -> str:
        for name, letter in zip(("bottom", "left"), plane_letters(view), strict=True):
            self.plot.getAxis(name).name(f"{letter} [m]")
        self.plot.showGrid(x=True, y=True, alpha=0.25)
        self._fit(view.project(cloud)[:, :2])
        return view_text(view, 0.0)

    def _draw_floor(self, view: View, gravity: Floats, cloud: Floats, is_covered: bool) -> str:
        ground = floor(view, gravity, cloud, is_covered)
        self._add_segments(ground.grid, theme.FAINT)
        self._draw_triad(ground.triad)
        # the limits follow the bodies; the floor may extend beyond the picture
        self._fit(np.concatenate([view.project(cloud)[:, :2], ground.triad.reshape(-1, 2)]))
        return view_text(view, ground.step)

    def _add_segments(self, segments: Floats, color: str, z: float = -10.0) -> None:
        points = segments.reshape(-1, 2)
        pen = pg.mkPen(color, width=1)
        item = pg.PlotCurveItem(points[:, 0], points[:, 1], pen=pen, connect="pairs", antialias=True)
        item.setZValue(z)
        self.plot.addItem(item, ignoreBounds=True)
        self._items.append(item)

    def _draw_triad(self, triad: Floats) -> None:
        """Draw the world axes. `triad`: (3, 3, 2), start, end and position of the letter of each axis."""
        for ends, letter, color in zip(triad, "xyz", axis_colors(), strict=True):
            self._add_segments(ends[None, :2], color, z=ABOVE_BODIES)
            text = pg.TextItem(letter, color=color, anchor=(0.5, 0.5))
            text.setFont(theme.font(9.0, bold=True))
            text.setPos(*ends[2])
            text.setZValue(ABOVE_BODIES)
            self.plot.addItem(text, ignoreBounds=True)
            self._items.append(text)

    def _fit(self, points: Floats) -> None:
        if self._fits:
            self.plot.setRange(QtCore.QRectF(*limits(points)), padding=0.0)

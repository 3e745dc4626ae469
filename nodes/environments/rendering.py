"""Pictures of a system as arrays, drawn by matplotlib as in the viewer."""

from __future__ import annotations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nodes.framework.simulation.description import describe
from sim_core.spatial import quaternions_from_rotations
from sim_core.system import System
from viewer import palette
from viewer.scene.bodies import Skeleton
from viewer.scene.projection import choose_view
from viewer.still import draw_outline

SIZE, DPI = 480, 100  # pixels, and pixels per inch
BEYOND = 1.05  # half the picture's width, in units of the distance of the farthest point of the start from the origin
Array = np.ndarray


class Picture:
    """Draws one system. The view does not change from picture to picture."""

    def __init__(self, system: System) -> None:
        mechanism, n = system.mechanism, len(system.mechanism.bodies)
        self._q = np.zeros(system.n_q)
        self._positions, self._rotations = np.zeros((n, 3)), np.zeros((n, 3, 3))
        self._place = system.bind_forward_kinematics(self._q, self._positions, self._rotations)
        self._skeleton = Skeleton(describe(mechanism, 1.0, [], "", mechanism.name))
        self._view = choose_view("space", np.array(mechanism.gravity, dtype=float))
        self._q[:] = system.with_states("q", np.array(mechanism.initial_q, dtype=float))
        spots = self._skeleton.spots(self._row()[None]).reshape(-1, 3)
        self._reach = BEYOND * float(np.linalg.norm(spots, axis=-1).max(initial=1e-3))
        self._figure = Figure(figsize=(SIZE / DPI, SIZE / DPI), dpi=DPI, facecolor=palette.PAPER)
        self._canvas = FigureCanvasAgg(self._figure)

    def _row(self) -> Array:
        self._place()
        return np.concatenate([self._positions.ravel(), quaternions_from_rotations(self._rotations).ravel()])

    def draw(self, q: Array, time: float) -> Array:
        """Picture (480, 480, 3) of uint8 of the system at the coordinates q (n_q,), with the time, s."""
        self._q[:] = q
        self._figure.clear()
        axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-self._reach, self._reach)
        axes.set_ylim(-self._reach, self._reach)
        for order, outline in enumerate(self._skeleton.outlines(self._row(), self._view)):
            draw_outline(axes, outline, 1.0, order + 2)
        axes.text(0.02, 0.96, f"t = {time:.2f} s", size=9, color=palette.MUTED, transform=axes.transAxes)
        self._canvas.draw()  # type: ignore[no-untyped-call]
        pixels: Array = np.asarray(self._canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        return pixels[..., :3].copy()

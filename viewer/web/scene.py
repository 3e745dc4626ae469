"""The scene of a robot as nodes of viser."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewer import palette
from viewer.data.series import Floats
from viewer.data.signals import Signals
from viewer.scene.scene import MEASURED_OPACITY, nice_step, vertical_axis
from viewer.scene.space import Arrow, Ball, Instant, Lines, Solid, Space, ball, rgb
from viewer.web.server import WebServer

ASPECT = 1.3  # width by height of the usual scene, beside the panels
TRAIL_S = 3.0
STRAY = 0.15  # distance of the robot's middle from its place in the picture at which the camera follows, in sizes
UNSEEN = 1e-5  # change of a pose, in the scene's size, that needs no message
FLOOR = 60.0  # side of the ground's grid, in its squares
SHAFT, HEAD, TIP = 0.006, 0.016, 0.04  # radii of an arrow and length of its head, as fractions of the scene's size


class WebScene:
    """The scene of the robot of one run in all browsers.

    plane  requested viewing plane: auto, xy, xz, yz or space
    """

    def __init__(self, server: WebServer, plane: str) -> None:
        self._server, self._viser = server, server.viser
        self.space = Space(plane, TRAIL_S)
        self.follows = True
        self._frames: list[Any] = []  # of the bodies
        self._measured: list[Any] = []
        self._others: dict[str, Any] = {}  # lines and balls
        self._arrows: list[tuple[Any, Any]] = []  # arrows and their labels
        self._sent: dict[str, Floats] = {}  # (bodies, 7): positions and quaternions that were sent last
        self._middle: Floats | None = None  # place of the robot to which the camera looks
        self.bodies: list[tuple[str, Any]] = []  # name and frame of each body

    def build(self, signals: Signals) -> bool:
        """Show the robot that was described, and look at it. Returns False if it has no pose yet."""
        cloud = self.space.scene.survey(signals)
        if cloud is None or signals.description is None:
            return False
        scene, solids = self._viser.scene, self.space.solids(signals.description)
        scene.reset()
        self._others.clear()
        self._arrows.clear()
        self._sent.clear()
        scene.set_up_direction(tuple(-self._gravity))
        scene.configure_default_lights(True, cast_shadow=False)
        self._frames = [
            scene.add_frame(f"/robot/{place}_{body.name}", show_axes=False)
            for place, body in enumerate(signals.description.bodies)
        ]
        self.bodies = [(body.name, node) for body, node in zip(signals.description.bodies, self._frames, strict=True)]
        self._measured = []
        if signals.measured is not None:
            self._measured = [scene.add_frame(f"/measured/{k}", show_axes=False) for k in range(len(self._frames))]
        for number, solid in enumerate(solids):
            self._add(solid, number)
        self._add_floor(cloud)
        self.fit(signals)
        return True

    def fit(self, signals: Signals) -> None:
        """Look at the whole motion so far; at a robot that travels far, at where it is."""
        scene = self.space.scene
        cloud = scene.survey(signals)
        if cloud is None or scene.skeleton is None or signals.poses is None:
            return
        size = np.ptp(scene.skeleton.reach(scene.skeleton.spots(signals.poses.values[-1:])), axis=0).max()
        if np.ptp(cloud, axis=0).max() > 4.0 * size:
            cloud = scene.skeleton.reach(scene.skeleton.spots(signals.poses.values[-1:]))
            scene.size = float(2.0 * size)
        if (camera := self.space.camera(cloud, ASPECT)) is not None:
            self._server.look(camera)
        self._middle = None

    def show(self, signals: Signals, time: float, with_paths: bool = True) -> None:
        """Show the robot at a time, s; without new paths of the tips, they stay as they were."""
        instant = self.space.at(signals, time, with_paths)
        if instant is None:
            return
        with self._viser.atomic():
            self._place("robot", self._frames, instant.poses)
            if instant.measured is not None:
                self._place("measured", self._measured, instant.measured)
            for name, lines in instant.lines.items():
                self._draw_lines(name, lines)
            self._draw_arrows(instant.arrows)
            self._draw_balls(instant.balls)
        if self.follows:
            self._follow(instant)

    @property
    def _gravity(self) -> Floats:
        skeleton = self.space.scene.skeleton
        found = np.zeros(3) if skeleton is None else skeleton.gravity
        return found / np.linalg.norm(found) if np.any(found) else np.array([0.0, 0.0, -1.0])

    def _add(self, solid: Solid, number: int) -> None:
        surface = solid.vertices.astype(np.float32), solid.faces.astype(np.uint32)
        parent = "/ground" if solid.body < 0 else self._frames[solid.body].name
        looks: dict[str, Any] = {"side": "double", "cast_shadow": False, "receive_shadow": False}
        self._viser.scene.add_mesh_simple(f"{parent}/{number}", *surface, color=rgb(solid.color), **looks)
        if solid.body >= 0 and self._measured:
            color = rgb(palette.MEASURED)
            name = f"{self._measured[solid.body].name}/{number}"
            self._viser.scene.add_mesh_simple(name, *surface, color=color, opacity=MEASURED_OPACITY, **looks)

    def _add_floor(self, cloud: Floats) -> None:
        """Show a grid on the ground below all points, unless the robot has a ground of its own."""
        if self.space.scene.is_covered(cloud):
            return
        vertical = vertical_axis(self._gravity)
        down = float(np.sign(self._gravity[vertical]))
        step = nice_step(float(np.ptp(cloud, axis=0).max()) / 6.0)
        middle = 0.5 * (cloud.min(axis=0) + cloud.max(axis=0))
        middle[vertical] = down * float((down * cloud[:, vertical]).max()) + 0.01 * down * self.space.scene.size
        self._viser.scene.add_grid(
            "/floor",
            FLOOR * step,
            FLOOR * step,
            plane=("yz", "xz", "xy")[vertical],
            cell_size=step,
            section_size=5.0 * step,
            cell_color=rgb(palette.FAINT),
            section_color=rgb(palette.darker(palette.FAINT, 115.0)),
            fade_distance=FLOOR * step,
            position=np.round(middle / step) * step * (np.arange(3) != vertical) + middle * (np.arange(3) == vertical),
            shadow_opacity=0.0,
        )

    def _place(self, name: str, frames: list[Any], row: Floats) -> None:
        """Move the bodies of which position or quaternion differs visibly from what was sent last."""
        count, unseen = len(frames), UNSEEN * np.array([*3 * [self.space.scene.size], *4 * [1.0]])
        rows = np.hstack([row[: 3 * count].reshape(-1, 3), row[3 * count :].reshape(-1, 4)])
        sent = self._sent.setdefault(name, np.full_like(rows, np.inf))
        moved = np.flatnonzero((np.abs(rows - sent) > unseen).any(axis=1))
        sent[moved] = rows[moved]
        self._server.place((frames[place], rows[place, :3], rows[place, 3:]) for place in moved)

    def _draw_lines(self, name: str, lines: Lines) -> None:
        node = self._others.get(name)
        if not len(lines.ends):
            if node is not None:
                node.visible = False
            return
        colors = np.repeat(lines.colors[:, None], 2, axis=1)
        points = lines.ends.astype(np.float32)
        if node is None:
            self._others[name] = self._viser.scene.add_line_segments(
                f"/{name}", points, colors, thickness=lines.width, thickness_units="screen"
            )
            return
        node.points, node.colors, node.visible = points, colors, True

    def _draw_arrows(self, arrows: list[Arrow]) -> None:
        size = self.space.scene.size
        shape: dict[str, Any] = {"shaft_radius": SHAFT * size, "head_radius": HEAD * size, "head_length": TIP * size}
        for number, each in enumerate(arrows[len(self._arrows) :], len(self._arrows)):
            points, color = np.stack([each.start, each.tip])[None], rgb(each.color)
            node = self._viser.scene.add_arrows(f"/force{number}", points, color, **shape)
            label = self._viser.scene.add_label(f"/force{number}_text", each.text, anchor="bottom-center")
            self._arrows.append((node, label))
        for number, (node, label) in enumerate(self._arrows):
            node.visible = label.visible = number < len(arrows)
            if number < len(arrows):
                each = arrows[number]
                node.points = np.stack([each.start, each.tip])[None].astype(np.float32)
                node.colors, label.position, label.text = np.array(rgb(each.color), np.uint8), each.tip, each.text

    def _draw_balls(self, balls: list[Ball]) -> None:
        shown = {f"ball {each.name}": each for each in balls}
        for name in [name for name in self._others if name.startswith("ball ") and name not in shown]:
            self._others[name].visible = False
        for name, each in shown.items():
            node = self._others.get(name)
            if node is None:
                surface = ball(each.radius, np.zeros(3))
                node = self._others[name] = self._viser.scene.add_mesh_simple(
                    f"/grip {each.name}",
                    surface[0].astype(np.float32),
                    surface[1].astype(np.uint32),
                    color=rgb(each.color),
                    opacity=0.5,
                )
            node.position, node.visible = each.center, True
            if tuple(node.color) != rgb(each.color):
                node.color = rgb(each.color)

    def _follow(self, instant: Instant) -> None:
        """Let the cameras follow a robot that leaves its place in the picture."""
        count = len(instant.poses) // 7
        middle = instant.poses[: 3 * count].reshape(-1, 3).mean(axis=0)
        if not np.isfinite(middle).all():
            return
        if self._middle is None:
            self._middle = middle
        away = middle - self._middle
        distance, most = float(np.linalg.norm(away)), STRAY * self.space.scene.size
        if distance > most:
            step = away * (1.0 - most / distance)
            self._middle = self._middle + step
            self._server.follow(step)

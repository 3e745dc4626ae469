"""Scene of a robot in space, for renderers that hide surfaces themselves: solids of the bodies, and what moves.

Renderers draw each `Solid` once and then move its body; everything else of an `Instant` changes with each pose.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.framework.messages import Description, Shape
from viewer import palette
from viewer.data.series import Drawn, Floats, row_at
from viewer.data.signals import Signals
from viewer.scene.grippers import GRIPS, OPEN
from viewer.scene.overlay import COIL_WIDTH, COILS, LEAST_ARROW
from viewer.scene.projection import rotation
from viewer.scene.scene import STALE_S, Scene

ROUND = 24  # corners of the polygon that replaces a circle
SPHERE_ROWS = 12
BAR = 0.006  # radius of a line of a body, as a fraction of the picture's size
MARK = 0.012  # radius of a gripper's mark, likewise
LEAST_PATH = 0.05  # a tip whose path is shorter than this fraction of the longest path has none
TRAIL_POINTS = 120  # points of a tip's path
HALF_FOV = math.radians(15.0)  # half the angle that the camera sees
ROOM = 1.12  # distance of the camera, relative to the one from which everything just fits
BOX = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]  # corners of its faces

Faces = NDArray[np.int32]


class Solid(NamedTuple):
    """A surface of a body: vertices (n, 3), m, in the body's frame, and the vertices (m, 3) of its triangles.

    Triangles that meet in an edge have vertices of their own. The body is -1 for what stands still.
    """

    body: int
    color: str
    vertices: Floats
    faces: Faces


class Lines(NamedTuple):
    """Separate straight lines: their ends (n, 2, 3), m, their colours (n, 3), 0 .. 255, and their width, pixels."""

    ends: Floats
    colors: NDArray[np.uint8]
    width: float


class Arrow(NamedTuple):
    """A force: start and tip (3,), m, its colour, and its name with its magnitude."""

    start: Floats
    tip: Floats
    color: str
    text: str


class Ball(NamedTuple):
    """The mark of a gripper that is not open: centre (3,) and radius, m."""

    name: str
    center: Floats
    radius: float
    color: str


class Instant(NamedTuple):
    """The scene at one time.

    poses     (7 bodies,): positions, m, then quaternions w x y z
    measured  the same of the measured robot; None without a measurement
    """

    poses: Floats
    measured: Floats | None
    lines: dict[str, Lines]
    arrows: list[Arrow]
    balls: list[Ball]


class Camera(NamedTuple):
    """Position of the camera, point in the middle of its picture and direction up (3,), m and 1."""

    position: Floats
    target: Floats
    up: Floats


class Space:
    """The scene of one robot in space.

    scene  scene in the drawing plane, which chooses the view and knows forces and grippers
    trail_s  time of the tips' paths before the present, s
    """

    def __init__(self, plane: str, trail_s: float) -> None:
        self.scene = Scene(plane)
        self.trail_s = trail_s

    def solids(self, description: Description) -> list[Solid]:
        """Surfaces of all bodies and of what stands still, one for each body and colour."""
        self.scene.set_description(description)
        shapes = [(-1, palette.solid_color(0, shape.color or palette.STILL), shape) for shape in description.ground]
        colors = self.scene.skeleton.colors if self.scene.skeleton is not None else []
        for index, body in enumerate(description.bodies):
            shapes += [(index, palette.solid_color(index, each.color or colors[index]), each) for each in body.shapes]
        found: dict[tuple[int, str], list[tuple[Floats, Faces]]] = {}
        for body_index, color, shape in shapes:
            if shape.kind in ("line", "box", "sphere", "cylinder", "mesh"):
                found.setdefault((body_index, color), []).append(surface(shape, BAR * self.scene.size))
        return [Solid(*key, *joined(parts)) for key, parts in found.items()]

    def camera(self, cloud: Floats, aspect: float) -> Camera | None:
        """Camera that sees the points `cloud` (k, 3), m, along the view that the scene chose.

        aspect  width of the picture divided by its height
        """
        view = self.scene.view
        if view is None:
            return None
        flat = view.project(cloud)
        low, high = flat.min(axis=0), flat.max(axis=0)
        width, height, depth = (high - low).tolist()
        away = ROOM * max(height, width / aspect, 1e-6) / (2.0 * math.tan(HALF_FOV)) + 0.5 * depth
        target = 0.5 * (low + high) @ view.axes
        up = np.zeros(3)
        gravity = self.scene.skeleton.gravity if self.scene.skeleton is not None else np.zeros(3)
        up = -gravity if np.any(gravity) else np.array([0.0, 0.0, 1.0])
        if abs(float(up @ view.axes[2])) > 0.9 * float(np.linalg.norm(up)):
            up = view.axes[1]  # seen from above
        return Camera(target + away * view.axes[2], target, up / np.linalg.norm(up))

    def at(self, signals: Signals, time: float, with_paths: bool = True) -> Instant | None:
        """The scene at a time, s, with or without the paths of the tips; None if there is no pose."""
        scene, poses = self.scene, signals.poses
        place = None if poses is None else row_at(poses.times, time)
        if poses is None or place is None or scene.skeleton is None:
            return None
        row = poses.values[place]
        p_WB, R_WB = scene.skeleton.place(row)
        if not len(p_WB):
            return None
        outputs = signals.outputs_at(time, scene.outputs)
        lines = {"paths": self._trails(signals, place, time)} if with_paths else {}
        lines["lines"] = polylines(signals.lines.at(time, first=True), palette.LINE, 3.0)
        lines["overlay"] = polylines(signals.overlay.at(time), palette.OVERLAY, 2.0)
        springs = [helix(ends, COIL_WIDTH * scene.size) for ends in scene.stage.spring_ends(p_WB, R_WB)]
        lines["springs"] = polylines(Drawn((), tuple(springs)), palette.SPRING, 2.0)
        arrows = [
            Arrow(force.point, force.point + scale * force.newton, force.color, text)
            for force, scale, text in scene.forces(signals, time, p_WB, R_WB, outputs)
            if float(np.linalg.norm(force.newton)) * scale > LEAST_ARROW * scene.size
        ]
        balls = [
            Ball(hold.name, hold.point, max(scene.skeleton.radius(hold.body), MARK * scene.size) * 1.25, color)
            for hold in scene.gripper_marks.at(p_WB, R_WB, outputs)
            if hold.state != OPEN
            for color in [palette.CHANGES["grip"] if hold.state == GRIPS else palette.CHANGES["release"]]
        ]
        return Instant(row, self._measured(signals, time, len(row)), lines, arrows, balls)

    def _measured(self, signals: Signals, time: float, size: int) -> Floats | None:
        poses = signals.measured
        place = None if poses is None else row_at(poses.times, time)
        if poses is None or place is None or poses.values.shape[1] != size:
            return None
        return poses.values[place] if abs(time - poses.times[place]) <= STALE_S else None

    def _trails(self, signals: Signals, place: int, time: float) -> Lines:
        """Paths of the tips of the bodies that move most, fainter where they are older."""
        poses, skeleton = signals.poses, self.scene.skeleton
        assert poses is not None
        assert skeleton is not None
        first = int(np.searchsorted(poses.times[: place + 1], time - self.trail_s))
        stride = max(1, -(-(place + 1 - first) // TRAIL_POINTS))
        rows = poses.values[first : place + 1][::-stride][::-1]  # with the present pose
        if len(rows) < 2:
            return polylines(None, palette.LINE, 1.5)
        tips = skeleton.tips(rows)
        span = np.where(skeleton.visible, np.nan_to_num(np.ptp(tips, axis=0)).max(axis=1), 0.0)
        ends, colors, shares = [], [], np.arange(1, len(rows)) / len(rows)
        for body in np.flatnonzero(span > max(LEAST_PATH * float(span.max()), 1e-3 * self.scene.size)).tolist():
            ends.append(np.stack([tips[:-1, body], tips[1:, body]], axis=1))
            colors.append(faded(palette.solid_color(body, skeleton.colors[body]), shares))
        if not ends:
            return polylines(None, palette.LINE, 1.5)
        return Lines(np.concatenate(ends), np.concatenate(colors), 1.5)


def rgb(color: str) -> tuple[int, int, int]:
    """Parts (0 .. 255) of a colour #rrggbb."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def faded(color: str, shares: Floats) -> NDArray[np.uint8]:
    """A colour #rrggbb mixed with that of the paper, (n, 3) in 0 .. 255: the paper where `shares` (n,) is 0."""
    left = 0.2 + 0.8 * shares[:, None]
    return (left * rgb(color) + (1.0 - left) * rgb(palette.PAPER)).astype(np.uint8)


def polylines(drawn: Drawn | None, color: str, width: float) -> Lines:
    """The polylines of one message as separate lines in one colour."""
    parts = [np.stack([each[:-1], each[1:]], axis=1) for each in (drawn.lines if drawn is not None else ())]
    ends = np.concatenate(parts) if parts else np.zeros((0, 2, 3))
    return Lines(ends, np.tile(np.array(rgb(color), dtype=np.uint8), (len(ends), 1)), width)


def helix(ends: Floats, width: float) -> Floats:
    """Points (k, 3) of a spring between its `ends` (2, 3), m, with coils of the radius `width`, m."""
    along = ends[1] - ends[0]
    if not np.any(along):
        return ends
    aside = across(along) * min(width, 0.2 * float(np.linalg.norm(along)))
    share = np.linspace(0.15, 0.85, 12 * COILS + 1)
    angle = 2.0 * math.pi * COILS * (share - share[0]) / (share[-1] - share[0])
    turns = np.cos(angle)[:, None] * aside[0] + np.sin(angle)[:, None] * aside[1]
    coils = ends[0] + share[:, None] * along + turns
    straight = [ends[:1], ends[:1] + 0.15 * along, coils, ends[:1] + 0.85 * along, ends[1:]]
    return np.concatenate(straight)


def across(along: Floats) -> Floats:
    """Two unit vectors (2, 3) that are perpendicular to a vector (3,) and to each other."""
    unit = along / np.linalg.norm(along)
    first = np.cross(unit, np.eye(3)[int(np.argmin(np.abs(unit)))])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(unit, first)])


def surface(shape: Shape, bar: float) -> tuple[Floats, Faces]:
    """(vertices (n, 3), m, in the body's frame, triangles (m, 3)) of a shape.

    bar  radius with which lines are drawn, m
    """
    size = [*shape.size, 0.0, 0.0, 0.0]
    if shape.kind == "line":
        points = np.asarray(shape.points, dtype=np.float64).reshape(-1, 3)
        parts = [tube(points[k : k + 2], bar) for k in range(len(points) - 1)]
        vertices, faces = joined([*parts, *(ball(bar, point) for point in points)])
    elif shape.kind == "sphere":
        vertices, faces = ball(size[0], np.zeros(3))
    elif shape.kind == "cylinder":
        half = 0.5 * size[1]
        vertices, faces = tube(np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]), size[0])
    elif shape.kind == "box":
        corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * size[:3]
        vertices = corners[np.array(BOX).ravel()]
        faces = (4 * np.arange(6)[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3).astype(np.int32)
    else:
        points = np.asarray(shape.points, dtype=np.float64).reshape(-1, 3)
        vertices = points[np.asarray(shape.faces, dtype=np.intp)]
        faces = np.arange(len(vertices), dtype=np.int32).reshape(-1, 3)
    R = rotation(np.asarray(shape.quaternion, dtype=np.float64))
    return vertices @ R.T + np.asarray(shape.position), faces


def tube(ends: Floats, radius: float) -> tuple[Floats, Faces]:
    """Surface of a cylinder between two points (2, 3), m; of no extent if the points are equal."""
    along = ends[1] - ends[0]
    if not np.any(along):
        return np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int32)
    angles = np.linspace(0.0, 2.0 * math.pi, ROUND, endpoint=False)
    ring = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ across(along)
    start, end = ends[0] + ring, ends[1] + ring
    k = np.arange(ROUND)
    after = (k + 1) % ROUND
    sides = np.concatenate([np.stack([k, after, ROUND + after], 1), np.stack([k, ROUND + after, ROUND + k], 1)])
    caps = np.arange(2, ROUND)
    first = 2 * ROUND + np.stack([np.zeros_like(caps), caps, caps - 1], 1)
    second = 3 * ROUND + np.stack([np.zeros_like(caps), caps - 1, caps], 1)
    return np.concatenate([start, end, start, end]), np.concatenate([sides, first, second]).astype(np.int32)


def ball(radius: float, center: Floats) -> tuple[Floats, Faces]:
    """Surface of a sphere, m."""
    polar, turn = np.meshgrid(
        np.linspace(0.0, math.pi, SPHERE_ROWS + 1), np.linspace(0.0, 2.0 * math.pi, ROUND + 1), indexing="ij"
    )
    points = np.stack([np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], axis=2)
    k = np.arange(SPHERE_ROWS * (ROUND + 1)).reshape(SPHERE_ROWS, ROUND + 1)[:, :-1].ravel()
    below = k + ROUND + 1
    faces = np.concatenate([np.stack([k, below, below + 1], 1), np.stack([k, below + 1, k + 1], 1)])
    return center + radius * points.reshape(-1, 3), faces.astype(np.int32)


def joined(parts: list[tuple[Floats, Faces]]) -> tuple[Floats, Faces]:
    """Several surfaces as one."""
    if not parts:
        return np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int32)
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    faces = [each + start for (_, each), start in zip(parts, starts, strict=True)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces).astype(np.int32)

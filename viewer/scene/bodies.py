"""Bodies as outlines: the shapes of a description, placed by poses and projected to the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodes.messages import Description, Shape
from viewer.data.series import Floats
from viewer.scene.projection import Seen, View, hull, rotation

ROUND = 48  # corners that stand for a circle
LIGHT = np.array([-0.36, 0.77, 0.52])  # where it comes from, seen on the paper: from above, the left and the eye
DIMMEST = 0.62
# the corners of each face of a box, in the order of _local_points
BOX_FACES = tuple([k for k in range(8) if (k >> axis) & 1 == end] for axis in range(3) for end in (0, 1))


@dataclass(frozen=True)
class Outline:
    """One shape on the paper: corners (k, 2), closed when it is a surface; radius > 0 for a ball at corner
    0, hollow when nothing but its ring is drawn; fine for a mark on a surface; shade for how bright a surface is by the
    way it faces; width in pixels of a line other than a body's."""

    body: int
    color: str
    corners: Floats
    depth: float
    closed: bool
    radius: float = 0.0
    fine: bool = False
    shade: float = 1.0
    width: float = 0.0
    dashed: bool = False
    hollow: bool = False


@dataclass(frozen=True)
class _Part:
    """A shape as points (m, 3) in its body's frame."""

    body: int
    kind: str
    color: str
    points: Floats
    radius: float


class Skeleton:
    """The drawable parts of a robot."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self.bodies = len(description.bodies)
        self.gravity = np.asarray(description.gravity, dtype=np.float64)
        self.colors = [next((shape.color for shape in body.shapes if shape.color), "") for body in description.bodies]
        self.visible = np.array([bool(body.shapes) for body in description.bodies], dtype=bool)
        self._parts = [
            part
            for index, body in enumerate(description.bodies)
            for shape in body.shapes
            if shape.kind in ("line", "box", "sphere", "cylinder")
            for part in _parts(index, shape)
        ]

    def is_of(self, description: Description) -> bool:
        """Whether the description, perhaps said anew, is of the same robot."""
        ours = self._description
        return (ours.robot, ours.bodies, ours.gravity) == (description.robot, description.bodies, description.gravity)

    def place(self, row: Floats) -> tuple[Floats, Floats]:
        """A row of poses as p_WB (bodies, 3) and R_WB (bodies, 3, 3); zero bodies when it does not fit."""
        if len(row) != 7 * self.bodies:
            return np.zeros((0, 3)), np.zeros((0, 3, 3))
        positions = row[: 3 * self.bodies].reshape(-1, 3)
        return positions, rotation(row[3 * self.bodies :].reshape(-1, 4))

    def outlines(self, row: Floats, view: View) -> Iterator[Outline]:
        """The shapes at one pose, farthest first."""
        p_WB, R_WB = self.place(row)
        if len(p_WB) == 0:
            return
        found: list[Outline] = []
        solid = -math.inf
        for part in self._parts:
            flat = view.project(p_WB[part.body] + part.points @ R_WB[part.body].T)
            corners = flat[:, :2]
            closed = part.kind in ("box", "cylinder")
            depth = float(flat[:, 2].mean())
            if part.kind == "spoke" and not view.planar and depth < solid:
                continue  # on the face that looks away
            if closed and not view.planar:
                solid = depth
                for face, shade in _faces(part.kind, flat):
                    found.append(Outline(part.body, part.color, face, depth, True, shade=shade))
                continue
            if closed:
                corners = hull(corners)
            found.append(Outline(part.body, part.color, corners, depth, closed, part.radius, part.kind == "spoke"))
        yield from sorted(found, key=lambda outline: (round(outline.depth, 6), not outline.closed))

    def radius(self, body: int) -> float:
        """The largest radius of the balls of a body, m; zero without any."""
        return max((part.radius for part in self._parts if part.body == body), default=0.0)

    def tips(self, rows: Floats) -> Floats:
        """Where the point of each body farthest from its origin went: (n, bodies, 3)."""
        p = rows[:, : 3 * self.bodies].reshape(len(rows), self.bodies, 3)
        R = rotation(rows[:, 3 * self.bodies :].reshape(len(rows), self.bodies, 4))
        return p + np.einsum("nbij,bj->nbi", R, self._tip_points())

    def front(self, rows: Floats) -> Floats:
        """Where the robot reaches to, (3,) in its own sizes: from its heaviest body to the tips that move most."""
        rows = rows[np.isfinite(rows).all(axis=1)]
        if self.bodies == 0 or len(rows) < 2 or rows.shape[1] != 7 * self.bodies:
            return np.zeros(3)
        heaviest = int(np.argmax([body.mass for body in self._description.bodies]))
        out = self.tips(rows) - rows[:, None, 3 * heaviest : 3 * heaviest + 3]
        moved = np.linalg.norm(np.diff(out, axis=0), axis=2).sum(axis=0)
        size = np.linalg.norm(out, axis=2).max()
        if moved.sum() <= 0.0 or size <= 0.0:
            return np.zeros(3)
        return np.asarray((out.mean(axis=0) * moved[:, None]).sum(axis=0) / moved.sum() / size)

    def seen(self) -> Seen:
        """A memory for where the points of the parts were; `spots` fill it."""
        parts = np.repeat(np.arange(len(self._parts)), [len(part.points) for part in self._parts])
        return Seen(parts, np.array([part.kind != "line" for part in self._parts], dtype=bool))

    def spots(self, rows: Floats) -> Floats:
        """The points of all parts at the given poses, expressed in the world: (poses, points, 3)."""
        if rows.shape[1] != 7 * self.bodies or not self._parts:
            return np.zeros((len(rows), 0, 3))
        p = rows[:, : 3 * self.bodies].reshape(len(rows), self.bodies, 3)
        R = rotation(rows[:, 3 * self.bodies :].reshape(len(rows), self.bodies, 4))
        return np.concatenate(
            [p[:, part.body, None] + part.points @ R[:, part.body].mT for part in self._parts], axis=1
        )

    def reach(self, spots: Floats) -> Floats:
        """All spots as one cloud (k, 3), padded by the radii of balls: what a picture must hold."""
        radii = [part.radius for part in self._parts]
        pad = np.repeat(np.array(radii), [len(part.points) for part in self._parts])[:, None]
        return np.concatenate([spots - pad, spots + pad]).reshape(-1, 3)

    def _tip_points(self) -> Floats:
        tips = np.zeros((self.bodies, 3))
        for part in self._parts:
            if part.kind == "spoke":
                continue
            centers = part.points if part.kind in ("line", "sphere") else part.points.mean(axis=0)[None]
            far = part.points[int(np.argmax(np.linalg.norm(part.points, axis=1)))]
            candidate = far if part.kind == "line" else centers[0]
            if np.linalg.norm(candidate) > np.linalg.norm(tips[part.body]):
                tips[part.body] = candidate
        return tips


def _parts(body: int, shape: Shape) -> Iterator[_Part]:
    """The shape, and on the faces of a cylinder a spoke each, which shows how far it has turned."""
    points, radius = _local_points(shape)
    R = rotation(np.asarray(shape.quaternion, dtype=np.float64))
    points = points @ R.T + np.asarray(shape.position)
    yield _Part(body, shape.kind, shape.color, points, radius)
    if shape.kind == "cylinder":
        for face in np.split(points, 2):
            yield _Part(body, "spoke", shape.color, np.stack([face.mean(axis=0), face[0]]), 0.0)


def _faces(kind: str, flat: Floats) -> Iterator[tuple[Floats, float]]:
    """The faces toward the eye of a projected box or cylinder (m, 3): their corners and how bright they are."""
    center = flat.mean(axis=0)
    if kind == "box":
        for corners in BOX_FACES:
            normal = flat[corners].mean(axis=0) - center
            if normal[2] > 0.0:
                yield hull(flat[corners, :2]), _brightness(normal)
        return
    for ring in np.split(flat, 2):
        normal = ring.mean(axis=0) - center
        if normal[2] > 0.0:
            length = max(float(np.linalg.norm(normal)), 1e-12)
            beside = np.array([0.0, 0.0, 1.0]) - normal[2] / length * normal / length
            yield hull(flat[:, :2]), _brightness(beside)
            yield hull(ring[:, :2]), _brightness(normal)
            return
    yield hull(flat[:, :2]), 1.0


def _brightness(normal: Floats) -> float:
    """1 for a face that looks at the light, less for others; `normal` as seen on the paper, of any length."""
    length = max(float(np.linalg.norm(normal)), 1e-12)
    return DIMMEST + (1.0 - DIMMEST) * max(float(normal @ LIGHT) / length, 0.0)


def _local_points(shape: Shape) -> tuple[Floats, float]:
    """Points in the shape's own frame, and the radius of a ball around them; sizes that lack are zero."""
    size = [*shape.size, 0.0, 0.0, 0.0]
    if shape.kind == "line":
        return np.asarray(shape.points, dtype=np.float64).reshape(-1, 3), 0.0
    if shape.kind == "sphere":
        return np.zeros((1, 3)), size[0]
    if shape.kind == "box":
        corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
        return corners * np.asarray(size[:3]), 0.0
    angles = np.linspace(0.0, 2.0 * math.pi, ROUND, endpoint=False)
    ring = np.stack([size[0] * np.cos(angles), size[0] * np.sin(angles), np.zeros(ROUND)], axis=1)
    half = np.array([0.0, 0.0, 0.5 * size[1]])
    return np.concatenate([ring - half, ring + half]), 0.0


def evenly_along(path: Floats, count: int) -> list[int]:
    """At most `count` indices that cut a path (n, m) into pieces of equal length, first and last included."""
    if len(path) < 2:
        return list(range(len(path)))
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    walked = np.concatenate([[0.0], np.cumsum(np.nan_to_num(steps))])
    if walked[-1] <= 0.0:
        return [len(path) - 1]
    marks = np.linspace(0.0, walked[-1], count)
    return sorted({min(int(np.searchsorted(walked, mark)), len(path) - 1) for mark in marks})

"""Bodies as outlines: the shapes of a description, placed by poses and projected to the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodes.wire.messages import Description, Shape
from viewer.projection import View, hull, rotation
from viewer.series import Floats

ROUND = 20  # corners that stand for a circle


@dataclass(frozen=True)
class Outline:
    """One shape on the paper: corners (k, 2), closed when it is a surface; radius > 0 for a ball at corner
    0."""

    body: int
    color: str
    corners: Floats
    depth: float
    closed: bool
    radius: float = 0.0


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
        self.bodies = len(description.bodies)
        self.gravity = np.asarray(description.gravity, dtype=np.float64)
        self.colors = [next((shape.color for shape in body.shapes if shape.color), "") for body in description.bodies]
        self._parts = [
            _part(index, shape)
            for index, body in enumerate(description.bodies)
            for shape in body.shapes
            if shape.kind in ("line", "box", "sphere", "cylinder")
        ]

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
        found = []
        for part in self._parts:
            flat = view.project(p_WB[part.body] + part.points @ R_WB[part.body].T)
            corners = flat[:, :2]
            closed = part.kind in ("box", "cylinder")
            if closed:
                corners = hull(corners)
            depth = float(flat[:, 2].mean())
            found.append(Outline(part.body, part.color, corners, depth, closed, part.radius))
        yield from sorted(found, key=lambda outline: outline.depth)

    def tips(self, rows: Floats) -> Floats:
        """Where the point of each body farthest from its origin went: (n, bodies, 3)."""
        p = rows[:, : 3 * self.bodies].reshape(len(rows), self.bodies, 3)
        R = rotation(rows[:, 3 * self.bodies :].reshape(len(rows), self.bodies, 4))
        return p + np.einsum("nbij,bj->nbi", R, self._tip_points())

    def paths(self, rows: Floats) -> Floats:
        """Where origins and tips of the bodies went: (n, 2 bodies, 3)."""
        return np.concatenate([rows[:, : 3 * self.bodies].reshape(len(rows), -1, 3), self.tips(rows)], axis=1)

    def reach(self, rows: Floats) -> Floats:
        """All shape points (k, 3) over the given poses, padded by radii: what a picture must hold."""
        clouds = [np.zeros((0, 3))]
        for row in rows:
            p_WB, R_WB = self.place(row)
            for part in self._parts:
                if len(p_WB):
                    points = p_WB[part.body] + part.points @ R_WB[part.body].T
                    pad = np.full(3, part.radius)
                    clouds.extend([points - pad, points + pad] if part.radius else [points])
        return np.concatenate(clouds)

    def _tip_points(self) -> Floats:
        tips = np.zeros((self.bodies, 3))
        for part in self._parts:
            centers = part.points if part.kind in ("line", "sphere") else part.points.mean(axis=0)[None]
            far = part.points[int(np.argmax(np.linalg.norm(part.points, axis=1)))]
            candidate = far if part.kind == "line" else centers[0]
            if np.linalg.norm(candidate) > np.linalg.norm(tips[part.body]):
                tips[part.body] = candidate
        return tips


def _part(body: int, shape: Shape) -> _Part:
    points, radius = _local_points(shape)
    R = rotation(np.asarray(shape.quaternion, dtype=np.float64))
    return _Part(body, shape.kind, shape.color, points @ R.T + np.asarray(shape.position), radius)


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

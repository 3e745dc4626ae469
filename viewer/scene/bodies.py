"""Bodies as outlines: shapes from the description, transformed by poses and projected onto the drawing plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.framework.messages import Description, Shape
from viewer.data.series import Floats
from viewer.scene.projection import PoseBounds, View, hull, rotation
from viewer.scene.solids import ROUND, Solids


class Outline(NamedTuple):
    """One shape in the drawing plane.

    body     index of the body to which the shape belongs; -1 for a shape that belongs to no body
    corners  points of the outline, (k, 2), m; for a ball, the first point is its centre
    depth    coordinate toward the viewer, m; outlines with larger depth are drawn over the others
    closed   whether the outline is the closed boundary of a surface; otherwise it is a line
    radius   radius of a ball, m; 0 for any other shape
    fine     whether the shape is a thin mark on a surface
    shade    brightness of a surface, by its angle to the light
    width    line width in pixels, for a line that does not belong to a body; 0 for the default
    hollow   whether only the ring of a ball is drawn
    edged    whether a surface has a dark edge; the triangles of a mesh have none
    """

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
    edged: bool = True


@dataclass(frozen=True)
class _Part:
    """A shape as points (m, 3) in its body's frame.

    faces  (k, 3) indices of points for the corners of each triangle of a mesh; None for other shapes
    """

    body: int
    kind: str
    color: str
    points: Floats
    radius: float
    faces: NDArray[np.intp] | None = None


class Skeleton:
    """The drawable shapes of a robot's bodies."""

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
            if shape.kind in ("line", "box", "sphere", "cylinder", "mesh")
            for part in _parts(index, shape)
        ]
        counts = [len(part.points) for part in self._parts]
        self._starts = [0, *np.cumsum(counts)[:-1].tolist()] if counts else []
        self._counts = np.asarray(counts, dtype=np.float64)
        meshes = {place: part.faces for place, part in enumerate(self._parts) if part.faces is not None}
        self._solids = Solids([part.kind for part in self._parts], self._starts, meshes)
        self._points = np.concatenate([part.points for part in self._parts]) if counts else np.zeros((0, 3))
        self._body_of = np.repeat([part.body for part in self._parts], counts).astype(np.intp)

    def is_of(self, description: Description) -> bool:
        """Whether a description has the same robot, bodies and gravity as the description of this skeleton."""
        own = self._description
        return (own.robot, own.bodies, own.gravity) == (description.robot, description.bodies, description.gravity)

    def place(self, row: Floats) -> tuple[Floats, Floats]:
        """(positions p_WB (bodies, 3), rotations R_WB (bodies, 3, 3)) from a row of poses.

        p_WB has the positions of the bodies' origins in the world, m, and R_WB the rotation matrices from body axes to
        world axes. Both arrays are empty if the length of the row does not fit the number of bodies.
        """
        if len(row) != 7 * self.bodies:
            return np.zeros((0, 3)), np.zeros((0, 3, 3))
        positions = row[: 3 * self.bodies].reshape(-1, 3)
        return positions, rotation(row[3 * self.bodies :].reshape(-1, 4))

    def outlines(self, row: Floats, view: View, hulls: bool = False) -> Iterator[Outline]:
        """Outlines of all shapes at one pose, farthest from the eye first.

        hulls  whether a mesh is the outline of its hull instead of its triangles
        """
        p_WB, R_WB = self.place(row)
        if len(p_WB) == 0 or not self._parts:
            return
        R_VB = view.axes @ R_WB
        flat = view.project(p_WB)[self._body_of] + np.einsum("nij,nj->ni", R_VB[self._body_of], self._points)
        depths = (np.add.reduceat(flat[:, 2], self._starts) / self._counts).tolist()
        faces = self._solids.faces(flat, only_meshes=view.planar)
        found: list[Outline] = []
        solid = -math.inf
        for place, (part, depth) in enumerate(zip(self._parts, depths, strict=True)):
            edged = part.faces is None
            if place in faces and (edged or not hulls):
                solid = depth
                found += [
                    Outline(part.body, part.color, face, depth, True, shade=shade, edged=edged)
                    for face, shade in faces[place]
                ]
                continue
            if part.kind == "spoke" and not view.planar and depth < solid:
                continue  # on the face turned away from the eye
            closed = part.kind in ("box", "cylinder", "mesh")
            start = self._starts[place]
            corners = flat[start : start + len(part.points), :2]
            if closed:
                corners = hull(corners)
            found.append(Outline(part.body, part.color, corners, depth, closed, part.radius, part.kind == "spoke"))
        yield from sorted(found, key=lambda outline: (round(outline.depth, 6), not outline.closed))

    def radius(self, body: int) -> float:
        """Radius of the largest sphere among the shapes of a body, m; 0 for a body without spheres."""
        return max((part.radius for part in self._parts if part.body == body), default=0.0)

    def tips(self, rows: Floats) -> Floats:
        """World positions (n, bodies, 3), m, of the tip of each body at n poses.

        The candidates for the tip of a body are the points of its lines and the centres of its other shapes. The tip is
        the candidate that is farthest from the body's origin.
        """
        p = rows[:, : 3 * self.bodies].reshape(len(rows), self.bodies, 3)
        R = rotation(rows[:, 3 * self.bodies :].reshape(len(rows), self.bodies, 4))
        return p + np.einsum("nbij,bj->nbi", R, self.tip_points)

    def front(self, rows: Floats) -> Floats:
        """Vector (3,) that points in the direction in which the robot reaches, in world axes.

        The vector is the mean of the vectors from the heaviest body to the tips (see `tips`) over all poses, weighted
        by the path length of each tip, and divided by the largest distance of a tip from the heaviest body.
        """
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

    def bounds(self) -> PoseBounds:
        """New `PoseBounds` for the shapes of this robot, without positions. Results of `spots` are added to it."""
        parts = np.repeat(np.arange(len(self._parts)), [len(part.points) for part in self._parts])
        return PoseBounds(parts, np.array([part.kind != "line" for part in self._parts], dtype=bool))

    def spots(self, rows: Floats) -> Floats:
        """World positions (poses, points, 3), m, of the points of all shapes at the given poses.

        rows  (poses, 7 bodies), one row per pose, as in `Signals.poses`
        """
        if rows.shape[1] != 7 * self.bodies or not self._parts:
            return np.zeros((len(rows), 0, 3))
        p = rows[:, : 3 * self.bodies].reshape(len(rows), self.bodies, 3)
        R = rotation(rows[:, 3 * self.bodies :].reshape(len(rows), self.bodies, 4))
        return np.concatenate(
            [p[:, part.body, None] + part.points @ R[:, part.body].mT for part in self._parts], axis=1
        )

    def reach(self, spots: Floats) -> Floats:
        """Points (k, 3), m, that a picture must contain.

        These are the shape points `spots`, shifted along all axes by plus and minus the radii of the spheres.
        """
        radii = [part.radius for part in self._parts]
        pad = np.repeat(np.array(radii), [len(part.points) for part in self._parts])[:, None]
        return np.concatenate([spots - pad, spots + pad]).reshape(-1, 3)

    @cached_property
    def tip_points(self) -> Floats:
        """Position (bodies, 3), m, of the tip of each body in the body's frame; see `tips`."""
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
    """Yield the shape as a _Part, with its points in the frame of the body.

    For a cylinder, also yield a radial line on each end face, which shows the rotation of the cylinder.
    """
    points, radius = _local_points(shape)
    R = rotation(np.asarray(shape.quaternion, dtype=np.float64))
    points = points @ R.T + np.asarray(shape.position)
    faces = np.asarray(shape.faces, dtype=np.intp).reshape(-1, 3) if shape.kind == "mesh" else None
    yield _Part(body, shape.kind, shape.color, points, radius, faces)
    if shape.kind == "cylinder":
        for face in np.split(points, 2):
            yield _Part(body, "spoke", shape.color, np.stack([face.mean(axis=0), face[0]]), 0.0)


def _local_points(shape: Shape) -> tuple[Floats, float]:
    """(points (n, 3) of a shape in the shape's own frame, radius of a sphere), both in m.

    The radius is 0 for any other shape than a sphere. Sizes that the shape does not have are taken as zero.
    """
    size = [*shape.size, 0.0, 0.0, 0.0]
    if shape.kind in ("line", "mesh"):
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
    """At most `count` indices that divide a path (n, m) into pieces of equal length.

    The first and the last index are among them.
    """
    if len(path) < 2:
        return list(range(len(path)))
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    walked = np.concatenate([[0.0], np.cumsum(np.nan_to_num(steps))])
    if walked[-1] <= 0.0:
        return [len(path) - 1]
    marks = np.linspace(0.0, walked[-1], count)
    return sorted({min(int(np.searchsorted(walked, mark)), len(path) - 1) for mark in marks})

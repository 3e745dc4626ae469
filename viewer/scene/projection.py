"""Choice of the viewing direction, and orthographic projection of world points along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewer.data.series import Floats

# Direction to the eye about the vertical and above the horizontal, for a robot that moves in no single plane.
AZIMUTH_DEG = -52.0
ELEVATION_DEG = 22.0
# As fractions of the robot's size:
FLAT = 0.02  # largest motion of a point, and extent of a line, out of the plane of a planar view
THIN = 0.1  # thickness across the plane that any solid may have, whatever its shape
LAYERED = 0.35  # largest total thickness of all bodies across the plane
BEHIND = 0.1  # reach away from the eye from which on the eye moves to the opposite side
PLANES = ("auto", "xy", "xz", "yz", "space")


@dataclass(frozen=True)
class View:
    """An orthographic view. The rows of `axes` are the world directions that point right, up and toward the eye.

    name  "xy", "xz" or "yz" for a view along the normal of this coordinate plane, "space" for any other view
    """

    name: str
    axes: Floats

    @property
    def planar(self) -> bool:
        """Whether the drawing plane is a coordinate plane, so that the axes of the picture show coordinates."""
        return self.name != "space"

    def project(self, points: Floats) -> Floats:
        """Coordinates (..., 3) of world points (..., 3) along the view axes: right, up, and toward the eye."""
        return points @ self.axes.T


class PoseBounds:
    """Bounds of the shape points over all poses so far, and the coordinate planes in which all poses so far lie.

    A plane in which one pose does not lie is never chosen again, so that the view of a live robot rarely changes.
    """

    def __init__(self, parts: NDArray[np.intp], solid: NDArray[np.bool_]) -> None:
        """Start with empty bounds, before any pose is added.

        parts  (points,) index of the shape to which each point belongs
        solid  (shapes,) true for a shape that is a solid, false for a line
        """
        self._parts = parts
        self._solid = solid
        self._low = np.full((len(parts), 3), np.inf)
        self._high = np.full((len(parts), 3), -np.inf)
        self._planes = ["xy", "xz", "yz"]

    def add(self, spots: Floats) -> None:
        """Extend the bounds by the points `spots` (poses, points, 3), which must be finite."""
        if spots.size == 0:
            return
        self._low = np.minimum(self._low, spots.min(axis=0))
        self._high = np.maximum(self._high, spots.max(axis=0))
        extents = np.zeros((len(self._solid), 3))
        for part in range(len(self._solid)):
            extents[part] = np.ptp(spots[:, self._parts == part], axis=1).max(axis=0)
        whole = self._high.max(axis=0) - self._low.min(axis=0)
        self._planes = [plane for plane in self._planes if self._contains_motion(plane, whole, extents)]

    def _contains_motion(self, plane: str, whole: Floats, extents: Floats) -> bool:
        """Whether all shapes are thin along the normal of the plane, and move parallel to the plane.

        whole    extents of all shapes together over all poses, along x, y and z, m
        extents  (shapes, 3) largest extents of each shape at any single pose, along x, y and z, m
        """
        off = _normal(plane)
        along = [axis for axis in range(3) if axis != off]
        size = max(float(whole[along].max()), 1e-9)
        allowed = np.where(self._solid, np.maximum(THIN * size, extents[:, along].max(axis=1)), FLAT * size)
        moved = (self._high - self._low)[:, off].max()
        return bool(moved <= FLAT * size and np.all(extents[:, off] <= allowed) and whole[off] <= LAYERED * size)

    def plane(self, gravity: Floats) -> str:
        """Name of the coordinate plane that suits the view; "space" if no coordinate plane contains the motion.

        Of several planes, the plane along whose normal the robot is thinnest is chosen. If the robot is equally thin
        along several normals, a plane that contains the direction of gravity is chosen.
        """
        if not np.isfinite(self._low).all() or len(self._low) == 0:
            return "space"
        thickness = self._high.max(axis=0) - self._low.min(axis=0)
        size = max(float(thickness.max()), 1e-9)
        return min(
            self._planes,
            key=lambda plane: (round(thickness[_normal(plane)] / size, 3), abs(gravity[_normal(plane)])),
            default="space",
        )


def _normal(plane: str) -> int:
    return next(axis for axis in range(3) if "xyz"[axis] not in plane)


def choose_view(requested: str, gravity: Floats, front: Floats | None = None) -> View:
    """The view with the name `requested`, turned so that up is opposite to gravity as far as the view permits.

    front  direction in which the robot reaches, see `Skeleton.front`. If the robot reaches away from the viewer, an
           oblique view is taken from the opposite side.

    Raises ValueError for an unknown name.
    """
    if requested not in PLANES[1:]:
        raise ValueError(f"plane {requested!r} is unknown; choose one of {', '.join(PLANES[1:])}")
    up = -gravity / length if (length := float(np.linalg.norm(gravity))) > 0.0 else np.array([0.0, 0.0, 1.0])
    return (
        _space_view(up, np.zeros(3) if front is None else front) if requested == "space" else _plane_view(requested, up)
    )


def check_plane(requested: str) -> None:
    if requested not in PLANES:
        raise ValueError(f"plane {requested!r} is unknown; choose one of {', '.join(PLANES)}")


def _plane_view(name: str, up: Floats) -> View:
    right = np.eye(3)["xyz".index(name[0])]
    upward = np.eye(3)["xyz".index(name[1])]
    if abs(up @ right) > abs(up @ upward):
        right, upward = upward, right
    if up @ upward < 0.0:
        upward = -upward
    return View(name, np.stack([right, upward, np.cross(right, upward)]))


def _space_view(up: Floats, front: Floats) -> View:
    aside = np.eye(3)[int(np.argmin(np.abs(up)))]
    ahead = aside - (aside @ up) * up
    ahead /= np.linalg.norm(ahead)
    left = np.cross(up, ahead)
    azimuth, elevation = math.radians(AZIMUTH_DEG), math.radians(ELEVATION_DEG)
    outward = math.cos(azimuth) * ahead + math.sin(azimuth) * left
    if front @ outward < -BEHIND:
        outward = -outward
    eye = math.cos(elevation) * outward + math.sin(elevation) * up
    right = np.cross(up, outward)
    return View("space", np.stack([right, np.cross(eye, right), eye]))


def rotation(quaternion: Floats) -> Floats:
    """Rotation matrices R_WB (..., 3, 3) of quaternions (..., 4) in the order w, x, y, z.

    The quaternions are normalized here; a zero quaternion gives the identity.
    """
    norm = np.linalg.norm(quaternion, axis=-1, keepdims=True)
    unit = np.where(norm > 0.0, quaternion / np.where(norm > 0.0, norm, 1.0), [1.0, 0.0, 0.0, 0.0])
    w, x, y, z = np.moveaxis(unit, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def hull(points: Floats) -> Floats:
    """Corners (k, 2) of the convex hull of points (n, 2), counter-clockwise."""
    ordered = sorted({(float(x), float(y)) for x, y in points})
    if len(ordered) < 3:
        return np.asarray(ordered).reshape(-1, 2)
    chains = []
    for run in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for x, y in run:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], (x, y)) <= 0.0:
                chain.pop()
            chain.append((x, y))
        chains.append(chain[:-1])
    return np.asarray(chains[0] + chains[1])


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    """Cross product of b - a and c - a, which is positive if the path a, b, c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

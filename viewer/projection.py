"""From three dimensions to the paper: which way to look, and the orthographic projection along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from viewer.series import Floats

AZIMUTH_DEG = -52.0  # where the eye stands around the vertical, for robots that leave every plane
ELEVATION_DEG = 22.0
PLANAR = 0.02  # spread off the plane, relative to the largest, below which a motion is planar
PLANES = ("auto", "xy", "xz", "yz", "space")


@dataclass(frozen=True)
class View:
    """An orthographic view. Rows of `axes`, expressed in the world: right, up, toward the eye.

    name  "xy", "xz", "yz" for a plane that is seen face on, "space" for a view from above and aside
    """

    name: str
    axes: Floats

    @property
    def planar(self) -> bool:
        """Whether the paper is a coordinate plane, so that coordinates can be read off it."""
        return self.name != "space"

    def project(self, points: Floats) -> Floats:
        """(..., 3) world points -> (..., 3): right and up on the paper, and the depth toward the eye."""
        return points @ self.axes.T


def choose_view(paths: Floats, gravity: Floats, wanted: str = "auto") -> View:
    """The view for points that move along `paths` (n, points, 3): the plane they stay in, or one in space.

    Up on the paper is against gravity as far as the plane allows. Raises ValueError for an unknown plane.
    """
    check_plane(wanted)
    if wanted == "auto":
        wanted = _best_plane(paths)
    up = -gravity / length if (length := float(np.linalg.norm(gravity))) > 0.0 else np.array([0.0, 0.0, 1.0])
    return _space_view(up) if wanted == "space" else _plane_view(wanted, up)


def check_plane(wanted: str) -> None:
    """Raise ValueError for a plane there is not."""
    if wanted not in PLANES:
        raise ValueError(f"plane {wanted!r} is unknown; choose one of {', '.join(PLANES)}")


def _best_plane(paths: Floats) -> str:
    """The coordinate plane that all motion is parallel to, "space" when there is none.

    While nothing moves yet, the plane the points lie in.
    """
    if paths.size == 0:
        return "space"
    spread = np.ptp(paths, axis=0).max(axis=0)
    if not np.any(spread > 0.0):
        spread = np.ptp(paths.reshape(-1, 3), axis=0)
    flattest = int(np.argmin(spread))
    if spread[flattest] > PLANAR * max(float(spread.max()), 1e-9):
        return "space"
    return ("yz", "xz", "xy")[flattest]


def _plane_view(name: str, up: Floats) -> View:
    right = np.eye(3)["xyz".index(name[0])]
    upward = np.eye(3)["xyz".index(name[1])]
    if abs(up @ right) > abs(up @ upward):
        right, upward = upward, right
    if up @ upward < 0.0:
        upward = -upward
    return View(name, np.stack([right, upward, np.cross(right, upward)]))


def _space_view(up: Floats) -> View:
    aside = np.eye(3)[int(np.argmin(np.abs(up)))]
    ahead = aside - (aside @ up) * up
    ahead /= np.linalg.norm(ahead)
    left = np.cross(up, ahead)
    azimuth, elevation = math.radians(AZIMUTH_DEG), math.radians(ELEVATION_DEG)
    outward = math.cos(azimuth) * ahead + math.sin(azimuth) * left
    eye = math.cos(elevation) * outward + math.sin(elevation) * up
    right = np.cross(up, outward)
    return View("space", np.stack([right, np.cross(eye, right), eye]))


def rotation(quaternion: Floats) -> Floats:
    """(..., 3, 3) rotation matrices R_WB of (..., 4) unit quaternions w x y z; zero gives the identity."""
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
    """The corners (k, 2) of the convex hull of (n, 2) points, counter-clockwise."""
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
    """Positive when a, b, c turn left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

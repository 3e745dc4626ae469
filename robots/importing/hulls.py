"""Convex hulls of meshes as a bounded number of points, and the points of a set that are corners of its hull.

The library trimesh reads the files. Of a hull with more corners than the bound, farthest-point sampling takes those
that are farthest apart.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np

from robots.importing.meshes import FORMATS, Meshes, all_triangles
from robots.importing.notes import Notes
from robots.importing.rotations import Array
from robots.importing.xml_reader import Element

THIN = 1e-6  # share of the cube of its extent that the volume of a hull must exceed
DIGITS = 9  # of coordinates in m
BOUNDED = "the hull of its mesh touches with {} of its corners; hull_points=N takes N"


class Hulls:
    """Reads the meshes of collision shapes; a mesh that cannot be read is named and touches nothing.

    folder  folder to which the paths of meshes are relative
    most    largest number of points of one mesh
    """

    def __init__(self, folder: Path, notes: Notes, most: int) -> None:
        self._meshes, self._notes, self._most = Meshes(folder, notes), notes, most

    def points(self, mesh: Element) -> Array:
        """Points (n, 3) of the convex hull of a <mesh>, m. Raises ElementError for a hull without volume."""
        name = mesh.text("filename")
        path = self._meshes.located(name)
        if path is None or path.suffix.lower() not in FORMATS or importlib.util.find_spec("trimesh") is None:
            why = f"no file of type {', '.join(FORMATS)}" if path is None or path.suffix.lower() not in FORMATS else ""
            self._notes.add(
                mesh, f"its mesh touches nothing: {f'there is {why}' if why else 'armswing[meshes] is not installed'}"
            )
            return np.zeros((0, 3))
        try:
            corners, flatness = _hull(path, path.stat().st_mtime_ns)
        except Exception as error:  # the libraries raise anything for a broken file; it is reported in one line
            why = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            self._notes.add(mesh, f"its mesh {path.name} touches nothing, because it cannot be read: {why}")
            return np.zeros((0, 3))
        if flatness <= THIN:
            mesh.fail(
                f"the convex hull of {path.name} has no volume; give the link a box, sphere or cylinder, or pass "
                "contacts=none"
            )
        if len(corners) > self._most:
            self._notes.add(mesh, BOUNDED.format(self._most))
        scale = np.array(mesh.numbers("scale", 3, (1.0, 1.0, 1.0)))
        return np.round(farthest(corners * scale, self._most), DIGITS)


@functools.lru_cache(maxsize=256)
def _hull(path: Path, modified_ns: int) -> tuple[Array, float]:
    """`corners_of` a mesh file."""
    return corners_of(all_triangles(path)[0])


def corners_of(points: Array) -> tuple[Array, float]:
    """(corners (n, 3) of the convex hull of points (n, 3), m, its volume divided by the cube of its extent)."""
    from scipy.spatial import ConvexHull, QhullError  # takes longer than to build a robot without hulls

    vertices = np.unique(np.round(points, DIGITS), axis=0)
    extent = float(np.ptp(vertices, axis=0).max())
    try:
        hull = ConvexHull(vertices)
    except (QhullError, ValueError):  # all in one plane, or too few
        return vertices, 0.0
    return vertices[np.sort(hull.vertices)], hull.volume / max(extent, 1e-300) ** 3


def farthest(points: Array, most: int) -> Array:
    """At most `most` of the points (n, 3), by farthest-point sampling from the one farthest from their middle."""
    if len(points) <= most:
        return points
    chosen = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    away = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.asarray(points[np.sort(chosen)])


def outer(points: Array) -> list[int]:
    """Indices of the points (n, 3) that are corners of their convex hull; all if they lie in one plane."""
    if len(points) > 4:
        from scipy.spatial import ConvexHull, QhullError

        try:
            return sorted(map(int, ConvexHull(points).vertices))
        except QhullError:
            pass
    return [*range(len(points))]

"""Meshes of URDF and MJCF files as drawable shapes of at most FACES triangles.

The library trimesh reads the files: STL, OBJ, and COLLADA (DAE) with pycollada. The library fast-simplification reduces
their triangles by quadric error metrics, so that a mesh is small enough for messages and recordings. The reduced
triangles are kept in the cache folder, in a file named by a hash of the mesh file's content.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robots.importing.notes import Notes
from robots.importing.rotations import Array, vector
from robots.importing.xml_reader import Element
from sim_core.kernels.machine_code.native import cache_subfolder, cached_bytes
from sim_core.mechanism import Shape
from sim_core.spatial import quaternions_from_rotations
from sim_core.support.limited import read_limited

FACES = 300  # most triangles of a drawn mesh
CELLS = (96, 64, 48, 40, 32, 26, 22, 18, 15, 12, 10, 8, 6, 5, 4)  # along the longest edge of the bounding box
FORMATS = (".stl", ".obj", ".dae")
LARGEST_BYTES = 32_000_000  # of a file
DIGITS = 5  # of coordinates in m
VERSION = "4"  # of the reduction, part of the key in the cache
LIBRARIES = ("trimesh", "fast_simplification")
NOT_INSTALLED = "meshes are not drawn: pip install 'armswing[meshes]' installs the libraries that read them"
PACKAGE, FILE = "package://", "file://"
Triangles = tuple[Array, "np.ndarray[Any, np.dtype[np.intp]]"]  # vertices (n, 3), m, and their indices (m, 3)


class Meshes:
    """Reads the meshes that one model file names, and adds a note about each mesh that cannot be drawn.

    folder  folder to which the paths of meshes are relative: that of the model file, or the `meshdir` of an MJCF file
    """

    def __init__(self, folder: Path, notes: Notes) -> None:
        self._folder, self._notes = folder, notes

    def shape(
        self, element: Element, name: str, scale: Sequence[float], p: Array, R: Array, color: str
    ) -> Shape | None:
        """Shape of a mesh at a pose in its body's frame. If the mesh cannot be drawn, adds a note and returns None.

        element  element of the model file that names the mesh
        name     path of the mesh, or its URL with package:// or file://
        scale    factors along x, y, z
        """
        path = self.located(name)
        if path is None:
            self._notes.add(element, f"there is no file of its mesh; {self._places(name)}")
            return None
        if path.suffix.lower() not in FORMATS:
            self._notes.add(element, f"its mesh is no file of type {', '.join(FORMATS)}")
            return None
        if any(importlib.util.find_spec(library) is None for library in LIBRARIES):
            self._notes.add(element, NOT_INSTALLED)
            return None
        try:
            vertices, faces = triangles(path, path.stat().st_mtime_ns)
        except Exception as error:  # the libraries raise anything for a broken file; it is reported in one line
            why = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            self._notes.add(element, f"its mesh {path.name} cannot be read: {why}")
            return None
        w, x, y, z = (quaternions_from_rotations(R[None])[0] + 0.0).tolist()
        inside_out = float(np.prod(scale)) < 0.0
        points = np.round(vertices * np.array(scale), DIGITS) + 0.0
        order = faces[:, ::-1] if inside_out else faces
        return Shape(
            kind="mesh",
            points=tuple(points.ravel().tolist()),
            faces=tuple(order.ravel().tolist()),
            position=vector(p),
            quaternion=(w, x, y, z),
            color=color,
        )

    def _places(self, name: str) -> str:
        """Where `located` searches for a mesh, as the end of a message."""
        if not name.startswith(PACKAGE):
            return f"its path is relative to {self._folder.resolve()}"
        package = name.removeprefix(PACKAGE).lstrip("/").partition("/")[0]
        return (
            f"the folder {package!r} of its package is searched for in {self._folder.resolve()} and above, and on "
            "ROS_PACKAGE_PATH and AMENT_PREFIX_PATH"
        )

    def located(self, name: str) -> Path | None:
        """Path of the file of a mesh; None if there is no such file.

        A package:// URL is searched for in `folder`, in the folders above it, and on the search paths of ROS
        (ROS_PACKAGE_PATH and AMENT_PREFIX_PATH). Any other name is an absolute path, or a path relative to `folder`.

        name  path of the mesh, or its URL with package:// or file://
        """
        if not name.startswith(PACKAGE):
            path = self._folder / name.removeprefix(FILE)
            return path if os.path.isfile(path) else None
        inside = name.removeprefix(PACKAGE).lstrip("/")
        folders = [self._folder, *self._folder.parents]
        folders += [Path(each) for each in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if each]
        prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        folders += [Path(each) / "share" for each in prefixes if each]
        return next((folder / inside for folder in folders if os.path.isfile(folder / inside)), None)


@functools.lru_cache(maxsize=4096)
def triangles(path: Path, modified_ns: int) -> Triangles:
    """Vertices (n, 3) and triangles (m, 3) of a mesh file, reduced to at most FACES triangles.

    The reduced mesh is read from the cache folder if it is there; otherwise it is computed and stored there.

    modified_ns  time of the file's last change, ns; a changed file has another time and is therefore read again
    """
    return kept_reduction(path.suffix.lower().encode() + read_limited(path, LARGEST_BYTES), lambda: all_triangles(path))


def kept_reduction(content: bytes, read: Callable[[], Triangles]) -> Triangles:
    """The triangles that `read` returns, reduced; from the cache folder if they were reduced before.

    content  bytes that determine the triangles
    """
    key = hashlib.sha256(VERSION.encode() + content).hexdigest()[:32]
    kept = cache_subfolder("meshes") / f"{key}.json"
    stored = cached_bytes(kept)
    try:
        found = json.loads(stored or b"")
        return np.array(found["vertices"]).reshape(-1, 3), np.array(found["faces"], dtype=np.intp).reshape(-1, 3)
    except (ValueError, KeyError, TypeError):
        pass
    vertices, faces = reduced(*read())
    try:
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps({"vertices": vertices.ravel().tolist(), "faces": faces.ravel().tolist()}))
        unfinished.replace(kept)
    except OSError:
        pass
    return vertices, faces


def can_reduce() -> bool:
    """Whether the library that reduces the triangles of a mesh is installed."""
    return importlib.util.find_spec("fast_simplification") is not None


def drawn_mesh(vertices: Array, faces: np.ndarray[Any, np.dtype[np.intp]]) -> Triangles:
    """A mesh reduced to at most FACES triangles, with rounded coordinates, as it is drawn."""
    points, corners = kept_reduction(vertices.tobytes() + faces.tobytes(), lambda: (vertices, faces))
    return np.round(points, DIGITS) + 0.0, corners


def all_triangles(path: Path) -> Triangles:
    """All triangles of a mesh file; if the file is a scene of several parts, each part has its pose in the scene."""
    import trimesh

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)  # trimesh logs missing textures
        try:
            mesh: Any = trimesh.load(str(path), force="mesh", process=False)
        finally:
            logging.disable(before)
    vertices, faces = np.asarray(mesh.vertices, dtype=float), np.asarray(mesh.faces, dtype=np.intp)
    if not len(faces) or not np.isfinite(vertices).all():
        raise ValueError("it has no triangles" if not len(faces) else "its vertices are not finite")
    return vertices, faces


def reduced(vertices: Array, faces: np.ndarray[Any, np.dtype[np.intp]]) -> Triangles:
    """Reduce a mesh to at most FACES triangles.

    Edges collapse where this changes the surface least. A mesh of many parts, which cannot be reduced that far, is
    reduced further by `clustered`.
    """
    import fast_simplification

    points, place = np.unique(np.round(vertices, DIGITS + 1), axis=0, return_inverse=True)  # an STL file repeats them
    corners = place.ravel()[faces]
    corners = corners[(np.diff(np.sort(corners, axis=1), axis=1) > 0).all(axis=1)]
    if not len(corners):
        raise ValueError("its triangles have no area")
    if len(corners) <= FACES:
        return points, corners
    points, corners = fast_simplification.simplify(  # with more than 3, small parts of a mesh vanish
        points.astype(np.float32), corners.astype(np.int32), target_count=FACES, agg=3
    )
    points, corners = points.astype(float), corners.astype(np.intp)
    return (points, corners) if len(corners) <= FACES else clustered(points, corners)


def clustered(vertices: Array, faces: np.ndarray[Any, np.dtype[np.intp]]) -> Triangles:
    """Reduce a mesh to at most FACES triangles by merging the vertices that lie in the same cell of a grid.

    Of the vertices in a cell, the one nearest to their mean is kept. Of the grids in CELLS, the finest that gives at
    most FACES triangles is used.
    """
    low = vertices.min(axis=0)
    size = float(np.ptp(vertices, axis=0).max()) or 1.0
    for cells in CELLS:
        # the grid begins half a cell outside, so that flat faces lie within a layer of cells
        places = np.floor((vertices - low) / size * cells + 0.5).astype(np.int64)
        _, cell = np.unique(places, axis=0, return_inverse=True)
        cell = cell.ravel()
        corners = cell[faces]
        apart = (corners[:, 0] != corners[:, 1]) & (corners[:, 1] != corners[:, 2]) & (corners[:, 2] != corners[:, 0])
        corners = corners[apart]
        _, first = np.unique(np.sort(corners, axis=1), axis=0, return_index=True)
        if len(first) <= FACES or cells == CELLS[-1]:
            break
    count = np.bincount(cell)
    middles = np.stack([np.bincount(cell, vertices[:, axis]) / count for axis in range(3)], axis=1)
    away = np.sum((vertices - middles[cell]) ** 2, axis=1)
    order = np.lexsort((away, cell))
    nearest = order[np.unique(cell[order], return_index=True)[1]]
    used, renumbered = np.unique(corners[np.sort(first)], return_inverse=True)
    return vertices[nearest][used], renumbered.reshape(-1, 3).astype(np.intp)

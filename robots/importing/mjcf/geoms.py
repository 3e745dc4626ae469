"""Shapes for drawings of the geoms of an MJCF file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from robots.importing.meshes import NOT_INSTALLED, can_reduce, drawn_mesh
from robots.importing.mjcf.compiled import Compiled, rotation
from robots.importing.rotations import Array, vector
from robots.importing.visuals import hex_color
from sim_core.mechanism import Shape
from sim_core.mechanism.joints import Quaternion

KINDS = {int(kind): name.removeprefix("mjGEOM_").lower() for name, kind in mujoco.mjtGeom.__members__.items()}
PLAIN = (0.5, 0.5, 0.5, 1.0)  # colour of geoms to which the file gives none
VISIBLE_GROUP = 2  # last group of geoms that MuJoCo's viewer shows by default


def shapes_of(compiled: Compiled, body: int, meshes: bool) -> tuple[Shape, ...]:
    """Shapes of a body's geoms of the groups 0 to 2, which MuJoCo shows; of all its geoms if these have no shape.

    Files keep geoms for collisions, which enclose the visible ones, in group 3.

    meshes  whether meshes are drawn
    """
    first, count = compiled.model.body_geomadr[body], compiled.model.body_geomnum[body]
    geoms = range(first, first + count)
    visible = [geom for geom in geoms if compiled.model.geom_group[geom] <= VISIBLE_GROUP]
    shapes = tuple(shape for geom in visible for shape in _shapes(compiled, geom, meshes))
    hidden = (geom for geom in geoms if geom not in visible)
    return shapes or tuple(shape for geom in hidden for shape in _shapes(compiled, geom, meshes))


def quaternion_of(values: Array) -> Quaternion:
    """Quaternion w x y z of a compiled model as Python floats."""
    w, x, y, z = (np.asarray(values) + 0.0).tolist()
    return w, x, y, z


def _shapes(compiled: Compiled, geom: int, meshes: bool) -> tuple[Shape, ...]:
    """Shapes of a geom; () for planes, height fields and geoms that are entirely transparent.

    A capsule becomes a cylinder and two spheres, an ellipsoid becomes its bounding box.
    """
    model = compiled.model
    rgba, color = _color(model, geom)
    if rgba[3] == 0.0:
        return ()
    p, kind = model.geom_pos[geom], KINDS[int(model.geom_type[geom])]
    a, b, c = model.geom_size[geom].tolist()
    at: dict[str, Any] = {"position": vector(p), "quaternion": quaternion_of(model.geom_quat[geom]), "color": color}
    if kind in ("mesh", "sdf") and meshes:
        return _mesh(compiled, geom, at)
    if kind == "sphere":
        return (Shape(kind="sphere", size=(a,), **at),)
    if kind in ("box", "ellipsoid"):
        return (Shape(kind="box", size=(2.0 * a, 2.0 * b, 2.0 * c), **at),)
    if kind not in ("capsule", "cylinder"):
        return ()
    rod = Shape(kind="cylinder", size=(a, 2.0 * b), **at)
    z = rotation(model.geom_quat[geom])[:, 2]
    ends = (vector(p + sign * b * z) for sign in (-1.0, 1.0))
    return (rod, *(Shape(kind="sphere", size=(a,), position=end, color=color) for end in ends if kind == "capsule"))


def _mesh(compiled: Compiled, geom: int, at: dict[str, Any]) -> tuple[Shape, ...]:
    """The shape of a geom that is a mesh; empty, with a note, if the library that reduces its triangles is missing."""
    model, mesh = compiled.model, int(compiled.model.geom_dataid[geom])
    if not can_reduce():
        compiled.notes.add(compiled.element("geom", geom), NOT_INSTALLED)
        return ()
    rows = _rows(mesh, model.mesh_vertadr, model.mesh_vertnum), _rows(mesh, model.mesh_faceadr, model.mesh_facenum)
    points, faces = drawn_mesh(model.mesh_vert[rows[0]].astype(float), model.mesh_face[rows[1]].astype(np.intp))
    return (Shape(kind="mesh", points=tuple(points.ravel().tolist()), faces=tuple(faces.ravel().tolist()), **at),)


def _rows(index: int, first: Sequence[int], count: Sequence[int]) -> slice:
    return slice(first[index], first[index] + count[index])


def _color(model: Any, geom: int) -> tuple[Array, str]:
    """(red, green, blue and opacity of a geom; its colour "#rrggbb", "" if the file gives it none)."""
    rgba, material = model.geom_rgba[geom], model.geom_matid[geom]
    plain = bool(np.allclose(rgba, PLAIN, rtol=0.0, atol=1e-6))
    if plain and material < 0:
        return rgba, ""
    rgba = model.mat_rgba[material] if plain else rgba
    return rgba, hex_color(rgba[:3].tolist())

"""Shapes of URDF links for drawings: boxes, cylinders, spheres and meshes, or a box where a mesh cannot be drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from robots.importing.inertials import Inertia, origin_of
from robots.importing.meshes import Meshes
from robots.importing.notes import Notes
from robots.importing.rotations import Array, vector
from robots.importing.xml_reader import Element, ElementError
from sim_core.mechanism import Shape, Vector3
from sim_core.mechanism.inertias import inertia_box
from sim_core.spatial import quaternions_from_rotations

KINDS = ("box", "cylinder", "sphere")
BOX_FOR_MESH = "a box of the link's mass and inertia is drawn in place of its mesh"


class Visuals:
    """Reads the shapes of links; named materials may be defined anywhere in the file.

    meshes  reader of mesh files; None if boxes are to be drawn in place of all meshes
    """

    def __init__(self, robot: Element, notes: Notes, meshes: Meshes | None) -> None:
        self._notes, self._meshes = notes, meshes
        self._colors: dict[str, str] = {}
        self._textured: set[str] = set()
        for material in robot.walk():
            if material.tag != "material":
                continue
            name = material.attributes.get("name", "")
            for color in material.all("color"):
                try:
                    self._colors[name] = _color(color)
                except ElementError as error:
                    self._textured.add(name)
                    notes.add(color, f"the colour is not read: {error.message}")
            if material.all("texture"):
                self._textured.add(name)

    def shapes_of(self, link: Element, inertial: tuple[float, Vector3, Inertia]) -> tuple[Shape, ...]:
        """Drawable shapes of a link; if it has only meshes that cannot be drawn, one box with its mass and inertia."""
        shapes: list[Shape] = []
        meshes: list[Element] = []
        for visual in link.all("visual"):
            visual.label = f"{link.label}: <visual>"
            try:
                self._add_shape(link, visual, shapes, meshes)
            except ElementError as error:
                self._notes.add(visual, f"the shape is not drawn: {error.message}")
        if meshes and not shapes and (box := inertia_box(*inertial)) is not None:
            self._notes.add(meshes[0], BOX_FOR_MESH)
            shapes.append(dataclasses.replace(box, color=self._color_of(link.all("visual")[0])))
        elif meshes and not shapes:
            self._notes.add(
                meshes[0],
                "the mesh is not drawn, nor a box in its place: the link has no inertia from which a box follows",
            )
        return tuple(shapes)

    def _add_shape(self, link: Element, visual: Element, shapes: list[Shape], meshes: list[Element]) -> None:
        """Append the shape of a <visual>; a mesh that is not drawn is appended to `meshes`."""
        geometry = visual.child("geometry")
        geometry.label = f"{link.label}: <geometry>"
        found = [child for child in geometry.children if child.tag in (*KINDS, "mesh")]
        if len(found) != 1 or len(geometry.children) != 1:
            kinds = ", ".join(f"<{child.tag}>" for child in geometry.children) or "nothing"
            self._notes.add(geometry, f"the geometry is {kinds}, which is not drawn")
            return
        found[0].label = f"{link.label}: <{found[0].tag}>"
        if found[0].tag == "mesh":
            meshes.append(found[0])
            shape = self._mesh(found[0], visual)
            if shape is not None:
                meshes.remove(found[0])
                shapes.append(shape)
        else:
            p, R = origin_of(visual)
            shapes.append(_shape(found[0], vector(p), R, self._color_of(visual)))

    def _mesh(self, element: Element, visual: Element) -> Shape | None:
        if self._meshes is None:
            return None
        p, R = origin_of(visual)
        scale = element.numbers("scale", 3, (1.0, 1.0, 1.0))
        return self._meshes.shape(element, element.text("filename"), scale, p, R, self._color_of(visual))

    def _color_of(self, visual: Element) -> str:
        materials = visual.all("material")
        if not materials:
            return ""
        material = materials[0]
        if len(materials) > 1:
            self._notes.add(materials[1], "the shape has several materials, and the colour of the first")
        name = material.attributes.get("name", "")
        if name not in self._colors and name not in self._textured:
            self._notes.add(material, f"no material {name!r} has a <color>: the shape has the colour of its body")
        return self._colors.get(name, "")


def _shape(geometry: Element, p: Vector3, R: Array, color: str) -> Shape:
    if geometry.tag == "box":
        size = geometry.numbers("size", 3)
    else:
        size = tuple(geometry.number(name) for name in ("radius", "length")[: 2 if geometry.tag == "cylinder" else 1])
    if not all(length > 0.0 for length in size):
        geometry.fail(f"the size is {' '.join(f'{length:g}' for length in size)} m; all its numbers must be above 0")
    return Shape(kind=geometry.tag, size=size, position=p, quaternion=_quaternion(R), color=color)


def _quaternion(R: Array) -> tuple[float, float, float, float]:
    w, x, y, z = (quaternions_from_rotations(R[None])[0] + 0.0).tolist()
    return w, x, y, z


def _color(element: Element) -> str:
    """Colour "#rrggbb" of a <color rgba> element; the alpha value is ignored."""
    return hex_color(element.numbers("rgba", 4)[:3])


def hex_color(channels: Sequence[float]) -> str:
    """Colour "#rrggbb" from red, green and blue, numbers from 0 to 1."""
    return "#" + "".join(f"{round(255 * min(max(channel, 0.0), 1.0)):02x}" for channel in channels)

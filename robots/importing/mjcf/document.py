"""Reading of an MJCF file: included files, default classes, and the file's conventions for angles and orientations."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from robots.importing.mjcf.schema import CHILDREN
from robots.importing.rotations import normalized, rotation_about_axis
from robots.importing.xml_reader import LARGEST_BYTES, Element, read_xml
from sim_core.spatial import quaternions_from_rotations, rotation_from_quaternion
from sim_core.support.suggestion import did_you_mean

Array = np.ndarray[Any, np.dtype[np.float64]]

MAIN = "main"
MOST_INCLUDES, DEEPEST_INCLUDE = 1000, 50  # files that a file includes, directly and indirectly; levels of them
TENDONS = CHILDREN["tendon"].split()
ACTUATORS = CHILDREN["actuator"].split()
ORIENTATIONS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")


def read_document(path: Path, owner: str) -> Element:
    """The <mujoco> element of a file, with each <include> replaced by the content of the included file."""
    root = read_xml(path, owner)
    if root.tag != "mujoco":
        root.fail("this is not an MJCF file; its root element must be <mujoco>")
    _include(root, path.parent, owner, {path.resolve()}, [])
    return root


def _include(element: Element, folder: Path, owner: str, seen: set[Path], sizes: list[int]) -> None:
    """Replace each <include> in an element by the content of the included file.

    seen   the file of the element and those that include it
    sizes  size of each file that was included so far, bytes
    """
    children: list[Element] = []
    for child in element.children:
        if child.tag != "include":
            _include(child, folder, owner, seen, sizes)
            children.append(child)
            continue
        name = child.text("file")
        path = Path(os.path.realpath(folder / name))  # unlike Path.resolve it takes a name that no file can have
        if path in seen:
            child.fail(f"file {name!r} includes itself, directly or indirectly; remove this <include>")
        if not os.path.isfile(path):
            child.fail(f"there is no file {name!r}; tried {path}")
        sizes.append(os.path.getsize(path))
        if len(seen) > DEEPEST_INCLUDE or len(sizes) > MOST_INCLUDES or sum(sizes) > LARGEST_BYTES:
            child.fail(
                f"there are more than {MOST_INCLUDES} included files, or {LARGEST_BYTES} bytes of them, or more than "
                f"{DEEPEST_INCLUDE} levels; write the elements into one file"
            )
        included = read_xml(path, f"{owner}: {name}")
        _include(included, folder, owner, seen | {path}, sizes)
        children += included.children
    element.children[:] = children


class Defaults:
    """The default classes of an MJCF file, which give attributes to elements that lack them."""

    def __init__(self, root: Element) -> None:
        self._of: dict[str, dict[str, dict[str, str]]] = {MAIN: {}}
        self._lines: dict[str, dict[str, dict[str, int]]] = {MAIN: {}}  # of the attributes in `_of`
        for index, element in enumerate(root.all("default")):
            name = element.attributes.get("class", MAIN)
            if index == 0 and name != MAIN:
                # the first top class is the main one, whatever its name
                self._of[name], self._lines[name] = self._of[MAIN], self._lines[MAIN]
            self._read(element, name, MAIN)

    def _read(self, element: Element, name: str, inherited: str) -> None:
        own, lines = self._of.setdefault(name, {}), self._lines.setdefault(name, {})
        for tag, attributes in self._of[inherited].items():
            own[tag] = {**attributes, **own.get(tag, {})}
            lines[tag] = {**self._lines[inherited][tag], **lines.get(tag, {})}
        for child in element.children:
            if child.tag != "default":
                tag = _shared_tag(child.tag)
                own[tag] = {**own.get(tag, {}), **child.attributes}
                lines[tag] = {**lines.get(tag, {}), **dict.fromkeys(child.attributes, child.line)}
        for child in element.all("default"):
            if child.name("class") in self._of:
                child.fail(f"two default classes are named {child.name('class')!r}; names must be unique")
            self._read(child, child.name("class"), name)

    def childclass(self, body: Element, inherited: str) -> str:
        """Default class of the elements in a body: its `childclass`, or else `inherited`.

        Raises InvalidMechanism for a class that the file does not define.
        """
        name = body.attributes.get("childclass", inherited)
        if name and name not in self._of:
            body.fail(f"childclass is {name!r}, but there is no such default class{did_you_mean(name, self._of)}")
        return name

    def applied(self, element: Element, inherited: str = "") -> Element:
        """A copy of an element, with missing attributes taken from its default class.

        inherited  default class given by an enclosing body, used if the element has no attribute `class`
        """
        name = element.attributes.get("class", inherited) or MAIN
        if name not in self._of:
            element.fail(f"there is no default class {name!r}; define it in <default>")
        given = dict(self._of[name].get(_shared_tag(element.tag), {}))
        if any(key in element.attributes for key in ORIENTATIONS):  # an orientation replaces that of the class
            given = {key: value for key, value in given.items() if key not in ORIENTATIONS}
        lines = self._lines[name].get(_shared_tag(element.tag), {})
        from_class = {key: lines[key] for key in given if key not in element.attributes}
        return dataclasses.replace(element, attributes={**given, **element.attributes}, inherited=from_class)


def _shared_tag(tag: str) -> str:
    """Tag under which the defaults for an element are stored: "general" for all actuators, "tendon" for both kinds of
    tendons, otherwise the tag itself.
    """
    return "general" if tag in ACTUATORS else "tendon" if tag in TENDONS else tag


class Angles:
    """Converts orientations in a file to rotations, by the attributes `angle` and `eulerseq` of <compiler>.

    where  element that error messages about these attributes name
    """

    def __init__(self, compiler: dict[str, str], where: Element) -> None:
        self.unit = 1.0 if compiler.get("angle") == "radian" else math.pi / 180.0
        self._sequence = compiler.get("eulerseq", "xyz")
        if len(self._sequence) != 3 or {*self._sequence.lower()} - {*"xyz"}:
            where.fail(f"compiler eulerseq is {self._sequence!r}; it must be three of the letters xyzXYZ")

    def rotation_of(self, element: Element) -> Array:
        """Rotation matrix (3, 3) of an element's orientation attribute; the identity without such an attribute."""
        given = [key for key in ORIENTATIONS if key in element.attributes]
        if len(given) > 1:
            element.fail(f"the element has two orientations, {given[0]!r} and {given[1]!r}; give only one")
        return getattr(self, f"_{given[0]}")(element) if given else np.eye(3)

    def quaternion_of(self, element: Element) -> tuple[float, float, float, float]:
        """Unit quaternion w x y z of an element's orientation attribute; a `quat` keeps its sign in the file."""
        R = self.rotation_of(element)
        e = (
            normalized(element.numbers("quat", 4))
            if "quat" in element.attributes
            else quaternions_from_rotations(R[None])[0]
        )
        w, x, y, z = (e + 0.0).tolist()
        return w, x, y, z

    def _quat(self, element: Element) -> Array:
        quat = element.numbers("quat", 4)
        if not any(quat):
            element.fail("quat is 0 0 0 0; give a quaternion with a norm above 0")
        return np.asarray(rotation_from_quaternion(normalized(quat)))

    def _axisangle(self, element: Element) -> Array:
        x, y, z, angle = element.numbers("axisangle", 4)
        a, b, c = unit(element, "axisangle", (x, y, z)).tolist()
        return rotation_about_axis((a, b, c), angle * self.unit)

    def _xyaxes(self, element: Element) -> Array:
        numbers = element.numbers("xyaxes", 6)
        x = unit(element, "xyaxes", numbers[:3])
        y = np.array(numbers[3:])
        y = unit(element, "xyaxes", y - (x @ y) * x)
        return np.column_stack([x, y, np.cross(x, y)])

    def _zaxis(self, element: Element) -> Array:
        return rotation_of_z(unit(element, "zaxis", element.numbers("zaxis", 3)))

    def _euler(self, element: Element) -> Array:
        R = np.eye(3)
        for letter, angle in zip(self._sequence, element.numbers("euler", 3), strict=True):
            x, y, z = (float(letter.lower() == other) for other in "xyz")
            turn = rotation_about_axis((x, y, z), angle * self.unit)
            R = R @ turn if letter.islower() else turn @ R
        return R


def unit(element: Element, name: str, values: Any) -> Array:
    """The vector `values` scaled to length 1.

    name  attribute of the element that contains the vector, for the error message
    Raises InvalidMechanism for a zero vector.
    """
    vector = np.array(values, dtype=float)
    length = float(np.linalg.norm(vector))
    if length < 1e-12:
        element.fail(f"{name} gives a direction of length 0; give a vector that is not zero")
    return vector / length


def rotation_of_z(direction: Array) -> Array:
    """Rotation matrix (3, 3) of the smallest rotation that maps z to the unit vector `direction`."""
    axis = np.array([-direction[1], direction[0], 0.0])
    sine = float(np.linalg.norm(axis))
    if sine < 1e-10:
        axis, sine = np.array([1.0, 0.0, 0.0]), 0.0
    else:
        axis = axis / sine
    x, y, z = axis.tolist()
    return rotation_about_axis((x, y, z), math.atan2(sine, float(direction[2])))

"""Text of XML documents and attributes: numbers without loss of precision, rotations, colours, comments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np

from robots.importing.rotations import normalized
from sim_core.mechanism import Mechanism, Shape
from sim_core.spatial import quaternions_from_rotations, rotation_from_quaternion

Array = np.ndarray[Any, np.dtype[np.float64]]


def numbers(values: Iterable[Any]) -> str:
    """Text of numbers, separated by spaces. Each number has the shortest text that is read as the same double."""
    return " ".join(repr(float(number) + 0.0) for number in values)  # + 0.0 turns -0.0 into 0.0


def rpy_of(R: Array) -> tuple[float, float, float]:
    """Return (roll, pitch, yaw) in rad of R = Rz(yaw) Ry(pitch) Rx(roll).

    The result is accurate to rounding even at a pitch of +-pi/2, where R determines only the sum or difference of roll
    and yaw. To achieve this, roll is computed from R after the yaw has been removed.
    """
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw


def quaternion_of(R: Array) -> Array:
    """Unit quaternion (w, x, y, z) of a rotation matrix, shape (4,)."""
    return np.asarray(quaternions_from_rotations(R[None])[0])


def rotation_of(quaternion: Sequence[float] | Array) -> Array:
    """Rotation matrix (3, 3) of a nonzero quaternion (w, x, y, z) of any norm; (3, 3, n) of quaternions (4, n)."""
    return np.asarray(rotation_from_quaternion(normalized(quaternion)))


def rotation_to(direction: Array) -> Array:
    """A rotation matrix (3, 3) whose third column, the z axis, is the unit vector `direction`."""
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    x = np.cross(helper, direction)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(direction, x), direction])


def rgba_of(color: str) -> str | None:
    """Convert a colour "#rrggbb" or "#rgb" to text "r g b 1" with numbers from 0 to 1; None for any other text."""
    digits = color.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    try:
        channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    except ValueError:
        return None
    return numbers([*channels, 1.0]) if color.startswith("#") and len(digits) == 6 else None


def pieces_of(line: Shape) -> list[tuple[Array, Array]]:
    """Start and end (3,) of every segment of a "line" shape, in the body's frame; zero-length segments are left out."""
    points = np.array(line.points, dtype=float).reshape(-1, 3) @ rotation_of(line.quaternion).T
    return [(a, b) for a, b in pairwise(points + np.array(line.position)) if (a != b).any()]


def boxed(shape: Shape) -> Shape:
    """The shape itself, or for a mesh the box around it."""
    if shape.kind != "mesh":
        return shape
    points = np.array(shape.points, dtype=float).reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    middle = np.array(shape.position) + rotation_of(shape.quaternion) @ ((low + high) / 2.0)
    x, y, z = np.maximum(high - low, 1e-3 * float((high - low).max())).tolist()
    a, b, c = middle.tolist()
    return replace(shape, kind="box", size=(x, y, z), position=(a, b, c), points=(), faces=())


def boxed_meshes(mechanism: Mechanism) -> list[str]:
    """List with one text, which says whose meshes are replaced by boxes; an empty list if no body has a mesh."""
    names = [body.name for body in mechanism.bodies if any(shape.kind == "mesh" for shape in body.shapes)]
    return [f"boxes are written in place of the meshes of {', '.join(map(repr, names))}"] if names else []


def line_radius(mechanism: Mechanism) -> float:
    """Radius (m) of the cylinders that represent lines in an exported file."""
    return 0.01 * mechanism.characteristic_length


def title(mechanism: Mechanism) -> str:
    """Text of the first comment in an exported file: the robot, this program, and the units."""
    return f"{mechanism.name}, written by armswing robot export; SI units, angles in radians"


def comment(text: str) -> Any:
    """An XML comment with the given text; "--", which XML forbids in comments, becomes "- -"."""
    while "--" in text:
        text = text.replace("--", "- -")
    return ElementTree.Comment(f" {text} ")


def document(root: ElementTree.Element) -> str:
    """Text of an XML file with the root element `root`."""
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"

"""Numbers, rotations and colours as XML attributes that lose nothing, and the document around them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np

from sim_core.mechanism import Mechanism, Shape
from sim_core.spatial import quaternions_from_rotations, rotation_from_quaternion

Array = np.ndarray[Any, np.dtype[np.float64]]


def numbers(values: Iterable[Any]) -> str:
    """Numbers as the shortest text that reads back as the same doubles."""
    return " ".join(repr(float(number) + 0.0) for number in values)  # + 0.0 turns -0.0 into 0.0


def rpy_of(R: Array) -> tuple[float, float, float]:
    """Roll, pitch, yaw (rad) with R = Rz(yaw) Ry(pitch) Rx(roll); to rounding also where the pitch is +-pi/2.

    Roll is read after the yaw was turned back, so that the two make up for one another where each alone is free.
    """
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw


def quaternion_of(R: Array) -> Array:
    """Unit quaternion (4,), w x y z, of a rotation."""
    return np.asarray(quaternions_from_rotations(R[None])[0])


def rotation_of(quaternion: Iterable[float]) -> Array:
    """Rotation of a quaternion w x y z of any length but zero."""
    e = np.array(tuple(quaternion), dtype=float)
    return np.asarray(rotation_from_quaternion(e / np.linalg.norm(e)))


def rotation_to(direction: Array) -> Array:
    """A rotation whose z axis is the unit vector `direction`."""
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    x = np.cross(helper, direction)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(direction, x), direction])


def rgba_of(color: str) -> str | None:
    """ "r g b 1" of "#rrggbb" or "#rgb"; None for anything else."""
    digits = color.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    try:
        channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    except ValueError:
        return None
    return numbers([*channels, 1.0]) if color.startswith("#") and len(digits) == 6 else None


def pieces_of(line: Shape) -> list[tuple[Array, Array]]:
    """Start and end (3,) of every piece of a "line", in the body's frame; pieces without length are left out."""
    points = np.array(line.points, dtype=float).reshape(-1, 3) @ rotation_of(line.quaternion).T
    return [(a, b) for a, b in pairwise(points + np.array(line.position)) if (a != b).any()]


def line_radius(mechanism: Mechanism) -> float:
    """How thick lines are drawn, m."""
    return 0.01 * mechanism.characteristic_length


def title(mechanism: Mechanism) -> str:
    """What a file says of itself first."""
    return f"{mechanism.name}, written by armswing robot export; SI units, angles in radians"


def comment(text: str) -> Any:
    """A comment; two hyphens, which would end it, are drawn apart."""
    while "--" in text:
        text = text.replace("--", "- -")
    return ElementTree.Comment(f" {text} ")


def document(root: ElementTree.Element) -> str:
    """The text of a file."""
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"

"""Collision shapes of URDF links: spheres, capsules, and points in place of boxes, cylinders and hulls of meshes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from robots.importing.hulls import Hulls
from robots.importing.inertials import origin_of
from robots.importing.notes import Notes
from robots.importing.rotations import Array, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import Vector3
from sim_core.mechanism.joints import ORIGIN

RIM = 8  # points on each rim of a cylinder
SHAPES = ("sphere", "capsule", "box", "cylinder", "mesh")


@dataclass(frozen=True)
class Round:
    """A sphere or capsule of a link, in the link's frame.

    half_axis  vector from the centre of the capsule to that of the sphere at one of its ends, m; zero for a sphere
    """

    center: Vector3
    radius: float
    half_axis: Vector3 = ORIGIN

    @property
    def ends(self) -> list[Array]:
        """Centres (3,) of the spheres at the ends, m; one for a sphere."""
        center, half = np.array(self.center), np.array(self.half_axis)
        return [center + half, center - half] if half.any() else [center]


@dataclass(frozen=True)
class LinkCollisions:
    """What touches of one link: spheres and capsules, and points (n, 3) in the link's frame, m."""

    element: Element
    rounds: tuple[Round, ...]
    points: Array


def collisions_of(link: Element, hulls: Hulls, notes: Notes) -> LinkCollisions:
    """The collision shapes of a link. Raises ElementError for a size that no body has, and a hull without volume."""
    rounds, points = list[Round](), [np.zeros((0, 3))]
    for collision in link.all("collision"):
        collision.label = f"{link.label}: <collision>"
        geometry = collision.child("geometry")
        geometry.label = f"{link.label}: <geometry>"
        p, R = origin_of(collision)
        for shape in geometry.children:
            shape.label = f"{link.label}: <{shape.tag}> in <collision>"
            if shape.tag in ("sphere", "capsule"):
                half = 0.5 * _length(shape, "length") * R[:, 2] if shape.tag == "capsule" else np.zeros(3)
                rounds.append(Round(vector(p), _length(shape, "radius"), vector(half)))
            elif shape.tag in SHAPES:
                points.append(p + _points(shape, hulls) @ R.T)
            else:
                notes.add(shape, f"<{shape.tag}> in <collision> is not read: it touches nothing")
    return LinkCollisions(link, tuple(rounds), np.concatenate(points))


def _points(shape: Element, hulls: Hulls) -> Array:
    """Points (n, 3) with which a box, cylinder or mesh touches, in the frame of its <origin>, m."""
    if shape.tag == "mesh":
        return hulls.points(shape)
    if shape.tag == "box":
        size = shape.numbers("size", 3)
        if not min(size) > 0.0:
            shape.fail(f"size is {' '.join(f'{each:g}' for each in size)} m; all its numbers must be above 0")
        return np.array([*itertools.product(*((0.5 * each, -0.5 * each) for each in size))])
    radius, half = _length(shape, "radius"), 0.5 * _length(shape, "length")
    angles = [2.0 * math.pi * k / RIM for k in range(RIM)]
    return np.array([(radius * math.cos(a), radius * math.sin(a), z) for z in (half, -half) for a in angles])


def _length(shape: Element, name: str) -> float:
    value = shape.number(name)
    if not value > 0.0:
        shape.fail(f"{name} is {value:g} m; it must be above 0")
    return value

"""Mass, inertia and shape of the geoms of an MJCF file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from robots.importing.inertials import Inertia
from robots.importing.mjcf.document import Angles, rotation_of_z, unit
from robots.importing.rotations import vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import Shape
from sim_core.spatial import quaternions_from_rotations

Array = np.ndarray[Any, np.dtype[np.float64]]
DENSITY = 1000.0  # kg/m3
LENGTHS = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}  # numbers of `size` that count
WITH_FROMTO = ("capsule", "cylinder", "ellipsoid", "box")
UNDRAWN = ("plane", "hfield", "mesh", "sdf")


@dataclass(frozen=True)
class Lump:
    """Mass (kg), centre of mass (3,) in m, and inertia (3, 3) about the centre of mass in kg m2, in the body's axes."""

    mass: float
    center: Array
    inertia: Array

    def about(self, point: Array) -> Array:
        """Inertia matrix (3, 3), kg m2, about a point (3,), m, in the body's axes."""
        d = self.center - point
        return np.asarray(self.inertia + self.mass * (d @ d * np.eye(3) - np.outer(d, d)))


def together(lumps: list[Lump]) -> Lump:
    """One Lump with the total mass, centre of mass and inertia of several; all zero for a total mass of zero."""
    mass = sum(lump.mass for lump in lumps)
    if mass == 0.0:
        return Lump(0.0, np.zeros(3), np.zeros((3, 3)))
    center = sum((lump.mass * lump.center for lump in lumps), np.zeros(3)) / mass
    return Lump(mass, center, sum((lump.about(center) for lump in lumps), np.zeros((3, 3))))


@dataclass(frozen=True)
class Geom:
    """A geom with its pose p, R in the body's frame.

    element  XML element, with the attributes of its default class
    kind     MJCF's type, such as "sphere" or "box"
    size     sizes as in MJCF, m: radius, half lengths, or radius and half length; () for planes, height fields, meshes
             and SDFs
    """

    element: Element
    kind: str
    size: tuple[float, ...]
    p: Array
    R: Array

    @property
    def volume(self) -> float:
        """Volume of the geom, m3."""
        a, b, c = (*self.size, 0.0, 0.0)[:3]
        return {
            "sphere": 4.0 / 3.0 * math.pi * a**3,
            "capsule": math.pi * a * a * (2.0 * b + 4.0 / 3.0 * a),
            "cylinder": math.pi * a * a * 2.0 * b,
            "ellipsoid": 4.0 / 3.0 * math.pi * a * b * c,
            "box": 8.0 * a * b * c,
        }[self.kind]

    def lump(self) -> Lump:
        """Mass, centre of mass and inertia of the geom as a solid of uniform density.

        Planes and height fields have no mass. Raises InvalidMechanism for a negative mass, and for a mesh with a mass,
        whose inertia cannot be computed.
        """
        given = self.element.attributes
        if given.get("shellinertia", "false") == "true":
            self.element.fail(
                "shellinertia is not supported, because geoms are solid; give the body an <inertial> instead"
            )
        if self.kind in ("plane", "hfield"):
            mass = 0.0
        elif "mass" in given:
            mass = self.element.number("mass")
        else:
            density = self.element.number("density", DENSITY)
            if density > 0.0 and self.kind in UNDRAWN:
                self.element.fail(f"the mass of a {self.kind} geom cannot be computed; give the body an <inertial>")
            mass = density * self.volume if density != 0.0 else 0.0
        if mass < 0.0:
            self.element.fail(f"mass is {mass:g} kg; it must not be negative")
        if mass == 0.0:
            return Lump(0.0, self.p, np.zeros((3, 3)))
        if self.kind in UNDRAWN:
            self.element.fail(f"the inertia of a {self.kind} geom cannot be computed; give the body an <inertial>")
        return Lump(mass, self.p, self.R @ np.diag(self._moments(mass)) @ self.R.T)

    def _moments(self, mass: float) -> tuple[float, float, float]:
        a, b, c = (*self.size, 0.0, 0.0)[:3]
        if self.kind == "sphere":
            moment = 0.4 * mass * a * a
            return moment, moment, moment
        if self.kind == "cylinder":
            across = mass * (3.0 * a * a + 4.0 * b * b) / 12.0
            return across, across, 0.5 * mass * a * a
        if self.kind == "capsule":
            ball = mass * (4.0 / 3.0 * a) / (2.0 * b + 4.0 / 3.0 * a)  # mass of the two half spheres
            rod = mass - ball
            across = rod * (3.0 * a * a + 4.0 * b * b) / 12.0 + ball * (0.4 * a * a + b * b + 0.75 * a * b)
            return across, across, 0.5 * rod * a * a + 0.4 * ball * a * a
        k = mass / 3.0 if self.kind == "box" else mass / 5.0
        return k * (b * b + c * c), k * (a * a + c * c), k * (a * a + b * b)

    def shapes(self, color: str) -> tuple[Shape, ...]:
        """Shapes for drawings; () for planes, height fields, meshes and SDFs.

        A capsule becomes a cylinder and two spheres, an ellipsoid becomes its bounding box.
        """
        if self.kind in UNDRAWN:
            return ()
        w, x, y, z = (quaternions_from_rotations(self.R[None])[0] + 0.0).tolist()
        at: dict[str, Any] = {"position": vector(self.p), "quaternion": (w, x, y, z), "color": color}
        a, b, c = (*self.size, 0.0, 0.0)[:3]
        if self.kind == "sphere":
            return (Shape(kind="sphere", size=(a,), **at),)
        if self.kind in ("box", "ellipsoid"):
            return (Shape(kind="box", size=(2.0 * a, 2.0 * b, 2.0 * c), **at),)
        rod = Shape(kind="cylinder", size=(a, 2.0 * b), **at)
        if self.kind == "cylinder":
            return (rod,)
        ends = (vector(self.p + sign * b * self.R[:, 2]) for sign in (-1.0, 1.0))
        return (rod, *(Shape(kind="sphere", size=(a,), position=end, color=color) for end in ends))


def geom_of(element: Element, angles: Angles) -> Geom:
    """The Geom of a <geom> element to which the defaults of its class are already applied."""
    kind = element.attributes.get("type", "mesh" if "mesh" in element.attributes else "sphere")
    if kind not in (*LENGTHS, *UNDRAWN):
        element.fail(f"type is {kind!r}; it must be one of {', '.join((*LENGTHS, *UNDRAWN))}")
    p = np.array(element.numbers("pos", 3, (0.0, 0.0, 0.0)))
    if kind in UNDRAWN:
        return Geom(element, kind, (), p, angles.rotation_of(element))
    if "mesh" in element.attributes:
        element.fail(
            f"a {kind} that MuJoCo fits to a mesh is not supported; remove 'mesh', and write size and pos instead"
        )
    if "fromto" not in element.attributes:
        size = _size(element, LENGTHS[kind])
        return Geom(element, kind, size, p, angles.rotation_of(element))
    if "pos" in element.attributes:
        element.fail("pos and fromto are both given; give only one")
    if kind not in WITH_FROMTO:
        element.fail(f"a {kind} cannot have 'fromto'; write pos and size instead")
    ends = np.array(element.numbers("fromto", 6))
    along = ends[:3] - ends[3:]
    half = 0.5 * float(np.linalg.norm(along))
    (across,) = _size(element, 1)
    size = (across, half) if kind in ("capsule", "cylinder") else (across, across, half)
    return Geom(element, kind, size, (ends[:3] + ends[3:]) / 2.0, rotation_of_z(unit(element, "fromto", along)))


def pose_of(site: Element, angles: Angles) -> tuple[Array, Array]:
    """(position p (3,), m; rotation R (3, 3)) of a site in its body's frame; a `fromto` gives its middle and z axis."""
    if "fromto" not in site.attributes:
        return np.array(site.numbers("pos", 3, (0.0, 0.0, 0.0))), angles.rotation_of(site)
    ends = np.array(site.numbers("fromto", 6))
    along = unit(site, "fromto", ends[:3] - ends[3:])
    return (ends[:3] + ends[3:]) / 2.0, rotation_of_z(along)


def inertia_of(inertial: Element, angles: Angles) -> Array:
    """Inertia matrix (3, 3) that an <inertial> gives, about the centre of mass in the body's axes, kg m2."""
    if "fullinertia" in inertial.attributes:
        xx, yy, zz, xy, xz, yz = inertial.numbers("fullinertia", 6)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    R = angles.rotation_of(inertial)
    return np.asarray(R @ np.diag(inertial.numbers("diaginertia", 3, (0.0, 0.0, 0.0))) @ R.T)


def entries_of(tensor: Array) -> Inertia:
    """Entries xx, yy, zz, xy, xz, yz of an inertia matrix (3, 3)."""
    a, b, c, d, e, f = (float(tensor[i, j]) + 0.0 for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    return a, b, c, d, e, f


def _count(element: Element) -> int:
    return len(element.text("size").split())


def _size(element: Element, count: int) -> tuple[float, ...]:
    """The first `count` numbers of the attribute `size`. Further numbers, such as those of a default class, are
    ignored.
    """
    given = element.numbers("size", _count(element))
    if len(given) < count:
        element.fail(f"size has {len(given)} numbers; it must have {count}")
    if not all(length > 0.0 for length in given[:count]):
        element.fail(f"size is {element.attributes['size']!r}; all its numbers must be above 0")
    return given[:count]

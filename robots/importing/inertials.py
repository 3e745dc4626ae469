"""Mass, centre of mass and inertia of a URDF link."""

from __future__ import annotations

import math

import numpy as np

from robots.importing.notes import Notes
from robots.importing.rotations import Array, rotation_rpy, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import ORIGIN, Vector3

Inertia = tuple[float, float, float, float, float, float]
NOTHING: Inertia = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
ROUNDING = 1e-9  # share of the largest principal moment: a smaller negative moment is a rounding error
NEGLIGIBLE = 1e-15  # m2: an inertia below this times the mass is a rounding error
SHORT = 1e-3  # share of the largest principal moment by which the sum of the others may fall short: files round


def origin_of(element: Element) -> tuple[Array, Array]:
    """(position p (3,), m; rotation R (3, 3)) of an element's <origin>; zero and identity if it has no <origin>."""
    origin = element.optional("origin")
    if origin is None:
        return np.zeros(3), np.eye(3)
    origin.label = f"{element.label}: <origin>"
    p = np.array(origin.numbers("xyz", 3, ORIGIN))
    if "quat_xyzw" in origin.attributes:
        origin.fail("attribute 'quat_xyzw' is not supported; write the rotation as 'rpy'")
    return p, rotation_rpy(origin.numbers("rpy", 3, ORIGIN))


def inertial_of(link: Element, notes: Notes) -> tuple[float, Vector3, Inertia]:
    """(mass, kg; centre of mass, m; inertia about the centre of mass in the link's axes, kg m2) of a URDF link.

    All are zero for a link without <inertial>. Raises InvalidMechanism for a negative mass or principal moment. Adds a
    warning to `notes` for an inertia without mass, and for principal moments that violate the triangle inequality. No
    real body has such an inertia, but the equations of motion still have a solution.
    """
    inertial = link.optional("inertial")
    if inertial is None:
        return 0.0, ORIGIN, NOTHING
    inertial.label = f"{link.label}: <inertial>"
    p, R = origin_of(inertial)
    holder = inertial.child("mass")
    mass = holder.number("value")
    holder.label = link.label  # the messages below name mass and inertia themselves
    if mass < 0.0:
        holder.fail(f"mass is {mass:g} kg; it must not be negative")
    moments = inertial.child("inertia")
    xx, yy, zz, xy, xz, yz = (moments.number(name) for name in MOMENTS)
    moments.label = link.label
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if tensor.any() and np.abs(tensor).max() < NEGLIGIBLE * mass:
        notes.add(moments, "its inertia differs from 0 by rounding only, and is read as 0")
        tensor[:] = 0.0
    _check(moments, mass, tensor, notes)
    if (np.eye(3) != R).any():
        tensor = R @ tensor @ R.T
        tensor = (tensor + tensor.T) / 2.0
    entries = (*np.diag(tensor), tensor[0, 1], tensor[0, 2], tensor[1, 2])
    a, b, c, d, e, f = (float(entry) + 0.0 for entry in entries)
    return mass, vector(p), (a, b, c, d, e, f)


def _check(element: Element, mass: float, tensor: Array, notes: Notes) -> None:
    low, middle, high = np.linalg.eigvalsh(tensor).tolist()
    printed = f"({low:.4g}, {middle:.4g}, {high:.4g}) kg m2"
    if low < -ROUNDING * max(abs(low), abs(high)):
        element.fail(f"inertia has principal moments {printed}; none may be negative")
    if mass == 0.0 and high > 0.0:
        notes.add(element, f"mass is 0 and inertia has principal moments {printed}; a body with inertia has mass")
    if high - low - middle > SHORT * high:
        notes.add(
            element, f"inertia has principal moments {printed}; the largest never exceeds the sum of the other two"
        )


def box_of(mass: float, center: Vector3, inertia: Inertia) -> tuple[Vector3, Array, Vector3] | None:
    """(centre, axes, edge lengths, m) of the uniform box with the given mass and inertia; None if there is no such
    box.
    """
    if mass <= 0.0:
        return None
    xx, yy, zz, xy, xz, yz = inertia
    moments, R = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    squares = 6.0 / mass * (moments.sum() - 2.0 * moments)
    edges = [math.sqrt(max(square, 0.0)) for square in squares]
    if not max(edges) > 0.0:
        return None
    a, b, c = (max(edge, 0.05 * max(edges)) for edge in edges)
    return center, R * np.sign(np.linalg.det(R)), (a, b, c)

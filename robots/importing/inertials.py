"""Mass, centre of mass and inertia of a URDF link."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robots.importing.notes import Notes
from robots.importing.rotations import Array, rotation_rpy, vector
from robots.importing.xml_reader import Element, Errors
from sim_core.mechanism import ORIGIN, Mechanism, Vector3
from sim_core.mechanism.inertias import common_inertia, inertia_matrix, nearest_inertia

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


def inertial_of(link: Element, notes: Notes, errors: Errors, repaired: bool = False) -> tuple[float, Vector3, Inertia]:
    """(mass, kg; centre of mass, m; inertia about the centre of mass in the link's axes, kg m2) of a URDF link.

    All are zero for a link without <inertial>, and where they cannot be read, which is added to `errors`. Adds a
    warning to `notes` for an inertia without mass, and for principal moments that violate the triangle inequality. No
    real body has such an inertia, but the equations of motion still have a solution. A negative principal moment is
    left to `check_negative`, because it may have no effect.

    repaired  whether the nearest consistent inertia replaces an inconsistent one, and products of inertia that are
              missing are 0, both with a note
    """
    inertial = link.optional("inertial")
    if inertial is None:
        return 0.0, ORIGIN, NOTHING
    inertial.label = f"{link.label}: <inertial>"
    p, R, mass, tensor = np.zeros(3), np.eye(3), 0.0, np.zeros((3, 3))
    with errors.collected():
        p, R = origin_of(inertial)
    with errors.collected():
        holder = inertial.child("mass")
        mass = holder.number("value")
        holder.label = link.label  # the messages below name mass and inertia themselves
        if mass < 0.0:
            holder.fail(f"mass is {mass:g} kg; it must not be negative")
    with errors.collected():
        moments = inertial.child("inertia")
        missing = [name for name in MOMENTS if name not in moments.attributes]
        if missing and not repaired and not {*missing} & {*MOMENTS[:3]}:
            moments.fail(f"attribute {missing[0]!r} is missing; add it, or pass repair=inertia for products of 0")
        xx, yy, zz = (moments.number(name) for name in MOMENTS[:3])
        xy, xz, yz = (moments.number(name, 0.0 if repaired else None) for name in MOMENTS[3:])
        moments.label = link.label
        if missing:
            notes.add(moments, f"inertia has no {', '.join(missing)}, read as 0, as repair=inertia asks")
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if tensor.any() and np.abs(tensor).max() < NEGLIGIBLE * mass:
            notes.add(moments, "its inertia differs from 0 by rounding only, and is read as 0")
            tensor[:] = 0.0
        tensor = repaired_inertia(moments, tensor, notes) if repaired else tensor
        _note_implausible(moments, mass, tensor, notes)
    if (np.eye(3) != R).any():
        tensor = R @ tensor @ R.T
        tensor = (tensor + tensor.T) / 2.0
    entries = (*np.diag(tensor), tensor[0, 1], tensor[0, 2], tensor[1, 2])
    a, b, c, d, e, f = (float(entry) + 0.0 for entry in entries)
    return mass, vector(p), (a, b, c, d, e, f)


def repaired_inertia(element: Element, tensor: Array, notes: Notes) -> Array:
    """The nearest consistent inertia, with a note that names the change; a consistent one unchanged."""
    low, middle, high = np.linalg.eigvalsh(tensor).tolist()
    if min(low, low + middle - high) >= -ROUNDING * max(abs(low), abs(high)):
        return tensor
    nearest = nearest_inertia(tensor)
    notes.add(
        element,
        f"inertia has principal moments {_printed(tensor)}, which no body has; the nearest consistent ones, "
        f"{_printed(nearest)}, are used, as repair=inertia asks",
    )
    return nearest


def is_negative(tensor: Array) -> bool:
    """Whether an inertia matrix (3, 3) has a principal moment below 0 by more than rounding."""
    low, _, high = np.linalg.eigvalsh(tensor).tolist()
    return bool(low < -ROUNDING * max(abs(low), abs(high)))


def check_negative(mechanism: Mechanism, elements: Mapping[str, Element], notes: Notes, errors: Errors) -> None:
    """Add negative principal moments of links to `errors`, or to `notes` if they have no effect.

    Of links that fixed joints hold together only the common inertia is in the equations of motion, and none of links
    that are fixed to the ground.

    elements  {name of a link: the element that messages name}
    """
    for body in mechanism.bodies:
        own = inertia_matrix(body)
        if body.name not in elements or not is_negative(own):
            continue
        common = common_inertia(mechanism, body.name)
        what = f"inertia has principal moments {_printed(own)}"
        if common is None:
            notes.add(elements[body.name], f"{what}, which have no effect: the link is fixed to the ground")
        elif not is_negative(common[1]):
            together = _printed(common[1])
            notes.add(elements[body.name], f"{what}; with the links on fixed joints, which move with it, {together}")
        else:
            with errors.collected():
                elements[body.name].fail(f"{what}; none may be negative; correct them, or pass repair=inertia")


def _note_implausible(element: Element, mass: float, tensor: Array, notes: Notes) -> None:
    low, middle, high = np.linalg.eigvalsh(tensor).tolist()
    if mass == 0.0 and high > 0.0:
        notes.add(
            element, f"mass is 0 and inertia has principal moments {_printed(tensor)}; a body with inertia has mass"
        )
    if high - low - middle > SHORT * high and not is_negative(tensor):
        notes.add(
            element,
            f"inertia has principal moments {_printed(tensor)}; the largest never exceeds the sum of the other two",
        )


def _printed(tensor: Array) -> str:
    return f"({', '.join(f'{moment:.4g}' for moment in np.linalg.eigvalsh(tensor))}) kg m2"

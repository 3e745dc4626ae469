"""Warnings about numbers of a file that are probably in other units, or misplaced by powers of ten."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from robots.importing.notes import Notes
from robots.importing.xml_reader import Element
from sim_core.mechanism import Body, Joint, Shape
from sim_core.mechanism.quantities import value_of

WIDE = 10.0  # radius of gyration, as a multiple of the body's extent, from which on the inertia is noted
SMALLEST_M = 0.1  # extent of a smaller body, for this comparison
FAR_M = 50.0  # distance of a joint from its parent body from which on it is noted
TURNS = 4  # a revolute joint with a larger range of finite limits is noted, because its limits may be in degrees


def note_units(
    bodies: Sequence[Body],
    joints: Sequence[Joint],
    body_elements: Mapping[str, Element],
    joint_elements: Mapping[str, Element],
    notes: Notes,
) -> None:
    """Note bodies whose inertia is too large for their mass and extent, and joints far away from their parent bodies.

    The extent of a body is the largest distance of a joint, of the center of mass or of a drawn point from its origin.

    body_elements, joint_elements  {name: element of the file}; bodies and joints without an element are not noted
    """
    extents = {
        body.name: max(SMALLEST_M, math.hypot(*body.center_of_mass), *map(_extent, body.shapes)) for body in bodies
    }
    for joint in joints:
        for name, point in ((joint.parent, joint.parent_point), (joint.child, joint.child_point)):
            extents[name] = max(extents.get(name, SMALLEST_M), math.hypot(*point))
        far = math.hypot(*joint.parent_point)
        if far > FAR_M and joint.name in joint_elements:
            notes.add(joint_elements[joint.name], f"its origin is {far:.4g} m away from its parent; lengths are in m")
    for body in bodies:
        mass, moment = value_of(body.mass), max(value_of(entry) for entry in body.inertia[:3])
        if body.name not in body_elements or not mass > 0.0 or not moment > 0.0:
            continue
        radius = math.sqrt(moment / mass)
        if radius > WIDE * extents[body.name]:
            notes.add(
                body_elements[body.name],
                f"inertia is as large as if the mass were {radius:.4g} m away from the center, but the body has an "
                f"extent of {extents[body.name]:.2g} m; inertia is in kg m2, mass in kg",
            )


def _extent(shape: Shape) -> float:
    reach = float(np.abs(shape.points).max()) if shape.points else math.hypot(*shape.size)
    return math.hypot(*shape.position) + reach

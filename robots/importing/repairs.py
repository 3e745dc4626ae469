"""Repairs of model files on request: masses of links that move without mass, and inertias that no body can have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from robots.importing.notes import Notes
from robots.importing.xml_reader import Element, Errors
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Body, Joint, Mechanism
from sim_core.mechanism.checks.inertias import undetermined
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import mass_matrix_at, moving_bodies

REPAIRS = ("massless", "inertia")
MASS, INERTIA = 1e-3, 1e-6  # kg, kg m2: a ball with a radius of 5 cm
DAMPING_RATE = 1000.0  # 1/s: largest rate at which damping slows such a link down; RK4 at 1 ms is stable up to 2785
FRICTION = 2500.0  # rad/s2: Coulomb friction per inertia, at which bristles of 500 rad/s deflect by 0.01 rad
SHOWN = 5  # links named in an error
NOTHING_MOVED = 1e-15  # kg or kg m2


def repairs_of(path: object, repair: str) -> frozenset[str]:
    """The names in the parameter `repair`, separated by spaces. Raises InvalidRequest for an unknown one."""
    chosen = str(repair).replace(",", " ").split()
    for name in chosen:
        if name not in REPAIRS:
            raise InvalidRequest(f"robot {str(path)!r}: repair contains {name!r}; it may contain {', '.join(REPAIRS)}")
    return frozenset(chosen)


def joints_without_mass(mechanism: Mechanism) -> list[Joint]:
    """The joints that move no mass, or turn no inertia, so that their accelerations are undetermined."""
    M = np.diag(mass_matrix_at(mechanism, moving_bodies(mechanism, np.array(mechanism.initial_q))))
    found, at = [], 0
    for joint in mechanism.joints:
        own = M[at : at + len(joint.coordinates)]
        at += len(joint.coordinates)
        found += [joint] if (own <= NOTHING_MOVED).any() else []
    return found


def with_smallest_masses(mechanism: Mechanism, elements: Mapping[str, Element], notes: Notes) -> Mechanism:
    """A copy of a mechanism in which each joint moves a mass: links that lack it get a small one, with a note each.

    A link gets MASS and INERTIA, and more where a step of 1 ms would not resolve the damping of the joint that moves
    it, or friction would not hold it within 0.01 rad or 1 mm. Only links of joints are changed whose accelerations are
    undetermined otherwise.

    elements  {name of a link: the element that notes name}
    """
    waiting = joints_without_mass(mechanism) or _bare(mechanism, _undetermined(mechanism))
    changed: set[str] = set()
    while waiting:
        for joint in waiting:
            mechanism = _with_mass(mechanism, joint, elements, notes)
            changed.add(joint.child)
        left = [joint for joint in _undetermined(mechanism) if joint.child not in changed]
        waiting = _bare(mechanism, left)
    bodies = [_with_inertial_mass(body, elements, notes) for body in mechanism.bodies]
    return dataclasses.replace(mechanism, bodies=tuple(bodies))


def _with_inertial_mass(body: Body, elements: Mapping[str, Element], notes: Notes) -> Body:
    """The body, with MASS if it has an inertia and no mass."""
    if value_of(body.mass) > 0.0 or not any(map(value_of, body.inertia)) or body.name not in elements:
        return body
    notes.add(elements[body.name], f"the link has inertia and no mass; it gets {MASS:g} kg, as repair=massless asks")
    return dataclasses.replace(body, mass=MASS)


def _bare(mechanism: Mechanism, joints: list[Joint]) -> list[Joint]:
    """Those of the joints whose links have no inertia; all, if every link has some."""
    return [joint for joint in joints if not any(mechanism.body(joint.child).inertia)] or joints


def _undetermined(mechanism: Mechanism) -> list[Joint]:
    """The joints along which the mass matrix is singular at the start."""
    q = np.array(mechanism.initial_q)
    M = mass_matrix_at(mechanism, moving_bodies(mechanism, q))
    owners = {name: joint for joint in mechanism.joints for name in joint.coordinates}
    return list({owners[name].name: owners[name] for name in undetermined(mechanism, [*owners], M, q)}.values())


def _with_mass(mechanism: Mechanism, joint: Joint, elements: Mapping[str, Element], notes: Notes) -> Mechanism:
    slides = joint.unit == "m"
    friction = 0.0 if joint.friction is None else value_of(joint.friction.coulomb)
    # the least that a step of 1 ms resolves: kg for a joint that slides, kg m2 for one that turns
    least = max(value_of(joint.damping) / DAMPING_RATE, friction / FRICTION * (10.0 if slides else 1.0))
    mass, inertia = max(MASS, least * slides), max(INERTIA, least * (not slides))
    old = mechanism.body(joint.child)
    massive = value_of(old.mass) > 0.0 and not slides
    xx, yy, zz = (value_of(moment) + inertia for moment in old.inertia[:3])
    new = dataclasses.replace(old, mass=old.mass if massive else mass, inertia=(xx, yy, zz, *old.inertia[3:]))
    if joint.child in elements:
        gets = f"{inertia:g} kg m2" if massive else f"{mass:g} kg and {inertia:g} kg m2"
        notes.add(
            elements[joint.child],
            f"joint {joint.name!r} would move no mass of its own; the link gets {gets}, as repair=massless asks",
        )
    return dataclasses.replace(mechanism, bodies=tuple(new if body is old else body for body in mechanism.bodies))


def check_masses(
    mechanism: Mechanism, elements: Mapping[str, Element], joints: Mapping[str, Element], notes: Notes, errors: Errors
) -> None:
    """Add the joints that move no mass to `errors`, in one error.

    Joints that move masses, but along which the mass matrix is singular at the start, are added to `notes`.

    elements  {name of a link: element}
    joints    {name of a joint: element}
    """
    found = [joint for joint in joints_without_mass(mechanism) if joint.child in elements]
    if not found:
        for joint in _bare(mechanism, _undetermined(mechanism)):
            if joint.child in elements:
                notes.add(
                    elements[joint.child],
                    "its inertia is too small: the mass matrix is singular, and simulations refuse the robot; give the "
                    "link an inertia, or pass repair=massless",
                )
        return
    first = found[0]
    place = f" at line {joints[first.name].line}" if first.name in joints else ""
    more = ", ".join(repr(joint.child) for joint in found[1:SHOWN])
    more += f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    others = f"; the same holds for link{'s' * (len(found) > 2)} {more}" if more else ""
    with errors.collected():
        elements[first.child].fail(
            f"joint {first.name!r}{place} moves this link, but the link and all links on it have no mass, or no "
            f"inertia about the axis{others}; give the link a mass, make the joint fixed, or pass repair=massless"
        )

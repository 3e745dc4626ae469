"""Contacts of the collision shapes of an imported robot: with the ground, the plane z = 0, and with one another.

A link touches the ground with its spheres, the ends of its capsules, and the corners of its other shapes.
Points inside the hull of all corners of the links that are fixed to one another are left out: another point is always
lower. Stiffness and dissipation follow from the effective mass at each contact. The feet, which are the shapes with no
further shapes below them in the tree of links, stick on the ground; the friction of other links is regularized.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from robots.importing.collisions import LinkCollisions, Round
from robots.importing.hulls import outer
from robots.importing.notes import Notes
from robots.importing.rotations import Array, vector
from sim_core.errors import InvalidRequest
from sim_core.mechanism import GROUND, Mechanism, SphereContact, dissipation_for
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import masses_for_stiffness, moving_bodies, rounded, with_contact_stiffness

Contacts = Literal["none", "ground", "all"]
MOST = 1000  # contacts of a robot
RATE = 300.0  # rad/s: circular frequency of a foot on its bristle under half the robot's weight
LEAST = 1e-3  # m: least deflection at which a foot begins to slide
SLIP = 0.05  # m/s: sliding speed below which regularized friction is smooth
TOUCH: dict[str, Any] = {"exponent": 1.0, "dissipation": dissipation_for(0.2, speed=0.5), "slip_velocity": SLIP}


@dataclass(frozen=True)
class Touch:
    """Friction coefficient of all contacts, and largest number of points of the hull of one mesh."""

    friction: float = 0.8
    hull_points: int = 16


AS_BY_DEFAULT = Touch()


def with_contacts(
    mechanism: Mechanism,
    found: Mapping[str, LinkCollisions],
    contacts: Contacts,
    friction: float,
    notes: Notes,
) -> Mechanism:
    """The mechanism with contacts of its bodies, and with a free root so high that its lowest point is on the ground.

    found     {body: collision shapes}
    contacts  "ground": contacts with the ground alone; "all": spheres and capsules touch one another, too
    friction  friction coefficient of all contacts
    Raises InvalidRequest for more than MOST contacts.
    """
    welds = _welds(mechanism)
    bodies = moving_bodies(mechanism, np.array(mechanism.initial_q[: _joint_count(mechanism)]))
    found = {name: each for name, each in found.items() if name != GROUND and welds[name] != GROUND}
    made = _with_ground(found, welds, bodies, friction)
    if contacts == "all":
        made += _with_one_another(mechanism, found, welds, bodies, friction, notes)
    check_count(mechanism, len(made), "none")
    if not made:
        return mechanism
    feet = _feet(mechanism, found)
    touching = with_contact_stiffness(replace(mechanism, contacts=tuple(made)))
    masses = masses_for_stiffness(touching)
    weight = float(np.linalg.norm(mechanism.gravity)) * sum(value_of(body.mass) for body in mechanism.bodies)
    sticking = [
        replace(
            contact, stick_deflection=max(LEAST, rounded(0.5 * friction * weight / (masses[contact.name] * RATE**2)))
        )
        if contact.body in feet and contact.other == GROUND and friction > 0.0
        else contact
        for contact in touching.contacts
    ]
    states = sum(len(contact.bristles) for contact in sticking)
    q, v = ((*each, *[0.0] * states) for each in (mechanism.initial_q, mechanism.initial_v))
    return replace(mechanism, contacts=tuple(sticking), initial_q=_standing(mechanism, q, made, bodies), initial_v=v)


def check_count(mechanism: Mechanism, count: int, without: str) -> None:
    """Raise InvalidRequest for more than MOST contacts.

    without  value of the parameter `contacts` for none
    """
    if count > MOST:
        raise InvalidRequest(
            f"robot {mechanism.name!r}: its shapes have {count} points of contact; at most {MOST} are supported; give "
            f"its links simpler shapes, lower hull_points, or pass contacts={without}"
        )


def _joint_count(mechanism: Mechanism) -> int:
    return sum(len(joint.coordinates) for joint in mechanism.joints)


def _welds(mechanism: Mechanism) -> dict[str, str]:
    """{body: body that carries it through fixed joints alone}; a body on a moving joint carries itself."""
    found = {GROUND: GROUND}
    for joint in mechanism.joints:
        found[joint.child] = found[joint.parent] if joint.is_fixed else joint.child
    return found


def _feet(mechanism: Mechanism, found: Mapping[str, LinkCollisions]) -> set[str]:
    """Bodies with collision shapes that carry no other such body, on links that move no other such link."""
    carrying, parents = set[str](), {joint.child: joint.parent for joint in mechanism.joints}
    touching = [name for name, each in found.items() if each.rounds or len(each.points)]
    for name in touching:
        while (name := parents.get(name, GROUND)) != GROUND:
            carrying.add(name)
    welds = _welds(mechanism)
    moving = {welds[joint.parent] for joint in mechanism.joints if joint.child in carrying | {*touching}
              and not joint.is_fixed}  # fmt: skip
    return {name for name in touching if name not in carrying and welds[name] not in moving}


def _with_ground(
    found: Mapping[str, LinkCollisions], welds: Mapping[str, str], bodies: Mapping[str, Any], friction: float
) -> list[SphereContact]:
    """Contacts of all bodies with the ground, without the points that cannot be the lowest."""
    made = list[SphereContact]()
    for _, names in itertools.groupby(sorted(found, key=lambda name: welds[name]), key=lambda name: welds[name]):
        corners = [(name, point) for name in names for point in found[name].points]
        world = [bodies[name].p + bodies[name].R @ point for name, point in corners]
        for name, point in (corners[k] for k in outer(np.array(world).reshape(-1, 3))):
            made.append(SphereContact(name="", body=name, center=vector(point), friction=friction, **TOUCH))
    for name, each in found.items():
        for center, radius in ((end, shape.radius) for shape in each.rounds for end in shape.ends):
            made.append(
                SphereContact(name="", body=name, center=vector(center), radius=radius, friction=friction, **TOUCH)
            )
    order = [*found]
    made.sort(key=lambda contact: order.index(contact.body))
    return _named(made)


def _named(contacts: Sequence[SphereContact]) -> list[SphereContact]:
    """The contacts with the names BODY.0, BODY.1 and so on."""
    counts, named = dict[str, int](), list[SphereContact]()
    for contact in contacts:
        k = counts[contact.body] = counts.get(contact.body, -1) + 1
        named.append(replace(contact, name=f"{contact.body}.{k}"))
    return named


def _with_one_another(
    mechanism: Mechanism,
    found: Mapping[str, LinkCollisions],
    welds: Mapping[str, str],
    bodies: Mapping[str, Any],
    friction: float,
    notes: Notes,
) -> list[SphereContact]:
    """Contacts between the spheres and capsules of bodies that are neither one rigid body nor parent and child.

    Two capsules touch by the spheres at their ends. Shapes that overlap at the start do not touch, with a note.
    """
    above = {welds[joint.child]: welds[joint.parent] for joint in mechanism.joints if not joint.is_fixed}
    shapes = [(name, shape) for name, each in found.items() for shape in each.rounds]
    made = list[SphereContact]()
    for (a, one), (b, two) in itertools.permutations(shapes, 2):
        if welds[a] == welds[b] or above.get(welds[a]) == welds[b] or above.get(welds[b]) == welds[a]:
            continue
        if len(one.ends) > len(two.ends) or (
            len(one.ends) == len(two.ends) == 1 and shapes.index((a, one)) > shapes.index((b, two))
        ):
            continue
        for end in one.ends:
            contact = _between(f"{a}.{b}.{len(made)}", a, end, one.radius, b, two, friction)
            offset = bodies[b].R.T @ (bodies[a].p + bodies[a].R @ end - bodies[b].p) - np.array(two.center)
            if contact.depth(offset) > 0.0:
                notes.add(found[a].element, "shapes of this link overlap others at the start, and do not touch them")
            else:
                made.append(contact)
    return made


def _between(name: str, body: str, center: Array, radius: float, other: str, shape: Round, mu: float) -> SphereContact:
    return SphereContact(
        name=name,
        body=body,
        center=vector(center),
        radius=radius,
        other=other,
        other_point=shape.center,
        other_radius=shape.radius,
        other_half_axis=shape.half_axis,
        friction=mu,
        **TOUCH,
    )


def _standing(
    mechanism: Mechanism, q: tuple[float, ...], contacts: Sequence[SphereContact], bodies: Mapping[str, Any]
) -> tuple[float, ...]:
    """Initial positions with the lowest contact point on the ground, if a free joint carries the root."""
    root = mechanism.joints[0]
    if not root.is_free or root.parent != GROUND:
        return q
    lowest = min(
        float((bodies[each.body].p + bodies[each.body].R @ np.array(each.center))[2]) - each.radius
        for each in contacts
        if each.other == GROUND
    )
    return (*q[:2], q[2] - lowest, *q[3:])


def positions_of(text: str, owner: str) -> dict[str, float]:
    """{pattern of joint names: position} of "JOINT=NUMBER, JOINT=NUMBER ..."; raises InvalidRequest for other texts."""
    found = dict[str, float]()
    for part in text.replace(",", " ").split():
        name, _, number = part.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise InvalidRequest(f"{owner}: start has {part!r}; it must be JOINT=NUMBER, in rad or m") from None
    return found

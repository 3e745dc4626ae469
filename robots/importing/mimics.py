"""Mimic joints of a URDF file: constraints between joints, and a start that satisfies them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from robots.importing.notes import Notes
from robots.importing.trees import Edge
from robots.importing.xml_reader import Element, Errors
from sim_core.mechanism import Joint, JointRelation
from sim_core.support.suggestion import did_you_mean


@dataclass(frozen=True)
class Mimic:
    """A mimic joint: position of `follower` = multiplier * position of `leader` + offset."""

    follower: str
    leader: str
    multiplier: float
    offset: float

    @property
    def relation(self) -> JointRelation:
        """The mimic joint as a constraint of the mechanism; the constraint has the name FOLLOWER.mimic."""
        terms = ((self.follower, 1.0), (self.leader, -self.multiplier))
        return JointRelation(name=f"{self.follower}.mimic", terms=terms, offset=self.offset)


def mimics_of(edges: Sequence[Edge], free: bool, notes: Notes, errors: Errors) -> list[Mimic]:
    """The mimic joints of a file, in the order of `edges`.

    edges  the joints of the file
    free   whether mimic joints move freely: the result is then [], with a warning for each mimic joint
    A mimicked joint that does not exist or does not move, a multiplier of 0, and joints that mimic each other in a
    circle are added to `errors`.
    """
    moving = {edge.name for edge in edges if edge.element.attributes.get("type") not in ("fixed", "planar", "floating")}
    found: dict[str, Mimic] = {}
    for edge in edges:
        with errors.collected():
            element = edge.element.optional("mimic")
            if element is None:
                continue
            element.label = f"{edge.element.label}: <mimic>"
            if free:
                notes.add(element, "the joint moves freely and mimics no other, as mimic=free asks")
                continue
            if edge.element.attributes.get("type") == "fixed":
                notes.add(element, "a fixed joint stays where it is, and mimics no other")
                continue
            found[edge.name] = _mimic(edge.name, element, [each.name for each in edges], moving)
            chain = [edge.name]
            while chain[-1] in found:
                chain.append(found[chain[-1]].leader)
                if chain[-1] == edge.name:
                    del found[edge.name]
                    circle = " mimics ".join(map(repr, chain))
                    element.fail(f"{circle}; joints must not mimic each other in a circle")
    return list(found.values())


def _mimic(name: str, element: Element, joints: Sequence[str], moving: Collection[str]) -> Mimic:
    """The mimic joint `name` of an element <mimic>; raises InvalidMechanism for one that is impossible."""
    leader = element.name("joint")
    if leader not in joints:
        element.fail(f"there is no joint {leader!r}{did_you_mean(leader, joints)}; correct it, or pass mimic=free")
    for each in (name, leader):
        if each not in moving:
            element.fail(
                f"joint {each!r} cannot mimic or be mimicked; only revolute, continuous and prismatic joints can"
            )
    multiplier, offset = element.number("multiplier", 1.0), element.number("offset", 0.0)
    if multiplier == 0.0:
        element.fail("multiplier is 0, which would fix the joint; give another multiplier, or pass mimic=free")
    return Mimic(name, leader, multiplier, offset)


def check_limits(
    mimics: Sequence[Mimic],
    joints: Mapping[str, Joint],
    elements: Mapping[str, Element],
    notes: Notes,
    errors: Errors,
) -> None:
    """Compare the limits of mimic joints with those of the joints that they mimic.

    Warns of limits that permit one position only. Limits that permit none are added to `errors`.

    joints    {name: joint}
    elements  {name of a joint: its element}
    """
    for mimic in mimics:
        low, high = sorted(mimic.multiplier * end + mimic.offset for end in _range(joints[mimic.leader]))
        least, most = _range(joints[mimic.follower])
        lower, upper = max(low, least), min(high, most)
        if upper > lower:
            continue
        element = elements[mimic.follower].child("mimic")
        where = f"within the limits of {mimic.leader!r} this joint is at {low:.6g} to {high:.6g}"
        own = f"its own limits are {least:.6g} to {most:.6g}"
        if upper < lower:
            with errors.collected():
                element.fail(f"{where}, but {own}; correct the limits, multiplier or offset, or pass limits=none")
        elif high > low:
            notes.add(element, f"{where}, and {own}: both joints can only stand still")


def _range(joint: Joint) -> tuple[float, float]:
    """Lower and upper limit of a joint; infinite where it has none."""
    return -math.inf if joint.lower is None else joint.lower, math.inf if joint.upper is None else joint.upper


def satisfied(start: dict[str, float], mimics: Sequence[Mimic]) -> dict[str, float]:
    """{coordinate: position, rad or m} at the start, with positions of mimic joints that satisfy their relations.

    start  {coordinate: position} of all joints; those of mimic joints are replaced
    """
    found, by_follower = dict(start), {mimic.follower: mimic for mimic in mimics}

    def position(name: str) -> float:
        mimic = by_follower.get(name)
        return start[name] if mimic is None else mimic.multiplier * position(mimic.leader) + mimic.offset

    return found | {name: position(name) for name in by_follower}

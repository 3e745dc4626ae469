"""A tree of joints as a list of links, one degree of freedom each, with the bodies that move with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca

from sim_core import spatial
from sim_core.derivation.symbols import Frame, Symbols, ground_frame
from sim_core.errors import InvalidMechanism
from sim_core.mechanism import GROUND, Body, Joint, Mechanism, Vector3


@dataclass(frozen=True)
class Mounted:
    """A body that moves with a link: its constant pose p_LB, R_LB in the link's frame."""

    body: Body
    p: ca.DM
    R: ca.DM


@dataclass(frozen=True)
class Link:
    """One degree of freedom and the bodies behind it (none for the massless links inside a planar joint).

    parent       index of the link before it, -1 for the ground
    p, R         p_PL and R_PL: the link's frame seen from the link before it
    s_w, s_v     angular and linear velocity of the link's frame per unit of joint velocity, in the link's frame
    mounted      the body of the joint, and what fixed joints hang on it
    """

    coordinate: str
    parent: int
    p: ca.SX
    R: ca.SX
    s_w: ca.SX
    s_v: ca.SX
    mounted: list[Mounted] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Where a body is: the index of its link (-1 for the ground) and its constant pose in that link's frame."""

    link: int
    p: ca.DM
    R: ca.DM


@dataclass(frozen=True)
class Tree:
    """Links in the order of the coordinates, and the place of every body."""

    links: list[Link]
    places: dict[str, Place]


def joint_coordinates(joint: Joint) -> tuple[str, ...]:
    """The coordinates of one joint: its name, three that end in .x .y .theta for a planar one, none for a fixed one."""
    if joint.kind == "planar":
        return tuple(f"{joint.name}.{end}" for end in ("x", "y", "theta"))
    return () if joint.kind == "fixed" else (joint.name,)


def coordinate_names(mechanism: Mechanism) -> tuple[str, ...]:
    """The coordinates of all joints, in their order."""
    return tuple(name for joint in mechanism.joints for name in joint_coordinates(joint))


def tree_of(mechanism: Mechanism, symbols: Symbols) -> Tree:
    """The links of a mechanism in joint coordinates; InvalidMechanism where its joints form no tree."""
    links: list[Link] = []
    places = {GROUND: Place(-1, ca.DM(3, 1), ca.DM.eye(3))}
    owner = f"mechanism {mechanism.name!r}"
    for joint in mechanism.joints:
        if joint.child in places:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} closes a loop at {joint.child!r}; a constraint must do that"
            )
        if joint.parent not in places:
            raise InvalidMechanism(f"{owner}: joint {joint.name!r} hangs on {joint.parent!r}, which comes after it")
        before, body = places[joint.parent], mechanism.body(joint.child)
        if joint.kind == "fixed":
            places[joint.child] = _fixed_place(joint, before)
        else:
            links += _links_of(joint, before, len(links), symbols)
            places[joint.child] = Place(len(links) - 1, ca.DM(3, 1), ca.DM.eye(3))
        place = places[joint.child]
        if place.link >= 0:
            links[place.link].mounted.append(Mounted(body, place.p, place.R))
    missing = [body.name for body in mechanism.bodies if body.name not in places]
    if missing:
        raise InvalidMechanism(f"{owner}: no joint moves {missing}")
    return Tree(links, places)


def _fixed_place(joint: Joint, before: Place) -> Place:
    R_PC = ca.DM(joint.rotation)
    p_PC = ca.DM(joint.parent_point) - R_PC @ ca.DM(joint.child_point)
    return Place(before.link, before.p + before.R @ p_PC, before.R @ R_PC)


def _links_of(joint: Joint, before: Place, index: int, symbols: Symbols) -> list[Link]:
    """The links of one joint whose parent body sits at `before`; the last one carries the joint's child."""
    fixed, zero, same = ca.DM(joint.rotation), ca.DM(3, 1), ca.DM.eye(3)
    e1, e2 = spatial.perpendicular_axes(joint.axis)
    along: dict[str, list[Vector3]] = {"revolute": [], "prismatic": [joint.axis], "planar": [e1, e2]}
    slides = along[joint.kind]
    links: list[Link] = []
    names = joint_coordinates(joint)
    parent, mount = before.link, before.R
    at = ca.SX(before.p + mount @ ca.DM(joint.parent_point))
    for number, axis in enumerate(slides):
        p = at + (mount @ ca.DM(axis)) * symbols.q[index + number]
        links.append(Link(names[number], parent, p, ca.SX(mount), ca.SX(zero), ca.SX(ca.DM(axis))))
        parent, at, mount = index + number, ca.SX(zero), same
    child_point = ca.DM(joint.child_point)
    if joint.kind == "prismatic":
        slide = links.pop()
        R = slide.R @ fixed
        return [
            Link(names[0], slide.parent, slide.p - R @ child_point, R, ca.SX(zero), ca.SX(fixed.T @ ca.DM(joint.axis)))
        ]
    R = mount @ (spatial.rotation_about(joint.axis, symbols.q[index + len(slides)]) @ fixed)
    turning = fixed.T @ ca.DM(joint.axis)
    # the frame's origin moves on a circle about the joint's point
    s_v = ca.cross(child_point, turning)
    return [*links, Link(names[-1], parent, at - R @ child_point, R, ca.SX(turning), ca.SX(s_v))]


def frames_of(tree: Tree, symbols: Symbols) -> dict[str, Frame]:
    """Pose and angular velocity of every body and of the ground."""
    ground = ground_frame()[GROUND]
    poses: list[Frame] = []
    for index, link in enumerate(tree.links):
        before = poses[link.parent] if link.parent >= 0 else ground
        w = link.R.T @ before.w + link.s_w * symbols.v[index]
        poses.append(Frame(before.p + before.R @ link.p, before.R @ link.R, w))
    frames = {GROUND: ground}
    for name, place in tree.places.items():
        if name != GROUND:
            carrier = poses[place.link] if place.link >= 0 else ground
            frames[name] = Frame(carrier.p + carrier.R @ place.p, carrier.R @ place.R, place.R.T @ carrier.w)
    return frames

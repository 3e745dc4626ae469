"""Tree of joints as a list of links with one degree of freedom each, and the bodies fixed to these links."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import casadi as ca

from sim_core import spatial
from sim_core.derivation.coordinates.inertia import Inertia, Mounted, inertia_of
from sim_core.derivation.coordinates.orientations import rotation_of
from sim_core.derivation.symbols import Frame, Symbols, ground_frame
from sim_core.mechanism.description import GROUND, Body, Joint, Mechanism


@dataclass(frozen=True)
class Link:
    """A link of a tree, with one degree of freedom relative to its parent link, and the bodies mounted on the link.

    A joint of several degrees of freedom is a sequence of links. The joint's child body is mounted on the last link of
    the sequence; the other links are massless.

    parent      index of the parent link; -1 for the ground
    p_PJ, R_PJ  constant pose of the joint in the parent link's frame
    p_JL, R_JL  pose of the link's frame in the joint's frame; a function of the joint position
    s_w, s_v    angular and linear velocity of the link's frame per unit of joint velocity, in the link's axes
    twin        index of the corresponding link of a twin branch, which is another branch of equal structure on the same
                parent, if this link begins a branch, or if the poses p_PJ, R_PJ of the two links have different zeros
                or ones; otherwise -1
    mounted     on the last link of a joint, the joint's child body and the bodies fixed to this body; otherwise empty
    """

    coordinate: str
    parent: int
    p_PJ: ca.DM
    R_PJ: ca.DM
    p_JL: ca.SX
    R_JL: ca.SX
    s_w: ca.SX
    s_v: ca.SX
    twin: int = -1
    mounted: list[Mounted] = field(default_factory=list)

    @cached_property
    def p(self) -> ca.SX:
        """Position p_PL (3,) of the link's origin in the parent link's frame."""
        return self.p_PJ + self.R_PJ @ self.p_JL

    @cached_property
    def R(self) -> ca.SX:
        """Rotation matrix R_PL (3, 3) from the link's axes to the parent link's axes."""
        return self.R_PJ @ self.R_JL


@dataclass(frozen=True)
class Place:
    """Link to which a body is fixed, and the body's constant pose in this link's frame.

    link  index of the link; -1 for the ground
    p     position (3,) of the body's origin, m
    R     rotation matrix (3, 3) from the body's axes to the link's axes
    """

    link: int
    p: ca.DM
    R: ca.DM


@dataclass(frozen=True)
class Tree:
    """Links of a mechanism and the bodies fixed to them.

    links     links in the order of the coordinates
    inertias  inertia of the bodies on each link
    places    {body: the link to which the body is fixed, and its constant pose in this link's frame}
    twins     pairs of indices of corresponding links in twin branches, which are two branches of equal structure on one
              parent link
    """

    links: list[Link]
    inertias: list[Inertia]
    places: dict[str, Place]
    twins: list[tuple[int, int]]


def tree_of(mechanism: Mechanism, symbols: Symbols) -> Tree:
    """The tree of links of a mechanism in joint coordinates.

    Each joint must be listed after the joint of its parent body.
    """
    links: list[Link] = []
    places = {GROUND: Place(-1, ca.DM(3, 1), ca.DM.eye(3))}
    for joint in mechanism.joints:
        before, body = places[joint.parent], mechanism.body(joint.child)
        if joint.is_fixed:
            places[joint.child] = _fixed_place(joint, before)
        else:
            links += _links_of(joint, before, len(links), symbols)
            places[joint.child] = Place(len(links) - 1, ca.DM(3, 1), ca.DM.eye(3))
        place = places[joint.child]
        if place.link >= 0:
            links[place.link].mounted.append(Mounted(body, place.p, place.R))
    inertias = [inertia_of(link.mounted, symbols) for link in links]
    links, twins = with_twins(links, inertias)
    return Tree(links, inertias, places, twins)


def _fixed_place(joint: Joint, before: Place) -> Place:
    R_PC = ca.DM(joint.rotation)
    p_PC = ca.DM(joint.parent_point) - R_PC @ ca.DM(joint.child_point)
    return Place(before.link, before.p + before.R @ p_PC, before.R @ R_PC)


def _links_of(joint: Joint, before: Place, index: int, symbols: Symbols) -> list[Link]:
    """The links of one joint. The joint's child body is fixed to the last of these links.

    before  link to which the joint's parent body is fixed, and the body's pose in this link's frame
    index   index of the first of these links
    """
    fixed, zero, same, child_point = ca.DM(joint.rotation), ca.DM(3, 1), ca.DM.eye(3), ca.DM(joint.child_point)
    parent, p_PJ, R_PJ = before.link, before.p + before.R @ ca.DM(joint.parent_point), before.R
    names, slides, links = joint.coordinates, [ca.DM(axis) for axis in joint.slides], list[Link]()
    if joint.is_length:
        p_JL = slides[0] * symbols.q[index] - ca.SX(fixed @ child_point)
        return [Link(names[0], parent, p_PJ, R_PJ, p_JL, ca.SX(fixed), ca.SX(zero), ca.SX(fixed.T @ slides[0]))]
    for axis in slides:
        p_JL = axis * symbols.q[index + len(links)]
        links.append(Link(names[len(links)], parent, p_PJ, R_PJ, p_JL, ca.SX(same), ca.SX(zero), ca.SX(axis)))
        parent, p_PJ, R_PJ = index + len(links) - 1, zero, same
    if joint.turns:
        R_JL = spatial.rotation_about(joint.axis, symbols.q[index + len(links)]) @ fixed
        turning = [fixed.T @ ca.DM(joint.axis)]
    else:  # about the axes of the child; `QuasiVelocities` defines the velocities of these rotations
        R_JL = ca.SX(fixed) @ rotation_of(joint, symbols, index + len(links))
        turning = [same[:, number] for number in range(3)]
    p_JL = -(R_JL @ child_point)
    for axis in turning:
        # the frame's origin moves on a circle about the joint's point
        s_v = ca.cross(child_point, axis)
        links.append(Link(names[len(links)], parent, p_PJ, R_PJ, p_JL, R_JL, ca.SX(axis), ca.SX(s_v)))
        parent, p_PJ, R_PJ = index + len(links) - 1, zero, same
        p_JL, R_JL = ca.SX(zero), ca.SX(same)
    return links


def with_twins(links: list[Link], inertias: list[Inertia]) -> tuple[list[Link], list[tuple[int, int]]]:
    """(the links with their attribute `twin` set, pairs of indices of corresponding links in twin branches).

    Twin branches are two branches of equal structure on one parent link.
    """
    children: dict[int, list[int]] = {}
    for index, link in enumerate(links):
        children.setdefault(link.parent, []).append(index)
    kinds = _kinds_of_branches(links, children, inertias)
    waiting: dict[tuple[int, tuple[str, int]], int] = {}
    pairs: list[tuple[int, int]] = []
    found = list(links)
    for index, link in enumerate(links):
        if any(index in pair for pair in pairs) or not children.get(index):
            continue
        key = (link.parent, kinds[index])
        if key not in waiting:
            waiting[key] = index
            continue
        other = waiting.pop(key)
        branches = _branch(children, kinds, other), _branch(children, kinds, index)
        if any(link in pair for pair in pairs for link in branches[0]):
            continue
        for left, right in zip(*branches, strict=True):
            pairs.append((left, right))
            if left == other or _kind_of_pose(links[left]) != _kind_of_pose(links[right]):
                found[left], found[right] = replace(links[left], twin=right), replace(links[right], twin=left)
    return found, pairs


def _branch(children: dict[int, list[int]], kinds: list[tuple[str, int]], root: int) -> list[int]:
    """Indices of the links of the branch that begins with link `root`, in the same order for twin branches."""
    following = sorted(children.get(root, []), key=lambda child: kinds[child])
    return [root, *[index for child in following for index in _branch(children, kinds, child)]]


def _kind_of_pose(link: Link) -> list[float]:
    """Numbers that describe the pose of a link's joint in the parent link's frame.

    Equal numbers mean that the generated code, with the numbers of the pose folded in, is identical.
    """
    turn = [value if value in (-1.0, 0.0, 1.0) else 2.0 for value in link.R_PJ.full().ravel()]
    return [*turn, *(float(value != 0.0) for value in link.p_PJ.full().ravel())]


def _kinds_of_branches(
    links: list[Link], children: dict[int, list[int]], inertias: list[Inertia]
) -> list[tuple[str, int]]:
    """Kinds of the branches that begin with the links, one per link: (text of the first link, number of the branch).

    Equal kinds mean that the generated code of the branches is identical. A text contains the axes of a link. Of its
    inertia and of all transforms, it contains only which entries are zero. For bodies whose mass or inertia is a
    parameter, it contains the rotation matrices of the bodies and which of their numbers are zero. Branches have the
    same number if their first links have equal texts, and the branches that follow have equal kinds.
    """
    kinds = [("", 0)] * len(links)
    numbers: dict[tuple[str, tuple[int, ...]], int] = {}
    for index in reversed(range(len(links))):  # children before parents
        link = links[index]
        below = tuple(sorted(kinds[child][1] for child in children.get(index, [])))
        local = [str(link.s_w), str(link.s_v), link.p_JL.sparsity().row(), link.R_JL.sparsity().get_triplet()]
        text = str([local, _kind_of_inertia(inertias[index], link.mounted)])
        kinds[index] = text, numbers.setdefault((text, below), len(numbers))
    return kinds


def _kind_of_inertia(whole: Inertia, mounted: list[Mounted]) -> list[object]:
    entries = ca.vertcat(whole.m, whole.h, ca.vec(whole.I))
    if entries.is_constant():  # the bodies become one
        return [value != 0.0 for value in ca.DM(entries).full().ravel()]
    return [[str(each.R), [value != 0.0 for value in (*each.p.full().ravel(), *_numbers(each.body))]]
            for each in mounted]  # fmt: skip


def _numbers(body: Body) -> tuple[object, ...]:
    return (body.mass, *body.center_of_mass, *body.inertia)


def frames_of(tree: Tree, symbols: Symbols) -> dict[str, Frame]:
    """{body: frame} of every body and of the ground."""
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

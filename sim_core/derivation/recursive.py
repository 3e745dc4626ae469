"""Joint coordinates: recursive Newton-Euler for f and composite bodies for M, on symbols with constants folded.

[Featherstone2008, ch. 5 and 6], written with 3-vectors in each link's own frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from sim_core import spatial
from sim_core.derivation.absolute import inertia_matrix
from sim_core.derivation.symbols import Frame, Motion, Symbols, ground_frame, symbols_for
from sim_core.errors import InvalidMechanism
from sim_core.mechanism import GROUND, Body, Joint, Mechanism, Vector3


@dataclass(frozen=True)
class Link:
    """One degree of freedom and the body behind it (None for the massless links inside a planar joint).

    parent       index of the link before it, -1 for the ground
    p, R         p_PL and R_PL: the link's frame seen from the link before it
    s_w, s_v     angular and linear velocity of the link's frame per unit of joint velocity, in the link's frame
    """

    coordinate: str
    body: Body | None
    parent: int
    p: ca.SX
    R: ca.SX
    s_w: ca.SX
    s_v: ca.SX


def joint_coordinates(joint: Joint) -> tuple[str, ...]:
    """The coordinates of one joint: its name, or for a planar joint three that end in .x .y .theta."""
    return tuple(f"{joint.name}.{end}" for end in ("x", "y", "theta")) if joint.kind == "planar" else (joint.name,)


def coordinate_names(mechanism: Mechanism) -> tuple[str, ...]:
    """The coordinates of all joints, in their order."""
    return tuple(name for joint in mechanism.joints for name in joint_coordinates(joint))


def derive(mechanism: Mechanism) -> tuple[Symbols, Motion]:
    """Symbols, frames, M and f of a tree in joint coordinates."""
    names = coordinate_names(mechanism)
    symbols = symbols_for(mechanism, len(names))
    links = _links(mechanism, symbols)
    frames = ground_frame()
    poses: list[Frame] = []
    for index, link in enumerate(links):
        before = poses[link.parent] if link.parent >= 0 else frames[GROUND]
        w = link.R.T @ before.w + link.s_w * symbols.v[index]
        poses.append(Frame(before.p + before.R @ link.p, before.R @ link.R, w))
        if link.body is not None:
            frames[link.body.name] = poses[-1]
    f = -_inverse_dynamics_at_rest(links, mechanism, symbols)
    return symbols, Motion(names, frames, _composite_inertia(links, symbols), f)


def _links(mechanism: Mechanism, symbols: Symbols) -> list[Link]:
    links: list[Link] = []
    last: dict[str, int] = {GROUND: -1}
    owner = f"mechanism {mechanism.name!r}"
    for joint in mechanism.joints:
        if joint.kind == "fixed":
            raise InvalidMechanism(f"{owner}: joint {joint.name!r} is fixed; in joint coordinates make its bodies one")
        if joint.child in last:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} closes a loop at {joint.child!r}; a constraint must do that"
            )
        if joint.parent not in last:
            raise InvalidMechanism(f"{owner}: joint {joint.name!r} hangs on {joint.parent!r}, which comes after it")
        links += _links_of(joint, mechanism.body(joint.child), last[joint.parent], len(links), symbols)
        last[joint.child] = len(links) - 1
    missing = [body.name for body in mechanism.bodies if body.name not in last]
    if missing:
        raise InvalidMechanism(f"{owner}: no joint moves {missing}")
    return links


def _links_of(joint: Joint, body: Body, parent: int, index: int, symbols: Symbols) -> list[Link]:
    fixed, zero, same = ca.DM(joint.rotation), ca.DM(3, 1), ca.DM.eye(3)
    e1, e2 = spatial.perpendicular_axes(joint.axis)
    along: dict[str, list[Vector3]] = {"revolute": [], "prismatic": [joint.axis], "planar": [e1, e2]}
    slides = along[joint.kind]
    turns = joint.kind != "prismatic"
    links: list[Link] = []
    names = joint_coordinates(joint)
    at = ca.SX(ca.DM(joint.parent_point))
    for number, axis in enumerate(slides):
        p = at + ca.DM(axis) * symbols.q[index + number]
        links.append(Link(names[number], None, parent, p, ca.SX(same), ca.SX(zero), ca.SX(ca.DM(axis))))
        parent, at = index + number, ca.SX(zero)
    child_point = ca.DM(joint.child_point)
    if not turns:
        slide = links.pop()
        p = slide.p - fixed @ child_point
        return [Link(names[0], body, slide.parent, p, ca.SX(fixed), ca.SX(zero), ca.SX(fixed.T @ ca.DM(joint.axis)))]
    R = spatial.rotation_about(joint.axis, symbols.q[index + len(slides)]) @ fixed
    turning = fixed.T @ ca.DM(joint.axis)
    # the frame's origin moves on a circle about the joint's point
    s_v = ca.cross(child_point, turning)
    return [*links, Link(names[-1], body, parent, at - R @ child_point, R, ca.SX(turning), ca.SX(s_v))]


@dataclass
class _Inertia:
    """Mass, first moment and inertia about the frame's origin."""

    m: ca.SX
    h: ca.SX
    I: ca.SX

    def times(self, w: ca.SX, v: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Moment about the origin and force: the inertia applied to a spatial motion vector."""
        return self.I @ w + ca.cross(self.h, v), self.m * v - ca.cross(self.h, w)

    def seen_from(self, p: ca.SX, R: ca.SX) -> _Inertia:
        """The same inertia in a frame from which this one has pose p, R."""
        h = R @ self.h
        shift = ca.skew(p)
        turned = R @ self.I @ R.T
        moved = turned - shift @ ca.skew(h) - ca.skew(h) @ shift - self.m * shift @ shift
        return _Inertia(self.m, h + self.m * p, moved)

    def plus(self, other: _Inertia) -> _Inertia:
        """Both together."""
        return _Inertia(self.m + other.m, self.h + other.h, self.I + other.I)


def _inertia_of(link: Link, symbols: Symbols) -> _Inertia:
    if link.body is None:
        return _Inertia(ca.SX(0), ca.SX(3, 1), ca.SX(3, 3))
    mass, c = ca.SX(symbols.number(link.body.mass)), ca.DM(link.body.center_of_mass)
    offset = ca.skew(c)
    return _Inertia(mass, mass * c, inertia_matrix(link.body, symbols) - mass * (offset @ offset))


def _inverse_dynamics_at_rest(links: list[Link], mechanism: Mechanism, symbols: Symbols) -> ca.SX:
    """Joint efforts that hold the accelerations at zero, [Featherstone2008, table 5.1] with qdd = 0."""
    ground = (ca.SX(3, 1), ca.SX(3, 1), ca.SX(3, 1), ca.SX(-ca.DM(mechanism.gravity)))
    motions: list[tuple[ca.SX, ...]] = []
    for index, link in enumerate(links):
        w_P, v_P, dw_P, dv_P = motions[link.parent] if link.parent >= 0 else ground
        rate = symbols.v[index]
        w = link.R.T @ w_P + link.s_w * rate
        v = link.R.T @ (v_P + ca.cross(w_P, link.p)) + link.s_v * rate
        dw = link.R.T @ dw_P + ca.cross(w, link.s_w) * rate
        dv = link.R.T @ (dv_P + ca.cross(dw_P, link.p)) + (ca.cross(w, link.s_v) + ca.cross(v, link.s_w)) * rate
        motions.append((w, v, dw, dv))
    efforts = ca.SX(len(links), 1)
    wrench = [(ca.SX(3, 1), ca.SX(3, 1)) for _ in links]
    for index in reversed(range(len(links))):
        link, (w, v, dw, dv) = links[index], motions[index]
        inertia = _inertia_of(link, symbols)
        L, P = inertia.times(w, v)
        n, F = inertia.times(dw, dv)
        n = wrench[index][0] + n + ca.cross(w, L) + ca.cross(v, P)
        F = wrench[index][1] + F + ca.cross(w, P)
        efforts[index] = ca.dot(link.s_w, n) + ca.dot(link.s_v, F)
        if link.parent >= 0:
            n_P, F_P = wrench[link.parent]
            F_up = link.R @ F
            wrench[link.parent] = (n_P + link.R @ n + ca.cross(link.p, F_up), F_P + F_up)
    return efforts


def _composite_inertia(links: list[Link], symbols: Symbols) -> ca.SX:
    """The joint-space inertia M, [Featherstone2008, table 6.2]; entries between branches stay structural zeros."""
    composite = [_inertia_of(link, symbols) for link in links]
    M = ca.SX(len(links), len(links))
    for j in reversed(range(len(links))):
        link = links[j]
        if link.parent >= 0:
            composite[link.parent] = composite[link.parent].plus(composite[j].seen_from(link.p, link.R))
        n, F = composite[j].times(link.s_w, link.s_v)
        M[j, j] = ca.dot(link.s_w, n) + ca.dot(link.s_v, F)
        i = j
        while links[i].parent >= 0:
            F = links[i].R @ F
            n = links[i].R @ n + ca.cross(links[i].p, F)
            i = links[i].parent
            M[i, j] = M[j, i] = ca.dot(links[i].s_w, n) + ca.dot(links[i].s_v, F)
    return M

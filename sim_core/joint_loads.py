"""Recursive Newton-Euler algorithm, body by body: the force and torque at every joint of a tree.

The functions carry out steps 4 to 6 of the seven steps of [GoncalvesEtAl2024, eqs. 15 to 34]. They follow the paper's
equations and are therefore slow; `sim_core.inverse_dynamics` is fast, but computes joint efforts only. The functions
take numbers or symbols.

Points of a body: A at the joint to its parent, B at a joint to a successor, C the centre of mass, O the origin. r_AC
points from A to C. Vectors are in the body's axes unless a subscript names another frame.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import GROUND, Body, Joint, Mechanism, Number
from sim_core.mechanism.quantities import value_of
from sim_core.spatial import cross, rotation_about

Array = Any  # numpy array or casadi SX
AT_REST = np.zeros(3)


@dataclass(frozen=True)
class Posture:
    """Pose of a body and of the joint to its parent.

    p_WO, R_WB  position (m) and rotation of the body in the world
    R_PB   rotation from the body's axes to the parent's
    slide  displacement along the joint (3,), m, in the parent's axes; None for joints without translation
    p_WA   world position (3,) of the joint's point on the parent, m
    """

    joint: Joint
    body: Body
    p_WO: Array
    R_WB: Array
    R_PB: Array
    slide: Array | None
    p_WA: Array

    @property
    def r_AO(self) -> Array:
        """Vector (3,), m, from the joint's point on the parent to the body's origin, in the body's axes.

        The displacement of a prismatic joint along its axis is included. [GoncalvesEtAl2024, eq. 1]
        """
        back = -np.array(self.joint.child_point)
        return back if self.slide is None else self.R_PB.T @ self.slide + back

    @property
    def r_AC(self) -> Array:
        """Vector (3,), m, from the joint's point on the parent to the centre of mass, in the body's axes."""
        return self.r_AO + np.array(self.body.center_of_mass)


@dataclass(frozen=True)
class BodyMotion:
    """Motion of a body: its posture, and vectors (3,) in the body's axes.

    w    angular velocity, rad/s
    dw   angular acceleration, rad/s2
    a_O  acceleration of the body's origin O minus the gravitational acceleration, m/s2
    a_C  acceleration of the body's centre of mass C minus the gravitational acceleration, m/s2
    """

    posture: Posture
    w: Array
    dw: Array
    a_O: Array
    a_C: Array


@dataclass(frozen=True)
class Acting:
    """A load on a body: vectors (3,) in the body's axes.

    point   point at which the force acts, relative to the body's origin O, m
    force   force, N
    torque  torque, N m
    """

    point: Array
    force: Array
    torque: Array


@dataclass(frozen=True)
class JointLoad:
    """Load that the parent exerts on a body at A, the body's joint to the parent: vectors (3,) in the body's axes.

    force   force, N
    torque  torque about A, N m
    """

    force: Array
    torque: Array


def postures(mechanism: Mechanism, q: Array) -> dict[str, Posture]:
    """{body: Posture} of all bodies at the joint positions q (n_q,). [GoncalvesEtAl2024, eqs. 15 to 19]

    The postures are computed from the base to the end-effectors. Raises InvalidMechanism if the mechanism is not in
    joint coordinates, or if it has a spherical or free joint.
    """
    if not mechanism.has_joint_coordinates:
        raise InvalidMechanism(
            f"mechanism {mechanism.name!r} is not in joint coordinates, which joint loads need; build it with "
            "coordinates='joint'"
        )
    if mechanism.oriented_joints:
        joint = mechanism.oriented_joints[0]
        raise InvalidMechanism(
            f"mechanism {mechanism.name!r}: joint {joint.name!r} is {joint.kind}; joint loads are computed only for "
            "revolute, prismatic, planar and fixed joints"
        )
    places: dict[str, tuple[Array, Array]] = {GROUND: (AT_REST, np.eye(3))}
    found: dict[str, Posture] = {}
    for joint, slide, angle in _per_joint(mechanism, q):
        p_WP, R_WP = places[joint.parent]
        R_PB = _turned(joint, angle)
        R_WB = R_WP @ R_PB  # eq. 16
        p_WA = p_WP + R_WP @ np.array(joint.parent_point)
        reached = p_WA if slide is None else p_WA + R_WP @ slide
        p_WO = reached - R_WB @ np.array(joint.child_point)  # eq. 19
        found[joint.child] = Posture(joint, mechanism.body(joint.child), p_WO, R_WB, R_PB, slide, p_WA)
        places[joint.child] = (p_WO, R_WB)
    return found


def motions(mechanism: Mechanism, at: Mapping[str, Posture], v: Array, a: Array) -> dict[str, BodyMotion]:
    """{body: BodyMotion} of all bodies for joint velocities v and accelerations a (n_q,): the forward iterations.

    at  {body: Posture}, as `postures` returns it

    Gravity enters as an acceleration of the ground. The equations are [GoncalvesEtAl2024, eqs. 28 to 32] with one
    correction. The last term of eq. 30 is (joint rate) w x z, with the angular velocity w of the parent and the joint's
    axis z; the paper prints dw/dt in place of w.
    """
    ground = (AT_REST, AT_REST, -np.array(mechanism.gravity))
    moving: dict[str, tuple[Array, Array, Array]] = {GROUND: ground}
    found: dict[str, BodyMotion] = {}
    for (joint, speed, rate), (_, change, spin) in zip(_per_joint(mechanism, v), _per_joint(mechanism, a), strict=True):
        posture = at[joint.child]
        w_P, dw_P, a_P = moving[joint.parent]
        z, down = np.array(joint.axis), posture.R_PB.T
        a_B = a_P + _turning(w_P, dw_P, np.array(joint.parent_point))
        if speed is not None:  # eq. 31, prismatic: Coriolis and the slide's own acceleration
            a_B = a_B + change + 2 * cross(w_P, speed) + _turning(w_P, dw_P, posture.slide)
        if rate is None:
            w, dw = down @ w_P, down @ dw_P
        else:
            w = down @ (w_P + rate * z)  # eq. 29
            dw = down @ (dw_P + spin * z + rate * cross(w_P, z))  # eq. 30
        a_O = down @ a_B + _turning(w, dw, -np.array(joint.child_point))
        a_C = a_O + _turning(w, dw, np.array(posture.body.center_of_mass))  # eq. 32
        found[joint.child] = BodyMotion(posture, w, dw, a_O, a_C)
        moving[joint.child] = (w, dw, a_O)
    return found


def required(motion: BodyMotion, acting: Iterable[Acting]) -> tuple[Array, Array]:
    """Force (3,), N, and moment about the centre of mass C (3,), N m, that a body needs for its motion.

    acting  known loads on the body; the result is required in addition to these loads
    [GoncalvesEtAl2024, eqs. 33, 34]
    """
    body = motion.posture.body
    inertia, C = inertia_of(body), np.array(body.center_of_mass)
    force = number(body.mass) * motion.a_C
    moment = inertia @ motion.dw + cross(motion.w, inertia @ motion.w)
    for one in acting:
        force = force - one.force
        moment = moment - one.torque - cross(one.point - C, one.force)
    return force, moment


def reaction(motion: BodyMotion, load: JointLoad) -> Acting:
    """Reaction of a body on its parent at their joint, as a load on the parent, in the parent's axes."""
    R, joint = motion.posture.R_PB, motion.posture.joint
    return Acting(np.array(joint.parent_point), -(R @ load.force), -(R @ load.torque))


def joint_loads(
    mechanism: Mechanism,
    moving: Mapping[str, BodyMotion],
    acting: Mapping[str, Iterable[Acting]] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, JointLoad]:
    """{body: JointLoad at the joint to its parent}, from the end-effectors to the base: the backward iterations.

    moving  {body: BodyMotion}, as `motions` returns it
    acting  {body: loads that are not joint loads, such as those of springs and contacts}
    only    bodies to compute, by default all; if a body is left out, `acting` must contain the reaction of this body on
            its parent
    [GoncalvesEtAl2024, eqs. 33, 34]
    """
    known = {name: list(ones) for name, ones in (acting or {}).items()}
    found: dict[str, JointLoad] = {}
    for joint in reversed(mechanism.joints):
        if only is not None and joint.child not in only:
            continue
        motion = moving[joint.child]
        force, moment = required(motion, known.get(joint.child, ()))
        found[joint.child] = JointLoad(force, moment + cross(motion.posture.r_AC, force))
        known.setdefault(joint.parent, []).append(reaction(motion, found[joint.child]))
    return found


def efforts(moving: Mapping[str, BodyMotion], loads: Mapping[str, JointLoad]) -> list[Array]:
    """Joint efforts, N or N m, one per coordinate: components of the loads along the joints' free directions."""
    found: list[Array] = []
    for body, motion in moving.items():
        joint = motion.posture.joint
        R, slide = motion.posture.R_PB, motion.posture.slide
        force, torque = R @ loads[body].force, R @ loads[body].torque
        found += [_dot(axis, force) for axis in joint.slides]
        if joint.turns:
            about = torque if slide is None else torque - cross(slide, force)
            found.append(_dot(joint.axis, about))
    return found


def number(value: Number) -> float:
    """Value of a number of a description: the constant, or the value of a Tunable at the start."""
    return value_of(value)


def inertia_of(body: Body) -> np.ndarray:
    """Inertia matrix (3, 3) of a body about its centre of mass, kg m2."""
    xx, yy, zz, xy, xz, yz = (number(value) for value in body.inertia)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _per_joint(mechanism: Mechanism, values: Array) -> Iterable[tuple[Joint, Array | None, Array | None]]:
    """Yield (joint, translation, rotation) for each joint, from `values` with one number per coordinate.

    The translation is a vector in the parent's axes; it is None for a joint without translation. The rotation is a
    number about the joint's axis; it is None for a joint without rotation.
    """
    at = 0
    for joint in mechanism.joints:
        along = about = None
        for axis in joint.slides:
            part = np.array(axis) * values[at]
            along, at = part if along is None else along + part, at + 1
        if joint.turns:
            about, at = values[at], at + 1
        yield joint, along, about


def _turned(joint: Joint, angle: Array | None) -> Array:
    """Rotation matrix R_PB, from the child's axes to the parent's, of a joint at an angle, rad.

    angle  None for a joint without rotation

    [GoncalvesEtAl2024, eqs. 17, 18, written as a rotation about the joint's axis]
    """
    fixed = np.array(joint.rotation)
    return fixed if angle is None else rotation_about(joint.axis, angle) @ fixed


def _turning(w: Array, dw: Array, r: Array) -> Array:
    """Acceleration dw x r + w x (w x r) (3,) of a body's point due to rotation, relative to another body's point.

    w, dw  angular velocity and angular acceleration of the body
    r      vector from the other point to the point
    """
    return cross(dw, r) + cross(w, cross(w, r))


def _dot(axis: tuple[float, float, float], vector: Array) -> Array:
    return axis[0] * vector[0] + axis[1] * vector[1] + axis[2] * vector[2]

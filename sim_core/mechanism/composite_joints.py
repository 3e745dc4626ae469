"""Universal, cylindrical and screw joints, each composed of two joints and a massless body between them.

Each of the two joints has one coordinate, and can have damping, friction, stops and an actuator of its own. The
mechanism must use joint coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import Body, Constraint, Joint, JointRelation
from sim_core.mechanism.joints import IDENTITY, ORIGIN, Matrix3, X, Y, Z
from sim_core.mechanism.quantities import Vector3

NOTHING = (0.0,) * 6
PERPENDICULAR = 1e-6  # largest cosine of the angle between perpendicular axes that rounded numbers explain


@dataclass(frozen=True)
class CompositeJoint:
    """Bodies, joints and constraints of a composite joint, to be added to those of a mechanism.

    In `Mechanism.joints`, these joints must come before the joints whose parent is the composite joint's child.
    """

    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    constraints: tuple[Constraint, ...] = ()


def universal_joint(
    name: str,
    parent: str,
    child: str,
    parent_point: Vector3 = ORIGIN,
    child_point: Vector3 = ORIGIN,
    axes: tuple[Vector3, Vector3] = (X, Y),
    rotation: Matrix3 = IDENTITY,
) -> CompositeJoint:
    """A universal joint: revolute joints NAME.first about axes[0], NAME.second about axes[1], and a body NAME.cross.

    axes      two perpendicular unit vectors in the parent's frame, at zero position of both joints
    rotation  R_PC, from the child's axes to the parent's, at zero position of both joints
    Raises InvalidMechanism for axes that are not perpendicular.
    """
    sizes = [math.hypot(*axis) for axis in axes]
    if not abs(sum(a * b for a, b in zip(*axes, strict=True))) <= PERPENDICULAR * sizes[0] * sizes[1]:
        raise InvalidMechanism(
            f"universal joint {name!r}: its axes {axes[0]} and {axes[1]} are not perpendicular; give perpendicular "
            "axes, or two revolute joints with a body between them"
        )
    cross = f"{name}.cross"
    first = Joint(name=f"{name}.first", parent=parent, child=cross, parent_point=parent_point, axis=axes[0])
    second = Joint(
        name=f"{name}.second", parent=cross, child=child, child_point=child_point, axis=axes[1], rotation=rotation
    )
    return CompositeJoint((_massless(cross),), (first, second))


def cylindrical_joint(
    name: str,
    parent: str,
    child: str,
    parent_point: Vector3 = ORIGIN,
    child_point: Vector3 = ORIGIN,
    axis: Vector3 = Z,
    rotation: Matrix3 = IDENTITY,
) -> CompositeJoint:
    """A cylindrical joint: prismatic joint NAME.slide and revolute joint NAME.turn on one axis, and a body NAME.slider.

    axis      unit vector in the parent's frame
    rotation  R_PC, from the child's axes to the parent's, at zero position of both joints
    """
    slider = f"{name}.slider"
    slide = Joint(
        name=f"{name}.slide", kind="prismatic", parent=parent, child=slider, parent_point=parent_point, axis=axis
    )
    turn = Joint(name=f"{name}.turn", parent=slider, child=child, child_point=child_point, axis=axis, rotation=rotation)
    return CompositeJoint((_massless(slider),), (slide, turn))


def screw_joint(
    name: str,
    parent: str,
    child: str,
    pitch: float,
    parent_point: Vector3 = ORIGIN,
    child_point: Vector3 = ORIGIN,
    axis: Vector3 = Z,
    rotation: Matrix3 = IDENTITY,
) -> CompositeJoint:
    """A screw joint: a cylindrical joint with the constraint NAME.

    The constraint is: position of NAME.slide = pitch * position of NAME.turn.

    pitch  displacement per angle, m/rad: the advance per revolution divided by 2 pi; above 0 for a right-handed thread
    """
    whole = cylindrical_joint(name, parent, child, parent_point, child_point, axis, rotation)
    slide, turn = (joint.name for joint in whole.joints)
    thread = JointRelation(name=name, terms=((slide, 1.0), (turn, -pitch)))
    return CompositeJoint(whole.bodies, whole.joints, (thread,))


def _massless(name: str) -> Body:
    return Body(name=name, mass=0.0, inertia=NOTHING)

"""Rigid tree of a mechanism: its bodies and the joints that were measured; all other joints are held."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.mechanism.description import Body, Joint, Mechanism
from sim_core.mechanism.joints import Matrix3
from sim_core.mechanism.quantities import Vector3, value_of
from sim_core.spatial import rotation_about


def rigid_tree(mechanism: Mechanism, measured: Collection[str], held: Mapping[str, float] | None = None) -> Mechanism:
    """Bodies and joints of a mechanism in joint coordinates, without friction, springs, stops and actuators.

    measured  names of the joints that move
    held      {joint: position, rad or m} of the other joints, by default 0; these joints become fixed
    Raises InvalidRequest for an unknown joint, and for a joint with several coordinates.
    """
    known = [joint.name for joint in mechanism.moving_joints]
    if unknown := [name for name in measured if name not in known]:
        raise InvalidRequest(f"robot {mechanism.name!r} has no joint {unknown[0]!r}; its joints are {', '.join(known)}")
    joints = []
    for joint in mechanism.joints:
        plain = dataclasses.replace(joint, damping=0.0, load=0.0, armature=0.0, spring=None, friction=None, stops=None)
        if joint.is_fixed or (joint.name in measured and len(joint.coordinates) == 1):
            joints.append(plain)
        elif len(joint.coordinates) > 1:
            raise InvalidRequest(
                f"robot {mechanism.name!r}: joint {joint.name!r} is {joint.kind}; a fit needs joints with one "
                "coordinate each"
            )
        else:
            joints.append(fixed_at(joint, (held or {}).get(joint.name, 0.0)))
    zeros = (0.0,) * sum(not joint.is_fixed for joint in joints)
    return Mechanism(
        name=mechanism.name,
        coordinates="joint",
        bodies=tuple(_constant(body) for body in mechanism.bodies),
        joints=tuple(joints),
        gravity=mechanism.gravity,
        initial_q=zeros,
        initial_v=zeros,
    )


def _constant(body: Body) -> Body:
    xx, yy, zz, xy, xz, yz = map(value_of, body.inertia)
    return Body(
        name=body.name,
        mass=value_of(body.mass),
        inertia=(xx, yy, zz, xy, xz, yz),
        center_of_mass=body.center_of_mass,
    )


def fixed_at(joint: Joint, position: float) -> Joint:
    """The fixed joint that holds the bodies of a joint as they are at a position, rad or m."""
    R, point = np.array(joint.rotation), np.array(joint.parent_point)
    if joint.is_length:
        point = point + position * np.array(joint.axis)
    else:
        R = np.asarray(rotation_about(joint.axis, position), dtype=float) @ R
    rows: Matrix3 = tuple(_vector(row) for row in R)  # type: ignore[assignment]
    return Joint(
        name=joint.name,
        kind="fixed",
        parent=joint.parent,
        child=joint.child,
        parent_point=_vector(point),
        child_point=joint.child_point,
        rotation=rows,
    )


def _vector(values: np.ndarray) -> Vector3:
    x, y, z = (float(value) for value in values)
    return x, y, z

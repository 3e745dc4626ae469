"""Spherical and free joints in MJCF: the poses of their bodies in the file, and the start state.

MuJoCo measures the position of a ball or free joint, the limit of a ball joint, and the deflection of their springs
from the pose that the body has in the file.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robots.export.attributes import Array, numbers, quaternion_of, rotation_of
from robots.export.tree import Branch
from sim_core.errors import InvalidRequest
from sim_core.mechanism import GROUND, Joint, Mechanism
from sim_core.mechanism.joints import IDENTITY_QUATERNION, Quaternion
from sim_core.spatial import conjugate, quaternion_product

Numbers = tuple[float, ...]


def at_reference(branch: Branch, mechanism: Mechanism, owner: str) -> Branch:
    """The branch (a body with its connection to the parent body) with the pose that its body has in the MJCF file.

    For a spherical or free joint with a spring, this is the rest pose of the spring; for a free joint without spring,
    the pose at the start. Branches of other joints are returned unchanged. Raises InvalidRequest for a spherical or
    free joint that MJCF cannot express.
    """
    joint = branch.joint
    if joint.is_free:
        _check_free(joint, owner)
        place, quaternion = _start_pose(joint, mechanism)
        if joint.spring is not None:
            place, quaternion = joint.spring.rest_point, joint.spring.rest_quaternion
        return replace(branch, p=branch.p + np.array(place), R=_turned(branch.R, quaternion))
    rest = _reference(joint)
    if rest == IDENTITY_QUATERNION:
        return branch
    if joint.upper is not None:
        raise InvalidRequest(
            f"{owner}: the spring of spherical joint {joint.name!r} is at rest at the quaternion {numbers(rest)}; in "
            "MJCF the rest and the limit of a joint have the same reference, so choose the rest_quaternion 1 0 0 0, or "
            "upper None"
        )
    R, point = _turned(branch.R, rest), np.array(joint.child_point)
    return replace(branch, p=branch.p + (branch.R - R) @ point, R=R)


def starts_of(branch: Branch, mechanism: Mechanism) -> dict[str, tuple[Numbers, Numbers]]:
    """{degree of freedom: (qpos, qvel)} of a branch: position and velocity at the start, as MuJoCo stores them.

    branch  a body with its connection to the parent body, as `at_reference` returned it
    """
    joint, block = branch.joint, _block(branch.joint, mechanism)
    q, v = mechanism.initial_q[block], mechanism.initial_v[block]
    if not joint.orientation_names:
        return {motion.name: (q[k : k + 1], v[k : k + 1]) for k, motion in enumerate(branch.motions)}
    place, quaternion = _start_pose(joint, mechanism)
    if joint.is_free:
        place = tuple((np.array(joint.parent_point) + place).tolist())
        whole = quaternion_product(quaternion_of(np.array(joint.rotation, dtype=float)), quaternion)
    else:
        whole = quaternion_product(conjugate(_reference(joint)), quaternion)
    return {joint.name: ((*place, *map(float, whole)), tuple(map(float, v)))}


def quaternion_in_file(branch: Branch, mechanism: Mechanism) -> Numbers:
    """Quaternion w x y z of a body's frame in the MJCF file, relative to the parent body.

    branch  a body with its connection to the parent body, as `at_reference` returned it
    """
    joint = branch.joint
    if not joint.is_free:
        return tuple(map(float, quaternion_of(branch.R)))
    quaternion = joint.spring.rest_quaternion if joint.spring is not None else _start_pose(joint, mechanism)[1]
    return tuple(map(float, quaternion_product(quaternion_of(np.array(joint.rotation, dtype=float)), quaternion)))


def _check_free(joint: Joint, owner: str) -> None:
    if joint.parent != GROUND:
        raise InvalidRequest(
            f"{owner}: free joint {joint.name!r} moves body {joint.child!r} relative to {joint.parent!r}; in MJCF "
            f"only a body on the world can have a free joint; make {GROUND!r} the parent of this joint"
        )
    if any(joint.child_point):
        raise InvalidRequest(
            f"{owner}: free joint {joint.name!r} has the child_point {numbers(joint.child_point)}; in MJCF a free "
            "joint moves the origin of the body's frame, so choose the child_point 0 0 0"
        )


def _reference(joint: Joint) -> Quaternion:
    """Quaternion of the child relative to the parent, as in `Joint.quaternion`, at which MJCF's joint position is zero.

    This is the rest orientation of a spherical joint with a spring, and 1 0 0 0 for any other joint.
    """
    turned = joint.is_oriented and not joint.is_free and joint.spring is not None
    return joint.spring.rest_quaternion if turned and joint.spring is not None else IDENTITY_QUATERNION


def _start_pose(joint: Joint, mechanism: Mechanism) -> tuple[Numbers, Quaternion]:
    """Return (position, quaternion w x y z) of a spherical or free joint at the start.

    The position, in m along the parent's axes, is () for a spherical joint.
    """
    return mechanism.initial_q[_block(joint, mechanism)][:-3], joint.quaternion


def _block(joint: Joint, mechanism: Mechanism) -> slice:
    """Indices of a joint's coordinates in q."""
    before = mechanism.joints[: mechanism.joints.index(joint)]
    first = sum(len(each.coordinates) for each in before)
    return slice(first, first + len(joint.coordinates))


def _turned(R: Array, quaternion: Quaternion) -> Array:
    return R if quaternion == IDENTITY_QUATERNION else np.asarray(R @ rotation_of(quaternion))

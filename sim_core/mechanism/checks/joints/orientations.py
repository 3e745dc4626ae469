"""Checks of the spherical and free joints in a description."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import Joint, Mechanism
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIENTED, ORIGIN, JointSpring, Quaternion

ROUNDED = 1e-6  # departure of a quaternion's norm from 1 that rounded numbers in files explain
ABSENT = {"spherical": ("load", "friction", "lower"), "free": ("load", "friction", "stops", "lower", "upper")}
ALONG_ONE_COORDINATE = ("rest", "preload")  # numbers of a JointSpring
OF_ORIENTATIONS = ("rest_quaternion", "rest_point")


def check_orientations(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first spherical or free joint that cannot be simulated."""
    for joint in mechanism.joints:
        where = f"{owner}: joint {joint.name!r}"
        if joint.kind not in ORIENTED:
            _check_spring(joint, OF_ORIENTATIONS, where)
            if joint.quaternion != IDENTITY_QUATERNION:
                raise InvalidMechanism(
                    f"{where} is {joint.kind}, so that it cannot have a quaternion; give its orientation at position 0 "
                    "as `rotation`"
                )
            continue
        if mechanism.coordinates != "joint":
            instead = "a Coincidence" if joint.kind == "spherical" else "no joint"
            raise InvalidMechanism(
                f"{where} is {joint.kind}, which needs coordinates='joint', not {mechanism.coordinates!r}; in absolute "
                f"coordinates use a body with orientation='euler_parameters' and {instead} instead"
            )
        if "partitioned" in mechanism.formulation:
            raise InvalidMechanism(
                f"{where} is {joint.kind}, which needs the formulation 'schur' or 'augmented', not "
                f"{mechanism.formulation!r}"
            )
        _check_unit(joint.quaternion, "quaternion", where)
        _check_parts(joint, where)
    if turned := turned_joint(mechanism, mechanism.initial_q):
        raise InvalidMechanism(f"{owner}: initial_q: {turned}")


def turned_joint(mechanism: Mechanism, q: Sequence[float]) -> str:
    """Text about the first spherical or free joint whose rotation coordinates in a start q (n_q,) are not 0, or "".

    These coordinates are neither the angles nor the rotation vector that a description would give; with them, the
    velocities are not the angular velocity.
    """
    first = 0
    for joint in mechanism.joints:
        first += len(joint.coordinates)
        given = tuple(q[first - 3 : first]) if joint.kind in ORIENTED else ()
        if any(given):
            return (
                f"joint {joint.name!r} is {joint.kind}, and its {', '.join(joint.coordinates[-3:])} are "
                f"{', '.join(f'{value:g}' for value in given)}; in a start they must be 0: give the orientation as "
                "`quaternion` of the joint"
            )
    return ""


def _check_unit(quaternion: Quaternion, name: str, where: str) -> None:
    norm = math.hypot(*quaternion)
    if not abs(norm - 1.0) <= ROUNDED:
        raise InvalidMechanism(f"{where}: {name} {quaternion} has the norm {norm:g}; its norm must be 1")


def _check_parts(joint: Joint, where: str) -> None:
    absent = Joint(name=joint.name)
    given = [name for name in ABSENT[joint.kind] if getattr(joint, name) != getattr(absent, name)]
    if given:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that it can have no {' and no '.join(given)}; use a CustomForce instead"
        )
    if joint.upper is not None and not 0.0 < joint.upper < math.pi:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, and its upper limit is {joint.upper:g} rad; the limit of its rotation angle "
            "must lie between 0 and pi"
        )
    _check_spring(joint, ALONG_ONE_COORDINATE, where)
    if joint.spring is not None:
        _check_unit(joint.spring.rest_quaternion, "spring: rest_quaternion", where)
        if joint.kind == "spherical" and joint.spring.rest_point != ORIGIN:
            raise InvalidMechanism(f"{where} is spherical, so that its spring can have no rest_point")


def _check_spring(joint: Joint, absent: tuple[str, ...], where: str) -> None:
    """Raise InvalidMechanism if a joint's spring has a value in a field that does not apply to the joint's kind.

    absent  names of these fields, which must have their defaults
    """
    given = [name for name in absent if joint.spring and getattr(joint.spring, name) != getattr(JointSpring(), name)]
    if given:
        rest = "rest_quaternion" if joint.kind in ORIENTED else "rest"
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that its spring can have no {' and no '.join(given)}; its rest position is "
            f"given by {rest}"
        )

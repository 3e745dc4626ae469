"""Checks of spherical and free joints."""

from __future__ import annotations

import math

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import Joint, Mechanism
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIENTED

ROUNDED = 1e-6  # departure of a quaternion's norm from 1 that rounded numbers in files explain
ONE_COORDINATE = ("load", "armature", "spring", "friction", "stops", "lower", "upper")


def check_orientations(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first spherical or free joint that cannot be simulated."""
    for joint in mechanism.joints:
        where = f"{owner}: joint {joint.name!r}"
        if joint.kind not in ORIENTED:
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
        if not abs(math.hypot(*joint.quaternion) - 1.0) <= ROUNDED:
            raise InvalidMechanism(
                f"{where}: quaternion {joint.quaternion} has the norm {math.hypot(*joint.quaternion):g}; its norm must "
                "be 1"
            )
        _check_parts(joint, where)


def _check_parts(joint: Joint, where: str) -> None:
    absent = Joint(name=joint.name)
    names = ONE_COORDINATE if joint.kind == "spherical" else ("damping", *ONE_COORDINATE)
    given = [name for name in names if getattr(joint, name) != getattr(absent, name)]
    if given:
        raise InvalidMechanism(
            f"{where} is {joint.kind}, so that it can have no {' and no '.join(given)}; use a CustomForce instead"
        )

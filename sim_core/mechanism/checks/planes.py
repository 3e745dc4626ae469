"""Checks that joints, constraints and gravity on planar bodies (in absolute coordinates) act in the plane z = 0."""

from __future__ import annotations

import math

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.description import GROUND, Joint, Mechanism, SpinRelation
from sim_core.mechanism.quantities import Vector3

ROUNDING = 1e-9


def check_planes(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message if joints, constraints or gravity act on planar bodies out of the
    plane z = 0.

    Axes of rotation must be parallel to z; axes of translation, gravity and the vectors of beams must be perpendicular
    to z. Points outside the plane need no check: assembly checks that all constraints are satisfied at the start.
    """
    if not mechanism.has_body_coordinates:
        return
    planar = {body.name for body in mechanism.bodies if body.is_planar}
    for joint in mechanism.joints:
        if {joint.parent, joint.child} <= planar | {GROUND}:
            _check_joint(joint, f"{owner}: joint {joint.name!r}", _named(joint, planar))
    _check_gravity(mechanism, planar, owner)
    beams = {beam.name: beam for beam in mechanism.beams}
    for constraint in mechanism.constraints:
        where = f"{owner}: constraint {constraint.name!r}"
        if isinstance(constraint, SpinRelation):
            for body, axis, _ in constraint.terms:
                if body in planar and not _is_normal(axis):
                    raise InvalidMechanism(
                        f"{where}: the axis on body {body!r} is {axis}; the body is planar, so that the axis must be "
                        "(0, 0, 1) or (0, 0, -1)"
                    )
        elif isinstance(constraint, BeamContact) and constraint.body in planar and constraint.beam in beams:
            beam = beams[constraint.beam]
            for name in ("axis", "direction"):
                if not _is_within(vector := getattr(beam, name)):
                    raise InvalidMechanism(
                        f"{where}: the {name} of beam {beam.name!r} is {vector}; body {constraint.body!r} is planar, "
                        "so that this vector must lie in the x, y plane"
                    )


def _named(joint: Joint, planar: set[str]) -> str:
    names = [repr(name) for name in (joint.parent, joint.child) if name in planar]
    return f"bodies {' and '.join(names)} are planar" if len(names) > 1 else f"body {names[0]} is planar"


def _check_joint(joint: Joint, where: str, bodies: str) -> None:
    if joint.is_length:
        if not _is_within(joint.axis):
            raise InvalidMechanism(
                f"{where}: axis is {joint.axis}, but must be perpendicular to z because {bodies}; for other "
                "axes give the bodies the orientation 'zxz' or 'euler_parameters'"
            )
    elif not joint.is_fixed and not _is_normal(joint.axis):
        raise InvalidMechanism(
            f"{where}: axis is {joint.axis}; {bodies}, so that it must be (0, 0, 1) or (0, 0, -1); for other "
            "axes give the bodies the orientation 'zxz' or 'euler_parameters'"
        )
    if abs(joint.rotation[2][2] - 1.0) > ROUNDING:
        raise InvalidMechanism(
            f"{where}: rotation is {joint.rotation}; {bodies}, so that it must be a rotation about z"
        )


def _check_gravity(mechanism: Mechanism, planar: set[str], owner: str) -> None:
    g = mechanism.gravity
    if not planar or len(planar) < len(mechanism.bodies) or _is_within(g):
        return
    inside = f"({g[0]:g}, {g[1]:g}, 0)" if g[0] or g[1] else "(0, -9.81, 0)"
    raise InvalidMechanism(
        f"{owner}: gravity is {g}, but all bodies are planar and move in the x, y plane only, so that {g[2]:g} m/s2 "
        f"along z has no effect; write gravity={inside}, or (0, 0, 0) for no gravity"
    )


def _is_normal(axis: Vector3) -> bool:
    return abs(abs(axis[2]) - 1.0) <= ROUNDING


def _is_within(vector: Vector3) -> bool:
    return abs(vector[2]) <= ROUNDING * max(math.hypot(*vector), 1e-300)

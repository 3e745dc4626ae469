"""Checks of body orientations in absolute coordinates: ZXZ singularity and norm of Euler parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import COORDINATES, Body, Mechanism

EULER_PARAMETERS = ("e0", "e1", "e2", "e3")
SINGULAR = 1e-6  # |sin theta| of ZXZ angles: below it, phi and psi are one angle
NEAR = 0.05  # |sin theta| at which the rates of phi and psi are 20 times the angular velocity
NORM = 1e-6  # permitted difference of the norm of fixed Euler parameters from 1


def check_angles(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism for a start at the singularity of ZXZ angles, or for invalid Euler parameters.

    Euler parameters are invalid if they are all zero, if all four are fixed and their norm is not 1, or if only one of
    them is free, because the norm determines it.
    """
    for body, sine in nutations(mechanism, mechanism.initial_q):
        if sine < SINGULAR:
            theta = _theta(mechanism, body, mechanism.initial_q)
            raise InvalidMechanism(
                f"{owner}: body {body.name!r} starts at theta = {theta:.6g} rad, where its ZXZ angles phi and psi are "
                "rotations about the same axis; start at another theta, or use orientation='euler_parameters'"
            )
    if mechanism.has_body_coordinates:
        for body in mechanism.bodies:
            if body.has_euler_parameters:
                _check_norm(mechanism, body, owner)


def implausible_angles(mechanism: Mechanism, q: Sequence[float]) -> list[str]:
    """Warnings, one line for each body whose ZXZ angles are near their singularity at the coordinates q (n_q,)."""
    return [
        f"body {body.name!r} of {mechanism.name!r} is at theta = {_theta(mechanism, body, q):.6g} rad, near the "
        "singularity of its ZXZ angles, where the rates of phi and psi grow without bound; "
        "orientation='euler_parameters' has no singularity"
        for body, sine in nutations(mechanism, q)
        if sine < NEAR
    ]


def nutations(mechanism: Mechanism, q: Sequence[float]) -> Iterator[tuple[Body, float]]:
    """Yield (body, |sin theta|) at q for each body whose ZXZ angles phi and psi both vary; theta = 0 is singular."""
    if mechanism.has_body_coordinates:
        for body in mechanism.bodies:
            if body.orientation == "zxz" and {"phi", "psi"} <= {*body.free_coordinates}:
                yield body, abs(math.sin(_theta(mechanism, body, q)))


def _theta(mechanism: Mechanism, body: Body, q: Sequence[float]) -> float:
    return _value(mechanism, body, "theta", q)


def _value(mechanism: Mechanism, body: Body, name: str, q: Sequence[float]) -> float:
    """Value of a body's coordinate: the entry in q if the coordinate varies, otherwise the value in the placement."""
    if name in body.free_coordinates:
        return float(q[mechanism.coordinate_names.index(f"{body.name}.{name}")])
    if body.placement:
        return body.placement[COORDINATES[body.orientation].index(name)]
    return 1.0 if name == "e0" else 0.0


def _check_norm(mechanism: Mechanism, body: Body, owner: str) -> None:
    e = [_value(mechanism, body, name, mechanism.initial_q) for name in EULER_PARAMETERS]
    norm = math.sqrt(sum(c * c for c in e))
    free = [name for name in body.free_coordinates if name in EULER_PARAMETERS]
    if norm == 0.0 or (len(free) == 0 and abs(norm - 1.0) > NORM):
        raise InvalidMechanism(
            f"{owner}: body {body.name!r}: its Euler parameters are {tuple(e)} of norm {norm:.6g}; their norm must be 1"
        )
    if len(free) == 1:
        raise InvalidMechanism(
            f"{owner}: body {body.name!r}: of its Euler parameters only {free[0]!r} is free, and their norm of 1 "
            "determines it; free at least two of them, or none"
        )

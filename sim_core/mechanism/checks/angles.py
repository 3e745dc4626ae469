"""Checks of body orientations in absolute coordinates: ZXZ singularity and norm of Euler parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

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
            theta = _value(body, "theta", _coordinates(mechanism, mechanism.initial_q))
            raise InvalidMechanism(
                f"{owner}: body {body.name!r} starts at theta = {theta:.6g} rad, where its ZXZ angles phi and psi are "
                "rotations about the same axis; start at another theta, or use orientation='euler_parameters'"
            )
    if mechanism.has_body_coordinates:
        coordinates = _coordinates(mechanism, mechanism.initial_q)
        for body in mechanism.bodies:
            if body.has_euler_parameters:
                _check_norm(coordinates, body, owner)


def implausible_angles(mechanism: Mechanism, q: Sequence[float]) -> list[str]:
    """Warnings, one line for each body whose ZXZ angles are near their singularity at the coordinates q (n_q,)."""
    coordinates = _coordinates(mechanism, q)
    return [
        f"body {body.name!r} of {mechanism.name!r} is at theta = {_value(body, 'theta', coordinates):.6g} rad, near "
        "the singularity of its ZXZ angles, where the rates of phi and psi grow without bound; "
        "orientation='euler_parameters' has no singularity"
        for body, sine in nutations(mechanism, q)
        if sine < NEAR
    ]


def nutations(mechanism: Mechanism, q: Sequence[float]) -> Iterator[tuple[Body, float]]:
    """Yield (body, |sin theta|) at q for each body whose ZXZ angles phi and psi both vary; theta = 0 is singular."""
    if mechanism.has_body_coordinates:
        coordinates = _coordinates(mechanism, q)
        for body in mechanism.bodies:
            if body.orientation == "zxz" and {"phi", "psi"} <= {*body.free_coordinates}:
                yield body, abs(math.sin(_value(body, "theta", coordinates)))


def _coordinates(mechanism: Mechanism, q: Sequence[float]) -> dict[str, float]:
    """{name of a coordinate: its entry in q}."""
    return dict(zip(mechanism.coordinate_names, map(float, q), strict=False))


def _value(body: Body, name: str, coordinates: Mapping[str, float]) -> float:
    """Value of a body's coordinate: that of `coordinates` if it varies, otherwise the value in the placement."""
    if name in body.free_coordinates:
        return coordinates[f"{body.name}.{name}"]
    if body.placement:
        return body.placement[COORDINATES[body.orientation].index(name)]
    return 1.0 if name == "e0" else 0.0


def _check_norm(coordinates: Mapping[str, float], body: Body, owner: str) -> None:
    e = [_value(body, name, coordinates) for name in EULER_PARAMETERS]
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

"""What a description says about named outputs: numbers that a robot tells beside its joints."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.beams import ContactForceOutput, DeflectionOutput
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Vector3

ORIGIN: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class PointOutput(Frozen):
    """World coordinates of a body-fixed point as outputs `name`_x, `name`_y, `name`_z (those of `axes`)."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class JointOutput(Frozen):
    """The position of a declared joint as the output `name`: relative to its parent, unwrapped by a simulation."""

    name: str
    joint: str


@dataclass(frozen=True, kw_only=True)
class VelocityOutput(Frozen):
    """World velocity of a body-fixed point as outputs `name`_vx, `name`_vy, `name`_vz (those of `axes`), m/s."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class ForceOutput(Frozen):
    """What constraints at one point of a body exert on it, N, as outputs `name`_x, ...; U does not count."""

    name: str
    constraints: tuple[str, ...]
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class HoldingOutput(Frozen):
    """1 while a constraint holds, else 0, as the output `name`."""

    name: str
    constraint: str


@dataclass(frozen=True, kw_only=True)
class ForceArrow(Frozen):
    """For pictures: the force, N, that acts on `body` at `point`, from outputs: each along its world unit vector."""

    name: str
    body: str
    outputs: tuple[str, ...]
    axes: tuple[Vector3, ...]
    point: Vector3 = ORIGIN


Output = (
    PointOutput | VelocityOutput | ForceOutput | HoldingOutput | JointOutput | DeflectionOutput | ContactForceOutput
)


def names_of(output: Output) -> tuple[str, ...]:
    """The names under which its numbers are told."""
    if isinstance(output, PointOutput | VelocityOutput | ForceOutput):
        prefix = "v" if isinstance(output, VelocityOutput) else ""
        return tuple(f"{output.name}_{prefix}{axis}" for axis in output.axes)
    return (output.name,)

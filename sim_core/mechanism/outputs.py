"""Named outputs of a description: numbers that a robot publishes beside its joint states."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.beams import ContactForceOutput, DeflectionOutput
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Vector3

ORIGIN: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class PointOutput(Frozen):
    """World coordinates of a body-fixed point, m, as outputs `name`_x, `name`_y, `name`_z (those listed in `axes`)."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class JointOutput(Frozen):
    """Position of a declared joint as the output `name`: relative to its parent; a simulation unwraps it."""

    name: str
    joint: str


@dataclass(frozen=True, kw_only=True)
class VelocityOutput(Frozen):
    """World velocity of a body-fixed point, m/s, as outputs `name`_vx, `name`_vy, `name`_vz (those in `axes`)."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class ForceOutput(Frozen):
    """World force, N, that the constraints at one point of a body exert on the body, as outputs `name`_x, ...

    The stabilization U does not contribute.
    """

    name: str
    constraints: tuple[str, ...]
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class ReactionOutput(Frozen):
    """Effort or force, N m or N, of a constraint of one row, -lam, as the output `name`.

    Of a PrescribedMotion it acts along the joint or axis; of a JointRelation times each factor. The stabilization U
    does not contribute.
    """

    name: str
    constraint: str


@dataclass(frozen=True, kw_only=True)
class SurfaceForceOutput(Frozen):
    """World force, N, of a SphereContact on its body, as outputs `name`_x, `name`_y, `name`_z (those in `axes`)."""

    name: str
    contact: str
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class HoldingOutput(Frozen):
    """Whether a constraint holds (1) or not (0), as the output `name`."""

    name: str
    constraint: str


@dataclass(frozen=True, kw_only=True)
class ForceArrow(Frozen):
    """For drawings: the force, N, on `body` at `point`, as a sum of outputs along unit vectors.

    outputs  names of outputs, N
    axes     world unit vector of each output
    """

    name: str
    body: str
    outputs: tuple[str, ...]
    axes: tuple[Vector3, ...]
    point: Vector3 = ORIGIN


Output = (
    PointOutput
    | VelocityOutput
    | ForceOutput
    | ReactionOutput
    | SurfaceForceOutput
    | HoldingOutput
    | JointOutput
    | DeflectionOutput
    | ContactForceOutput
)


def names_of(output: Output) -> tuple[str, ...]:
    """The names of the numbers that this output publishes."""
    if isinstance(output, PointOutput | VelocityOutput | ForceOutput | SurfaceForceOutput):
        prefix = "v" if isinstance(output, VelocityOutput) else ""
        return tuple(f"{output.name}_{prefix}{axis}" for axis in output.axes)
    return (output.name,)

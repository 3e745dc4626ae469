"""Named outputs of a mechanism: numbers that a simulation publishes in addition to the joint states."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.beams import ContactForceOutput, DeflectionOutput
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIGIN, Quaternion
from sim_core.mechanism.quantities import Vector3
from sim_core.mechanism.rolling import SlipOutput


@dataclass(frozen=True, kw_only=True)
class PointOutput(Frozen):
    """Outputs `name`_x, `name`_y, `name`_z (those listed in `axes`): world coordinates of a body-fixed point, m."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class JointOutput(Frozen):
    """Output `name`: position of a declared joint relative to its parent, rad or m; a simulation unwraps angles."""

    name: str
    joint: str


@dataclass(frozen=True, kw_only=True)
class VelocityOutput(Frozen):
    """Outputs `name`_vx, `name`_vy, `name`_vz (those listed in `axes`): world velocity of a body-fixed point, m/s."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class ForceOutput(Frozen):
    """Outputs `name`_x, `name`_y, `name`_z: world force, N, that constraints at one point of a body exert on the body.

    Forces due to the constraint stabilization are not included.
    """

    name: str
    constraints: tuple[str, ...]
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class ReactionOutput(Frozen):
    """Output `name`: effort (N m) or force (N) of a PrescribedMotion or JointRelation.

    The output is -lam, the negative Lagrange multiplier of the constraint. A PrescribedMotion exerts the effort or
    force -lam along its joint or axis. A JointRelation exerts -lam times the joint's factor on each of its joints.
    Forces due to the constraint stabilization are not included.
    """

    name: str
    constraint: str


@dataclass(frozen=True, kw_only=True)
class SurfaceForceOutput(Frozen):
    """Outputs `name`_x, `name`_y, `name`_z (those listed in `axes`): world force, N, of a SphereContact on its body.

    Viewers draw the force as an arrow at the centre of the sphere.
    """

    name: str
    contact: str
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class HoldingOutput(Frozen):
    """Output `name`: 1 while a constraint holds, otherwise 0."""

    name: str
    constraint: str


@dataclass(frozen=True, kw_only=True)
class ForceArrow(Frozen):
    """A force arrow in a drawing, for a force on `body` at `point`.

    The force, N, is the sum of the outputs, each times its unit vector.

    outputs  names of outputs that are forces, N
    axes     world unit vector of each output
    """

    name: str
    body: str
    outputs: tuple[str, ...]
    axes: tuple[Vector3, ...]
    point: Vector3 = ORIGIN


@dataclass(frozen=True, kw_only=True)
class AccelerometerOutput(Frozen):
    """Acceleration of a body-fixed point minus gravity, m/s^2, in the sensor's axes: outputs `name`_ax, _ay, _az.

    A sensor at rest reads 9.81 m/s^2 upwards. The acceleration is that in the current state under the current efforts;
    the constraint stabilization U does not contribute.

    point       position of the sensor in the body's frame, m
    quaternion  orientation w x y z of the sensor in the body's frame
    """

    name: str
    body: str
    point: Vector3 = ORIGIN
    quaternion: Quaternion = IDENTITY_QUATERNION


@dataclass(frozen=True, kw_only=True)
class GyroscopeOutput(Frozen):
    """Angular velocity of a body relative to the world, rad/s, in the sensor's axes: outputs `name`_wx, _wy, _wz.

    quaternion  orientation w x y z of the sensor in the body's frame
    """

    name: str
    body: str
    quaternion: Quaternion = IDENTITY_QUATERNION


@dataclass(frozen=True, kw_only=True)
class ForceTorqueOutput(Frozen):
    """Force, N, and torque, N m, that the parent of a joint exerts on the child through the joint.

    The outputs, in the sensor's axes, are `name`_fx, _fy, _fz, and `name`_tx, _ty, _tz about the sensor's point. The
    effort of the joint's actuator, spring, friction and stop is part of the result. The weight and the gyroscopic
    torque of the joint's rotor (`armature`) are neglected. The constraint stabilization U does not contribute.

    joint       name of a joint of any kind, also fixed. In a closed loop, other joints also connect the bodies that
                this joint carries to the rest of the mechanism; these other joints must be passive. In an
                over-constrained loop, the reactions are the least-squares solution
    point       position of the sensor in the child's frame, m; None: the joint's point on the child
    quaternion  orientation w x y z of the sensor in the child's frame
    """

    name: str
    joint: str
    point: Vector3 | None = None
    quaternion: Quaternion = IDENTITY_QUATERNION


Sensor = AccelerometerOutput | GyroscopeOutput | ForceTorqueOutput
ENDINGS: dict[type, tuple[tuple[str, str], ...]] = {  # (ending of the output's name, unit)
    AccelerometerOutput: (("ax", "m/s2"), ("ay", "m/s2"), ("az", "m/s2")),
    GyroscopeOutput: (("wx", "rad/s"), ("wy", "rad/s"), ("wz", "rad/s")),
    ForceTorqueOutput: (("fx", "N"), ("fy", "N"), ("fz", "N"), ("tx", "N m"), ("ty", "N m"), ("tz", "N m")),
}


def readings_of(sensor: Sensor) -> dict[str, str]:
    """{name of an output of the sensor: its unit}."""
    return {f"{sensor.name}_{ending}": unit for ending, unit in ENDINGS[type(sensor)]}


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
    | SlipOutput
    | AccelerometerOutput
    | GyroscopeOutput
    | ForceTorqueOutput
)


def names_of(output: Output) -> tuple[str, ...]:
    """Names of the numbers that an output publishes, such as `name`_x and `name`_y for a point in the plane."""
    if isinstance(output, PointOutput | VelocityOutput | ForceOutput | SurfaceForceOutput):
        prefix = "v" if isinstance(output, VelocityOutput) else ""
        return tuple(f"{output.name}_{prefix}{axis}" for axis in output.axes)
    if isinstance(output, AccelerometerOutput | GyroscopeOutput | ForceTorqueOutput):
        return tuple(readings_of(output))
    if isinstance(output, SlipOutput):
        return f"{output.name}_along", f"{output.name}_across"
    return (output.name,)

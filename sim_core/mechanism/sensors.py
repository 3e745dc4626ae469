"""Sensors on a robot as outputs, each in a frame of its own: accelerometer, gyroscope, force and torque at a joint."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIGIN, Quaternion
from sim_core.mechanism.quantities import Vector3


@dataclass(frozen=True, kw_only=True)
class AccelerometerOutput(Frozen):
    """Acceleration of a body-fixed point less gravity, m/s^2, in the sensor's axes, as outputs `name`_ax, _ay, _az.

    A sensor at rest reads 9.81 upwards. The accelerations are those of the present state and efforts; the stabilization
    U does not contribute.

    point       position of the sensor in the body's frame, m
    quaternion  orientation w x y z of the sensor in the body's frame
    """

    name: str
    body: str
    point: Vector3 = ORIGIN
    quaternion: Quaternion = IDENTITY_QUATERNION


@dataclass(frozen=True, kw_only=True)
class GyroscopeOutput(Frozen):
    """Angular velocity of a body against the world, rad/s, in the sensor's axes, as outputs `name`_wx, _wy, _wz.

    quaternion  orientation w x y z of the sensor in the body's frame
    """

    name: str
    body: str
    quaternion: Quaternion = IDENTITY_QUATERNION


@dataclass(frozen=True, kw_only=True)
class ForceTorqueOutput(Frozen):
    """Force, N, and torque, N m, that the parent of a joint exerts on the child there, in the sensor's axes.

    Outputs `name`_fx, _fy, _fz, and `name`_tx, _ty, _tz about the sensor's point. The effort of the joint's actuator,
    spring, friction and stop is part of the torque; a rotor (`armature`) is without weight and without gyroscopic
    torque. The stabilization U does not contribute.

    joint       any joint, fixed ones included. If other joints connect the child's side of the tree to the rest, they
                must be passive; over-constrained loops share their forces by least squares
    point       position of the sensor in the child's frame, m; the joint's own point on the child if None
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
    """{output: its unit} of a sensor."""
    return {f"{sensor.name}_{ending}": unit for ending, unit in ENDINGS[type(sensor)]}

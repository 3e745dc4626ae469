"""Sensors of a robot as outputs: accelerometer, gyroscope, and force-torque sensor, each with axes of its own."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIGIN, Quaternion
from sim_core.mechanism.quantities import Vector3


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

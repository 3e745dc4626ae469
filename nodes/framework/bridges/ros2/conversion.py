"""Converts messages of a launch to messages of ROS 2: clock, joint states, transforms, sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodes.framework.messages import BodyPoses, Description, RobotState
from nodes.framework.ros2.interfaces.builtin_interfaces import Time
from nodes.framework.ros2.interfaces.geometry_msgs import (
    Quaternion,
    Transform,
    TransformStamped,
    Vector3,
    Wrench,
    WrenchStamped,
)
from nodes.framework.ros2.interfaces.sensor_msgs import Imu, JointState
from nodes.framework.ros2.interfaces.std_msgs import Header
from nodes.framework.ros2.interfaces.tf2_msgs import TFMessage

WORLD = "world"  # frame in which the poses of the bodies are given
ACCELERATION, ROTATION, FORCE, TORQUE = (
    tuple(f"{letter}{axis}" for axis in "xyz") for letter in ("a", "w", "f", "t")
)  # endings of the names of outputs
UNITS = {ACCELERATION: "m/s2", ROTATION: "rad/s", FORCE: "N", TORQUE: "N m"}
NOT_MEASURED = [-1.0] + [0.0] * 8  # covariance of a quantity that an Imu does not contain


def ros_time(time_s: float) -> Time:
    """A simulation time (s) as ROS time, to the nanosecond."""
    seconds, nanoseconds = divmod(round(time_s * 1e9), 10**9)
    return Time(seconds, nanoseconds)


def nanoseconds(time: Time) -> int:
    """A ROS time in ns."""
    return time.sec * 10**9 + time.nanosec


def joint_state(state: RobotState, stamp: Time) -> JointState:
    """Positions, velocities and efforts of a state; the efforts are [] if the state has none."""
    return JointState(Header(stamp), state.name, state.position, state.velocity, state.effort)


def frame_of(robot: str, name: str) -> str:
    """Name of the frame of a body or sensor, such as "charmie/tower"."""
    return f"{robot}/{name}"


def transforms(frames: Sequence[str], poses: BodyPoses, stamp: Time) -> TFMessage:
    """Poses of all bodies in the frame `world`.

    frames  frame of each body
    """
    header, p, q = Header(stamp, WORLD), poses.p, poses.quaternion
    return TFMessage(
        [
            transform(header, frame, p[3 * k : 3 * k + 3], q[4 * k : 4 * k + 4])
            for k, frame in enumerate(frames[: len(p) // 3])
        ]
    )


def transform(header: Header, child: str, point: list[float], quaternion: list[float]) -> TransformStamped:
    """Transform of the frame `child` in the frame of the header.

    quaternion  w x y z
    """
    w, x, y, z = quaternion
    return TransformStamped(header, child, Transform(Vector3(*point), Quaternion(x, y, z, w)))


@dataclass(frozen=True)
class Sensors:
    """Sensors of a robot, found by the names and units of its outputs.

    imus      {name: whether it has an accelerometer, whether it has a gyroscope}
    wrenches  names of the force-torque sensors
    """

    imus: Mapping[str, tuple[bool, bool]]
    wrenches: tuple[str, ...]

    @classmethod
    def of(cls, description: Description) -> Sensors:
        """The sensors whose outputs a description lists."""
        units = dict(zip(description.outputs, description.output_units, strict=False))
        accelerometers, gyroscopes, forces, torques = (
            [
                name.removesuffix(f"_{endings[0]}")
                for name in units
                if name.endswith(f"_{endings[0]}")
                and all(units.get(output) == unit for output in _outputs(name.removesuffix(f"_{endings[0]}"), endings))
            ]
            for endings, unit in UNITS.items()
        )
        names = dict.fromkeys([*accelerometers, *gyroscopes])
        imus = {name: (name in accelerometers, name in gyroscopes) for name in names}
        return cls(imus, tuple(name for name in forces if name in torques))

    def imu(self, name: str, frame: str, state: RobotState, stamp: Time) -> Imu:
        """Reading of an inertial measurement unit. Its orientation is never measured."""
        has_acceleration, has_rotation = self.imus[name]
        reading = Imu(Header(stamp, frame), orientation_covariance=NOT_MEASURED)
        if has_acceleration:
            reading.linear_acceleration = _vector(state, name, ACCELERATION)
        else:
            reading.linear_acceleration_covariance = NOT_MEASURED
        if has_rotation:
            reading.angular_velocity = _vector(state, name, ROTATION)
        else:
            reading.angular_velocity_covariance = NOT_MEASURED
        return reading

    def wrench(self, name: str, frame: str, state: RobotState, stamp: Time) -> WrenchStamped:
        """Reading of a force-torque sensor."""
        wrench = Wrench(_vector(state, name, FORCE), _vector(state, name, TORQUE))
        return WrenchStamped(Header(stamp, frame), wrench)


def _outputs(name: str, endings: tuple[str, ...]) -> list[str]:
    return [f"{name}_{ending}" for ending in endings]


def _vector(state: RobotState, name: str, endings: tuple[str, ...]) -> Vector3:
    outputs = state.outputs
    return Vector3(*[outputs.get(output, float("nan")) for output in _outputs(name, endings)])

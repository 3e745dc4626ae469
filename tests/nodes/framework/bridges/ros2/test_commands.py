"""Commands of ROS 2 become commands of a launch, or are refused with a line that says how to give them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nodes.framework.bridges.ros2.command_conversion import Actuators, array_command, base_velocity, joint_commands
from nodes.framework.bridges.ros2.trajectories import trajectory_of
from nodes.framework.messages import ActuatorDescription, Description
from nodes.framework.ros2.interfaces.builtin_interfaces import Duration, Time
from nodes.framework.ros2.interfaces.geometry_msgs import Twist, Vector3
from nodes.framework.ros2.interfaces.sensor_msgs import JointState
from nodes.framework.ros2.interfaces.std_msgs import Header
from nodes.framework.ros2.interfaces.trajectory_msgs import JointTrajectory, JointTrajectoryPoint

NAN = math.nan
ARM = Actuators.of(
    Description(
        actuators=[
            ActuatorDescription(name="motor_1", joint="shoulder", modes=["effort", "velocity", "position"]),
            ActuatorDescription(name="motor_2", joint="elbow", modes=["effort"]),
        ]
    )
)


def test_each_joint_is_commanded_in_the_mode_of_its_only_number() -> None:
    message = JointState(name=["shoulder", "motor_2"], position=[0.5, NAN], effort=[NAN, 2.0])
    effort, position = sorted(joint_commands(message, ARM), key=lambda each: each.mode)
    assert (effort.mode, effort.name, effort.value) == ("effort", ["motor_2"], [2.0])
    assert (position.mode, position.name, position.value) == ("position", ["motor_1"], [0.5])


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (JointState(), "give each joint once"),
        (JointState(name=["elbow", "elbow"], effort=[1.0, 1.0]), "give each joint once"),
        (JointState(name=["elbow"], effort=[1.0, 2.0]), "1 joints have 2 numbers in effort"),
        (JointState(name=["elbow"]), "numbers in no list"),
        (JointState(name=["elbow"], effort=[NAN]), "numbers in no list"),
        (JointState(name=["shoulder"], effort=[1.0], velocity=[0.0]), "numbers in effort and velocity"),
        (JointState(name=["elbo"], effort=[1.0]), "no actuator drives a joint 'elbo'.*elbow"),
        (JointState(name=["elbow"], effort=[math.inf]), "give a finite number"),
    ],
)
def test_a_command_that_is_not_clear_is_refused(message: JointState, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        joint_commands(message, ARM)


def test_an_array_has_a_number_for_each_actuator_of_its_mode() -> None:
    assert array_command([1.0, 2.0], "effort", ARM).name == ["motor_1", "motor_2"]
    assert array_command([1.0], "velocity", ARM).name == ["motor_1"]
    with pytest.raises(ValueError, match="2 numbers are given; 1 are needed, for motor_1"):
        array_command([1.0, 2.0], "position", ARM)


def test_a_twist_is_passed_on_and_must_be_finite() -> None:
    assert base_velocity(Twist(Vector3(1.0, 2.0, 3.0), Vector3(4.0, 5.0, 6.0))).angular == [4.0, 5.0, 6.0]
    with pytest.raises(ValueError, match=r"'angular[.]z' is nan"):
        base_velocity(Twist(angular=Vector3(z=NAN)))


def points(rows: list[tuple[float, list[float], list[float], list[float]]]) -> JointTrajectory:
    found = [JointTrajectoryPoint(q, v, a, [], Duration(int(t), round((t - int(t)) * 1e9))) for t, q, v, a in rows]
    return JointTrajectory(Header(Time()), ["shoulder", "elbow"], found)


MOTION = {"shoulder": (0.1, 0.2), "elbow": (-0.3, 0.4)}


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_a_trajectory_is_the_polynomial_through_its_points(degree: int) -> None:
    """Against scipy's Bernstein polynomials with the given derivatives at the points."""
    interpolate = pytest.importorskip("scipy.interpolate")
    rng = np.random.default_rng(degree)
    times = [0.5, 1.25, 3.0]
    values = rng.normal(size=(3, 3, 2))  # point, derivative, joint
    count = (degree + 1) // 2  # of derivatives given, with the position
    rows = [
        (t, *(row.tolist() if k < count else [] for k, row in enumerate(at)))
        for t, at in zip(times, values, strict=True)
    ]
    trajectory = trajectory_of(points(rows), 10.0, MOTION)
    present = np.array([[MOTION[n][0] for n in MOTION], [MOTION[n][1] for n in MOTION], [0.0, 0.0]])
    everything = np.concatenate([present[None], values])[:, :count]
    expected = interpolate.BPoly.from_derivatives([10.0, *(10.0 + t for t in times)], everything)
    for t in np.linspace(10.0, 13.0, 37)[1:-1]:
        reference = trajectory.at(float(t))
        found = [reference.position, reference.velocity, reference.acceleration]
        for order in range(min(degree, 2) + 1):
            np.testing.assert_allclose(found[order], expected.derivative(order)(t) if order else expected(t), atol=1e-9)
    end = trajectory.at(99.0)
    np.testing.assert_allclose(end.position, values[-1, 0])
    assert end.velocity == [0.0, 0.0]
    assert trajectory.end == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"joint_names": ["shoulder", "shoulder"]}, "each joint once"),
        ({"joint_names": ["shoulder", "knee"]}, "no joint 'knee'"),
        ({"points": []}, "0 points"),
        ({"points": points([(1.0, [1.0], [], [])]).points}, "1 positions for 2 joints"),
        ({"points": points([(1.0, [1.0, NAN], [], [])]).points}, "finite"),
        ({"points": points([(1.0, [1.0, 2.0], [], [1.0, 1.0])]).points}, "no velocities"),
        ({"points": points([(2.0, [1.0, 2.0], [], []), (1.0, [1.0, 2.0], [], [])]).points}, "increase"),
    ],
)
def test_a_trajectory_that_does_not_fit_is_refused(change: dict[str, object], line: str) -> None:
    message = points([(1.0, [0.0, 0.0], [], [])])
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(ValueError, match=line):
        trajectory_of(message, 0.0, MOTION)

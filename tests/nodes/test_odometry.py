"""odometry: the pose of a base from its wheels, beside simulated bases that roll without slip."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import PlotValues, RobotState
from nodes.node import Context
from nodes.odometry import Odometry, OdometryParams
from robots.registry import build
from sim_core.mechanism import Mechanism
from sim_core.simulation import Simulation
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import assemble
from tests.sim_core.test_rolling import HALF, LENGTH, PLACES, RIM, ROLLERS, WHEEL, mecanum, tricycle

CORNERS = {"wheels": [*ROLLERS], "radius": [WHEEL[1]] * 4}
CORNERS |= {"x": [0.2 * PLACES[name][0] for name in ROLLERS], "y": [0.15 * PLACES[name][1] for name in ROLLERS]}
CASES: dict[str, tuple[Callable[[], Mechanism], tuple[float, ...], dict[str, Any]]] = {
    "two wheels": (
        lambda: build("differential_drive"),
        (0.8, 0.4),
        {"wheels": ["left_wheel", "right_wheel"], "radius": [0.08] * 2, "x": [0.0] * 2, "y": [0.14, -0.14]},
    ),
    "mecanum wheels": (mecanum, (), CORNERS | {"rollers_deg": [45.0 * sign for sign in ROLLERS.values()]}),
    "one driven and steered wheel": (
        tricycle,
        (),
        {
            "wheels": ["front", "left", "right"],
            "radius": [RIM] * 3,
            "x": [LENGTH, 0.0, 0.0],
            "y": [0.0, HALF, -HALF],
            "steering": ["steering", "", ""],
        },
    ),
}


def filled(params: dict[str, Any]) -> Odometry:
    node = Odometry()
    node.on_start(Context("odometry", "base", 1e-3, OdometryParams(**params), np.random.default_rng(0)))
    return node


def of(simulation: Simulation) -> RobotState:
    position, velocity, _ = (values.tolist() for values in simulation.joints())
    names = list(simulation.system.mechanism.moving_joint_names)
    return RobotState(timestamp=simulation.time, name=names, position=position, velocity=velocity)


@pytest.mark.parametrize("case", CASES)
def test_the_pose_from_the_wheels_is_that_of_the_base(case: str) -> None:
    made, effort, params = CASES[case]
    simulation, node = Simulation(assemble(made()), step_s=1e-3), filled(params)
    if effort:
        simulation.set_effort(effort)
    for _ in range(200):
        found = [message for _, message in node.on_message("state", of(simulation)) or []]
        simulation.step(10)
    found = [message for _, message in node.on_message("state", of(simulation)) or []]
    (message,) = found
    assert isinstance(message, PlotValues)
    p, quaternions = simulation.poses()
    R = rotation_from_quaternion(quaternions[0])
    yaw = math.atan2(R[1, 0], R[0, 0])
    assert math.hypot(*p[0, :2]) > 0.3
    assert abs(yaw) > 0.2
    values = message.values
    np.testing.assert_allclose([values["x"], values["y"]], p[0, :2], atol=1e-4)
    assert math.remainder(values["yaw"] - yaw, 2.0 * math.pi) == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"radius": [0.1]}, "radius has 1 values for 2 wheels; give one per wheel"),
        ({"steering": ["fork"]}, "steering has 1 values for 2 wheels; give one per wheel"),
        ({"rollers_deg": [45.0, 90.0]}, "rollers_deg is [45.0, 90.0]; its values must be between -90 and 90"),
        ({"heading_deg": [math.nan, 0.0]}, "heading_deg is [nan, 0.0]; its values must be finite"),
    ],
)
def test_bad_parameters_end_with_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match="^" + line.replace("[", r"\[")):
        OdometryParams(**(CASES["two wheels"][2] | changes))


def test_a_joint_that_the_robot_lacks_is_named() -> None:
    node = filled(CASES["two wheels"][2] | {"steering": ["fork", ""]})
    state = RobotState(name=["left_wheel", "right_wheel"], position=[0.0] * 2, velocity=[0.0] * 2)
    with pytest.raises(ValueError, match="the state has no joint 'fork'; its joints are left_wheel, right_wheel"):
        list(node.on_message("state", state) or [])

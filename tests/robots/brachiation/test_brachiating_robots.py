"""AcroMonk and RicMonk hang, reach and weigh as their published descriptions say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armswing import assemble, build, forward_kinematics, inverse_dynamics
from robots.brachiation.links import SPACING
from sim_core.mechanism.quantities import value_of

ARMS = {"acromonk": [0.0, 0.0], "ricmonk": [0.0, 0.0, 0.0]}


@pytest.mark.parametrize("name", ARMS)
def test_the_robot_hangs_down_with_its_free_hook_two_arms_below_the_bar(name: str) -> None:
    poses = forward_kinematics(assemble(build(name)), np.array(ARMS[name]))
    p_WH, _ = poses["hook_2"]
    assert p_WH[2] == pytest.approx(-2 * 0.31401, abs=1e-5)
    assert abs(p_WH[0]) < 0.05


@pytest.mark.parametrize("name", ARMS)
def test_a_positive_angle_of_any_joint_swings_the_free_hook_along_x(name: str) -> None:
    system = assemble(build(name))
    before = forward_kinematics(system, np.array(ARMS[name]))["hook_2"][0]
    for joint in range(len(ARMS[name])):
        q = np.array(ARMS[name])
        q[joint] = 0.1
        assert forward_kinematics(system, q)["hook_2"][0][0] > before[0] + 0.02


@pytest.mark.parametrize(
    ("name", "q"), [("acromonk", (-0.5357, -1.9758)), ("ricmonk", (-0.560, 0.583, -2.527))], ids=["acromonk", "ricmonk"]
)
def test_the_free_hook_is_at_the_bar_behind_in_the_posture_recorded_on_two_bars(
    name: str, q: tuple[float, ...]
) -> None:
    p_WH, _ = forward_kinematics(assemble(build(name)), np.array(q))["hook_2"]
    assert p_WH[0] == pytest.approx(-SPACING, abs=0.03)
    assert p_WH[2] == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("name", ARMS)
def test_the_torque_that_holds_the_swung_robot_is_weight_times_lever(name: str) -> None:
    mechanism = build(name)
    system = assemble(mechanism)
    q = np.array(ARMS[name])
    q[0] = 0.5
    poses = forward_kinematics(system, q)
    lever = sum(
        value_of(body.mass) * 9.81 * (p + R @ np.array(body.center_of_mass))[0]
        for body in mechanism.bodies
        for p, R in [poses[body.name]]
    )
    zero = np.zeros(len(q))
    assert inverse_dynamics(system, q, zero, zero)[0] == pytest.approx(lever, rel=1e-9)


def test_angles_at_the_start_are_in_degrees() -> None:
    assert build("acromonk", elbow_deg=90.0).initial_q == (0.0, math.pi / 2)
    assert build("ricmonk", tail_deg=180.0).initial_q == (0.0, math.pi, 0.0)

"""The base's wheels: rolling without slipping, both ways, limits, and what encoders count."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robots.charmie import base
from robots.charmie.parameters import read_parameters
from robots.registry import build
from sim_core import forward_kinematics
from sim_core.system import assemble

WHEELS = read_parameters().base.wheels
speed = st.floats(-2.0, 2.0)
twists = st.tuples(speed, speed, speed)


@given(twists)
def test_a_wheels_rim_moves_as_the_floor_under_it_across_its_rollers(twist: tuple[float, float, float]) -> None:
    """Rigid-body velocity of each contact, across the wheel's rollers, is radius times rate."""
    vx, vy, wz = twist
    for beta, rate in zip(base.wheel_angles(WHEELS), base.wheel_rates(WHEELS, twist), strict=True):
        contact = WHEELS.distance * np.array([math.cos(beta), math.sin(beta)])
        velocity = np.array([vx - wz * contact[1], vy + wz * contact[0]])
        rolling = np.array([-math.sin(beta), math.cos(beta)])
        assert velocity @ rolling == pytest.approx(WHEELS.radius * rate, abs=1e-12)


@given(twists)
def test_the_wheels_tell_the_twist_they_roll_with(twist: tuple[float, float, float]) -> None:
    assert base.twist_of(WHEELS, base.wheel_rates(WHEELS, twist)) == pytest.approx(twist, abs=1e-12)


def test_slip_that_no_twist_explains_is_left_out() -> None:
    """Four wheels and three velocities: turns that are against each other cancel."""
    assert base.twist_of(WHEELS, [1.0, -1.0, 1.0, -1.0]) == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


@given(st.integers(3, 8), twists)
def test_any_number_of_wheels_does(count: int, twist: tuple[float, float, float]) -> None:
    wheels = msgspec.structs.replace(WHEELS, count=count, first_angle=0.3)
    assert base.twist_of(wheels, base.wheel_rates(wheels, twist)) == pytest.approx(twist, abs=1e-11)


@given(twists)
def test_a_twist_too_fast_for_a_wheel_keeps_its_direction(twist: tuple[float, float, float]) -> None:
    cut = base.within_limits(WHEELS, twist)
    assert np.abs(base.wheel_rates(WHEELS, cut)).max() <= WHEELS.speed_limit * (1 + 1e-12)
    assert np.cross(cut, twist) == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    assert np.dot(cut, twist) >= 0.0


@given(twists, st.floats(-4.0, 4.0))
def test_world_and_base_axes_are_each_others_inverse(twist: tuple[float, float, float], yaw: float) -> None:
    assert base.to_base(yaw, base.to_world(yaw, twist)) == pytest.approx(twist, abs=1e-12)


@given(twists, st.floats(-3.0, 3.0), st.floats(0.01, 2.0))
def test_the_wheels_turn_by_their_rates_along_an_arc(
    twist: tuple[float, float, float], yaw: float, span: float
) -> None:
    """A constant twist drives an arc; the motion is integrated in small steps beside."""
    steps = 400
    h = span / steps
    place = np.array([0.4, -0.2, yaw])
    for _ in range(steps):
        place = place + h * base.to_world(place[2] + h / 2 * twist[2], twist)
    turned = base.wheel_turns(WHEELS, [0.4, -0.2, yaw], place)
    assert turned == pytest.approx(base.wheel_rates(WHEELS, twist) * span, abs=1e-3)


def test_a_turn_on_the_spot_counts_the_wheels_way_around() -> None:
    turned = base.wheel_turns(WHEELS, [0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert turned == pytest.approx([WHEELS.distance / WHEELS.radius] * 4)
    pulses = WHEELS.distance / WHEELS.radius / (2 * math.pi) * 2250
    assert base.counts(WHEELS, turned) == [math.floor(pulses)] * 4
    assert base.counts(WHEELS, [2 * math.pi * 3, -0.001, 0.0, 2 * math.pi]) == [6750, -1, 0, 2250]


def test_the_base_joints_are_the_twist_that_the_wheels_know() -> None:
    """x of base_x, y of base_y and yaw of base_yaw place link 3 as a planar motion."""
    system = assemble(build("charmie"))
    q = np.array(system.mechanism.initial_q)
    q[[system.joint_names.index(name) for name in ("base_x", "base_y", "base_yaw")]] = 0.3, -0.7, 1.1
    p, R = forward_kinematics(system, q)["link_3"]
    assert p == pytest.approx([0.3, -0.7, 0.0])
    assert R[:2, :2] @ [1.0, 0.0] == pytest.approx(base.to_world(1.1, [1.0, 0.0, 0.0])[:2])

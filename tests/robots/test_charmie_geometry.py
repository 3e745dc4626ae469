"""CHARMIE's indirectly actuated joints: actuator lengths to joint positions and back."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robots.charmie import geometry
from robots.charmie.geometry import Motion
from robots.charmie.parameters import Parameters, read_parameters
from sim_core.errors import InvalidRequest

P = read_parameters()
Joint = tuple[Callable[..., Motion], Callable[..., geometry.PlanarMotion], float, float]
JOINTS: dict[str, Joint] = {
    "lift": (geometry.lift_motion, geometry.lift_actuator, P.lift.lower, P.lift.upper),
    "tilt": (geometry.tilt_motion, geometry.tilt_actuator, P.tilt.lower, P.tilt.upper),
}
rates = st.floats(-2.0, 2.0)
shares = st.floats(0.01, 0.99)


@pytest.mark.parametrize("name", JOINTS)
@given(share=shares, v=rates, a=rates)
def test_a_motion_of_the_joint_comes_back_from_that_of_its_actuator(
    name: str, share: float, v: float, a: float
) -> None:
    joint_of, actuator_of, lower, upper = JOINTS[name]
    motion = Motion(lower + share * (upper - lower), v, a)
    back = joint_of(P, actuator_of(P, motion).length)
    assert back == pytest.approx(motion, rel=1e-9, abs=1e-9)


def along(motion: Motion, t: float) -> Motion:
    return Motion(motion.x + motion.v * t + motion.a * t * t / 2, motion.v + motion.a * t, motion.a)


@pytest.mark.parametrize("name", JOINTS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_rates_and_accelerations_are_the_derivatives_of_positions(name: str, share: float) -> None:
    joint_of, actuator_of, lower, upper = JOINTS[name]
    motion, h = Motion(lower + share * (upper - lower), -0.3, 0.7), 1e-4
    whole = actuator_of(P, motion)
    measures: list[tuple[Callable[[Motion], Motion], Motion]] = [
        (lambda m: actuator_of(P, m).length, motion),
        (lambda m: actuator_of(P, m).turn, motion),
        (lambda m: joint_of(P, m), Motion(whole.length.x, -0.02, 0.05)),
        (lambda m: geometry.balance_motion(P, m)[0], Motion(0.11, -0.3, 0.7)),
        (lambda m: geometry.balance_motion(P, m)[1], Motion(0.03, -0.3, 0.7)),
    ]
    for measure, start in measures:
        before, here, after = (measure(along(start, t)) for t in (-h, 0.0, h))
        assert here.v == pytest.approx((after.x - before.x) / (2 * h), rel=1e-6, abs=1e-7)
        assert here.a == pytest.approx((after.v - before.v) / (2 * h), rel=1e-6, abs=1e-6)


def test_g_lies_on_both_circles_and_in_front() -> None:
    """Eqs. 10 to 14 by their meaning: G is |G5| from B4 and the actuator's length from F4."""
    for length in (0.30, 0.35, 0.40, 0.42):
        tilt = geometry.tilt_of_length(P, length)
        y, z = P.tilt.body_point[1:]
        G = (
            P.lower_body.tilt_joint[1] + y * math.cos(tilt) - z * math.sin(tilt),
            P.lower_body.tilt_joint[2] + y * math.sin(tilt) + z * math.cos(tilt),
        )
        assert math.dist(G, P.tilt.base_point[1:]) == pytest.approx(length, abs=1e-14)
        assert math.dist(G, P.lower_body.tilt_joint[1:]) == pytest.approx(math.hypot(y, z), abs=1e-14)
        assert G[0] > 0.0


def test_leaning_forward_shortens_the_actuator_and_rising_lengthens_it() -> None:
    assert geometry.length_of_tilt(P, -0.5) < geometry.length_of_tilt(P, 0.0)
    assert geometry.length_of_lift(P, 0.1) > geometry.length_of_lift(P, 0.0)


def test_both_joints_lie_within_their_limits_at_the_start() -> None:
    assert P.lift.lower < geometry.lift_of_length(P, P.lift.start_length) < P.lift.upper
    assert P.tilt.lower < geometry.tilt_of_length(P, P.tilt.start_length) < P.tilt.upper


def test_lengths_that_close_no_triangle_are_refused_with_those_that_do() -> None:
    with pytest.raises(
        InvalidRequest, match=r"lift actuator's length is 0\.03 m; it must be above 0\.04 m, the offset"
    ):
        geometry.lift_of_length(P, 0.03)
    with pytest.raises(
        InvalidRequest, match=r"tilt actuator's length is 0\.9 m; it must be between 0\.\d+ and 0\.\d+ m"
    ):
        geometry.tilt_of_length(P, 0.9)


def test_the_parameters_are_read_as_written() -> None:
    assert isinstance(P, Parameters)
    assert P.lift.start_length == P.tilt.start_length == 0.4

"""The regressor of closed loops: tau_i = N' Y pi at every state, and a four-bar's planted inertias from its efforts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.fitting import fit
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.signals import Recorded
from sim_core.inverse import DrivenDynamics
from sim_core.mechanism import GROUND, PrescribedMotion, Spring
from sim_core.system import assemble
from tests.sim_core.crank_rocker import four_bar, rotation

SPRING = Spring(
    name="spring",
    body_a="coupler",
    point_a=(0.4, 0.0, 0.1),
    body_b=GROUND,
    point_b=(0.9, 0.0, 0.7),
    stiffness=300.0,
    rest_length=0.2,
    pretension=15.0,
)


def test_the_efforts_are_those_of_the_driven_dynamics() -> None:
    mechanism = four_bar()
    regressor, driven = LoopRegressor(mechanism, ["crank"]), DrivenDynamics(assemble(mechanism))
    motion = [each[::50] for each in rotation()[1:]]
    (q, v, a), _ = regressor.motion(*motion)
    tau = regressor(*motion) @ regressor.pi
    for k in range(len(q)):
        driven.q[:], driven.v[:], driven.a[:] = q[k], v[k], a[k]
        driven()
        assert tau[k, 0] == pytest.approx(driven.tau[0], abs=1e-9)
        np.testing.assert_allclose(driven.a, a[k], atol=1e-8)


def test_a_gain_is_found_although_the_efforts_hold_springs() -> None:
    sprung = dataclasses.replace(four_bar(), springs=(SPRING,))
    regressor = LoopRegressor(sprung, ["crank"])
    time, *motion = rotation()
    tau = regressor(*motion) @ regressor.pi + regressor.spring_efforts(motion[0])
    noise = 0.02 * tau.std() * np.random.default_rng(0).normal(size=tau.shape)
    found = fit(sprung, ["crank"], [Recorded(time, motion[0], 1.1 * tau + noise)], errors=("gain",))
    (gain,) = (each for each in found.estimates if each.kind == "gain")
    assert gain.low <= 0.1 <= gain.high
    assert gain.high - gain.low < 0.05


@pytest.mark.parametrize("errors", [(), ("gain",)])
def test_springs_tell_the_common_factor_of_motor_constants_and_known_inertias_do(errors: tuple[str, ...]) -> None:
    time, *motion = rotation()

    def is_unknown(stiffness: float, inertia: bool = True) -> bool:
        spring = dataclasses.replace(SPRING, stiffness=stiffness, pretension=0.05 * stiffness)
        mechanism = dataclasses.replace(four_bar(), springs=(spring,))
        regressor = LoopRegressor(mechanism, ["crank"])
        tau = regressor(*motion) @ regressor.pi + regressor.spring_efforts(motion[0])
        tau += 0.02 * tau.std() * np.random.default_rng(0).normal(size=tau.shape)
        found = fit(mechanism, ["crank"], [Recorded(time, motion[0], tau)], errors=errors, inertia=inertia)
        return "a common factor of all motor constants" in [each.what for each in found.refusals]

    assert not is_unknown(stiffness=300.0)
    assert is_unknown(stiffness=0.3)
    assert not is_unknown(stiffness=0.3, inertia=False)


def test_the_efforts_that_hold_springs_are_those_of_the_driven_dynamics() -> None:
    plain, sprung = four_bar(), dataclasses.replace(four_bar(), springs=(SPRING,))
    regressor, driven = LoopRegressor(sprung, ["crank"]), DrivenDynamics(assemble(sprung))
    motion = [each[::50] for each in rotation()[1:]]
    (q, v, a), _ = regressor.motion(*motion)
    tau = (regressor(*motion) @ regressor.pi + regressor.spring_efforts(motion[0]))[:, 0]
    expected = np.empty_like(tau)
    for k in range(len(q)):
        driven.q[:], driven.v[:], driven.a[:] = q[k], v[k], a[k]
        driven()
        expected[k] = driven.tau[0]
    np.testing.assert_allclose(tau, expected, atol=1e-8)
    assert np.abs(expected - LoopRegressor(plain, ["crank"])(*motion)[:, 0] @ regressor.pi).max() > 10.0


def test_efforts_for_given_parameters_are_the_regressor_times_them() -> None:
    regressor, columns = LoopRegressor(four_bar(), ["crank"]), np.array([3, 11, 20])
    motion, values = [each[::37] for each in rotation()[1:]], np.array([0.3, -1.2, 2.0])
    expected = regressor(*motion, columns) @ values
    np.testing.assert_allclose(regressor.efforts(*motion, columns, values), expected, atol=1e-12)
    regressor.motion(*(each[:5] for each in motion))
    np.testing.assert_allclose(regressor.efforts(*motion, columns, values), expected, atol=1e-12)


def test_every_dependent_joint_follows_at_the_rates_of_the_positions() -> None:
    regressor = LoopRegressor(four_bar(), ["crank"])
    t, *motion = rotation(seconds=1.0, rate_hz=2000.0)
    (q, v, a), N = regressor.motion(*motion)
    inner = slice(2, -2)
    np.testing.assert_allclose(np.gradient(q, t, axis=0)[inner], v[inner], atol=1e-4)
    np.testing.assert_allclose(np.gradient(v, t, axis=0)[inner], a[inner], atol=2e-3)
    np.testing.assert_allclose(v[:, 1:], N[:, :, 0] * v[:, :1], atol=1e-12)


def test_a_planted_four_bar_is_found_and_the_mass_of_a_single_bar_is_refused() -> None:
    model, planted = four_bar(), four_bar(crank=1.3, coupler=2.6, rocker=1.1)
    truth = LoopRegressor(planted, ["crank"])
    t, q, v, a = rotation()
    noise = np.random.default_rng(5).normal(size=q.shape)
    tau = truth(q, v, a) @ truth.pi
    effort = tau + 0.3 * v + 0.02 * tau.std() * noise
    steps = list[tuple[int, int]]()
    result = fit(model, ["crank"], [Recorded(t, q, effort)], progress=lambda done, of: steps.append((done, of)))
    assert [done for done, _ in steps] == list(range(steps[0][1]))
    assert result.outcome == "better"
    assert result.fitted == ("crank",)
    x = np.concatenate([result.base.B @ truth.pi, [0.3], np.zeros(result.friction.size - 1)])
    narrow = 0
    for each in result.estimates:
        value = float(each.direction @ x)
        if each.high - each.low < 0.02 * abs(each.value):
            narrow += 1
            assert each.value == pytest.approx(value, rel=0.02), each.name
        else:
            assert each.low <= value <= each.high, each.name
    assert narrow
    base = base_parameters(truth)
    refused = {each.what: each for each in result.refusals}
    for link in truth.links:
        assert not base.is_determined(np.array([float(name == f"{link}/m") for name in truth.parameters]))
        (what,) = (each for each in refused if each.startswith("m") and f" of {link}" in each)
        assert ("no effort depends on it" in refused[what].why) == (f"{link}/m" in base.without_effect)
    coupler = next(each for each in refused.values() if "of coupler, each alone" in each.what)
    assert "sums with other links only, as m in" in coupler.why
    assert "coupler/m" in coupler.why
    assert "coupler alone on a scale" in coupler.remedy
    determined = [each for each in truth.parameters if each not in {*base.only_in_sums, *base.without_effect}]
    for name in truth.parameters:
        single = np.array([float(each == name) for each in truth.parameters])
        assert base.is_determined(single) == (name in determined)


def test_joints_that_the_loop_does_not_determine_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="do not determine the motion of the joints crank, pin, rocker"):
        LoopRegressor(four_bar(), [])
    free = dataclasses.replace(four_bar(), constraints=())
    with pytest.raises(InvalidRequest, match="of the joints pin, rocker from that of crank"):
        LoopRegressor(free, ["crank"])


def test_a_constraint_that_prescribes_a_motion_is_refused() -> None:
    turned = PrescribedMotion(name="drive", joint="crank", motion=lambda t: 1.0 + t)
    driven = dataclasses.replace(four_bar(), actuators=(), initial_v=(1.0, 0.0, 0.0))
    driven = dataclasses.replace(driven, constraints=(*driven.constraints, turned))
    with pytest.raises(InvalidRequest, match="constraints that prescribe velocities or motions; a fit needs closed"):
        LoopRegressor(driven, ["crank"])


def test_positions_at_which_no_loop_closes_are_refused() -> None:
    mechanism = dataclasses.replace(four_bar(), actuators=())
    regressor = LoopRegressor(mechanism, ["rocker"])
    with pytest.raises(InvalidRequest, match="the loops do not close at rocker"):
        regressor([[-1.0]], [[0.0]], [[0.0]])

"""The regressor of closed loops: tau_i = N' Y pi at every state, and a four-bar's planted inertias from its efforts."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.fitting import fit
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.signals import Recorded
from sim_core.inverse import DrivenDynamics
from sim_core.mechanism import Actuator, Body, Coincidence, Joint, Mechanism, X, Z
from sim_core.system import assemble

CRANK, COUPLER, ROCKER, GROUND = 0.3, 0.8, 0.6, 0.7


def bar(name: str, length: float, mass: float) -> Body:
    return Body(
        name=name,
        mass=mass,
        center_of_mass=(0.45 * length, 0.0, 0.02 * length),
        inertia=(1e-3, mass * length**2 / 12.0, mass * length**2 / 12.0, 0.0, 0.0, 0.0),
    )


def four_bar(crank: float = 1.0, coupler: float = 2.0, rocker: float = 1.5) -> Mechanism:
    """Crank-rocker in the plane x, z with a motor at the crank, in joint coordinates, with the given masses (kg)."""
    q1 = 1.0
    end = np.array([CRANK * math.cos(q1), CRANK * math.sin(q1)])
    gap = np.array([GROUND, 0.0]) - end
    distance = float(np.hypot(*gap))
    at_coupler = math.acos((COUPLER**2 + distance**2 - ROCKER**2) / (2.0 * COUPLER * distance))
    q2 = math.atan2(gap[1], gap[0]) + at_coupler
    tip = end + COUPLER * np.array([math.cos(q2), math.sin(q2)])
    q3 = math.atan2(tip[1], tip[0] - GROUND)
    axis = (0.0, -1.0, 0.0)
    return Mechanism(
        name="four_bar",
        coordinates="joint",
        bodies=(bar("crank", CRANK, crank), bar("coupler", COUPLER, coupler), bar("rocker", ROCKER, rocker)),
        joints=(
            Joint(name="crank", child="crank", axis=axis),
            Joint(name="pin", parent="crank", child="coupler", parent_point=(CRANK, 0.0, 0.0), axis=axis),
            Joint(name="rocker", child="rocker", parent_point=(GROUND, 0.0, 0.0), axis=axis),
        ),
        constraints=(
            Coincidence(
                name="closure",
                body_a="coupler",
                point_a=(COUPLER, 0.0, 0.0),
                body_b="rocker",
                point_b=(ROCKER, 0.0, 0.0),
                directions=(X, Z),
            ),
        ),
        actuators=(Actuator(name="crank", joint="crank"),),
        initial_q=(q1, q2 - q1, q3),
        initial_v=(0.0, 0.0, 0.0),
    )


def rotation(seconds: float = 20.0, rate_hz: float = 200.0) -> tuple[np.ndarray, ...]:
    """Times (n,), and positions, velocities and accelerations (n, 1) of the crank."""
    t = np.arange(0.0, seconds, 1.0 / rate_hz)
    q = 1.0 + 2.0 * t + 0.9 * np.sin(2.3 * t) + 0.5 * np.sin(5.1 * t)
    v = 2.0 + 2.07 * np.cos(2.3 * t) + 2.55 * np.cos(5.1 * t)
    a = -0.9 * 2.3**2 * np.sin(2.3 * t) - 0.5 * 5.1**2 * np.sin(5.1 * t)
    return t, q[:, None], v[:, None], a[:, None]


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


def test_a_planted_four_bar_is_found_and_the_mass_of_a_single_bar_is_refused() -> None:
    model, planted = four_bar(), four_bar(crank=1.3, coupler=2.6, rocker=1.1)
    truth = LoopRegressor(planted, ["crank"])
    t, q, v, a = rotation()
    noise = np.random.default_rng(5).normal(size=q.shape)
    tau = truth(q, v, a) @ truth.pi
    effort = tau + 0.3 * v + 0.02 * tau.std() * noise
    result = fit(model, ["crank"], [Recorded(t, q, effort)])
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
    for link in truth.links:
        assert not base.is_determined(np.array([float(name == f"{link}/m") for name in truth.parameters]))


def test_joints_that_the_loop_does_not_determine_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="do not determine the motion of the joints crank, pin, rocker"):
        LoopRegressor(four_bar(), [])
    free = dataclasses.replace(four_bar(), constraints=())
    with pytest.raises(InvalidRequest, match="of the joints pin, rocker from that of crank"):
        LoopRegressor(free, ["crank"])


def test_positions_at_which_no_loop_closes_are_refused() -> None:
    mechanism = dataclasses.replace(four_bar(), actuators=())
    regressor = LoopRegressor(mechanism, ["rocker"])
    with pytest.raises(InvalidRequest, match="the loops do not close at rocker"):
        regressor([[-1.0]], [[0.0]], [[0.0]])

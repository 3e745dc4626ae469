"""Output error by multiple shooting: derivatives by differences, and planted errors of the actuation."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.estimates import surely_changed
from sim_core.identification.output_error.estimation import starts_of
from sim_core.identification.output_error.fitting import Commanded, NoShotsError, fit_output_error, outcome_of
from sim_core.identification.output_error.inertial_efforts import InertialEfforts
from sim_core.identification.output_error.shots import Drive, Shots
from sim_core.identification.output_error.simulation import Forward
from sim_core.identification.output_error.unknowns import FRICTION, KINDS, Unknowns
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.signals import Recorded
from sim_core.inverse import inverse_dynamics
from sim_core.system import assemble

ROBOT, STEP_S, EVERY, SECONDS = "arm_4dof", 1e-3, 5, 3.0
STIFFNESS, DAMPING = np.array([60.0, 450.0, 30.0, 90.0]), np.array([3.0, 30.0, 1.2, 4.0])
NOISE = 3e-5


@cache
def efforts() -> tuple[InertialEfforts, Unknowns, np.ndarray]:
    mechanism = build(ROBOT)
    regressor = Regressor(rigid_tree(mechanism, [joint.name for joint in mechanism.moving_joints]))
    base = base_parameters(regressor)
    return InertialEfforts(regressor, base), Unknowns(base, regressor.joints), base.B @ regressor.pi


def drive(is_servo: bool = True) -> Drive:
    """Targets that are sums of sines, or the efforts of slow ones."""
    t = STEP_S * np.arange(round(SECONDS / STEP_S))
    random, n = np.random.default_rng(3), len(STIFFNESS)
    signal = np.zeros((len(t), n))
    for j in range(n):
        for w in random.uniform(1.0, 9.0, 4):
            phase = random.uniform(0.0, 6.0)
            signal[:, j] += 0.35 / w * (np.sin(w * t + phase) - np.sin(phase))
    zero, none = np.zeros_like(signal), np.zeros(n)
    if is_servo:
        return Drive(0.0, STEP_S, np.ones(n, dtype=bool), signal, zero, signal, STIFFNESS, DAMPING, np.full(n, 50.0))
    return Drive(0.0, STEP_S, none > 0.0, signal, zero, signal, none, none, np.full(n, np.inf))


def shots(driven: Drive, n_shots: int, steps: int) -> Shots:
    n = len(STIFFNESS)
    first = steps * np.arange(n_shots)
    start = np.concatenate([driven.signal[first], np.zeros((n_shots, n))], axis=1)
    return Shots(driven, first, steps, EVERY, np.zeros((n_shots, steps // EVERY + 1, n)), start, np.zeros(n))


def unknown_values(unknowns: Unknowns, beta: np.ndarray, **values: dict[int, float]) -> np.ndarray:
    x = np.zeros(unknowns.size)
    x[unknowns.place("inertia")] = beta
    for group, entries in values.items():
        for joint, value in entries.items():
            x[unknowns.place(group).start + joint] = value
    return x


def test_mass_matrix_and_bias_are_those_of_inverse_dynamics() -> None:
    inertial, _, beta = efforts()
    system = assemble(rigid_tree(build(ROBOT), efforts()[1].joints))
    random = np.random.default_rng(0)
    q, v, a = random.normal(size=(3, 11, inertial.n_q))
    M, f = inertial.mass_and_bias(beta, q, v)
    for k in range(len(q)):
        np.testing.assert_allclose(M[k] @ a[k] + f[k], inverse_dynamics(system, q[k], v[k], a[k]), atol=1e-9)
    np.testing.assert_allclose(inertial.rows(q, v, a) @ beta, inertial(beta, q, v, a), atol=1e-9)


@pytest.mark.parametrize("is_servo", [True, False])
def test_derivatives_by_the_unknowns_agree_with_differences(is_servo: bool) -> None:
    inertial, unknowns, beta = efforts()
    forward, case = Forward(inertial, unknowns, np.full(inertial.n_q, 0.3)), shots(drive(is_servo), 3, 60)
    x = unknown_values(
        unknowns, beta, viscous={0: 0.5, 2: 0.2}, coulomb={1: 0.4}, delay={0: 0.0051, 1: 0.0033, 2: 0.0051, 3: 0.0009}
    )
    x[unknowns.place("gain")] = 0.05
    kinds = [kind for kind in KINDS if kind != "backlash" and (is_servo or kind != "stiffness")]
    every = range(inertial.n_q)
    free = unknowns.mask({"inertia": (), **dict.fromkeys((*FRICTION, *kinds), every)})
    _, J, J_start = forward.linearized(case, x, case.start, free)
    for column, place in enumerate(np.flatnonzero(free)):
        step = 1e-5 if unknowns.kind(int(place)) == "delay" else 1e-4
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        expected = (forward.positions(case, up, case.start) - forward.positions(case, down, case.start)) / (2.0 * step)
        scale = max(np.abs(expected).max(), 1e-3)
        np.testing.assert_allclose(J[..., column], expected, atol=0.02 * scale, err_msg=unknowns.name(int(place)))
    for column in range(2 * inertial.n_q):
        change = 1e-5 * np.eye(2 * inertial.n_q)[column]
        expected = (forward.positions(case, x, case.start + change) - forward.positions(case, x, case.start)) / 1e-5
        np.testing.assert_allclose(J_start[..., column], expected, atol=0.02 * np.abs(expected).max())


def test_strong_friction_of_a_light_link_is_stable() -> None:
    inertial, unknowns, beta = efforts()
    forward, case = Forward(inertial, unknowns, np.full(inertial.n_q, 0.3)), shots(drive(is_servo=False), 1, 200)
    x = unknown_values(unknowns, beta, viscous={2: 50.0, 3: 50.0})  # N m s/rad: times over 100 time steps are at rest
    start = case.start.copy()
    start[:, inertial.n_q :] = 1.0
    q = forward.positions(case, x, start)
    assert np.abs(np.diff(q[:, -5:, 2:], axis=1)).max() < 1e-3


@cache
def plain() -> Commanded:
    return recorded()[0]


def recorded(**planted: dict[int, float]) -> tuple[Commanded, np.ndarray]:
    """A recording by the forward model with planted unknowns, from rest, with noise."""
    inertial, unknowns, beta = efforts()
    forward, driven = Forward(inertial, unknowns, np.full(inertial.n_q, 0.05)), drive()
    x = unknown_values(unknowns, beta, **planted)
    whole = shots(driven, 1, len(driven.signal) - EVERY)
    q = forward.positions(whole, x, whole.start)[0] + NOISE * np.random.default_rng(5).normal(size=(1, 1))
    q = q + NOISE * np.random.default_rng(6).normal(size=q.shape)
    time = EVERY * STEP_S * np.arange(len(q))
    tau = STIFFNESS * (driven.signal[: len(q) * EVERY : EVERY][: len(q)] - q)
    driven = dataclasses.replace(driven, effort=np.repeat(tau, EVERY, axis=0)[: len(driven.signal)])
    missing = len(driven.signal) - len(driven.effort)
    driven = dataclasses.replace(driven, effort=np.pad(driven.effort, ((0, missing), (0, 0)), mode="edge"))
    return Commanded(Recorded(time, q, np.zeros_like(q)), driven), x


def test_planted_zero_delay_gain_and_friction_are_inside_their_intervals() -> None:
    planted = {"zero": {1: 0.02}, "delay": {0: 0.0083, 1: 0.0083, 2: 0.0083, 3: 0.0083}, "gain": {2: -0.1, 3: 0.05}}
    commanded, x = recorded(**planted, viscous={1: 1.0, 3: 0.2})
    names = efforts()[1].joints
    result = fit_output_error(build(ROBOT), names, [commanded], ("zero", "delay", "gain"))
    told = {each.name for each in result.estimates}
    assert {f"{names[j]}/{kind}" for kind, entries in planted.items() for j in entries} <= told
    estimates = (*result.estimates, *result.friction)
    inside = [each.low <= each.direction @ x <= each.high for each in estimates]
    assert np.mean(inside) >= 0.85
    gains = {each.name: each for each in result.estimates if each.kind == "gain"}
    assert gains[f"{names[2]}/gain"].high < -0.05
    assert result.outcome == "better"
    assert (result.after < 2.0 * NOISE).all()
    assert (result.before > 10.0 * result.after).any()


@pytest.mark.soak
def test_with_inertias_the_common_factor_of_gains_is_refused_and_their_differences_are_known() -> None:
    commanded, x = recorded(gain={2: -0.1})
    result = fit_output_error(build(ROBOT), efforts()[1].joints, [commanded], ("gain",), inertia=True)
    assert "a common factor of all gains" in [each.what for each in result.refusals]
    gains = [each for each in result.estimates if each.kind == "gain"]
    assert gains
    assert all("relative to the mean gain" in each.name for each in gains)
    assert all(each.low - 1e-3 <= each.direction @ x <= each.high + 1e-3 for each in gains)


@pytest.mark.soak
def test_a_backlash_is_found_in_its_joint_alone_and_the_rest_stays_right() -> None:
    commanded, x = recorded(backlash={1: 0.02})
    result = fit_output_error(build(ROBOT), efforts()[1].joints, [commanded], ("zero", "backlash"))
    names = [each.name for each in surely_changed(result.estimates)]
    assert names == [f"{efforts()[1].joints[1]}/backlash"]
    assert all(each.low <= each.direction @ x <= each.high for each in result.estimates)


def test_starts_of_the_right_model_leave_only_the_noise() -> None:
    commanded, (inertial, unknowns, beta) = plain(), efforts()
    whole = shots(commanded.drive, 1, 300)
    x = unknown_values(unknowns, beta)
    whole = dataclasses.replace(whole, measured=commanded.recorded.q[None, : 300 // EVERY + 1])
    _, error = starts_of(Forward(inertial, unknowns, np.full(inertial.n_q, 0.05)), whole, x)
    assert np.abs(error).max() < 6.0 * NOISE


def test_what_cannot_be_fitted_is_refused_in_one_line() -> None:
    commanded = plain()
    names = efforts()[1].joints
    with pytest.raises(InvalidRequest, match="kinds has 'backlash'"):
        fit_output_error(build(ROBOT), names, [commanded], ("backlash", "stiffness"))
    with pytest.raises(InvalidRequest, match="kinds has 'mass'"):
        fit_output_error(build(ROBOT), names, [commanded], ("mass",))
    short = dataclasses.replace(
        commanded,
        recorded=Recorded(commanded.recorded.time[:120], commanded.recorded.q[:120], commanded.recorded.q[:120]),
    )
    with pytest.raises(NoShotsError, match="output error needs at least 3"):
        fit_output_error(build(ROBOT), names, [short], ("zero",))


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((0.9, 0.7, 0.9, 0.8, 0.7, 0.9, 0.8, 0.8), "better"),
        ((1.0, 1.0, 0.9, 1.0, 0.35, 0.08, 0.3, 0.8), "better"),  # a joint that moves in some blocks only
        ((0.5, 1.4, 0.7, 1.3, 0.6, 1.2, 0.5, 1.3), "not certain"),
        ((1.1, 0.9, 1.2, 1.1, 0.9, 1.2, 1.0, 1.0), "not better"),
    ],
)
def test_a_better_prediction_is_one_beyond_chance_in_the_blocks_of_the_held_out_part(
    ratios: tuple[float, ...], outcome: str
) -> None:
    before = np.ones((20 * len(ratios), 2))
    assert outcome_of(before, before * np.repeat(ratios, 20)[:, None]) == outcome

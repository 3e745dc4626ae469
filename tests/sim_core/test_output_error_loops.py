"""Output error through closed loops: efforts of the independent joints, and planted errors of a simulated four-bar."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.estimates import surely_changed
from sim_core.identification.fitting import regressor_of
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.output_error.fitting import Commanded, NoShotsError, fit_output_error
from sim_core.identification.output_error.loop_efforts import LoopEfforts
from sim_core.identification.output_error.shots import Drive, shots_of
from sim_core.identification.signals import Recorded
from sim_core.mechanism import Coincidence, Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.sim_core.crank_rocker import four_bar

JOINTS = ("crank", "pin", "rocker")
STEP_S, EVERY, SECONDS = 2e-3, 2, 5.0
STIFFNESS, DAMPING, LIMIT = 300.0, 15.0, 200.0
ENCODER_STEP = 1e-5  # rad
DELAY_S, GAIN, VISCOUS = 0.006, 0.1, 0.8


def efforts_of(mechanism: Mechanism) -> tuple[LoopRegressor, LoopEfforts, np.ndarray]:
    regressor = regressor_of(mechanism, JOINTS, {})
    assert isinstance(regressor, LoopRegressor)
    base = base_parameters(regressor)
    return regressor, LoopEfforts(regressor, base), base.B @ regressor.pi


def test_accelerations_are_those_of_the_constrained_equations() -> None:
    mechanism = four_bar()
    regressor, efforts, beta = efforts_of(mechanism)
    system, random = assemble(mechanism), np.random.default_rng(1)
    q, v, tau = 1.0 + 0.3 * random.normal(size=(9, 1)), random.normal(size=(9, 1)), 5.0 * random.normal(size=(9, 1))
    M, f = efforts.mass_and_bias(beta, q, v)
    whole, _ = regressor.motion(q, v, np.zeros_like(q))
    for k in range(len(q)):
        expected, *_ = system.acceleration(0.0, whole[0][k], whole[1][k], tau[k])
        np.testing.assert_allclose(np.linalg.solve(M[k], tau[k] - f[k]), expected[:1], rtol=1e-9)
    a = random.normal(size=q.shape)
    np.testing.assert_allclose(efforts(beta, q, v, a), M[:, :, 0] * a + f, rtol=1e-9)
    np.testing.assert_allclose(efforts.rows(q, v, a) @ beta, efforts(beta, q, v, a), rtol=1e-9)


def test_derivatives_agree_with_central_differences() -> None:
    _, efforts, beta = efforts_of(four_bar())
    random = np.random.default_rng(2)
    q, v, a = 1.0 + 0.3 * random.normal(size=(9, 1)), random.normal(size=(9, 1)), random.normal(size=(9, 1))
    by_q, by_v = efforts.derivatives(beta, q, v, a)
    h = 1e-5
    for found, change in ((by_q, (h, 0.0)), (by_v, (0.0, h))):
        ends = [efforts(beta, q + sign * change[0], v + sign * change[1], a) for sign in (1.0, -1.0)]
        np.testing.assert_allclose(found[:, :, 0], (ends[0] - ends[1]) / (2.0 * h), rtol=1e-4, atol=1e-4)


def test_positions_of_no_closed_loop_are_a_failed_trial() -> None:
    mechanism = four_bar()
    (closure,) = mechanism.constraints
    assert isinstance(closure, Coincidence)
    stretched = dataclasses.replace(closure, point_a=(0.35, 0.0, 0.0))  # too short to go round
    _, efforts, beta = efforts_of(dataclasses.replace(mechanism, constraints=(stretched,), initial_q=(0.2, 2.0, 1.5)))
    with pytest.raises(np.linalg.LinAlgError, match="the loops do not close at crank"):
        efforts.mass_and_bias(beta, np.array([[np.pi]]), np.zeros((1, 1)))


def test_a_motion_that_no_closed_loop_has_is_refused_in_a_line() -> None:
    plain = recorded()
    (closure,) = four_bar().constraints
    assert isinstance(closure, Coincidence)
    short = dataclasses.replace(closure, point_a=(0.12, 0.0, 0.0))  # the crank stays near its start
    wrong = dataclasses.replace(four_bar(), constraints=(short,))
    with pytest.raises(NoShotsError, match=r"cannot be simulated along the motion: .* the loops do not close at crank"):
        fit_output_error(wrong, JOINTS, [plain], ("gain",))
    _, efforts, beta = efforts_of(four_bar())
    for position in (np.nan, 1e9):  # of a trial that diverged
        with pytest.raises(np.linalg.LinAlgError, match="do not close"):
            efforts.mass_and_bias(beta, np.array([[position]]), np.zeros((1, 1)))


def target(t: np.ndarray) -> np.ndarray:
    """Commanded positions (n, 1) of the crank, rad."""
    wave = 0.9 * np.sin(2.3 * t) + 0.3 * np.sin(6.1 * t + 1.0) - 0.3 * np.sin(1.0)
    return np.asarray(1.0 + wave)[:, None]


def recorded() -> Commanded:
    """A four-bar with friction at its crank, behind a servo with gain and delay, simulated without the fit's model."""
    mechanism = four_bar()
    crank = dataclasses.replace(mechanism.joints[0], damping=VISCOUS)
    sim = Simulation(
        assemble(dataclasses.replace(mechanism, joints=(crank, *mechanism.joints[1:]))),
        step_s=STEP_S,
        stabilizer="projection",
    )
    time = STEP_S * np.arange(round(SECONDS / STEP_S))
    late, found = target(time - DELAY_S), np.zeros((len(time), 3))
    for k in range(len(time)):
        q, v, _ = sim.joints()
        found[k] = q
        wanted = STIFFNESS * (late[k, 0] - q[0]) - DAMPING * v[0]
        sim.set_effort({"crank": (1.0 + GAIN) * float(np.clip(wanted, -LIMIT, LIMIT))})
        sim.step(1)
    rounded = np.asarray(ENCODER_STEP * np.round(found[::EVERY] / ENCODER_STEP), dtype=np.float64)
    every = np.array([STIFFNESS, 0.0, 0.0]), np.array([DAMPING, 0.0, 0.0]), np.array([LIMIT, np.inf, np.inf])
    signal = np.hstack([target(time), np.zeros((len(time), 2))])
    drive = Drive(0.0, STEP_S, np.array([True, False, False]), signal, 0.0 * signal, signal, *every)
    return Commanded(Recorded(time[::EVERY], rounded, np.zeros_like(rounded)), drive)


def test_planted_errors_of_a_four_bar_are_inside_their_intervals() -> None:
    plain = recorded()
    behind = np.zeros(plain.drive.signal.shape, dtype=bool)
    behind[400:500, 0] = True
    held = Commanded(plain.recorded, dataclasses.replace(plain.drive, behind=behind))
    result = fit_output_error(four_bar(), JOINTS, [held], ("gain", "delay"))
    assert (result.joints, result.behind) == (("crank",), ("crank",))
    assert result.outcome == "better"
    found = {each.name: each for each in (*result.estimates, *result.friction)}
    for name, value in (("crank/gain", GAIN), ("crank/delay", DELAY_S), ("crank/viscous", VISCOUS)):
        assert found[name].low <= value <= found[name].high, found[name]
    assert {each.name for each in surely_changed([found["crank/gain"], found["crank/viscous"]])} == {
        "crank/gain",
        "crank/viscous",
    }


def test_segments_of_a_servo_that_its_limits_hold_back_are_left_out() -> None:
    plain = recorded()
    behind = np.zeros(plain.drive.signal.shape, dtype=bool)
    behind[1000:1150, 0] = True
    held = dataclasses.replace(plain.drive, behind=behind)
    first = [shots_of(drive, plain.recorded, 0.5, 10.0) for drive in (plain.drive, held)]
    assert first[0] is not None
    assert first[1] is not None
    left = sorted(set(first[0].first.tolist()) - set(first[1].first.tolist()))
    assert left
    assert all(begin < 1150 and begin + first[0].steps > 1000 for begin in left)
    with pytest.raises(InvalidRequest, match="kinds has 'backlash'"):
        fit_output_error(four_bar(), JOINTS, [plain], ("backlash",), inertia=True)

"""Identification: planted parameters are recovered inside their intervals, and what cannot be known is refused."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.identification.consistency import consistent_minimum
from sim_core.identification.estimates import surely_changed
from sim_core.identification.fitting import NothingToFitError, fit
from sim_core.identification.friction import ALWAYS, COLUMNS
from sim_core.identification.inertial_parameters import about_origin, is_consistent
from sim_core.identification.intervals import MOST_ORDER, autocovariance, autoregressive, correlated_sum
from sim_core.identification.regressor import Regressor
from sim_core.identification.result import BETTER, FitResult
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.signals import Recorded, Sampled, low_pass, motion_of, sampled
from sim_core.mechanism import Mechanism
from sim_core.mechanism.quantities import value_of

ROBOT = "arm_4dof"
RATE_HZ = 200.0
VISCOUS, COULOMB = 0.3, 0.5
HEAVIER = 1.4  # of the last link but one, in the planted robot


@cache
def model() -> Mechanism:
    return build(ROBOT)


def names() -> list[str]:
    return [joint.name for joint in model().moving_joints]


@cache
def planted() -> Regressor:
    """Regressor of the robot with one heavier body."""
    mechanism = rigid_tree(model(), names())
    bodies = list(mechanism.bodies)
    at = next(k for k, body in enumerate(bodies) if body.name == mechanism.joints[-2].child)
    body = bodies[at]
    bodies[at] = dataclasses.replace(
        body,
        mass=HEAVIER * value_of(body.mass),
        inertia=tuple(HEAVIER * value_of(entry) for entry in body.inertia),
    )
    return Regressor(dataclasses.replace(mechanism, bodies=tuple(bodies)))


def motion(seconds: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(time, q, v, a) of sums of sines with random frequencies and phases."""
    random, n_q = np.random.default_rng(seed), len(names())
    time = np.arange(0.0, seconds, 1.0 / RATE_HZ)
    q, v, a = np.zeros((3, len(time), n_q))
    for j in range(n_q):
        for w in random.uniform(0.8, 6.0, 5):
            phase, size = random.uniform(0.0, 2.0 * np.pi), 0.8 / w
            q[:, j] += size * np.sin(w * time + phase)
            v[:, j] += size * w * np.cos(w * time + phase)
            a[:, j] -= size * w**2 * np.sin(w * time + phase)
    return time, q, v, a


def coloured(random: np.random.Generator, count: int, n_q: int, size: float, pole: float = 0.95) -> np.ndarray:
    """Noise (count, n_q) of standard deviation `size`, autoregressive of order 1."""
    noise = np.zeros((count, n_q))
    for t in range(1, count):
        noise[t] = pole * noise[t - 1] + random.normal(size=n_q)
    return size * np.sqrt(1.0 - pole**2) * noise


def recorded(seconds: float = 20.0, seed: int = 0, noise: float = 0.1) -> Recorded:
    random = np.random.default_rng(seed + 100)
    time, q, v, a = motion(seconds, seed)
    regressor = planted()
    scale = 0.05 * np.sqrt(np.mean(v**2, axis=0))
    tau = regressor(q, v, a) @ regressor.pi + VISCOUS * v + COULOMB * np.tanh(v / scale)
    tau += coloured(random, *tau.shape, noise)
    return Recorded(time, q + 1e-5 * random.normal(size=q.shape), tau)


@cache
def result() -> FitResult:
    return fit(model(), names(), [recorded()])


def truth(found: FitResult) -> np.ndarray:
    """Base parameters and friction coefficients of the planted robot."""
    friction = np.zeros((len(found.joints), len(COLUMNS)))
    friction[:, COLUMNS.index("viscous")], friction[:, COLUMNS.index("coulomb")] = VISCOUS, COULOMB
    return np.concatenate([found.base.B @ planted().pi, friction.ravel()])


def test_the_corrected_model_is_better_than_the_model_before_and_than_friction_alone() -> None:
    found = result()
    assert found.outcome == "better"
    assert found.inertias_fitted
    assert found.fitted == tuple(names())
    assert not found.apart
    assert not found.refused
    for score in found.scores.values():
        assert score.after < 0.2
        assert score.after < 0.5 * score.before
        assert score.after <= score.friction + 0.01
        assert abs(score.after - score.free) < 0.01
    mean = {name: np.mean([getattr(s, name) for s in found.scores.values()]) for name in ("friction", "after")}
    assert mean["after"] < 0.9 * mean["friction"]


def test_planted_values_lie_in_their_intervals() -> None:
    inside = []
    for seed in range(4):
        found = fit(model(), names(), [recorded(seed=seed)])
        x = truth(found)
        inside += [each.low <= each.direction @ x <= each.high for each in found.estimates]
    assert len(inside) > 80
    assert np.mean(inside) > 0.85


def test_written_inertias_are_consistent() -> None:
    found = result()
    for link, pi in zip(found.links, found.pi.reshape(-1, 10), strict=True):
        assert is_consistent(pi), link


def test_a_correct_model_keeps_its_inertias_and_is_not_called_wrong() -> None:
    mechanism = planted().mechanism
    found = fit(mechanism, names(), [recorded()])
    assert not found.inertias_fitted
    np.testing.assert_array_equal(found.pi, planted().pi)
    for score in found.scores.values():
        assert score.after < 0.2


def test_a_joint_in_another_unit_is_fitted_apart_and_leaves_the_masses_alone() -> None:
    log = recorded()
    effort = log.effort.copy()
    effort[:, 1] /= 150.0
    found = fit(model(), names(), [Recorded(log.time, log.q, effort)])
    assert names()[1] in found.apart
    assert names()[1] not in found.fitted
    assert found.scores[names()[1]].after < 0.3
    row = found.friction[1]
    np.testing.assert_array_equal(row, found.friction_before[1])


def test_efforts_that_show_nothing_are_refused_by_name() -> None:
    log = recorded()
    effort = log.effort.copy()
    effort[:, 2] = np.random.default_rng(5).normal(size=len(effort))
    found = fit(model(), names(), [Recorded(log.time, log.q, effort)])
    assert list(found.refused) == [names()[2]]
    assert any(names()[2] in each.what for each in found.refusals)
    assert (found.outcome, BETTER in {score.change for score in found.scores.values()}) == ("not certain", False)
    assert f"the efforts of {names()[2]} do not fit any motion" in found.reason


def test_a_joint_that_is_left_out_for_its_efforts_leaves_the_others_certain() -> None:
    log = recorded()
    effort = log.effort.copy()
    effort[:, 2] = np.random.default_rng(5).normal(size=len(effort))
    found = fit(model(), names(), [Recorded(log.time, log.q, effort)], left_out={names()[2]: "its sensor is broken"})
    assert (found.outcome, BETTER in {score.change for score in found.scores.values()}) == ("better", True)
    assert found.refused == {names()[2]: "its sensor is broken"}


def test_an_effort_that_is_zero_but_for_rounding_is_called_zero() -> None:
    log = recorded()
    effort = log.effort.copy()
    effort[:, 2] = 1e-13 * np.random.default_rng(5).normal(size=len(effort))
    found = fit(model(), names(), [Recorded(log.time, log.q, effort)])
    assert list(found.refused) == [names()[2]]
    assert "effort is zero" in found.refused[names()[2]]
    assert found.outcome == "better"


def test_unknown_units_are_fitted_apart_without_a_test() -> None:
    found = fit(model(), names(), [recorded()], unit_unknown=[names()[0]])
    assert dict(found.apart) == {names()[0]: "its unit is unknown"}


def test_an_uncertain_motor_constant_widens_the_intervals() -> None:
    exact = {each.name: each.high - each.low for each in result().estimates}
    found = fit(model(), names(), [recorded()], constant_sd=dict.fromkeys(names(), 0.05))
    widths = {each.name: each.high - each.low for each in found.estimates}
    assert set(widths) == set(exact)
    heavy = max(result().estimates, key=lambda each: abs(each.value) / (each.high - each.low))
    assert widths[heavy.name] >= 2.0 * 1.96 * 0.04 * abs(heavy.value)


def test_the_phase_of_efforts_sampled_once_per_command_enters_the_intervals() -> None:
    log = recorded(noise=0.01)
    ripple = 2.0 * np.gradient(log.q, log.time, axis=0) * (np.arange(log.q.shape[1]) == 1)
    effort = log.effort - 0.4 * ripple
    for known, is_inside in ((None, False), (ripple, True)):
        found = fit(model(), names(), [Recorded(log.time, log.q, effort, known)])
        x = truth(found)
        (viscous,) = [each for each in found.estimates if each.name == f"{names()[1]}/viscous"]
        assert (viscous.low <= viscous.direction @ x <= viscous.high) == is_inside
        inside = [each.low <= each.direction @ x <= each.high for each in found.estimates]
    assert np.mean(inside) > 0.9


def test_too_little_motion_is_refused_in_one_line() -> None:
    time = np.arange(0.0, 10.0, 0.005)
    still = Recorded(time, np.zeros((len(time), 4)), np.ones((len(time), 4)))
    with pytest.raises(NothingToFitError, match="move"):
        fit(model(), names(), [still])
    short = recorded()
    short = Recorded(short.time[:60], short.q[:60], short.effort[:60])
    with pytest.raises(NothingToFitError, match=r"joints move for .* needs at least 2 s"):
        fit(model(), names(), [short])
    with pytest.raises(NothingToFitError, match="no recording"):
        fit(model(), names(), [Recorded(time[:10], np.zeros((10, 4)), np.ones((10, 4)))])


def test_another_robot_and_a_wrong_share_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no joint 'elbow_9'"):
        fit(model(), ["elbow_9"], [recorded()])
    with pytest.raises(InvalidRequest, match="holdout"):
        fit(model(), names(), [recorded()], holdout=1.5)


def test_intervals_of_correlated_residuals_cover_and_usual_ones_do_not() -> None:
    """A line through noise with a memory of 20 samples, 400 times."""
    random, count = np.random.default_rng(0), 1000
    A = np.column_stack([np.ones(count), np.sin(np.arange(count) / 60.0)])
    inverse = np.linalg.inv(A.T @ A)
    ours = usual = 0
    for _ in range(400):
        y = A @ [1.0, 2.0] + coloured(random, count, 1, 1.0)[:, 0]
        x = inverse @ (A.T @ y)
        e = y - A @ x
        middle, _ = correlated_sum(A, e)
        covariance = inverse @ middle @ inverse
        ours += abs(x[1] - 2.0) <= 1.96 * np.sqrt(covariance[1, 1])
        usual += abs(x[1] - 2.0) <= 1.96 * np.sqrt(inverse[1, 1] * e.var())
    assert 0.90 <= ours / 400 <= 0.98
    assert usual / 400 < 0.6


def test_the_order_and_the_pole_of_a_process_are_found() -> None:
    e = coloured(np.random.default_rng(1), 20000, 1, 2.0)[:, 0]
    phi, variance = autoregressive(autocovariance(e, MOST_ORDER), len(e))
    assert abs(phi[0] - 0.95) < 0.02
    assert abs(variance - 4.0 * (1.0 - 0.95**2)) < 0.02


def test_a_consistent_minimum_is_found_and_an_inconsistent_one_is_moved_to_the_border() -> None:
    start = about_origin(2.0, [0.0, 0.0, -0.3], np.diag([0.05, 0.05, 0.01]))
    aim = about_origin(2.5, [0.05, 0.0, -0.25], np.diag([0.06, 0.04, 0.03]))
    H, no_signs = np.eye(10), np.zeros(0, dtype=bool)
    np.testing.assert_allclose(consistent_minimum(H, H @ aim, start, 1, no_signs), aim, atol=1e-3)
    impossible = about_origin(2.5, [0.05, 0.0, -0.25], np.diag([0.2, 0.04, 0.03]))
    found = consistent_minimum(H, H @ impossible, start, 1, no_signs)
    assert is_consistent(found)
    assert np.linalg.norm(found - impossible) < 0.2


def test_a_consistent_minimum_is_found_with_stiff_directions() -> None:
    start = about_origin(2.0, [0.0, 0.0, -0.3], np.diag([0.05, 0.05, 0.01]))
    aim = about_origin(2.5, [0.05, 0.0, -0.25], np.diag([0.06, 0.04, 0.03]))
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))[0]
    H = (axes * np.logspace(0.0, 8.0, 10)) @ axes.T
    found = consistent_minimum(H, H @ aim, start, 1, np.zeros(0, dtype=bool))
    assert (found - aim) @ H @ (found - aim) < 1e-6 * (start - aim) @ H @ (start - aim)


def test_a_consistent_minimum_does_not_depend_on_the_start() -> None:
    starts = [about_origin(m, [0.0, 0.0, -0.3], np.diag([0.05, 0.05, 0.01])) for m in (0.5, 2.0, 8.0)]
    impossible = about_origin(2.5, [0.05, 0.0, -0.25], np.diag([0.2, 0.04, 0.01]))
    A = np.random.default_rng(3).normal(size=(30, 10)) * np.logspace(0.0, 3.0, 10)
    H = A.T @ A
    found = [consistent_minimum(H, H @ impossible, start, 1, np.zeros(0, dtype=bool)) for start in starts]
    errors = [float((x - impossible) @ H @ (x - impossible)) for x in found]
    assert max(errors) < 1.01 * min(errors)


def test_the_corrected_model_is_the_free_one_if_that_is_consistent() -> None:
    for name, score in result().scores.items():
        assert abs(score.after - score.free) < 1e-3, name


def loaded(load: float) -> Recorded:
    """A recording of the robot with a load (kg) beside the centre of its last link."""
    tree = rigid_tree(model(), names())
    *others, last = tree.bodies
    mass, center = value_of(last.mass), np.array([value_of(x) for x in last.center_of_mass])
    both = center + load / (mass + load) * np.array([0.02, -0.01, 0.05])
    heavier = dataclasses.replace(last, mass=mass + load, center_of_mass=tuple(both.tolist()))
    robot = Regressor(dataclasses.replace(tree, bodies=(*others, heavier)))
    time, q, v, a = motion(20.0)
    tau = robot(q, v, a) @ robot.pi + VISCOUS * v
    return Recorded(time, q, tau + coloured(np.random.default_rng(7), *tau.shape, 0.1))


@pytest.mark.parametrize("load", [1.0, 3.0])
def test_a_load_many_times_heavier_than_the_last_link_is_found_as_bodies_of_positive_density(load: float) -> None:
    """The first moments and inertias that the motion does not tell move as far as the load's need."""
    found = fit(model(), names(), [loaded(load)])
    assert found.outcome == "better"
    for name, score in found.scores.items():
        assert score.after < score.free + 0.02, name
    assert all(is_consistent(pi) for pi in found.pi.reshape(-1, 10))
    assert float(found.pi[::10].sum() - found.pi_before[::10].sum()) > 0.5 * load


def test_a_joint_that_shows_the_others_efforts_reversed_and_small_makes_a_model_uncertain() -> None:
    plain, name = loaded(3.0), names()[1]
    for factor, outcome in ((-0.05, "not certain"), (-1.0, "better")):
        effort = plain.effort.copy()
        effort[:, 1] *= factor
        found = fit(model(), names(), [Recorded(plain.time, plain.q, effort)], left_out={name: "a check"})
        assert found.inertias_fitted
        assert found.outcome == outcome
        assert (f"the efforts of {name}, which were not fitted with the others, are" in found.reason) == (factor > -1.0)


def test_inertias_are_kept_if_friction_alone_predicts_the_held_out_part_as_well() -> None:
    heavy, light = loaded(1.0), loaded(0.0)
    early = heavy.time[:, None] < 0.7 * heavy.time[-1]  # the load is put down before the held-out part
    found = fit(model(), names(), [Recorded(heavy.time, heavy.q, np.where(early, heavy.effort, light.effort))])
    assert not found.inertias_fitted
    np.testing.assert_array_equal(found.pi, found.pi_before)


def test_a_joint_without_motor_has_no_gain() -> None:
    plain = recorded()
    effort = plain.effort.copy()
    effort[:, 1] = 0.0
    found = fit(model(), names(), [Recorded(plain.time, plain.q, effort)], errors=("zero", "gain", "delay"))
    assert not {f"{names()[1]}/gain", f"{names()[1]}/delay"} & {each.name for each in found.estimates}


def test_friction_that_a_turn_at_one_speed_does_not_tell_is_named() -> None:
    time, q, v, a = motion(10.0)
    q[:, 0], v[:, 0], a[:, 0] = 2.0 * time, 2.0, 0.0
    tau = planted()(q, v, a) @ planted().pi + VISCOUS * v
    tau += 0.1 * np.random.default_rng(0).normal(size=tau.shape)
    found = fit(model(), names(), [Recorded(time, q, tau)])
    told = {each.name.split()[0] for each in found.estimates}
    parts = [each.what.rpartition(" of ") for each in found.refusals]
    named = {f"{joint}/{kind}" for kinds, _, joint in parts for kind in kinds.split(", ")}
    usual = {joint: {f"{joint}/{kind}" for kind in ALWAYS} for joint in names()}
    first = usual.pop(names()[0])
    constant = {f"{names()[0]}/{kind}" for kind in ("viscous", "coulomb", "load")}
    assert len(constant & named) == 2  # one sum of the three is known
    assert first <= told | named
    assert not told & named
    assert not any(each & named for each in usual.values())


@pytest.mark.parametrize("noise", [0.0, 1e-4, 3e-3])
@pytest.mark.parametrize(
    ("speed", "swing", "untold"),
    [(2.0, 0.0, ["armature"]), (0.0, 0.2, ["armature"]), (0.0, 0.0, ["viscous", "coulomb", "armature"])],
)
def test_friction_and_rotor_of_which_velocity_and_acceleration_show_only_noise_are_refused(
    noise: float, speed: float, swing: float, untold: list[str]
) -> None:
    time, q, v, a = motion(20.0)
    joint, w = names()[0], 0.2
    q[:, 0] = speed * time + swing * np.sin(w * time)
    v[:, 0], a[:, 0] = speed + swing * w * np.cos(w * time), -swing * w**2 * np.sin(w * time)
    tau = planted()(q, v, a) @ planted().pi + VISCOUS * v
    random = np.random.default_rng(5)
    tau += coloured(random, *tau.shape, 0.1)
    found = fit(model(), names(), [Recorded(time, q + noise * random.normal(size=q.shape), tau)])
    (why,) = (each for each in found.refusals if each.what.endswith(f"{untold[-1]} of {joint}"))
    assert set(untold) <= set(why.what.removesuffix(f" of {joint}").split(", "))
    assert "the motion does not tell" in why.why
    assert not any(f"{joint}/{name}" in each.name for each in found.estimates for name in untold)
    assert found.friction[0, COLUMNS.index("armature")] == 0.0


def test_a_part_that_is_shorter_than_the_pauses_has_as_many_instants_of_motion_as_samples() -> None:
    time = np.arange(0.0, 0.1, 0.001)
    (part,) = sampled(Recorded(time, np.sin(time)[:, None], np.zeros((len(time), 1))))
    assert part.moving.shape == part.time.shape


def test_a_twitch_during_a_standstill_is_no_motion_and_a_small_vibration_is() -> None:
    time = np.arange(0.0, 20.0, 0.01)
    swing = np.where(time < 5.0, 1.0 - np.cos(2.0 * np.pi * time / 5.0), 0.0)  # a range of 2
    twitch = 0.01 * np.clip((time - 10.0) / 0.2, 0.0, 1.0)  # half a per cent of it, at twice the least speed
    shake = 0.01 * np.sin(10.0 * time) * (np.abs(time - 16.0) < 1.5)
    (part,) = sampled(Recorded(time, (swing + twitch + shake)[:, None], np.zeros((len(time), 1))))
    assert not part.moving[(time > 6.0) & (time < 14.0)].any()
    assert part.moving[(time > 0.5) & (time < 4.5)].all()
    assert part.moving[(time > 15.0) & (time < 17.0)].all()


def test_a_recording_is_split_at_gaps_and_repeated_times_are_left_out() -> None:
    time = np.concatenate([np.arange(0.0, 1.0, 0.01), np.arange(2.0, 3.0, 0.01)])
    time = np.insert(time, 20, time[19])
    q = np.sin(time)[:, None]
    parts = sampled(Recorded(time, q, q))
    assert [round(float(part.time[0])) for part in parts] == [0, 2]
    for part in parts:
        np.testing.assert_allclose(part.q[:, 0], np.sin(part.time), atol=1e-4)


def test_the_filter_has_no_phase() -> None:
    time = np.arange(0.0, 10.0, 0.01)
    slow, fast = np.sin(2.0 * np.pi * 0.5 * time), np.sin(2.0 * np.pi * 20.0 * time)
    middle = slice(200, -200)
    np.testing.assert_allclose(low_pass((slow + fast)[:, None], 5.0, 100.0)[middle, 0], slow[middle], atol=2e-3)


def test_a_motion_without_any_motor_has_no_scale() -> None:
    log = recorded()
    with pytest.raises(NothingToFitError, match="no joint has efforts"):
        fit(model(), names(), [Recorded(log.time, log.q, np.zeros_like(log.effort))])


def test_a_joint_without_motor_takes_part_and_is_neither_apart_nor_refused() -> None:
    log = recorded()
    effort = log.effort.copy()
    effort[:, 0] = 0.0
    found = fit(model(), names(), [Recorded(log.time, log.q, effort)])
    assert names()[0] not in found.refused
    assert np.isfinite(found.scores[names()[0]].before)


@pytest.mark.parametrize(("kind", "size"), [("zero", 0.03), ("delay", 0.02), ("gain", -0.2)])
def test_a_planted_error_of_the_measurement_is_found_and_nothing_else(kind: str, size: float) -> None:
    log, joint = recorded(seconds=30.0), 1
    q, effort = log.q.copy(), log.effort.copy()
    if kind == "zero":
        q[:, joint] += size
    elif kind == "gain":
        effort[:, joint] *= 1.0 + size
    else:
        effort[:, joint] = np.interp(log.time - size, log.time, effort[:, joint])
    found = fit(planted().mechanism, names(), [Recorded(log.time, q, effort)], errors=[kind])
    named = surely_changed([each for each in found.estimates if each.kind == kind])
    assert named
    for each in named:
        assert f"{names()[joint]}/{kind}" in each.name
        here = each.name.partition(f"{names()[joint]}/{kind}")[0]
        planted_value = -size if here.rstrip().endswith("- 1") else size
        assert each.low <= planted_value <= each.high


def test_no_error_is_found_in_a_measurement_without_errors() -> None:
    found = fit(planted().mechanism, names(), [recorded(seconds=30.0)], errors=["zero", "gain", "delay"])
    searched = [each for each in found.estimates if each.kind != "model"]
    assert searched
    assert not surely_changed(searched)


def test_an_unknown_error_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'backlash'"):
        fit(model(), names(), [recorded()], errors=["backlash"])


def test_motor_constants_that_gravity_does_not_show_are_refused_by_name() -> None:
    regressor = planted()
    q = np.random.default_rng(1).normal(size=(5, 4))
    weight = np.abs(regressor(q, 0.0 * q, 0.0 * q) @ regressor.pi).max(axis=0)
    vertical = [name for name, size in zip(names(), weight, strict=True) if size < 1e-9]
    assert vertical
    said = [each.what for each in result().refusals]
    assert "a common factor of all motor constants" in said
    assert [each for each in said if each.startswith("the motor constant")] == [
        f"the motor constant of {name}" for name in vertical
    ]


def test_derivatives_of_positions_are_exact_to_a_thousandth_up_to_a_tenth_of_the_sampling_rate() -> None:
    rate_hz, w = 100.0, 2.0 * np.pi * 10.0
    t = np.arange(0.0, 2.0, 1.0 / rate_hz)
    part = Sampled(rate_hz, t, np.sin(w * t)[:, None], np.zeros((len(t), 1)))
    q, v, a = motion_of(part, 45.0)
    inner = slice(10, -10)
    np.testing.assert_allclose(q, part.q, atol=1e-12)
    np.testing.assert_allclose(v[inner, 0], w * np.cos(w * t)[inner], atol=1e-3 * w)
    np.testing.assert_allclose(a[inner, 0], -(w**2) * np.sin(w * t)[inner], atol=1e-3 * w**2)
    line = Sampled(rate_hz, t, (3.0 * t + 1.0)[:, None], part.effort)
    _, v, a = motion_of(line, 45.0)
    np.testing.assert_allclose(v, 3.0, atol=1e-9)
    np.testing.assert_allclose(a, 0.0, atol=1e-7)


@pytest.mark.parametrize("kind", ["gear", "asymmetry", "coupled"])
def test_further_friction_is_named_where_it_is_and_nowhere_else(kind: str) -> None:
    log = recorded(seconds=30.0, noise=0.03)
    v = motion(30.0)[2]
    effort, weight, scale = log.effort.copy(), log.effort - log.effort.mean(axis=0), np.sqrt(np.mean(v**2, axis=0))
    if kind == "gear":
        effort[:, 1] += 0.3 * np.abs(weight[:, 1]) * np.tanh(v[:, 1] / (0.05 * scale[1]))
    elif kind == "asymmetry":
        effort[:, 1] += 3.0 * np.abs(v[:, 1])
    else:  # two motors with dry friction, through a differential
        width = 0.05 * np.hypot(scale[2], scale[3])
        both, apart = (np.tanh((v[:, 2] + sign * v[:, 3]) / width) for sign in (1.0, -1.0))
        effort[:, 2] += both + apart
        effort[:, 3] += both - apart
    found = fit(planted().mechanism, names(), [Recorded(log.time, log.q, effort)])
    expected = {(names()[1], kind)} if kind != "coupled" else {(names()[2], "next"), (names()[3], "previous")}
    assert set(found.extra) == expected
    assert not fit(planted().mechanism, names(), [log]).extra

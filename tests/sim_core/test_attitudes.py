"""Stability measures of spherical and free joints, by closed forms of pendulums on a ball joint and of free bodies."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sim_core.analysis.attitudes import Attitudes
from sim_core.analysis.maps import state_map
from sim_core.analysis.stability import StateNorm, equilibrium, frequencies, measure, worst
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Body, Coincidence, Joint, JointSpring, Mechanism
from sim_core.spatial import (
    angular_velocity_of_step,
    quaternion_of_rotation_vector,
    quaternion_of_step,
    quaternion_product,
    rates_of_step,
    rotation_vector,
    step_of_quaternion,
)
from sim_core.system import System, assemble
from tests.sim_core.test_free_joints import INERTIA, TURNED, floating, top

TILT = ["ball.rx", "ball.ry", "ball.rx.velocity", "ball.ry.velocity"]


def ball_pendulum(**changes: object) -> Mechanism:
    """A point mass on a massless rod, on a ball joint, with the frequency 1 rad/s; it starts away from equilibrium."""
    body = Body(name="bob", mass=1.0, inertia=(0.0, 0.0, 0.3, 0.0, 0.0, 0.0))
    joint = Joint(name="ball", kind="spherical", child="bob", child_point=(0.0, 0.0, 1.0), quaternion=TURNED)
    fields: dict[str, object] = {"bodies": (body,), "joints": (joint,), "gravity": (0.0, 0.0, -1.0)}
    fields |= {"coordinates": "joint", "initial_q": (0.0,) * 3, "initial_v": (0.0,) * 3}
    return Mechanism(name="ball_pendulum", **fields | changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(ball_pendulum())


def test_rotation_coordinates_and_rotation_vectors_are_the_same_rotations() -> None:
    random = np.random.default_rng(1)
    r, omega = random.uniform(-1.7, 1.7, size=(2, 3, 50))
    quaternions = quaternion_of_rotation_vector(r)
    np.testing.assert_allclose(rotation_vector(quaternions), r, atol=1e-13)
    s = step_of_quaternion(quaternions)
    np.testing.assert_allclose(quaternion_of_step(s), quaternions, atol=1e-15)
    np.testing.assert_allclose(angular_velocity_of_step(s, rates_of_step(s, omega)), omega, atol=1e-14)
    h = 1e-6  # the derivative of s, along a rotation with constant angular velocity
    ahead, behind = (
        step_of_quaternion(quaternion_product(quaternions, quaternion_of_rotation_vector(sign * h * omega)))
        for sign in (1, -1)
    )
    np.testing.assert_allclose((ahead - behind) / (2 * h), rates_of_step(s, omega), atol=1e-8)


def test_states_in_offsets_have_their_rotation_vectors_from_the_equilibrium() -> None:
    system = assemble(floating())
    about = np.random.default_rng(2).normal(size=system.n_q)
    attitudes = Attitudes(system, about)
    offsets = np.random.default_rng(3).uniform(-1.7, 1.7, (30, 2 * system.n_q))
    np.testing.assert_allclose(attitudes.offsets(*attitudes.states(offsets)), offsets, atol=1e-13)
    q, _ = attitudes.states(np.concatenate([about, about])[None, :] * 0.0)
    p = system.default_parameters()
    for turning, at, start in zip(attitudes.rotations, attitudes.quaternions, (p[:4], p[4:8]), strict=True):
        found = quaternion_product(start, quaternion_of_step(q[0, turning]))
        assert abs(found @ at) == pytest.approx(1.0, abs=1e-14)


def test_swings_of_a_ball_pendulum_are_those_of_a_plane_one(pendulum: System) -> None:
    """In a vertical plane of any direction: the closed form of a single pendulum. [Schiehlen1993, eq. 52]"""
    random = np.random.default_rng(4)
    angle, rate, direction = random.uniform((-1.4, -1.2, 0.0), (1.4, 1.2, math.pi), (20, 3)).T
    across = np.cos(direction), np.sin(direction), 0.0 * direction
    starts = np.array([*(angle * each for each in across), *(rate * each for each in across)]).T
    found = measure(pendulum, starts, seconds=30.0, time_unit_s=1.0)
    farthest = np.arccos(np.cos(angle) - rate**2 / 2)
    np.testing.assert_allclose(found.distances[:, :3], np.tile(farthest, (3, 1)).T, atol=2e-6)
    fastest = np.sqrt(rate**2 + 2 * (1 - np.cos(angle)))
    of_velocity = fastest[:, None] * np.abs(np.array(across).T)
    np.testing.assert_allclose(found.distances[:, 3:], of_velocity, atol=2e-6)
    begun = np.maximum(np.abs(angle), np.abs(starts[:, 3:]).max(axis=1))
    np.testing.assert_allclose(found.is1, found.distances.max(axis=1) / begun, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_small_swings_have_the_measure_of_linear_oscillations(pendulum: System, size: float) -> None:
    """Rotation x0 and velocity v0 in two perpendicular planes with the frequency 1: the tilt is at most their root."""
    starts = size * np.array([[1.0, 0.0, 0.5, 0.0], [0.3, 0.0, 0.0, 0.4], [0.6, 0.0, 0.8, 0.0], [0.0, 0.6, 0.0, 0.8]])
    found = measure(pendulum, starts, seconds=10.0, time_unit_s=1.0, rows=TILT)
    most = np.hypot(starts[:, :2], starts[:, 2:]).max(axis=1)
    np.testing.assert_allclose(found.distances[2:, 0], most[2:], rtol=1e-5)
    np.testing.assert_allclose(found.distances[0, 0], size * math.hypot(1.0, 0.5), rtol=1e-5)
    np.testing.assert_allclose(found.distances[1, 0], size * 0.4, rtol=1e-5)


def test_the_worst_tilt_is_that_of_the_closed_form(pendulum: System) -> None:
    """Both velocities r with the rotation in their plane: arccos(cos r - r^2) / r, by the energy."""
    for r in (0.3, 0.5, 0.8):
        found = worst(pendulum, r, seconds=20.0, time_unit_s=1.0, rows=TILT, runs=600)
        assert found.value == pytest.approx(math.acos(math.cos(r) - r**2) / r, abs=1e-5)
        assert math.hypot(*found.start[:2]) == pytest.approx(r, abs=1e-12)


def test_the_unit_of_time_is_that_of_the_swing_and_a_turn_about_the_rod_is_none(pendulum: System) -> None:
    norm = StateNorm.of(pendulum)
    assert norm.time_unit_s == pytest.approx(1.0, rel=1e-8)
    assert frequencies(pendulum, norm.about)[2:] == pytest.approx(np.ones(4))
    assert str(norm) == "distances in 1 rad and 1 rad per 1 s (time_unit_s)"
    tilted, turned = (measure(pendulum, [start], seconds=5.0, rows=rows) for start, rows in (
        ([0.4, 0.0, 0.0, 0.0], TILT), ([0.4, 0.0, 0.0, 0.0, 0.0, 0.7], None)
    ))  # fmt: skip
    assert tilted.distances[0, 0] == pytest.approx(0.4, abs=1e-6)
    assert turned.distances[0, 0] == math.pi  # it turns about the rod by 3.5 rad


def test_a_spring_in_a_ball_joint_gives_the_frequencies_of_the_principal_axes() -> None:
    """sqrt(k / I) about each axis."""
    body = Body(name="body", mass=1.0, inertia=(*INERTIA, 0.0, 0.0, 0.0))
    joint = Joint(name="ball", kind="spherical", child="body", spring=JointSpring(stiffness=2.0))
    system = assemble(ball_pendulum(bodies=(body,), joints=(joint,), gravity=(0.0, 0.0, 0.0)))
    about = equilibrium(system, [0.1, -0.2, 0.1])
    expected = np.repeat(np.sqrt(2.0 / np.array(INERTIA)), 2)
    np.testing.assert_allclose(frequencies(system, about), expected, rtol=1e-6)
    swings = measure(system, 1e-3 * np.eye(3), about=about, rows=["ball.rx", "ball.ry", "ball.rz"], seconds=3.0)
    np.testing.assert_allclose(swings.is1, 1.0, rtol=1e-8)
    rates = 1e-3 * np.diag(np.sqrt(2.0 / np.array(INERTIA)))
    np.testing.assert_allclose(swings.peaks.largest()[:, :3], rates, atol=1e-8)


def test_a_free_body_that_turns_about_a_principal_axis_goes_up_to_pi() -> None:
    system = assemble(top())
    how = {"time_unit_s": 1.0, "step_s": 0.01, "length_unit_m": 1.0}
    starts = np.zeros((3, 12))
    starts[:, 11] = 1.0, 2.0, 0.1
    starts[2, 6:9] = 0.5
    found = measure(system, starts, seconds=2.0, **how)
    np.testing.assert_allclose(found.distances[:, 3], [2.0, math.pi, 0.2], atol=1e-9)
    np.testing.assert_allclose(found.distances[:, 0], [0.0, 0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(found.is1, [2.0, math.pi / 2.0, 2.0], atol=1e-9)
    beyond = measure(system, [[*[0.0] * 3, 4.0, *[0.0] * 8], [0.0] * 12], seconds=0.1, **how)  # 4 rad is 2 pi - 4 rad
    np.testing.assert_allclose(beyond.distances[:, 3], [2 * math.pi - 4.0, 0.0], atol=1e-12)
    assert beyond.is1.tolist() == pytest.approx([1.0, 1.0])


def test_a_closed_loop_keeps_the_given_rotation_vector() -> None:
    bodies = tuple(Body(name=name, mass=1.0, inertia=(0.01, 0.01, 0.01, 0, 0, 0)) for name in ("a", "b"))
    joints = (
        Joint(name="first", kind="spherical", child="a", child_point=(-0.3, 0.0, 0.0)),
        Joint(name="second", kind="free", child="b", quaternion=TURNED),
    )
    joined = Coincidence(name="joined", body_a="a", point_a=(0.3, 0, 0), body_b="b", point_b=(-0.3, 0, 0))
    start = (0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0)
    system = assemble(
        Mechanism(
            name="chain", coordinates="joint", bodies=bodies, joints=joints, constraints=(joined,), initial_q=start,
            initial_v=(0.0,) * 9,
        )
    )  # fmt: skip
    rows = ["first.rx", "first.ry", "first.rz", "first.ry.velocity"]
    norm = StateNorm.of(system, equilibrium(system, system.mechanism.initial_q), rows=rows, time_unit_s=0.2)
    q, v = norm.states([[0.1, 0.3, -0.2, 0.3], [0.0, 0.0, 0.0, 0.0]])
    offsets = norm.attitudes.offsets(q, v)
    np.testing.assert_allclose(offsets[0, :3], [0.1, 0.3, -0.2], atol=1e-14)
    assert offsets[0, 10] == pytest.approx(0.3 / 0.2)
    for place, rates in zip(q, v, strict=True):
        Phi, Phidot = system.residual(0.0, place, rates)
        assert max(np.abs(Phi).max(), np.abs(Phidot).max()) < 1e-11
    found = measure(system, [[0.1, 0.3, -0.2, 0.3]], seconds=0.5, about=norm.about, rows=rows, time_unit_s=0.2)
    assert found.is1[0] > 1.0
    reached = found.peaks
    p = system.default_parameters()
    p[:8] = reached.orientations[0].ravel()
    assert np.abs(system.residual(0.0, reached.q[0], reached.v[0], p)[0]).max() < 1e-6


def test_a_map_over_a_rotation_vector_has_the_measures_of_its_starts(pendulum: System) -> None:
    norm = StateNorm.of(pendulum, rows=TILT)
    axes = {"ball.rx": np.linspace(-2.0, 2.0, 5), "ball.ry.velocity": np.linspace(-1.0, 1.0, 4)}
    start = {"ball.ry": 0.0, "ball.rz": 0.0}
    found = state_map(norm, axes, start, 8.0)
    grid = [[x, 0.0, 0.0, y] for y in axes["ball.ry.velocity"] for x in axes["ball.rx"]]
    expected = measure(pendulum, grid, seconds=8.0, about=norm.about, rows=TILT)
    np.testing.assert_allclose(found.is1.ravel(), expected.is1, rtol=1e-10)
    assert not found.turns_over.any()  # a tilt is at most pi
    everything = state_map(StateNorm.of(pendulum), axes, start | {"ball.rz.velocity": 1.0}, 8.0)
    assert everything.turns_over.any()
    other = state_map(norm, axes, start, 8.0, lanes=2, threads=2)
    assert other.is1.tobytes() == found.is1.tobytes()
    kept = state_map(norm, axes, {}, 0.01)  # the attitude of the mechanism's start, where nothing else is given
    _, v = kept.peaks.q, kept.peaks.v
    assert np.isfinite(v).all()
    begun = norm.attitudes.offsets(np.zeros((1, 3)), np.zeros((1, 3)))[0]
    assert math.hypot(*begun[:3]) == pytest.approx(0.8)  # of TURNED


def test_ranges_relative_to_attitudes_are_those_of_the_motion(pendulum: System) -> None:
    system = assemble(dataclasses.replace(floating(), gravity=(0.0, 0.0, 0.0)))
    random = np.random.default_rng(5)
    q, v = 0.3 * random.normal(size=(2, 7, system.n_q))
    attitudes = random.normal(size=(2, 4))
    attitudes /= np.linalg.norm(attitudes, axis=1, keepdims=True)
    run = {"step_s": 2e-3, "steps": 400}
    peaks, rolled = system.batch(4).peaks(q, v, attitudes=attitudes, **run), system.batch(4).rollout(q, v, **run)
    inner = np.einsum("nkma,ma->nkm", rolled.orientations, attitudes)
    for m, joint in enumerate(("root", "shoulder")):
        place = peaks.rows.index(f"{joint}.qw")
        np.testing.assert_allclose(peaks.low[:, place], inner[:, :, m].min(axis=1), atol=2e-6)
        np.testing.assert_allclose(peaks.high[:, place], inner[:, :, m].max(axis=1), atol=2e-6)
        place = peaks.rows.index(f"{joint}.sin2")
        np.testing.assert_allclose(peaks.high[:, place], (1.0 - inner[:, :, m] ** 2).max(axis=1), atol=2e-6)
    plain = system.batch(4).peaks(q, v, **run)
    shared = len(plain.rows) - 8  # beside the quaternions
    assert peaks.rows[: shared + 8] == plain.rows
    assert peaks.high[:, :shared].tobytes() == plain.high[:, :shared].tobytes()
    for lanes in (2, 16):
        assert system.batch(lanes).peaks(q, v, attitudes=attitudes, **run).low.tobytes() == peaks.low.tobytes()
    with pytest.raises(InvalidRequest, match="must be 2 quaternions of norm 1, one per spherical and free joint"):
        system.batch(4).peaks(q, v, attitudes=[[1.0, 0.0, 0.0, 0.0]], **run)
    with pytest.raises(InvalidRequest, match="must be 2 quaternions of norm 1"):
        system.batch(4).peaks(q, v, attitudes=2.0 * attitudes, **run)


def test_what_is_no_measure_is_refused_in_one_line(pendulum: System) -> None:
    with pytest.raises(
        InvalidRequest, match=r"argument 'rows' has 'ball.rx' alone, which is no measure of an attitude"
    ):
        measure(pendulum, [[0.1]], seconds=1.0, rows=["ball.rx"])
    with pytest.raises(
        InvalidRequest, match="radius is 4; the attitude of a joint is at most pi away from another one"
    ):
        worst(pendulum, 4, seconds=1.0, rows=TILT)
    with pytest.raises(InvalidRequest, match=r"the coordinate 'root.z' still accelerates, by 9.81 per s\^2"):
        measure(assemble(floating()), np.zeros((1, 20)), seconds=1.0)

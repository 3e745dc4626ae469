"""Batches integrate spherical and free joints as a Simulation does."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sim_core.errors import InvalidRequest
from sim_core.mechanism import Body, Coincidence, Joint, JointSpring, JointStops, Mechanism, Servo
from sim_core.simulation import Simulation
from sim_core.spatial import angular_velocity_of_step, quaternion_of_step, quaternion_product
from sim_core.system import System, assemble
from tests.sim_core.test_free_joints import floating, top

RUN: dict[str, Any] = {"step_s": 1e-3, "steps": 60}


@pytest.fixture(scope="module")
def system() -> System:
    sprung = floating()
    root, shoulder, elbow = sprung.joints
    shoulder = dataclasses.replace(
        shoulder, spring=JointSpring(stiffness=2.0), stops=JointStops(stiffness=20.0, dissipation=0.2), upper=1.5
    )
    motor = dataclasses.replace(sprung.actuators[0], servo=Servo(stiffness=20.0, damping=1.0))
    return assemble(dataclasses.replace(sprung, joints=(root, shoulder, elbow), actuators=(motor,)))


def starts(system: System, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, v, p of random states, with rotation coordinates that are not 0."""
    random = np.random.default_rng(3)
    q, v = random.normal(size=(2, count, system.n_q))
    quaternions = random.normal(size=(count, 2, 4))
    return q, v, (quaternions / np.linalg.norm(quaternions, axis=2, keepdims=True)).reshape(count, 8)


def moved(system: System, q: np.ndarray, v: np.ndarray, p: np.ndarray, steps: int, u: float = 0.0) -> Simulation:
    """A simulation from the same state, whose rotation coordinates are moved into the quaternions first."""
    sim = Simulation(system, step_s=1e-3)
    q, v, p = q.copy(), v.copy(), p.copy()
    for turning, quaternion in ((slice(3, 6), slice(0, 4)), (slice(6, 9), slice(4, 8))):
        p[quaternion] = quaternion_product(p[quaternion], quaternion_of_step(q[turning]))
        v[turning] = angular_velocity_of_step(q[turning], v[turning])
        q[turning] = 0.0
    sim.restore(dataclasses.replace(sim.state, q=q, v=v, p=p, u=np.array([u])))
    sim.step(steps)
    return sim


@pytest.mark.parametrize("lanes", [2, 8])
def test_a_rollout_is_the_simulation(system: System, lanes: int) -> None:
    q, v, p = starts(system, 5)
    u = np.linspace(-1.0, 1.0, 5)[:, None]
    rolled = system.batch(lanes).rollout(q, v, u, p=p, every=20, **RUN)
    assert rolled.orientations.shape == (5, 4, 2, 4)
    for row in range(5):
        for k in range(1, 4):
            state = moved(system, q[row], v[row], p[row], 20 * k, float(u[row, 0])).state
            np.testing.assert_allclose(rolled.q[row, k], state.q, rtol=0, atol=1e-11)
            np.testing.assert_allclose(rolled.v[row, k], state.v, rtol=0, atol=1e-10)
            np.testing.assert_allclose(rolled.orientations[row, k].ravel(), state.p, rtol=0, atol=1e-11)
        at_start = quaternion_product(p[row, :4], quaternion_of_step(q[row, 3:6]))
        np.testing.assert_allclose(rolled.orientations[row, 0, 0], at_start, rtol=0, atol=1e-14)
        assert not rolled.q[row, :, 3:9].any()


def test_efforts_of_each_step_and_servos_reach_a_system_with_orientations(system: System) -> None:
    q, v, p = starts(system, 3)
    u = np.random.default_rng(1).normal(size=(3, RUN["steps"], 1))
    held = np.repeat(u[:, :1], RUN["steps"], axis=1)
    batch = system.batch(4)
    whole, constant = batch.rollout(q, v, held, p=p, **RUN), batch.rollout(q, v, u[:, 0], p=p, **RUN)
    np.testing.assert_allclose(whole.orientations, constant.orientations, rtol=0, atol=1e-12)
    assert np.abs(batch.rollout(q, v, u, p=p, **RUN).v - whole.v).max() > 1e-3
    servo = batch.rollout(q, v, u[:, 0], p=p, modes={"motor": "position"}, **RUN)
    assert np.abs(servo.v - constant.v).max() > 1e-3


def test_peaks_contain_velocities_and_quaternions_but_no_rotation_coordinates(system: System) -> None:
    q, v, p = starts(system, 7)
    batch = system.batch(4)
    rolled, peaks = batch.rollout(q, v, p=p, **RUN), batch.peaks(q, v, p=p, **RUN)
    assert peaks.rows == (
        *("root.x", "root.y", "root.z", "elbow"),
        *[f"{name}.velocity" for name in system.coordinate_names],
        *[f"{joint}.q{part}" for joint in ("root", "shoulder") for part in "wxyz"],
    )
    np.testing.assert_allclose(peaks.orientations, rolled.orientations[:, -1], rtol=0, atol=1e-12)
    states = np.concatenate([rolled.q[:, :, [0, 1, 2, 9]], rolled.v, rolled.orientations.reshape(7, -1, 8)], axis=2)
    assert (peaks.high - states.max(axis=1)).min() >= -1e-11
    assert (states.min(axis=1) - peaks.low).min() >= -1e-11
    assert (peaks.high - states.max(axis=1)).max() < 1e-4
    for lanes, threads in ((2, 1), (8, 2)):
        other = system.batch(lanes).peaks(q, v, p=p, threads=threads, **RUN)
        for name in ("low", "high", "q", "v", "orientations"):
            assert getattr(other, name).tobytes() == getattr(peaks, name).tobytes()


def test_the_range_of_a_quaternion_has_the_extremum_between_two_steps() -> None:
    """A body turns about z at 1 rad/s from 0 to 4 rad: qz is sin(t / 2), with its extremum 1 at pi."""
    system = assemble(top(initial_v=(0.0,) * 6, joints=(Joint(name="base", kind="free", child="body"),)))
    q, v = np.zeros((1, 6)), np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    peaks = system.batch(2).peaks(q, v, step_s=0.1, steps=40)
    assert peaks.high[0, peaks.rows.index("base.qz")] == pytest.approx(1.0, abs=1e-6)
    assert peaks.low[0, peaks.rows.index("base.qw")] == pytest.approx(np.cos(2.0), abs=1e-6)


def test_a_closed_loop_with_a_ball_joint_keeps_closed_in_a_batch() -> None:
    bodies = tuple(Body(name=name, mass=1.0, inertia=(0.01, 0.01, 0.01, 0, 0, 0)) for name in ("a", "b"))
    joints = (
        Joint(name="first", kind="spherical", child="a", child_point=(-0.3, 0.0, 0.0)),
        Joint(name="second", kind="free", child="b"),
    )
    joined = Coincidence(name="joined", body_a="a", point_a=(0.3, 0, 0), body_b="b", point_b=(-0.3, 0, 0))
    chain = Mechanism(
        name="chain",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        constraints=(joined,),
        initial_q=(0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0),
        initial_v=(0.0,) * 9,
    )
    system = assemble(chain)
    rolled = system.batch(2).rollout(
        [chain.initial_q], [chain.initial_v], step_s=1e-3, steps=500, stabilizer="sampled_fuzzy", every=500
    )
    p = rolled.orientations[0, -1].ravel()
    sim = Simulation(system, step_s=1e-3)
    sim.advance(0.5)
    assert np.abs(system.residual(0.0, rolled.q[0, -1], rolled.v[0, -1], p)[0]).max() < 1e-6
    np.testing.assert_allclose(p, sim.state.p, atol=1e-8)


def test_a_quaternion_that_is_no_rotation_is_refused(system: System) -> None:
    q, v, p = starts(system, 2)
    p[1, 4:] *= 1.1
    with pytest.raises(
        InvalidRequest, match=r"p: the quaternion of joint 'shoulder' of 'floating' has the norm 1.1; it"
    ):
        system.batch(2).rollout(q, v, p=p, **RUN)

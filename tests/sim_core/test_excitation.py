"""Excitation trajectories: rest at both ends, limits, condition number, and equal results for equal seeds."""

from __future__ import annotations

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.identification.excitation import Excitation, ExcitedRobot, FourierMotion, MotionLimits, excite
from sim_core.inverse import inverse_dynamics
from sim_core.system import assemble

SECONDS, HARMONICS, ITERATIONS = 4.0, 4, 25
JOINTS = ("joint_2", "joint_4")


def limits(effort: float = 20.0) -> MotionLimits:
    both = np.ones(2)
    return MotionLimits(-1.5 * both, 1.2 * both, 1.5 * both, 6.0 * both, effort * both)


@pytest.fixture(scope="module")
def robot() -> ExcitedRobot:
    return ExcitedRobot(build("arm_2dof"), JOINTS)


@pytest.fixture(scope="module")
def found(robot: ExcitedRobot) -> Excitation:
    return excite(robot, limits(), SECONDS, HARMONICS, seed=3, iterations=ITERATIONS)


def test_the_motion_begins_and_ends_at_rest(robot: ExcitedRobot, found: Excitation) -> None:
    q, v, a = found.motion(np.array([0.0, SECONDS]))
    np.testing.assert_allclose(q, np.tile(robot.start, (2, 1)), atol=1e-9)
    np.testing.assert_allclose(np.stack([v, a]), 0.0, atol=1e-8)


def test_velocities_and_accelerations_are_derivatives_of_the_positions(found: Excitation) -> None:
    h = 1e-5
    t = np.linspace(0.3, SECONDS - 0.3, 20)
    (q0, v0, _), (_, v, a), (q1, v1, _) = (found.motion(t + each) for each in (-h, 0.0, h))
    np.testing.assert_allclose((q1 - q0) / (2.0 * h), v, atol=1e-6)
    np.testing.assert_allclose((v1 - v0) / (2.0 * h), a, atol=1e-6)


def test_the_limits_are_held_and_some_are_reached(found: Excitation) -> None:
    q, v, a = found.motion(np.linspace(0.0, SECONDS, 3001))
    kept, slack = limits(), 1.001
    assert (q >= slack * kept.lower).all()
    assert (q <= slack * kept.upper).all()
    assert (np.abs(v) <= slack * kept.velocity).all()
    assert (np.abs(a) <= slack * kept.acceleration).all()
    assert np.abs(v).max() > 0.9 * kept.velocity[0]


def test_the_efforts_of_a_weak_robot_are_held_and_its_motion_is_smaller(robot: ExcitedRobot, found: Excitation) -> None:
    system = assemble(build("arm_2dof"))

    def largest(motion: FourierMotion) -> float:
        points = zip(*motion(motion.times(20)), strict=True)
        return max(float(np.abs(inverse_dynamics(system, *each)).max()) for each in points)

    weak = excite(robot, limits(0.6 * largest(found.motion)), SECONDS, HARMONICS, seed=3, iterations=ITERATIONS).motion
    assert 0.5 < largest(weak) / largest(found.motion) <= 0.601


def test_the_condition_number_is_a_fraction_of_that_of_the_best_random_motion(
    robot: ExcitedRobot, found: Excitation
) -> None:
    before, after = (robot.condition(*each(each.times(50))) for each in (found.first, found.motion))
    assert after < 0.5 * before


def test_equal_seeds_give_equal_motions_and_other_seeds_others(robot: ExcitedRobot, found: Excitation) -> None:
    again, other = (excite(robot, limits(), SECONDS, HARMONICS, seed=s, iterations=ITERATIONS).motion for s in (3, 4))
    assert np.array_equal(again.coefficients, found.motion.coefficients)
    assert not np.allclose(other.coefficients, found.motion.coefficients)


def test_an_error_in_the_report_of_progress_ends_the_search(robot: ExcitedRobot) -> None:
    def stop(iteration: int, _bound: float) -> None:
        if iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        excite(robot, limits(), SECONDS, HARMONICS, iterations=ITERATIONS, progress=stop)


def test_a_start_outside_of_the_limits_is_refused_by_the_name_of_the_joint(robot: ExcitedRobot) -> None:
    both = np.ones(2)
    outside = MotionLimits(np.array([-1.0, 0.5]), both, both, both, 20.0 * both)
    with pytest.raises(InvalidRequest, match=r"'joint_4' starts at 0; the start must be between its limits 0\.5"):
        excite(robot, outside, SECONDS, HARMONICS)

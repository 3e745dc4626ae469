"""Gymnasium environments: the checker of Gymnasium, automatic resets, seeds, ranges of parameters, and bad input."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from armswing import Simulation
from armswing.environments import Environment, Task, VectorEnvironment
from nodes.environments.tasks.rotary_pendulum import TASK
from sim_core.errors import InvalidRequest
from tests.robots.test_corrections import URDF

NAME = "armswing/rotary_pendulum-v0"
SHORT = {"duration_s": 0.1}  # 10 actions
Array = np.ndarray


def actions(count: int, n: int) -> Array:
    return np.random.default_rng(4).uniform(-1.0, 1.0, (count, n, 1))


def test_the_checker_of_gymnasium_finds_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(NAME, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_is_that_of_single_environments(mode: AutoresetMode) -> None:
    """30 actions over episodes of 10, against the vector that Gymnasium makes of single environments."""
    ours = gymnasium.make_vec(NAME, num_envs=3, autoreset_mode=mode, **SHORT)
    theirs = SyncVectorEnv([lambda: Environment(TASK, **SHORT)] * 3, autoreset_mode=mode)
    found, wanted = (env.reset(seed=7)[0] for env in (ours, theirs))
    np.testing.assert_array_equal(found, wanted)
    ended = 0
    for action in actions(30, 3):
        found, wanted = ours.step(action), theirs.step(action)
        for mine, other in zip(found[:4], wanted[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
        if found[3].any() and mode == AutoresetMode.SAME_STEP:
            np.testing.assert_array_equal(found[4]["final_obs"], np.stack(list(wanted[4]["final_obs"])))
        ended += int(found[3].sum())
    assert ended >= 6


def test_a_start_needs_no_states_of_friction_and_a_wrong_one_is_told_the_coordinates(tmp_path: Path) -> None:
    (tmp_path / "rods.urdf").write_text(URDF)
    task = Task(
        robot=str(tmp_path / "rods.urdf"),
        observe=lambda motion: motion.q,
        reward=lambda motion, actions: -(motion.q**2).sum(axis=0),
        start=lambda random: (np.full(2, 0.1), np.zeros(2)),
        largest=[1.0, 1.0],
        **SHORT,
    )
    observed, _ = Environment(task).reset(seed=1)
    assert observed.tolist() == pytest.approx([0.1, 0.1, 0.0, 0.0])  # two joints, two bristles
    wrong = dataclasses.replace(task, start=lambda random: (np.zeros(3), np.zeros(2)))
    with pytest.raises(InvalidRequest, match=r"the start's q has shape \(3,\); it must be \(4,\), for .*bristle"):
        Environment(wrong).reset(seed=1)


def test_without_automatic_resets_a_mask_says_who_starts_again() -> None:
    env = gymnasium.make_vec(NAME, num_envs=3, autoreset_mode=AutoresetMode.DISABLED, **SHORT)
    env.reset(seed=1)
    for action in actions(10, 3):
        before, _, _, truncated, _ = env.step(action)
    assert truncated.all()
    with pytest.raises(InvalidRequest, match="environment 0 has ended"):
        env.step(actions(1, 3)[0])
    mask = np.array([True, False, True])
    after, _ = env.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(after[1], before[1])
    assert (np.abs(after[mask, 0]) <= 0.1).all()
    with pytest.raises(InvalidRequest, match="environment 1 has ended"):
        env.step(actions(1, 3)[0])


def test_lanes_and_threads_change_no_byte_and_a_simulation_only_roundings() -> None:
    def run(**more: Any) -> Array:
        env = VectorEnvironment(TASK, 5, **SHORT, **more)
        env.reset(seed=3)
        return np.array([env.step(action)[0] for action in actions(25, 5)])

    wanted = run(lanes=16)
    for more in ({"lanes": 2}, {"lanes": 4, "threads": 2}):
        assert run(**more).tobytes() == wanted.tobytes()
    np.testing.assert_allclose(run(backend="simulation"), wanted, rtol=0, atol=1e-10)


def test_parameters_are_drawn_within_their_ranges_for_each_episode() -> None:
    env = VectorEnvironment(TASK, 16, ranges={"arm_damping": (1e-4, 2e-4)}, **SHORT)
    place = list(env.world.system.parameter_names).index("arm_damping")
    env.reset(seed=0)
    first = env.world.systems.states.p[:, place]  # type: ignore[attr-defined]
    env.reset()
    second = env.world.systems.states.p[:, place]  # type: ignore[attr-defined]
    assert len({*first, *second}) == 32
    assert ((first >= 1e-4) & (first <= 2e-4) & (second >= 1e-4) & (second <= 2e-4)).all()


def test_a_system_that_diverges_is_terminated_and_starts_again() -> None:
    wild = dataclasses.replace(
        TASK, start=lambda random: (np.zeros(2), np.full(2, 1e200)), fails=lambda m: m.time < 0.0
    )
    env = VectorEnvironment(wild, 2, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    observations, rewards, terminated, truncated, infos = env.step(np.zeros((2, 1)))
    assert terminated.all()
    assert not truncated.any()
    assert infos["diverged"].all()
    assert rewards.tolist() == [0.0, 0.0]
    assert np.isfinite(observations).all()


def test_a_picture_shows_the_robot_move() -> None:
    env = gymnasium.make(NAME, render_mode="rgb_array")
    env.reset(seed=0)
    pictures = []
    for _ in range(2):
        for _ in range(10):
            env.step(np.array([1.0]))
        pictures.append(np.asarray(env.render()))
    assert pictures[0].shape == (480, 480, 3)
    assert pictures[0].dtype == np.uint8
    moved = (pictures[0] != pictures[1]).any(axis=2)[40:]  # below the time
    assert 50 < moved.sum() < 20_000


def bad(task: Task = TASK, **more: Any) -> VectorEnvironment:
    return VectorEnvironment(task, 2, **more)


BOUNDED = """
import dataclasses
from armswing import build
from armswing.mechanism import Tunable

def robot():
    mechanism = build("rotary_pendulum", coordinates="joint", torque_limit=0.05)
    arm = dataclasses.replace(mechanism.joints[0], damping=Tunable("damping", 0.0, least=0.0, unit="N m s"))
    return dataclasses.replace(mechanism, joints=(arm, mechanism.joints[1]))
"""


def test_a_range_outside_the_bounds_of_a_parameter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bounded.py").write_text(BOUNDED)
    own = {"robot": f"{tmp_path / 'bounded.py'}:robot", "parameters": {}}
    with pytest.raises(InvalidRequest, match="damping is -1 N m s; the permitted range is from 0 N m s on"):
        bad(**own, ranges={"damping": (-1.0, 1.0)})


STILL = np.zeros((2, 1))


def acted(action: Any, **more: Any) -> None:
    env = bad(**more)
    env.reset(seed=0)
    env.step(action)


def single(action: Any) -> None:
    env = Environment(TASK)
    env.reset(seed=0)
    env.step(action)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (lambda: acted([[0.0], [np.nan]]), "action 0 of environment 1 is nan; it must be finite"),
        (lambda: acted(np.zeros((2, 3))), r"actions have shape \(2, 3\); for 'rotary_pendulum' it must be \(2, 1\)"),
        (lambda: acted(STILL, reward=lambda m, a: -(m.q**2).sum()), r"reward returned the shape \(\) for 4 systems"),
        (lambda: acted(STILL, reward=lambda m, a: m.time * np.nan), "reward returned nan for environment 0"),
        (lambda: acted(STILL, fails=lambda m: (m.q > 9).any()), r"fails returned the shape \(\) for 4 systems"),
        (lambda: bad().step(np.zeros((2, 1))), "step was called before reset"),
        (lambda: bad(ranges={"arm_damping": (2.0, 1.0)}), "'arm_damping' is 2 to 1"),
        (lambda: bad(ranges={"arm_damping": (-1.0, 1.0)}), "is -1 N m s; it must not be negative"),
        (lambda: bad(ranges={"arm_dampin": (0.0, 1.0)}), "tunable 'arm_dampin'"),
        (lambda: bad(backend="torch"), "backend is 'torch'"),
        (lambda: bad(render_mode="human"), "render_mode is 'human'"),
        (lambda: bad(links={"state": {"delay": 3.0}}), "links: 'state'"),
        (lambda: bad(links={"state": {"delay_ms": -1.0}}), "links: 'state': key 'delay_ms' is -1.0, not in 0"),
        (lambda: bad(links={"state": 3.0}), "links: 'state' is 3.0; it must be a table"),
        (lambda: bad(ranges={"arm_damping": 1.0}), "'arm_damping' is 1.0; it must be two finite numbers"),
        (lambda: bad(ranges={"arm_damping": (0.0, np.inf)}), "it must be two finite numbers"),
        (lambda: bad(links={"stat": {}}), "signal 'stat'"),
        (lambda: bad(noise={"arm": (0.1,)}), "noise: 'arm'"),
        (lambda: bad(duration=3.0), "field 'duration'"),
        (lambda: bad(steps=0), "steps is 0"),
        (lambda: bad(largest=[1.0, 2.0]), "must be 1 finite numbers above 0"),
        (lambda: bad(parameters={}), "is in absolute coordinates"),
        (
            lambda: bad(reward=lambda m, a: (m.q**2).sum(axis=1)),
            r"returned the shape \(2,\) for 4 systems; it must be \(4,\)",
        ),
        (lambda: bad(reward=lambda m, a: 0.0), r"reward returned the shape \(\) for 4 systems; it must be \(4,\)"),
        (lambda: bad(reward=lambda m, a: ["good"] * 4), "the result of reward is .*; it must be an array of numbers"),
        (
            lambda: acted(STILL, reward=lambda m, a: 0.0 if (m.time > 0.0).any() else m.time),
            r"reward returned the shape \(\) for 2 systems; it must be \(2,\)",
        ),
        (lambda: bad(fails=lambda m: m.q[0]), "fails returned float64; it must be booleans"),
        (
            lambda: bad(observe=lambda m: m.q[0]),
            r"observe returned the shape \(4,\) for 4 systems; it must be \(k, 4\)",
        ),
        (lambda: single([0.0, 0.0]), r"the action has the shape \(2,\); for 'rotary_pendulum' it must be \(1,\)"),
        (lambda: acted([["left"], ["right"]]), "the array of actions is .*; it must be an array of numbers"),
        (lambda: acted(STILL, start=lambda random: np.zeros(2)), "start returned array.*; it must be a pair q, v"),
        (lambda: bad(limits=(1.0, 1.0, 1.0, 1.0, -1.0)), r"limits is .*; each must be above 0"),
        (lambda: VectorEnvironment(TASK, 2.5), "num_envs is 2.5; it must be a whole number"),  # type: ignore[arg-type]
        (lambda: bad(limits=(1.0,)), r"limits has shape \(1,\); observe returns 5 values"),
    ],
)
def test_bad_input_is_refused_in_one_line(request_: Any, line: str) -> None:
    with pytest.raises(InvalidRequest, match=line) as error:
        request_()
    assert "\n" not in str(error.value)


RAIL = """
from armswing.mechanism import Actuator, Anchored, Body, ConstraintMode, Crossing, Joint, Mechanism

def robot():
    axis = (1.0, 0.0, 0.0)
    return Mechanism(
        name="rail",
        coordinates="joint",
        bodies=(Body(name="block", mass=2.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="slide", kind="prismatic", child="block", axis=axis),),
        constraints=(Anchored(name="stop", body="block", point=(0.0, 0.0, 0.0), axis=axis, at=0.5),),
        actuators=(Actuator(name="push", joint="slide", unit="N"),),
        constraint_modes=(
            ConstraintMode(name="free", constraints=()), ConstraintMode(name="stopped", constraints=("stop",))
        ),
        guards=(Crossing(name="hit", body="block", axis=axis, level=0.5, source="free", target="stopped"),),
        initial_q=(0.0,),
        initial_v=(1.0,),
    )
"""


def test_robots_with_beams_run_as_simulations_and_lanes_refuse_them() -> None:
    own: dict[str, Any] = {
        "robot": "lipinski_pendulum",
        "parameters": {"modes": 2, "elements": 8},
        "observe": lambda m: np.concatenate([m.q, m.v]),
        "reward": lambda m, a: m.q[0],
        "start": None,
        "fails": lambda m: m.time < 0.0,
        "limits": None,
        "largest": None,
    }
    env = VectorEnvironment(TASK, 2, backend="simulation", **own)
    env.reset(seed=0)
    for _ in range(3):
        found = env.step(np.zeros((2, 0)))[0]
    sim = Simulation(env.world.system, step_s=TASK.step_s, stepper="rk4", stabilizer="none")
    sim.step(3 * TASK.steps)
    assert found.tolist() == [[*sim.state.q, *sim.state.v]] * 2
    with pytest.raises(InvalidRequest, match="'lipinski_pendulum' has beams, which a batch does not support"):
        VectorEnvironment(TASK, 2, **own)


def test_robots_whose_constraints_switch_run_as_simulations(tmp_path: Path) -> None:
    """The block is caught half a metre away, in each of two episodes; lanes refuse its guards."""
    (tmp_path / "rail.py").write_text(RAIL)
    own: dict[str, Any] = {
        "robot": f"{tmp_path / 'rail.py'}:robot",
        "parameters": {},
        "observe": lambda m: np.concatenate([m.q, m.v]),
        "reward": lambda m, a: m.q[0],
        "start": lambda random: ([0.0], [random.uniform(1.0, 2.0)]),
        "fails": lambda m: m.time < 0.0,
        "limits": None,
        "largest": [1.0],
        "duration_s": 0.8,
    }
    env = VectorEnvironment(TASK, 2, backend="simulation", autoreset_mode=AutoresetMode.SAME_STEP, **own)
    env.reset(seed=0)
    for _ in range(2):
        for _ in range(80):
            infos = env.step(np.zeros((2, 1)))[4]
        np.testing.assert_allclose(infos["final_obs"], [[0.5, 0.0]] * 2, atol=2e-3)
    with pytest.raises(InvalidRequest, match="'rail' has guards, which a batch does not check; use a Simulation"):
        VectorEnvironment(TASK, 2, **own)

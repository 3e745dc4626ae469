"""A policy acts in an environment as in a launch in lockstep, with the same delays, jitter and losses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armswing import NodePlan, Plan, SimPlan, open_run
from armswing.environments import ROTARY_PENDULUM, PolicyNode, VectorEnvironment
from nodes.framework.plan.launch_plan import LinkPlan

TASK = dataclasses.replace(ROTARY_PENDULUM, start=None, duration_s=10.0)
SEED, ACTIONS = 11, 60
Array = np.ndarray


class Feedback(PolicyNode):
    """Action by the observations, the weights being gains."""

    task = TASK
    shape = (5,)

    def on_start(self, context: Any) -> Any:
        self.seen: list[Array] = []
        return super().on_start(context)

    def act(self, weights: Array, observation: Array) -> Array:
        self.seen.append(observation)
        return np.array([np.tanh(weights @ observation + 0.3)])


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "policy.npz")
    np.savez(path, weights=np.array([-0.5, 0.2, 0.7, 0.01, 0.03]))
    return path


def launched(file: str, seed: int, link: dict[str, float]) -> tuple[Array, Array]:
    """(observations (k, 5), last state (4,)) of the policy in a launch in lockstep."""
    sim = SimPlan(robot=TASK.robot, parameters=dict(TASK.parameters), mode="lockstep", step_ms=1.0, stabilizer="none")
    node = NodePlan(name="policy", run=f"{__file__}:Feedback", params={"file": file}, link=LinkPlan(**link))
    plan = Plan(name="policy", sim=sim, nodes=[node], seed=seed)
    with open_run(plan, nodes={"policy": Feedback}) as run:
        run.step(ACTIONS * TASK.steps)
        state = run.server.simulation.state
        return np.array(run.nodes["policy"].node.seen), np.concatenate([state.q, state.v])


def in_environment(file: str, n: int, link: dict[str, float], **more: Any) -> tuple[Array, Array]:
    """(observations (k, n, 5), last states (4, n)) of the policy in n environments."""
    links = {"state": link, "command": link} if link else {}
    env = VectorEnvironment(TASK, n, links=links, **more)
    weights = np.load(file)["weights"]
    observation, _ = env.reset(seed=SEED)
    seen = []
    for _ in range(ACTIONS):
        seen.append(observation)
        action = np.array([[np.tanh(weights @ row + 0.3)] for row in observation])
        observation = env.step(action)[0]
    motion = env.world.systems.motion()
    return np.array(seen), np.concatenate([motion.q, motion.v])


def test_a_policy_has_the_same_bytes_as_environment_and_in_lockstep(file: str) -> None:
    wanted, last = launched(file, SEED, {})
    seen, end = in_environment(file, 1, {}, backend="simulation")
    assert seen[:, 0].tobytes() == wanted.tobytes()
    assert end[:, 0].tobytes() == last.tobytes()


@pytest.mark.parametrize(
    "link",
    [
        {"delay_ms": 4.0},
        {"delay_ms": 12.5},
        {"delay_ms": 3.0, "jitter_ms": 8.0},
        {"delay_ms": 2.0, "jitter_ms": 5.0, "loss": 0.2},
    ],
)
def test_delays_of_environments_are_those_of_a_launch_with_this_link(file: str, link: dict[str, float]) -> None:
    """Environment i has the delays of a launch with the seed SEED + i: same bytes; in lanes, up to roundings."""
    exact, ends = in_environment(file, 3, link, backend="simulation")
    close, _ = in_environment(file, 3, link)
    np.testing.assert_allclose(close, exact, rtol=0, atol=1e-9)
    for i in range(3):
        wanted, last = launched(file, SEED + i, link)
        late = len(exact) - len(wanted)  # actions before the first state has arrived
        assert 0 <= late <= 3
        assert exact[late:, i].tobytes() == wanted.tobytes()
        assert ends[:, i].tobytes() == last.tobytes()


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({}, "give either `file` or `weights`"),
        ({"weights": [1.0, 2.0]}, "there are 2 weights; they must be 5 finite numbers"),
        ({"file": "nowhere.npz"}, "'nowhere.npz' cannot be read"),
        ({"file": "short.npz"}, r"have shape \(3,\); it must be \(5,\)"),
        ({"file": "nan.npz"}, "the weights in 'nan.npz' are not all finite"),
        ({"file": "other.npz"}, "has no array 'weights'"),
    ],
)
def test_weights_that_do_not_fit_the_policy_are_refused_in_one_line(
    params: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("short.npz", weights=np.zeros(3))
    np.savez("other.npz", gains=np.zeros(5))
    np.savez("nan.npz", weights=np.full(5, np.nan))
    sim = SimPlan(robot=TASK.robot, parameters=dict(TASK.parameters), mode="lockstep")
    plan = Plan(name="policy", sim=sim, nodes=[NodePlan(name="policy", run=f"{__file__}:Feedback", params=params)])
    with pytest.raises(ValueError, match=line) as error, open_run(plan, nodes={"policy": Feedback}):
        pass
    assert "\n" not in str(error.value)

"""An environment of a live launch: it moves the robot only by its actions, and a lost link is safe."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armswing import load_plan, open_run
from armswing.environments import ROTARY_PENDULUM, VectorEnvironment
from nodes.framework.client import Client
from sim_core.errors import InvalidRequest

TASK = dataclasses.replace(ROTARY_PENDULUM, start=None)
WATCHDOG_MS = 30.0
EXAMPLE = Path(__file__).resolve().parents[3] / "launch/examples/learnt_swing_up.py"
ACTIONS = 100  # a second
LAUNCH = """
[sim]
robot = "rotary_pendulum"
parameters = {{ coordinates = "joint", start_deg = {start}, torque_limit = 0.05 }}
mode = "{mode}"
step_ms = 1.0
stabilizer = "none"
watchdog_ms = {watchdog}

[[nodes]]
name = "port"
run = "nodes/action_port.py:ActionPort"
"""


def launch(ground: Any, mode: str, start_deg: float = 0.0) -> None:
    path = Path(ground.folder) / "wire.toml"
    path.write_text(LAUNCH.format(mode=mode, start=start_deg, watchdog=WATCHDOG_MS if mode == "realtime" else 0.0))
    ground.wait_until_running(ground.start("launch", path), 2)


def back_to_start(client: Client) -> None:
    client.call("sim", "reset")


def test_the_learnt_policy_is_the_same_as_environment_in_lockstep_and_over_the_wire(ground: Any) -> None:
    """One file with one set of weights: same bytes in the first two, up to roundings over the wire in lockstep."""
    plan = load_plan(EXAMPLE.with_suffix(".toml"))
    weights = np.array(plan.nodes[0].params["weights"])[:, None]
    act = runpy.run_path(str(EXAMPLE))["act"]
    task = dataclasses.replace(ROTARY_PENDULUM, start=None, parameters=dict(plan.sim.parameters))

    def moved(env: VectorEnvironment) -> np.ndarray:
        observation, _ = env.reset(seed=0)
        seen = [observation[0]]
        for _ in range(ACTIONS):
            observation = env.step(act(weights, observation.T).T)[0]
            seen.append(observation[0])
        return np.array(seen)

    inside = VectorEnvironment(task, 1, backend="simulation")
    wanted = moved(inside)
    with open_run(plan) as run:
        run.step(ACTIONS * task.steps)
        state, motion = run.server.simulation.state, inside.world.systems.motion()
        assert (state.q.tobytes(), state.v.tobytes()) == (motion.q.tobytes(), motion.v.tobytes())
    launch(ground, "lockstep", start_deg=3.0)
    with Client() as client:
        client.call("sim", "pause")
    np.testing.assert_allclose(
        moved(VectorEnvironment(task, 1, backend="wire", procedure=back_to_start)), wanted, rtol=0, atol=1e-9
    )
    assert np.abs(wanted[-1] - wanted[0]).max() > 1.0


def lost_links(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the link of the emulated robot behind guard and driver: it is stopped, and moves by its actions only."""
    benchmarks = Path(__file__).resolve().parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(benchmarks))
    figures = runpy.run_path(str(benchmarks / "lost_links.py"))["measured"](count)
    assert figures["losses"] == count
    assert figures["idle_effort"] == figures["idle_speed"] == 0.0
    assert figures["moved"] > 0


def test_a_lost_link_is_safe_and_a_reset_moves_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    lost_links(4, monkeypatch)


@pytest.mark.soak
def test_a_hundred_lost_links_are_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    lost_links(100, monkeypatch)


def test_a_late_reply_ends_the_episode(ground: Any, until: Callable[..., None]) -> None:
    launch(ground, "realtime")
    env = VectorEnvironment(TASK, 1, backend="wire", procedure=back_to_start, autoreset_mode="Disabled")
    env.reset(seed=0)
    with Client() as client:
        client.call("sim", "pause")  # no state arrives any more
        _, _, terminated, truncated, infos = env.step(np.ones((1, 1)))
        assert truncated[0]
        assert not terminated[0]
        assert infos["late"][0]
        with pytest.raises(InvalidRequest, match="environment 0 has ended"):
            env.step(np.ones((1, 1)))
        client.call("sim", "resume")
        until(lambda: client.call("sim", "snapshot")["u"] == [0.0], 5.0)


def test_what_the_wire_has_not_is_refused(ground: Any) -> None:
    launch(ground, "realtime")
    for more, line in (
        ({"num_envs": 2}, "num_envs is 2; with backend='wire' it must be 1"),
        ({"ranges": {"arm_damping": (0.0, 1.0)}}, "backend='wire' has no ranges"),
        ({"noise": {"arm": (0.1, 0.1)}}, "backend='wire' has no noise"),
        (
            {"robot": "arm_2dof", "parameters": {}},
            r"the robot of the launch has the joints \['arm', 'pendulum'\]; the task's has \['joint_2', 'joint_4'\]",
        ),
    ):
        with pytest.raises(InvalidRequest, match=line):
            VectorEnvironment(TASK, backend="wire", **more)

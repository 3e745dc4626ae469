"""An environment of a live launch: it moves the robot only by its actions, and a lost link is safe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armswing.environments import ROTARY_PENDULUM, VectorEnvironment
from nodes.framework.client import Client
from sim_core.errors import InvalidRequest

TASK = dataclasses.replace(ROTARY_PENDULUM, start=None)
WATCHDOG_MS = 30.0
LIFE_MS = 10.0 + 50.0  # of an action
LAUNCH = """
[sim]
robot = "rotary_pendulum"
parameters = {{ coordinates = "joint", start_deg = 0.0, torque_limit = 0.05 }}
mode = "{mode}"
step_ms = 1.0
stabilizer = "none"
watchdog_ms = {watchdog}

[[nodes]]
name = "port"
run = "nodes/action_port.py:ActionPort"
"""


def launch(ground: Any, mode: str) -> None:
    path = Path(ground.folder) / "wire.toml"
    path.write_text(LAUNCH.format(mode=mode, watchdog=WATCHDOG_MS if mode == "realtime" else 0.0))
    ground.wait_until_running(ground.start("launch", path), 2)


def back_to_start(client: Client) -> None:
    client.call("sim", "reset")


def test_the_wire_in_lockstep_is_the_simulation(ground: Any) -> None:
    launch(ground, "lockstep")
    with Client() as client:
        client.call("sim", "pause")
    wire = VectorEnvironment(TASK, 1, backend="wire", procedure=back_to_start)
    inside = VectorEnvironment(TASK, 1, backend="simulation")
    found, wanted = (env.reset(seed=0)[0] for env in (wire, inside))
    np.testing.assert_array_equal(found, wanted)
    for action in np.random.default_rng(3).uniform(-1.0, 1.0, (20, 1, 1)):
        found, wanted = wire.step(action)[0], inside.step(action)[0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def lost_links(ground: Any, wait_for: Callable[..., None], count: int) -> None:
    """Act, lose the link `count` times: within the action's life and the watchdog's time, no effort is left."""
    launch(ground, "realtime")
    with Client() as client:
        refused = VectorEnvironment(TASK, 1, backend="wire")
        tick = client.sim_status()["time"]
        with pytest.raises(InvalidRequest, match="a reset over the wire would have to move the robot"):
            refused.reset(seed=0)
        assert client.sim_status()["time"] >= tick  # no reset of the simulation either
        env = VectorEnvironment(TASK, 1, backend="wire", procedure=back_to_start)
        for _ in range(count):
            env.reset(seed=0)
            assert client.call("sim", "snapshot")["u"] == [0.0]  # still, until the first action
            for _ in range(3):
                _, _, _, truncated, infos = env.step(np.ones((1, 1)))
                if truncated[0]:
                    assert infos["late"][0]
                    break

            def is_safe() -> bool:
                return bool(client.call("sim", "snapshot")["u"] == [0.0])

            wait_for(is_safe, 5.0)
            at = client.call("sim", "snapshot")["tick"]
            wait_for(lambda at=at: client.call("sim", "snapshot")["tick"] > at + 50, 5.0)
            assert is_safe()
        assert client.sim_status()["watchdog_trips"] >= 1


def test_a_lost_link_is_safe_and_a_reset_moves_nothing_by_itself(ground: Any, until: Callable[..., None]) -> None:
    lost_links(ground, until, 4)


@pytest.mark.soak
def test_a_hundred_lost_links_are_safe(ground: Any, until: Callable[..., None]) -> None:
    lost_links(ground, until, 100)


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
    ):
        with pytest.raises(InvalidRequest, match=line):
            VectorEnvironment(TASK, backend="wire", **more)

"""The example learns the swing-up in lanes, and what it learnt swings up the pendulum of a launch."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from armswing import load_plan, open_run

FOLDER = Path(__file__).resolve().parents[3] / "launch/examples"


def learnt(seed: int) -> tuple[list[str], list[float]]:
    """What the training said, and the weights."""
    said: list[str] = []
    weights = runpy.run_path(str(FOLDER / "learnt_swing_up.py"))["train"](seed, generations=40, say=said.append)
    return said, weights.tolist()


def test_a_learnt_policy_stands_from_ten_starts_and_in_a_launch() -> None:
    said, weights = learnt(1)
    assert "10 of 10 stand" in said[-1]
    assert learnt(1)[1] == weights
    plan = load_plan(FOLDER / "learnt_swing_up.toml", [f"policy.weights={weights}"])
    with open_run(plan) as run:
        run.step(4000)
        for _ in range(100):
            run.step(10)
            angle = float(run.server.simulation.state.q[1])
            assert abs(math.remainder(angle - math.pi, 2.0 * math.pi)) < math.radians(10.0)


def test_the_weights_of_the_launch_file_swing_up() -> None:
    with open_run(FOLDER / "learnt_swing_up.toml") as run:
        run.run()
        assert run.server.status()["milestones"]["upright"] is not None


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_swing_up_is_learnt_from_three_seeds(seed: int) -> None:
    said, weights = learnt(seed)
    assert "10 of 10 stand" in said[-1]
    assert np.isfinite(weights).all()

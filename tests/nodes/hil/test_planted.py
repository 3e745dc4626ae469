"""Planted conditions of the robot and of its channels have the outcome of the table in planted.py, and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.nodes.hil.planted import CONDITIONS, Runs

SEEDS = (1, 2, 3)
SAMPLED = 8  # errors of channels, which share a run
CHANNELS = [name for name, each in CONDITIONS.items() if each.plant is not None]
ROBOTS = [name for name, each in CONDITIONS.items() if each.plant is None and each.settings]


def test_there_are_60_conditions() -> None:
    assert len(CONDITIONS) >= 60


def test_a_sample_of_planted_conditions_has_the_right_outcome(tmp_path: Path) -> None:
    random = np.random.default_rng(35)
    runs = Runs(tmp_path)
    names = ["nothing", *random.choice(CHANNELS, SAMPLED, replace=False), *random.choice(ROBOTS, 1)]
    assert {name: runs.outcome(str(name), 1) for name in names} == {name: CONDITIONS[name].right for name in names}


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_every_planted_condition_has_the_right_outcome(seed: int, tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    found = {name: runs.outcome(name, seed) for name in CONDITIONS}
    assert found == {name: each.right for name, each in CONDITIONS.items()}

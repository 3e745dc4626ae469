"""Intervals of a fit contain what is planted in the emulated arm, and a fit does not find what is not planted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nodes.hil.fitting.planted_fits import CELLS, EmulatedArm, Planted, coverage, judged, planted

SAMPLE, RUNS = ("delay", "mass gain", "friction zero"), 100


@pytest.fixture(scope="module")
def arm() -> EmulatedArm:
    return EmulatedArm()


def test_the_arm_moves_as_in_the_launch_file(arm: EmulatedArm) -> None:
    recorded = arm.recorded(Planted("mass", 1, {}))
    np.testing.assert_array_equal(recorded.time, arm.measured["timestamp"])
    np.testing.assert_array_equal(recorded.q, arm.measured["position"])


def test_intervals_contain_what_is_planted_in_a_sample(arm: EmulatedArm) -> None:
    found = {cell: judged(arm, planted(cell, 1)) for cell in SAMPLE}
    assert coverage(list(found.values())) >= 0.85
    for cell, each in found.items():
        assert each.finds, cell
        assert len(each.false) <= 1, cell


@pytest.mark.soak
def test_intervals_hold_and_false_finds_are_rare_in_all_cells(arm: EmulatedArm) -> None:
    found = [judged(arm, planted(CELLS[number % len(CELLS)], number)) for number in range(RUNS)]
    assert 0.90 <= coverage(found) <= 0.97
    assert np.mean([bool(each.false) for each in found]) <= 0.1

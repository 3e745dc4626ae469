"""What play in a gear keeps from a joint, and which play fits a residual."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose
from nodes.hil.identification.backlash import CROSSINGS_S, best_crossing, missing_efforts
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, Verdict, limits_of

ROOT = Path(__file__).resolve().parents[3]

TIME = np.arange(0.0, 2.0, 1e-3)
EFFORT = np.stack([np.sin(2.0 * np.pi * 3.0 * TIME), np.ones_like(TIME)], axis=1)  # changes sign each 1/6 s; never
EVERY = [slice(0, len(TIME))]


def test_an_effort_is_missing_after_each_change_of_its_sign_until_the_play_is_crossed() -> None:
    lost = missing_efforts(EFFORT, TIME, EVERY)
    assert lost.shape == (len(CROSSINGS_S), len(TIME), 2)
    assert not lost[:, :, 1].any()
    crossing = 8
    free = lost[crossing, :, 0] != 0.0
    assert np.array_equal(lost[crossing, free, 0], -EFFORT[free, 0])
    half_period = free[(TIME > 1.0 / 6.0) & (TIME < 1.0 / 3.0)]
    steps = int(half_period.sum())
    assert half_period[:steps].all()  # at its beginning
    assert abs(steps * 1e-3 - CROSSINGS_S[crossing]) <= 2e-3


def test_parts_of_a_recording_begin_anew() -> None:
    parts = [slice(0, 900), slice(900, len(TIME))]
    lost = missing_efforts(EFFORT, TIME, parts)
    alone = missing_efforts(EFFORT[900:], TIME[900:], [slice(0, len(TIME) - 900)])
    assert np.array_equal(lost[:, 900:], alone)


def test_the_play_that_was_planted_fits_best() -> None:
    columns = missing_efforts(EFFORT, TIME, EVERY)[:, :, 0]
    for planted in (3, 9, 12):
        assert best_crossing(columns, columns[planted]) == planted


def test_an_effort_that_is_lost_in_part_or_gained_is_no_play() -> None:
    columns = missing_efforts(EFFORT, TIME, EVERY)[:, :, 0]
    for share in (0.05, -1.0):
        assert best_crossing(columns[9:10], share * columns[9]) is None
    assert best_crossing(columns, np.zeros_like(TIME)) is None


def composed(tmp_path: Path, *settings: str) -> Verdict:
    """The report's verdict on launch/hil_robot.toml in lockstep with these settings."""
    file = tmp_path / "run.mcap"
    with compose(load_plan(ROOT / "launch/hil_robot.toml", [*settings, f"recorder.file={file}"])) as composition:
        composition.run()
    case = read_case(file, None)
    return Compared(case, limits_of(case, {})).verdict


@pytest.mark.parametrize(("joint", "seed"), [("joint_2", 1), ("joint_2", 2), ("joint_4", 3)])
def test_half_a_degree_of_play_is_named_although_it_is_crossed_in_two_samples(
    joint: str, seed: int, tmp_path: Path
) -> None:
    verdict = composed(tmp_path, f"hardware.backlash.{joint}={math.radians(0.5)}", f"seed={seed}")
    (finding,) = verdict.findings
    assert (finding.kind, finding.of) == ("backlash", joint)
    assert finding.value == pytest.approx(math.radians(0.5), abs=3e-3)  # at take_up_rate, 1 rad/s


@pytest.mark.parametrize("seed", [1, 2, 46])
def test_nothing_planted_names_nothing(seed: int, tmp_path: Path) -> None:
    verdict = composed(tmp_path, f"seed={seed}")
    assert (verdict.passed, verdict.findings) == (True, [])


@pytest.mark.soak
def test_nothing_planted_names_nothing_in_100_runs(tmp_path: Path) -> None:
    for seed in range(100):
        verdict = composed(tmp_path, f"seed={seed}")
        assert (seed, verdict.passed, verdict.findings) == (seed, True, [])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_heavier_link_is_named_beside_a_delay_of_the_commands(seed: int, tmp_path: Path) -> None:
    verdict = composed(tmp_path, "hardware.mass.link_10=0.05", "hardware.command_delay_ms=10", f"seed={seed}")
    named = {(finding.kind, finding.of): finding.value for finding in verdict.findings}
    assert set(named) == {("delay", ""), ("mass", "link_10")}
    assert named["delay", ""] == pytest.approx(0.01, abs=5e-4)
    assert named["mass", "link_10"] == pytest.approx(0.05, abs=3e-3)


def test_a_light_link_that_is_heavier_is_named_with_what_this_motion_does_not_tell_it_from(tmp_path: Path) -> None:
    verdict = composed(tmp_path, "hardware.mass.link_8=0.05", "hardware.command_delay_ms=10", "seed=0")
    mass = next(finding for finding in verdict.findings if finding.kind == "mass")
    assert (mass.of, mass.failed) == ("link_8", True)
    assert mass.value == pytest.approx(0.05, abs=1e-2)
    assert "does not distinguish it from mass of link_9" in mass.text

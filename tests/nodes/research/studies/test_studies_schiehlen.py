"""`armswing reproduce schiehlen`: its formulas, verdicts and pages."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest

from nodes.research.studies.framework import executors, report
from nodes.research.studies.framework.claims import Verdict
from nodes.research.studies.framework.study import Results, Study
from nodes.research.studies.schiehlen import schiehlen_figures as draw
from nodes.research.studies.schiehlen import schiehlen_study as schiehlen
from nodes.research.studies.schiehlen.schiehlen_runs import (
    EXAMPLE,
    boundary_energy,
    double,
    is2_of_single,
    least_radius,
    other_peaks,
)
from sim_core.analysis.stability import measure


def quiet(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def carried_out() -> tuple[Study, Results]:
    study = schiehlen.study(spans="tiny")
    return study, executors.carry_out(study, 0, quiet)


def test_the_least_radius_is_that_of_the_energies() -> None:
    """At it, the start of most energy has that of the lower mass upright below the resting upper one."""
    r = least_radius()
    assert r == pytest.approx(0.71269, abs=5e-6)
    system, start = double(), np.full(2, r)
    highest = sum(system.energy(0.0, [0.0, math.pi], [0.0, 0.0]))
    assert sum(system.energy(0.0, start, start)) == pytest.approx(highest, abs=1e-9)
    random = np.random.default_rng(2)
    for state in random.uniform(-r, r, (200, 4)):
        assert sum(system.energy(0.0, state[:2], state[2:])) <= highest
    assert boundary_energy(0.72) > 0 > boundary_energy(0.71)


def test_the_other_integrator_finds_the_same_peaks() -> None:
    ours = measure(double(), [EXAMPLE], seconds=5.0, time_unit_s=1.0).distances
    np.testing.assert_allclose(other_peaks(np.array([EXAMPLE]), 5.0, 0.002), ours, atol=1e-5)


def test_the_closed_form_ends_where_the_pendulum_tumbles() -> None:
    assert is2_of_single(1.4781) == pytest.approx(math.pi / 1.4781, rel=0.02)
    assert is2_of_single(1.4782) == math.inf


def test_claims_are_judged_by_their_figures(carried_out: tuple[Study, Results]) -> None:
    study, results = carried_out

    def verdict(results: Results, key: str, reading: int = 0) -> Verdict:
        (claim,) = (claim for claim in study.claims if claim.key == key)
        return claim.findings(results)[reading].verdict

    for key in ("single IS2", "critical radius", "single IS1", "velocities"):
        assert verdict(results, key) == Verdict.REPRODUCED
    assert verdict(results, "example") == Verdict.CHECKED
    spoiled = copy.deepcopy(results)
    spoiled.parts["example"]["other"][0] += 1e-3
    spoiled.parts["map"]["share"] += 0.9
    spoiled.parts["single map"]["difference"] = 1e-3
    spoiled.parts["boundary"]["above"]["tumbles"] = True
    assert verdict(spoiled, "example") == Verdict.NOT_REPRODUCED
    assert verdict(spoiled, "share") == Verdict.FAILS
    assert verdict(spoiled, "single IS1") == Verdict.NOT_REPRODUCED
    assert verdict(spoiled, "boundary") == Verdict.REPRODUCED
    assert verdict(spoiled, "chaos", 1) == Verdict.NOT_REPRODUCED
    spoiled.parts["boundary"]["above"]["tumbles"] = False
    assert verdict(spoiled, "chaos", 1) == Verdict.OPEN


def test_a_quick_study_marks_only_the_verdicts_that_stand_on_shortened_parts(
    carried_out: tuple[Study, Results],
) -> None:
    quick = schiehlen.study(quick=True)
    marked = {
        entry.claim.key for entry in carried_out[1].judged(quick) if any("may change" in note for note in entry.notes)
    }
    every = {claim.key for claim in quick.claims}
    assert every - marked == {"example", "boundary", "chaos", "initial conditions"}


def test_the_crosses_of_motions_that_tumble_are_explained() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    curve = {"r": [0.5, 1.0], "is2": [1.2, 122.1], "tumbles": [False, True]}
    draw.is2_single(Results({}, {}, {"single curve": curve}), figure)
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert "tumbles; its IS2 is in the table only" in labels


def test_the_page_has_figures_2_to_9(carried_out: tuple[Study, Results], tmp_path: Path) -> None:
    study, results = carried_out
    report.write(study, results, tmp_path, quiet)
    page = (tmp_path / "index.html").read_text()
    for number in range(2, 10):
        assert f"Figure {number}:" in page
    assert "0.71269" in page
    assert "A distance is the largest component (maximum norm)." in page
    (own,) = [line for line in page.splitlines() if "our own claim" in line]
    assert 'id="claim-share"' in own  # 0.726 is no figure of the paper
    assert len(list((tmp_path / "plots").glob("*.png"))) == 8

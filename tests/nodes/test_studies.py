"""`armswing reproduce`: the rules behind the verdicts, what a study's folder holds, and that numbers come out again."""

from __future__ import annotations

import csv
import importlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.runtime.cli.application import run as command
from nodes.studies import claims, crew, report, tables
from nodes.studies.claims import Finding, Verdict
from nodes.studies.methods import DOPRI5, NONE, RK4, SAMPLED
from nodes.studies.runs import Method, Outcome, Run, execute
from nodes.studies.study import Results, Study

PAPERS = ("lipinski", "man", "nada")
MOST_CURVES = 7
pytestmark = pytest.mark.timeout(600)  # a loaded machine runs every simulation and draws every picture


def study_of(paper: str) -> Study:
    found: Study = importlib.import_module(f"nodes.studies.{paper}").study(spans="tiny")
    return found


def quiet(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def carried_out() -> dict[str, tuple[Study, Results]]:
    found = {}
    for paper in PAPERS:
        study = study_of(paper)
        found[paper] = study, crew.carry_out(study, 1, quiet)
    return found


@pytest.fixture(scope="module")
def folders(carried_out: dict[str, tuple[Study, Results]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for paper, (study, results) in carried_out.items():
        found[paper] = tmp_path_factory.mktemp(paper)
        report.write(study, results, found[paper], quiet)
    return found


# -- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (np.ones(100), 1.0),
        (np.linspace(0.0, 1.0, 101), 0.95 / 0.145),
        (np.zeros(50), 1.0),
        (np.r_[np.zeros(50), np.ones(50)], math.inf),
        (np.array([2.0, 8.0]), 4.0),
        (np.array([3.0]), 1.0),
    ],
)
def test_growth_is_the_last_tenth_over_the_second(series: np.ndarray, expected: float) -> None:
    assert claims.growth(series) == pytest.approx(expected, rel=0.02)


def test_a_decaying_oscillation_settles_when_its_envelope_passes_a_tenth() -> None:
    t = np.linspace(0.0, 10.0, 10_001)
    decaying = np.exp(-t) * np.cos(40 * t)
    assert claims.settled_share(t, decaying) == pytest.approx(math.log(10.0) / 10.0, abs=0.01)
    assert claims.settled_share(t, np.cos(40 * t)) == pytest.approx(1.0, abs=0.01)
    assert claims.settled_share(t, np.zeros_like(t)) == 0.0
    assert claims.settled_share(t, t) == 1.0


def test_a_lost_run_holds_for_a_share_of_its_time() -> None:
    assert claims.held_share(None, 20.0) == 1.0
    assert claims.held_share(5.0, 20.0) == 0.25


def test_motions_part_when_any_coordinate_does() -> None:
    t = np.linspace(0.0, 1.0, 11)
    one = np.zeros((11, 2))
    other = np.stack([np.zeros(11), t], axis=1)
    assert claims.parting_time(t, one, other, 0.45) == pytest.approx(0.5)
    assert claims.parting_time(t, one, other, 2.0) is None


def test_series_are_compared_at_the_instants_they_share() -> None:
    coarse = Outcome(np.array([0.0, 0.3]), np.zeros(2), np.zeros(2), {"x": np.array([[1.0], [4.0]])})
    fine = Outcome(np.array([0.0, 0.1, 0.2, 0.1 + 0.2]), np.zeros(4), np.zeros(4), {"x": np.arange(4.0)[:, None]})
    t, one, other = claims.at_common_times(coarse, fine, "x")
    assert t.tolist() == [0.0, 0.3]
    assert one[:, 0].tolist() == [1.0, 4.0]
    assert other[:, 0].tolist() == [0.0, 3.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (3.14e-5, "3.1·10⁻⁵"), (0.25, "0.25"), (42.0, "42"), (512.0, "512"), (6.5e12, "6.5·10¹²")],
)
def test_figures_read_as_a_person_writes_them(value: float, text: str) -> None:
    assert claims.sci(value) == text


# -- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_that_flies_apart_is_lost_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    wild = Method("gains that no step bears", "baumgarte", (("alpha", 1e5), ("beta", 1e5)))
    outcome = execute(Run("wild", "triple_pendulum", RK4, wild, 1e-3, 1.0))
    assert not outcome.held
    assert outcome.lost_at is not None
    assert outcome.lost_at < 1.0
    assert outcome.limit_s < 1e-3
    assert not list(tmp_path.iterdir())


def test_a_run_is_looked_at_from_its_start_to_its_end() -> None:
    outcome = execute(Run("falls", "triple_pendulum", DOPRI5, SAMPLED, 1e-2, 0.5, watch=("bars", "energy")))
    assert outcome.t[[0, -1]].tolist() == [0.0, 0.5]
    assert outcome.watched["bars"].shape == (51, 3)
    assert np.ptp(outcome.watched["energy"]) < 1e-3
    assert outcome.peak_phi >= outcome.phi.max()


def test_what_cannot_be_watched_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot watch 'colour'"):
        execute(Run("falls", "triple_pendulum", RK4, NONE, 1e-2, 0.1, watch=("colour",)))


@pytest.mark.parametrize("paper", PAPERS)
def test_numbers_do_not_depend_on_how_many_processes_there_are(
    paper: str, carried_out: dict[str, tuple[Study, Results]]
) -> None:
    study, first = carried_out[paper]
    second = Results(crew.run_all(study.runs, 2, quiet))
    for table in (
        lambda results: tables.runs_table(study, results),
        lambda results: tables.claims_table(results.judged(study.claims), timed=False),
        lambda results: [row for s in study.sections for p in s.plots for row in tables.curves_table(p, results)],
    ):
        assert tables.as_json(table(first)) == tables.as_json(table(second))
        assert tables.as_csv(table(first)) == tables.as_csv(table(second))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_run_has_a_name_of_its_own(paper: str) -> None:
    names = [(run.key, run.step_s, run.start) for run in study_of(paper).runs]
    assert len(set(names)) == len(names)


# -- folder -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paper", PAPERS)
def test_a_folder_holds_what_its_marker_names(paper: str, folders: dict[str, Path]) -> None:
    folder = folders[paper]
    there = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert there == sorted(json.loads((folder / "study.json").read_text())["files"])


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_needs_nothing_from_elsewhere(paper: str, folders: dict[str, Path]) -> None:
    page = (folders[paper] / "index.html").read_text()
    linked = re.findall(r'(?:src|href)="([^"]+)"', page)
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert linked
    for link in linked:
        if link.startswith("#"):
            assert link[1:] in anchors, link
        else:
            assert (folders[paper] / link).is_file(), link
    assert "@import" not in page
    assert "url(" not in page


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_on_the_page_with_its_verdict_and_its_rule(paper: str, folders: dict[str, Path]) -> None:
    page = (folders[paper] / "index.html").read_text()
    rows = [
        row
        for table in ("claims", "timing_claims")
        for row in json.loads((folders[paper] / f"tables/{table}.json").read_text())
    ]
    assert {row["verdict"] for row in rows} <= set(Verdict)
    assert page.count('<span class="verdict ') == len(rows)
    for row in rows:
        assert row["rule"]
        assert f'id="claim-{row["claim"]}"' in page
        # a verdict stands on measured figures, or says why there is none
        assert row["figures"] or row["verdict"] == Verdict.OPEN or "not part" in row["here"]


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_say_the_same_in_both_formats(paper: str, folders: dict[str, Path]) -> None:
    with (folders[paper] / "tables/runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    plain = json.loads((folders[paper] / "tables/runs.json").read_text())
    assert len(rows) == len(plain) > 10
    assert [float(row["peak_phi"]) if row["peak_phi"] else None for row in rows] == [r["peak_phi"] for r in plain]


@pytest.mark.parametrize("paper", PAPERS)
def test_no_axis_is_crowded_and_every_axis_says_its_unit(
    paper: str, carried_out: dict[str, tuple[Study, Results]]
) -> None:
    from matplotlib.figure import Figure

    study, results = carried_out[paper]
    for plot in (plot for section in study.sections for plot in section.plots):
        figure = Figure(figsize=plot.size)
        plot.draw(results, figure)
        assert figure.axes
        for axis in figure.axes:
            shown = [label for label in axis.get_legend_handles_labels()[1] if not label.startswith("_")]
            assert len(shown) <= MOST_CURVES, (plot.file, shown)
        words = [text for axis in figure.axes for text in (axis.get_xlabel(), axis.get_ylabel()) if text]
        assert all("(" in text or "per simulated second" in text for text in words), (plot.file, words)


def test_another_study_takes_its_predecessors_files_away(
    carried_out: dict[str, tuple[Study, Results]], tmp_path: Path
) -> None:
    import dataclasses

    study, results = carried_out["man"]
    report.write(study, results, tmp_path, quiet)
    shorter = dataclasses.replace(study, sections=study.sections[:1])
    report.write(shorter, results, tmp_path, quiet)
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert there == set(report.files_of(shorter))


def test_a_folder_with_files_of_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert command(["reproduce", "man", "--output", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "notes.txt" in error
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_study_may_be_written_again_beside_notes(folders: dict[str, Path]) -> None:
    note = folders["man"] / "notes.txt"
    note.write_text("mine")
    try:
        assert report.foreign_files(folders["man"], study_of("man")) == []
        assert report.foreign_files(folders["man"], study_of("nada")) == []
    finally:
        note.unlink()


def test_the_command_writes_a_page_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "page"
    line = ["reproduce", "man", "--spans", "tiny", "--workers", "1", "--json", "--output", str(folder)]
    assert command(line) == 0
    captured = capsys.readouterr()
    rows: list[dict[str, Any]] = json.loads(captured.out)
    assert {row["claim"] for row in rows} == {claim.key for claim in study_of("man").claims}
    assert "simulating" in captured.err
    assert (folder / "index.html").is_file()


def test_findings_are_judged_by_figures_not_by_words() -> None:
    assert claims.verdict_of(True) == Verdict.REPRODUCED
    assert claims.verdict_of(False) == Verdict.NOT_REPRODUCED
    assert Finding("any", "words", Verdict.OPEN).figures == {}

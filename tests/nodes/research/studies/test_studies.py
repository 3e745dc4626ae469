"""`armswing reproduce`: the rules behind the verdicts, what a study's folder holds, and that numbers come out again."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import json
import math
import re
import signal
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run as command
from nodes.cli.commands.models.studies import _print as print_verdicts
from nodes.research.pages.style import APPEARANCE
from nodes.research.studies.framework import claims, executors, figures, methods, report, tables
from nodes.research.studies.framework.claims import Finding, Verdict
from nodes.research.studies.framework.methods import ADAMS, DOPRI5, NONE, ODE45, RK4, SAMPLED, TR_BDF2
from nodes.research.studies.framework.runs import Method, Outcome, Run, Stepping, execute, simulation_of
from nodes.research.studies.framework.study import Results, Study

PAPERS = ("lipinski", "man", "nada")
MOST_CURVES = 7


def study_of(paper: str) -> Study:
    found: Study = importlib.import_module(f"nodes.research.studies.{paper}.{paper}_study").study(spans="tiny")
    return found


def quiet(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def carried_out() -> dict[str, tuple[Study, Results]]:
    found = {}
    for paper in PAPERS:
        study = study_of(paper)
        found[paper] = study, executors.carry_out(study, 0, quiet)
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
    [
        *((0.0, "0"), (3.14e-5, "3.1·10⁻⁵"), (0.25, "0.25"), (42.0, "42"), (512.0, "512"), (6.5e12, "6.5·10¹²")),
        *((np.inf, "∞"), (-np.inf, "-∞"), (np.nan, "NaN")),
    ],
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


def test_a_loss_has_the_time_of_its_step_however_long_the_run_was_to_be() -> None:
    wild = Method("gains that no step bears", "baumgarte", (("alpha", 1200.0), ("beta", 50.0)))
    long, short = (execute(Run("wild", "triple_pendulum", RK4, wild, 1.25e-3, span)) for span in (20.0, 2.0))
    assert long.lost_at == short.lost_at == long.t[-1]
    assert (long.reason, long.peak_phi) == (short.reason, short.peak_phi)
    sim, _ = simulation_of(Run("wild", "triple_pendulum", RK4, wild, 1.25e-3, 20.0))
    while sim.peak_violation()[0] <= long.length:
        sim.step()
    assert sim.time == long.lost_at
    assert long.reason == "violation"
    assert long.peak_phi > long.length >= long.phi[:-1].max()


def test_a_solver_that_fails_is_no_violation() -> None:
    hard = Method("stiff", "baumgarte", (("alpha", 2e4), ("beta", 2e4)))
    outcome = execute(Run("hard", "andrews_squeezer", TR_BDF2, hard, 1e-3, 0.1))
    assert not outcome.held
    assert outcome.reason == "solver did not converge"
    assert outcome.peak_phi < outcome.length
    assert outcome.t[-1] == outcome.lost_at


def test_a_short_run_is_the_begin_of_a_long_one() -> None:
    for stepping, step in ((RK4, 1e-3), (ODE45, 5e-2), (ADAMS, 5e-2)):
        short, long = (execute(Run("falls", "triple_pendulum", stepping, NONE, step, span)) for span in (1.0, 2.0))
        n = len(short.t)
        assert n > 2
        assert long.t[:n].tolist() == short.t.tolist()
        assert long.phi[:n].tolist() == short.phi.tolist()


def test_a_cross_stands_where_the_run_was_lost_and_the_curve_ends_there() -> None:
    from matplotlib.figure import Figure

    t = np.linspace(0.0, 0.3, 4)
    blown = Outcome(t, np.array([1e-9, 1e-6, 1e-3, math.inf]), np.ones(4), {"x": np.ones((4, 1))}, lost_at=0.3)
    found = Outcome(t, np.array([1e-9, 1e-6, 1e-3, 0.5]), np.ones(4), {"x": np.zeros((4, 1))}, lost_at=0.3)
    runs = {Run(name, "robot", RK4, NONE, 0.1, 1.0): outcome for name, outcome in (("a", blown), ("b", found))}
    named = [(run.case, run) for run in runs]
    figure = Figure()
    figures.violations(Results(runs), figure, {"column": named})
    axis = figure.axes[0]
    crosses = [line.get_xydata()[0].tolist() for line in axis.get_lines() if line.get_marker() == "x"]
    assert crosses == [[0.3, axis.get_ylim()[1]], [0.3, 0.5]]
    ends = [line.get_xydata()[-1].tolist() for line in axis.get_lines() if line.get_marker() != "x"]
    assert ends == crosses
    axis = Figure().subplots()
    figures.separation(Results(runs), axis, "x", [("pair", *runs)], "rad")
    assert [0.3, 1.0] in [line.get_xydata()[0].tolist() for line in axis.get_lines() if line.get_marker() == "x"]


def test_what_cannot_be_watched_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot watch 'colour'"):
        execute(Run("falls", "triple_pendulum", RK4, NONE, 1e-2, 0.1, watch=("colour",)))


@pytest.mark.parametrize("paper", PAPERS)
def test_numbers_do_not_depend_on_how_many_processes_there_are(
    paper: str, carried_out: dict[str, tuple[Study, Results]]
) -> None:
    study, first = carried_out[paper]
    with executors.make_executor(2) as workers:
        second = Results(executors.run_all(study.runs, workers, quiet))
    for table in (
        lambda results: tables.runs_table(study, results),
        lambda results: tables.claims_table(results.judged(study), timed=False),
        lambda results: [row for s in study.sections for p in s.plots for row in tables.curves_table(p, results)],
    ):
        assert tables.as_json(table(first)) == tables.as_json(table(second))
        assert tables.as_csv(table(first)) == tables.as_csv(table(second))


def test_a_lost_worker_and_a_raised_error_are_told_and_the_other_calls_have_results() -> None:
    with executors.make_executor(1) as workers:
        killed = executors.Call(0, signal.raise_signal, (signal.SIGKILL,))
        with pytest.raises(
            executors.LostWorkerError, match="a worker process of the study was lost: its process ended by SIG"
        ):
            list(workers([killed], lambda: None))
        with pytest.raises(ZeroDivisionError) as raised:
            list(workers([executors.Call(0, divmod, (1, 0))], lambda: None))
        assert "In a worker process" in raised.value.__notes__[0]
        calls = [executors.Call(k, divmod, (k, 2)) for k in range(3)]
        assert dict(workers(calls, lambda: None)) == {0: (0, 0), 1: (0, 1), 2: (1, 0)}


def test_every_method_and_stepper_of_the_studies_has_a_style_of_its_own() -> None:
    """Apart from the stepper of references, whose curves have a label of their own."""
    shared = {each for each in vars(methods).values() if isinstance(each, Method | Stepping)} - {methods.TIGHT}
    assert {each.label for each in shared} - APPEARANCE.keys() == set()


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
def test_page_and_marker_say_when_with_what_and_how_long(paper: str, folders: dict[str, Path]) -> None:
    marker = json.loads((folders[paper] / "study.json").read_text())
    page = (folders[paper] / "index.html").read_text()
    assert (marker["study"], marker["quick"]) == (paper, False)
    assert marker["armswing"] == version("armswing")
    assert datetime.fromisoformat(marker["date"]).tzinfo is not None
    assert f"with armswing {marker['armswing']}" in page
    assert "<code>--quick</code>" not in page
    quick = dataclasses.replace(study_of(paper), quick=True)
    assert report.provenance(quick)["quick"]
    for table in (folders[paper] / "tables").iterdir():
        assert marker["date"][:10] not in table.read_text(), table


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
        for legend in [*figure.legends, *(axis.get_legend() for axis in figure.axes if axis.get_legend())]:
            looks = [(h.get_color(), h.get_linestyle(), h.get_marker(), h._dash_pattern) for h in legend.get_lines()]
            assert len(set(map(str, looks))) == len(looks), plot.file


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_says_what_was_simulated_and_what_a_short_study_leaves_open(
    paper: str, carried_out: dict[str, tuple[Study, Results]]
) -> None:
    study, results = carried_out[paper]
    for claim, findings, seconds, cut, notes in results.judged(study):
        assert seconds or claim.timed or claim.key in ("table", "preload")  # which nothing need be simulated for
        assert findings
        if cut is not None:
            assert cut > min(seconds)
            assert f"the full study simulates {cut:g} s, which may change this verdict" in notes
        assert any("times of this computer" in note for note in notes) == claim.timed
    full = dataclasses.replace(study, longest=study.runs)
    assert all(entry.cut is None for entry in results.judged(full))
    assert any(entry.cut is not None for entry in results.judged(study))


def test_a_verdict_says_reproduced_only_where_that_is_what_the_rule_shows() -> None:
    def claim(holds: bool, met: Verdict) -> claims.Claim:
        return claims.Claim("k", "w", "s", "r", lambda _: [Finding("a", "h", claims.verdict_of(holds))], met=met)

    for met, unmet in (
        (Verdict.REPRODUCED, Verdict.NOT_REPRODUCED),
        (Verdict.BUILT_IN, Verdict.NOT_REPRODUCED),
        (Verdict.CHECKED, Verdict.NOT_REPRODUCED),
        (Verdict.HOLDS, Verdict.FAILS),
    ):
        assert [claim(holds, met).findings(None)[0].verdict for holds in (True, False)] == [met, unmet]
    still = claims.Claim("k", "w", "s", "r", lambda _: [Finding("a", "h", Verdict.OPEN)], met=Verdict.HOLDS)
    assert still.findings(None)[0].verdict == Verdict.OPEN


def test_the_terminal_counts_each_kind_and_explains_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"claim": "a", "reading": "one", "verdict": "reproduced", "notes": ""},
        {"claim": "a", "reading": "two", "verdict": "by construction", "notes": "times"},
        {"claim": "b", "reading": "one", "verdict": "by construction", "notes": "times"},
    ]
    print_verdicts(rows, Path("page"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 readings of 2 claims: 1 reproduced, 2 by construction"
    assert [line.split()[-1] for line in lines[3:6]] == ["reproduced", "1", "1"]
    assert "note 1: times" in lines


def test_another_study_takes_its_predecessors_files_away(
    carried_out: dict[str, tuple[Study, Results]], tmp_path: Path
) -> None:
    study, results = carried_out["man"]
    report.write(study, results, tmp_path, quiet)
    shorter = dataclasses.replace(study, sections=study.sections[:1])
    report.write(shorter, results, tmp_path, quiet)
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert there == set(report.files_of(shorter))


def test_a_study_may_be_written_again_beside_notes(folders: dict[str, Path]) -> None:
    note = folders["man"] / "notes.txt"
    note.write_text("mine")
    try:
        assert report.foreign_files(folders["man"], study_of("man")) == []
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

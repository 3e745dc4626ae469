"""`armswing reproduce gibbon`: what it runs, its verdicts, and what its folder holds."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.plan.files.file import load_plan
from nodes.research.studies.framework import executors, report
from nodes.research.studies.framework.study import Results, Study
from nodes.research.studies.gibbon import gibbon_study as gibbon
from nodes.research.studies.gibbon.gibbon_figures import overs
from nodes.research.studies.gibbon.gibbon_runs import BLIND, LAUNCHED, SPANS, Case, Runs, brachiate, plan_of

ROOT = Path(__file__).resolve().parents[4]


def quiet(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def carried_out() -> tuple[Study, Results]:
    study = gibbon.study(spans="tiny")
    return study, executors.carry_out(study, 0, quiet)


def test_the_launched_case_is_that_of_the_launch_file() -> None:
    launched, ours = load_plan(ROOT / "launch/gibbon_cable.toml"), plan_of(LAUNCHED, 10.0)
    there = dict(ours.sim.parameters)
    assert there.pop("damping_ratio") == 0.01  # which is the robot's own
    assert there | {"links": 2, "trunk": "passive"} == launched.sim.parameters  # which are the robot's own, too
    assert ours.sim.rate_hz == launched.sim.rate_hz
    for node in ours.nodes:
        params: dict[str, Any] = {**node.params}
        if "parameters" in params:
            params["parameters"] = {key: x for key, x in params["parameters"].items() if key != "damping_ratio"}
        file = next(other for other in launched.nodes if other.name == node.name)
        in_file = {key: value for key, value in file.params.items() if not key.startswith("trunk_")}  # it has no trunk
        assert (file.run, in_file) == (node.run, params)


def test_a_case_ends_with_enough_hand_overs_and_says_where_the_hands_were() -> None:
    found = brachiate(LAUNCHED, replace(SPANS["tiny"], required=2, seconds=8.0))
    assert found["hand_overs"] == 2
    assert 1.5 < found["seconds"] < 8.0
    times, *places = zip(*found["places"], strict=True)
    assert times[-1] == pytest.approx(found["seconds"])
    assert max(places[0] + places[2]) > 7.0  # from 5.9 on, two steps
    assert found["figures"]["peak_hand_force_n"] > 100.0


def test_without_replanning_there_is_one_plan_per_swing() -> None:
    spans = replace(SPANS["tiny"], seconds=4.0)
    once, often = (brachiate(case, spans) for case in (BLIND, LAUNCHED))
    assert once["hand_overs"] == often["hand_overs"] == 1
    assert once["figures"]["plans"] == 1
    assert often["figures"]["plans"] > 10


def test_every_case_of_claims_and_pictures_is_run_once() -> None:
    for name in SPANS:
        runs = Runs(SPANS[name])
        names = [part.name for part in runs.parts]
        assert len(names) == len(set(names))
        for case in (*runs.grid, *runs.damped, LAUNCHED, BLIND, Case(), Case(modes=1)):
            assert case.name in names
    assert LAUNCHED in Runs(SPANS["full"]).grid
    assert LAUNCHED in Runs(SPANS["full"]).damped


def test_verdicts_follow_from_the_hand_overs_and_the_folder_holds_them(
    carried_out: tuple[Study, Results], tmp_path: Path
) -> None:
    study, results = carried_out
    wanted = SPANS["tiny"].required
    rows = report.verdicts(study, results)
    assert {row["claim"] for row in rows} == {"launched", "replanning", "errors", "damping"}
    launched = next(row for row in rows if row["claim"] == "launched")
    reached = results.parts[LAUNCHED.name]["hand_overs"] >= wanted
    assert launched["verdict"] == ("holds" if reached else "does not hold")
    report.write(study, results, tmp_path, quiet)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == report.files_of(
        study
    )
    page = (tmp_path / "index.html").read_text()
    assert "tension, more than believed (%)</th>" in page
    assert "reproduced</span>" not in page
    for word in ("paper says", "The paper", "not in a paper", 'id="readings"'):  # it is no paper's
        assert word not in page
    assert page.count('">picture: ') == 4
    with (tmp_path / "tables/hand_overs.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [int(row["hand-overs"]) for row in table] == [results.parts[part.name]["hand_overs"] for part in study.parts]
    for picture in ("motion", "errors", "damping"):
        assert (tmp_path / f"plots/{picture}.png").stat().st_size > 2000


def test_pictures_count_in_whole_hand_overs_and_line_up(carried_out: tuple[Study, Results]) -> None:
    from matplotlib.figure import Figure

    study, results = carried_out
    drawn = {}
    for plot in (plot for section in study.sections for plot in section.plots):
        drawn[plot.file] = Figure(figsize=plot.size, layout="constrained")
        plot.draw(results, drawn[plot.file])
        drawn[plot.file].draw_without_rendering()
    upper, lower = drawn["motion"].axes[:2]
    assert upper.get_xlim() == lower.get_xlim()
    assert upper.get_position().x0 == pytest.approx(lower.get_position().x0)
    assert [label.get_text() for label in upper.get_xticklabels()] == [t.get_text() for t in lower.get_xticklabels()]
    assert [overs(n) for n in (0, 1, 2)] == ["0 hand-overs", "1 hand-over", "2 hand-overs"]
    for ticks in (drawn["errors"].axes[1].get_yticks(), drawn["damping"].axes[0].get_yticks()):
        assert list(ticks) == [0, 1]


@pytest.mark.parametrize(
    ("spans", "says"), [("full", "up to 20 % and of mass up to 10 %"), ("quick", "10 % and of mass up to 5 %")]
)
def test_a_claim_goes_as_far_as_its_runs(spans: str, says: str) -> None:
    (claim,) = (claim for claim in gibbon.study(spans=spans).claims if claim.key == "errors")
    assert says in claim.statement

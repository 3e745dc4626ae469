"""`armswing reproduce charmie`: what it works out, its verdicts, and what its folder holds."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from nodes.research.studies.charmie import charmie_figures as charmie_figures
from nodes.research.studies.charmie import charmie_study as charmie
from nodes.research.studies.charmie.actuator_loads import efforts_over, load_report, posed
from nodes.research.studies.charmie.charmie_runs import MODELS, NUMPY
from nodes.research.studies.charmie.spring_study import ACTUATORS, spring_of, tune_springs, with_spring
from nodes.research.studies.framework import executors, report, tables
from nodes.research.studies.framework.study import Results, Study
from robots.charmie.motions import DURATION, bang, squat_and_lean, validation_motion
from robots.charmie.parameters import read_parameters
from robots.registry import build

TREE = build("charmie", limits="none")
P = read_parameters()
NAMES = [joint.name for joint in TREE.moving_joints]


def quiet(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def carried_out() -> tuple[Study, Results]:
    study = charmie.study(spans="tiny")
    return study, executors.carry_out(study, 0, quiet)


@pytest.fixture(scope="module")
def folder(carried_out: tuple[Study, Results], tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("charmie")
    report.write(*carried_out, where, quiet)
    return where


def test_the_motion_goes_back_with_the_printed_accelerations_and_comes_to_rest() -> None:
    motion, h = validation_motion(P, NAMES), 1e-4
    lift, tilt = NAMES.index("lift"), NAMES.index("tilt")
    q, v, _ = motion(0.0)
    assert not v.any()
    others = [k for k in range(21) if k not in (lift, tilt)]
    assert not q[others].any()
    for t in (0.6, 2.4, 3.1, 4.9):
        before, (x, rate, change), after = motion(t - h), motion(t), motion(t + h)
        np.testing.assert_allclose(rate, (after[0] - before[0]) / (2 * h), atol=1e-7)
        np.testing.assert_allclose(change, (after[1] - before[1]) / (2 * h), atol=1e-7)
        wanted = dict.fromkeys(NAMES, np.pi / 9) | {"base_x": 30e-3, "base_y": 30e-3}
        sign = -1.0 if t < DURATION / 2 else 1.0
        np.testing.assert_allclose(change[others], [sign * wanted[NAMES[k]] for k in others], rtol=1e-12)
        assert np.isfinite(x).all()
    q, v, _ = motion(DURATION)
    assert not v.any()
    assert q[0] == pytest.approx(-30e-3 * (DURATION / 2) ** 2)
    assert bang(1.0, 99.0) == (-((DURATION / 2) ** 2), 0.0, 0.0)


def test_positions_and_forces_are_those_of_every_other_engine(carried_out: tuple[Study, Results]) -> None:
    study, results = carried_out
    found = results.parts["validation"]
    assert "the slow reference" in found.others
    for other in found.others.values():
        assert np.isfinite(other.claw).any()
    verdicts = {(row["claim"], row["reading"]): row["verdict"] for row in report.verdicts(study, results)}
    kinds = dict.fromkeys(("bodies", "rest", "loops"), "by construction")
    for claim, kind in (kinds | dict.fromkeys(("kinematics", "dynamics"), "checked otherwise")).items():
        rows = [verdict for (name, _), verdict in verdicts.items() if name == claim]
        assert rows
        assert set(rows) == {kind}
    # the claw moves decimetres and the force newtons: agreement says something
    assert np.ptp(found.ours.claw, axis=0).min() > 0.05
    assert np.ptp(found.ours.force, axis=0).min() > 1.0


def test_a_quick_study_says_which_verdicts_the_full_one_may_change(carried_out: tuple[Study, Results]) -> None:
    study, results = carried_out
    for quick in (False, True):
        rows = report.verdicts(dataclasses.replace(study, quick=quick), results)
        may_change = {row["claim"] for row in rows if "may change" in row["notes"]}
        assert may_change == ({"kinematics", "dynamics", "linear", "share", "bigger"} if quick else set())
        assert {row["claim"] for row in rows if "times of this computer" in row["notes"]} == {
            "linear",
            "share",
            "bigger",
        }


def test_a_wrong_account_of_the_motion_is_not_called_reproduced(carried_out: tuple[Study, Results]) -> None:
    study, results = carried_out
    found = results.parts["validation"]
    name, other = next(iter(found.others.items()))
    spoilt = type(other)(other.claw + 1e-6, other.force * (1 + 1e-6))
    changed = type(found)(**{**vars(found), "others": {name: spoilt}})
    again = Results({}, parts={**results.parts, "validation": changed})
    verdicts = {row["claim"]: row["verdict"] for row in report.verdicts(study, again) if "reference" in row["reading"]}
    assert verdicts == {"kinematics": "not reproduced", "dynamics": "not reproduced"}


def test_the_report_of_loads_gives_peak_rms_share_and_power() -> None:
    times = np.linspace(0.0, DURATION, 11)
    found = efforts_over(P, TREE, posed(TREE, validation_motion(P, NAMES), times), times)
    rows = {row.name: row for row in load_report(found)}
    assert set(rows) == {*NAMES, "lift_rod", "tilt_rod"} - {"lift", "tilt"}
    shoulder = found.of("left_arm_2")
    row = rows["left_arm_2"]
    assert row.peak == np.abs(shoulder).max()
    assert row.rms == pytest.approx(np.sqrt(np.mean(shoulder**2)))
    assert row.peak_share == row.peak / 50.0
    power = shoulder * found.speed[:, NAMES.index("left_arm_2")]
    assert (row.peak_power, row.most_braking) == pytest.approx((max(power.max(), 0), max(-power.min(), 0)))
    assert all(row.peak_power >= 0.0 <= row.most_braking for row in rows.values())


def test_no_spring_nearby_asks_less_of_its_actuator_than_the_tuned_one() -> None:
    times = np.linspace(0.0, 6.0, 13)
    instants = posed(TREE, squat_and_lean(P, NAMES), times)
    study = tune_springs(P, TREE, instants, times)
    for tuned in study.tuned:
        assert tuned.rms_after <= tuned.rms_before
        assert tuned.after.stiffness >= 0.0 <= tuned.after.pretension
        spring = spring_of(study.parameters, tuned.spring)
        for more in ((100.0, 0.0), (-50.0, 0.0), (0.0, 10.0), (50.0, 5.0)):
            moved = (spring.stiffness + more[0], spring.pretension + more[1])
            if min(moved) < 0.0:
                continue
            trial = with_spring(study.parameters, tuned.spring, *moved)
            force = efforts_over(trial, TREE, instants, times).of(ACTUATORS[tuned.spring])
            assert np.sqrt(np.mean(force**2)) >= tuned.rms_after - 1e-9
    assert study.tuned[0].rms_after < 0.5 * study.tuned[0].rms_before


def test_a_number_that_a_bound_holds_is_at_it_exactly_and_named() -> None:
    times = np.linspace(0.0, 6.0, 61)
    balance, tilt = tune_springs(P, TREE, posed(TREE, squat_and_lean(P, NAMES), times), times).tuned
    assert (tilt.at_bound, tilt.after.pretension) == (("pretension",), 0.0)
    assert balance.at_bound == ()
    assert min(balance.after.stiffness, balance.after.pretension) > 1.0


def test_a_curve_of_this_program_looks_on_every_axis_as_the_legend_has_it(
    carried_out: tuple[Study, Results],
) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    charmie_figures.claw(carried_out[1], figure)
    (legend,) = figure.legends
    shown = {text.get_text(): handle for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert len(figure.axes) == 3
    for axis in figure.axes:
        for curve in axis.get_lines():
            assert curve.get_color() == shown[str(curve.get_label())].get_color()


def test_times_are_of_every_model_and_way(carried_out: tuple[Study, Results]) -> None:
    _, results = carried_out
    rows = charmie.table5(results)
    assert [row["model"] for row in rows] == [*MODELS, *MODELS]
    assert [row["bodies"] for row in rows[:4]] == [2, 4, 6, 24]
    assert all(row["kinematics_s"] > 0.0 for row in rows)
    assert results.parts["charmie"].whole[NUMPY] > 0.0


def test_the_folder_holds_what_it_says_and_every_link_on_the_page_leads_somewhere(
    folder: Path, carried_out: tuple[Study, Results]
) -> None:
    there = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert there == report.files_of(carried_out[0])
    assert "tables/runs.csv" not in there
    page = (folder / "index.html").read_text()
    for link in re.findall(r'(?:href|src)="([^"]+)"', page):
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in page
        else:
            assert (folder / link).is_file()
    assert "No figure of the paper" in page[: page.index("Paper and outcome</h2>")]
    for picture in (folder / "plots").iterdir():
        assert picture.read_bytes().startswith(b"\x89PNG")
    for name in ("table5", "validation", "actuator_loads", "springs", "squat_loads", "claims"):
        as_csv = list(csv.DictReader((folder / f"tables/{name}.csv").open()))
        as_json = json.loads((folder / f"tables/{name}.json").read_text())
        assert len(as_csv) == len(as_json) > 0
    headings = set(re.findall(r"<th[^>]*>([^<]*)</th>", page))
    assert {
        "largest, of the limit (%)",
        "largest power (W)",
        "with dynamics (ms)",
        "held by a bound",
        "pretension (N)",
    } <= headings
    assert not [heading for heading in headings if "_" in heading]


def test_what_rests_on_no_time_is_the_same_on_every_run(carried_out: tuple[Study, Results]) -> None:
    study, first = carried_out
    wanted = [part for part in study.parts if part.name in ("validation", "springs")]
    second = Results({}, parts=executors.work_out(wanted, executors.in_this_process, quiet))
    for rows in (
        charmie.validation_rows,
        charmie.springs_rows,
        lambda results: charmie.loads_rows(results, results.parts["validation"].efforts),
        lambda results: tables.claims_table(
            results.judged(dataclasses.replace(study, claims=study.claims[:5])), timed=False
        ),
    ):
        assert tables.as_json(rows(first)) == tables.as_json(rows(second))

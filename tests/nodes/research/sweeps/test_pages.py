"""Statistics, page, pictures and JUnit file of a sweep, from rows that are written here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_rgb
from scipy.stats import binomtest

from nodes.research.pages import state_map
from nodes.research.pages.style import INK
from nodes.research.sweeps.axes import parse_axis
from nodes.research.sweeps.cells import Row
from nodes.research.sweeps.design import Sweep, SweepError
from nodes.research.sweeps.report.heat_maps import colors_of
from nodes.research.sweeps.report.junit import write_junit
from nodes.research.sweeps.report.page import check_figures, write_page
from nodes.research.sweeps.report.statistics import (
    PASS_RATE,
    by_value,
    failures,
    grid,
    independent,
    pass_rate,
    varying,
    wilson,
)
from nodes.research.sweeps.report.tables import write_tables
from nodes.research.sweeps.report.units import OF_STATUS, units_of, with_unit

SWEEP = Sweep(
    launch="/arm.toml",
    cwd="/",
    axes=[parse_axis(text) for text in ("sim.parameters.mass=1:3:3", "node.law=pd,lqr", "node.bias=normal:0:1")],
    repeat=2,
    seconds=1.0,
)


def row_of(number: int) -> Row:
    """Mass 3 fails; with the law lqr its second repeat crashes."""
    cell = SWEEP.cell(number)
    mass = cell.values["sim.parameters.mass"]
    if mass == 3 and cell.values["node.law"] == "lqr" and cell.repeat == 1:
        return Row(cell=number, seed=cell.seed, result="crashed", reason="its process ended by SIGSEGV")
    figures = {"time": 1.0, "node.error": mass + cell.repeat, "output.tip": "nan" if number == 0 else 0.5}
    failed = mass == 3
    reason = "milestone <up> not reached" if failed else ""
    return Row(cell=number, seed=cell.seed, result="failed" if failed else "passed", reason=reason, figures=figures)


ROWS = {number: row_of(number) for number in reversed(range(SWEEP.cells))}


def contrast(one: Any, other: Any) -> float:
    """Contrast ratio of two RGB colours by WCAG 2: 1 for equal colours, 21 for black on white."""

    def luminance(color: Any) -> float:
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    first, second = sorted((luminance(one), luminance(other)))
    return (second + 0.05) / (first + 0.05)


def test_hatching_and_motions_that_go_over_are_told_from_all_colours() -> None:
    """WCAG 2 asks for a contrast of 3 between graphical objects."""
    ink = to_rgb(INK)
    for found in (colors_of(rate=True), colors_of(rate=False), state_map.colors()):
        assert min(contrast(ink, found(k)) for k in range(found.N)) > 3.0


@pytest.mark.parametrize(("passed", "runs"), [(0, 5), (5, 5), (3, 10), (999, 1000), (1, 1)])
def test_the_interval_of_a_pass_rate_is_wilsons(passed: int, runs: int) -> None:
    expected = binomtest(passed, runs).proportion_ci(0.95, method="wilson")
    assert wilson(passed, runs) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


def test_pass_rates_count_lost_runs_as_not_passed() -> None:
    total = pass_rate(ROWS.values())
    assert (total.runs, total.passed, total.lost) == (12, 8, 1)
    found = dict(by_value(SWEEP, SWEEP.axes[1], ROWS.values()))
    assert {value: (rate.passed, rate.lost) for value, rate in found.items()} == {'"pd"': (4, 0), '"lqr"': (4, 1)}


def test_the_reasons_of_failures_are_counted() -> None:
    failed = [row for row in ROWS.values() if row.result == "failed"]
    assert failures(ROWS.values()) == [("milestone <up> not reached", len(failed))]
    assert len(failed) == 3


def test_a_grid_has_the_mean_of_the_runs_that_came_to_their_end() -> None:
    found = grid(SWEEP, ROWS.values(), "node.error", SWEEP.axes[0], SWEEP.axes[1])
    assert found.mean == [[1.5, 2.5, 3.5], [1.5, 2.5, 3.0]]
    assert found.failed == [[False, False, True], [False, False, True]]
    assert found.lost == [[False, False, False], [False, False, True]]
    assert grid(SWEEP, ROWS.values(), PASS_RATE, SWEEP.axes[0], SWEEP.axes[1]).mean == [[1, 1, 0], [1, 1, 0]]
    assert math.isnan(grid(SWEEP, [], "node.error", SWEEP.axes[0], SWEEP.axes[1]).mean[0][0])
    assert varying([*ROWS.values()]) == ["node.error"]


def test_the_page_shows_rates_figures_and_lost_runs(tmp_path: Path) -> None:
    text = write_page(tmp_path, SWEEP, ROWS).read_text()
    assert "66.7 % (39.1 to 86.2 %)" in text
    assert "its process ended by SIGSEGV" in text
    assert "<td>lqr</td>" in text
    assert "Hatched places have runs that failed" in text
    assert "a point per run" in text
    assert "3 failed: milestone &lt;up&gt; not reached" in text
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert pictures == ["00_pass_rate.png", "01_node_error.png", "02_node_error.png"]
    assert all(f"pictures/{name}" in text for name in pictures)
    first = (tmp_path / "pictures/01_node_error.png").read_bytes()
    write_page(tmp_path, SWEEP, ROWS, ["node.error"])
    assert (tmp_path / "pictures/00_node_error.png").read_bytes() == first
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    with pytest.raises(
        SweepError, match=r"--figure 'node.eror': cells.csv has no such column; did you mean 'node.error'\?"
    ):
        check_figures(ROWS, ["node.eror"])


def test_labels_have_units_and_a_caption_says_what_is_averaged(tmp_path: Path) -> None:
    axes = [parse_axis(text) for text in ("sim.parameters.torque_limit=0.03,0.05", "swing_up.torque_limit=0.03,0.05")]
    launch = Path(__file__).parents[4] / "launch/rotary_pendulum_lockstep.toml"
    sweep = Sweep(launch=str(launch), cwd="/", axes=axes, repeat=2, seconds=1.0)
    units = units_of(sweep)
    names = ("sim.parameters.torque_limit", "position.arm", "velocity.pendulum", "load.arm.rms", "milestone.upright")
    assert [units[name] for name in names] == ["N m", "rad", "rad/s", "N m", "s"]
    assert with_unit("energy", units) == "energy (J)"
    assert with_unit("node.error_mm", {"node.error_mm": "mm"}) == "node.error_mm"
    assert units_of(SWEEP) == OF_STATUS  # its launch file is gone
    rows = {k: Row(cell=k, seed=0, result="passed", figures={"energy": 1.0 + 1e-12 * k, "time": k}) for k in range(8)}
    text = write_page(tmp_path, sweep, rows).read_text()
    assert "time over sim.parameters.torque_limit and swing_up.torque_limit, mean over repeats" in text
    assert "energy over" not in text  # it differs by rounding


def test_the_junit_file_has_a_case_per_run(tmp_path: Path) -> None:
    write_junit(tmp_path, SWEEP, ROWS)
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "12",
        "failures": "3",
        "errors": "1",
    }
    assert [case.get("name", "").partition(":")[0] for case in suite] == [f"cell {number}" for number in range(12)]
    assert suite[8][0].get("message") == "milestone <up> not reached"


def test_the_parquet_table_equals_the_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    write_tables(tmp_path, SWEEP, ROWS)
    table, text = parquet.read_table(tmp_path / "cells.parquet"), csv.read_csv(tmp_path / "cells.csv")
    assert table.column_names == text.column_names
    for name in ("cell", "sim.parameters.mass", "node.law", "node.bias", "seed", "node.error"):
        assert table[name].to_pylist() == text[name].to_pylist()
    assert math.isnan(table["output.tip"][0].as_py())


def test_pictures_tell_lost_runs_and_separate_few_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from nodes.research.sweeps.report import heat_maps

    drawn: list[Any] = []
    monkeypatch.setattr(heat_maps, "_save", lambda figure, path: drawn.append(figure))
    heat_maps.draw_points(tmp_path / "a.png", SWEEP, [*ROWS.values()], "node.error", SWEEP.axes[2])
    (legend,) = drawn[-1].legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "1 lost, without a point"
    heat_maps.draw_map(tmp_path / "b.png", grid(SWEEP, ROWS.values(), "node.error", SWEEP.axes[0], SWEEP.axes[1]))
    (mesh,) = [each for each in drawn[-1].axes[0].collections if each.get_array() is not None]
    assert mesh.get_linewidth()[0] == 1.0


def test_equal_repeats_count_once_in_pass_rates_and_commands_name_the_whole_folder(tmp_path: Path) -> None:
    sweep = Sweep(launch="/arm.toml", cwd=str(tmp_path), axes=[parse_axis("node.gain=1,2")], repeat=3, seconds=1.0)
    rows = {k: Row(cell=k, seed=k, result="passed" if k < 3 else "failed", figures={"time": k // 3}) for k in range(6)}
    assert [row.cell for row in independent(sweep, rows.values())] == [0, 3]
    folder = tmp_path / "results" / "my sweep"
    folder.mkdir(parents=True)
    text = write_page(folder, sweep, rows).read_text()
    assert pass_rate([rows[0], rows[3]]).text() in text
    assert "the repeats of a combination are equal and count once" in text
    assert "armswing sweep &#39;results/my sweep&#39; --cell K" in text
    rows[1] = Row(cell=1, seed=1, result="failed", figures={"time": 0})
    assert independent(sweep, rows.values()) == [*rows.values()]
    assert "count once" not in write_page(folder, sweep, rows).read_text()
    drawn = Sweep(
        launch="/arm.toml", cwd=str(tmp_path), axes=[parse_axis("node.gain=uniform:1:2")], repeat=3, seconds=1.0
    )
    equal = {k: Row(cell=k, seed=k, result="passed", figures={"time": 1}) for k in range(3)}
    assert len(independent(drawn, equal.values())) == 3  # each has a drawn value of its own
    elsewhere = Sweep(launch="/arm.toml", cwd="/nonesuch", axes=sweep.axes, repeat=3, seconds=1.0)
    assert f"{folder}&#39; --cell K" in write_page(folder, elsewhere, rows).read_text()

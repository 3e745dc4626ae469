"""`armswing sweep FOLDER --find-boundary`: halving between two values of an axis."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.research.sweeps.axes import parse_axis
from nodes.research.sweeps.boundary import PROBES, axis_along, brackets
from nodes.research.sweeps.cells import Row
from nodes.research.sweeps.design import Sweep, SweepError
from nodes.research.sweeps.folder import SweepJournal

SWEEP = Sweep(
    launch="/arm.toml",
    cwd="/",
    axes=[parse_axis(text) for text in ("node.law=pd,lqr", "sim.parameters.modes=40,10,20", "node.b=normal:0:1")],
    repeat=2,
    seconds=1.0,
)


def rows(worst: dict[str, float]) -> dict[int, Row]:
    """Runs pass below a number of modes."""
    found = {}
    for number in range(SWEEP.cells):
        cell = SWEEP.cell(number)
        passed = cell.values["sim.parameters.modes"] < worst[cell.values["node.law"]]
        found[number] = Row(cell=number, seed=cell.seed, result="passed" if passed else "failed")
    return found


def table_of(folder: Path) -> list[list[str]]:
    with (folder / "boundary.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_the_bracket_is_the_first_crossing_in_the_order_of_the_numbers() -> None:
    axis = axis_along(SWEEP, "sim.parameters.modes")
    assert axis.values == (10, 20, 40)
    pd, lqr = brackets(SWEEP, rows({"pd": 30, "lqr": 100}), "pass_rate", 0.9, axis)
    assert (pd.first, pd.second, pd.at_first, pd.at_second) == (20, 40, 1.0, 0.0)
    assert [SWEEP.cell(base).values["sim.parameters.modes"] for base in pd.bases] == [20, 20]
    assert pd.middle(whole=True) == 30
    assert not lqr.crosses
    pd.second = 21
    assert pd.middle(whole=True) is None
    assert pd.middle(whole=False) == 20.5


def test_what_has_no_boundary_is_refused_in_one_line() -> None:
    for key, words in (("node.law", "random or not numbers"), ("node.b", "listed numbers"), ("x", "it")):
        with pytest.raises(SweepError, match=f"--along '{key}': .*" if key != "x" else "no such axis") as refused:
            axis_along(SWEEP, key)
        assert words in str(refused.value) or key == "x"
    with pytest.raises(SweepError, match="11 runs of this sweep are not done"):
        brackets(SWEEP, {0: Row(cell=0, seed=0, result="passed")}, "pass_rate", 0.9, SWEEP.axes[1])


def test_the_boundary_is_found_by_halving_and_goes_on_from_its_journal(
    launch: Path, sweep: Callable[..., object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    made = sweep(launch, "--over", "node.gain=0:8:2", "--set", "node.how=diverge", "--no-page", "-o", folder)
    assert (folder / "cells.csv").exists(), made
    arguments = ("--find-boundary", "load.arm.peak=3", "--along", "node.gain")
    sweep(folder, *arguments)
    assert table_of(folder) == [
        ["result", "threshold", "along", "node.gain", "from", "to", "result there", "and there"],
        ["load.arm.peak", "3.0", "node.gain", "", "2.875", "3", "2.875", "3"],
    ]
    with SweepJournal(folder):
        assert run(["sweep", str(folder), *arguments]) == 2
    assert "another process is running this sweep now" in capfd.readouterr().err
    journal = (folder / PROBES).read_bytes()
    assert len(journal.splitlines()) == 6
    (folder / PROBES).write_bytes(journal[:-30])
    sweep(folder, *arguments)
    assert [line.split(b"cpu_s")[0] for line in (folder / PROBES).read_bytes().splitlines()] == [
        line.split(b"cpu_s")[0] for line in journal.splitlines()
    ]
    assert run(["sweep", str(folder), "--find-boundary", "load.arm.peek=3", "--along", "node.gain"]) == 2
    assert "did you mean 'load.arm.peak'?" in capfd.readouterr().err
    assert run(["sweep", str(folder), "--find-boundary", "load.arm.peak=3"]) == 2
    assert "--find-boundary and --along must be given together" in capfd.readouterr().err
    assert run(["sweep", str(folder), "--find-boundary", "pass_rate=5", "--along", "node.gain"]) == 2
    assert "a pass rate is a share; give a number above 0, up to 1" in capfd.readouterr().err


def test_the_table_keeps_the_boundaries_of_other_searches(
    launch: Path,
    sweep: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "out"
    axes = ("--over", "node.gain=0:8:2", "--over", "sim.parameters.torque_limit=5,9")
    sweep(launch, *axes, "--set", "node.how=diverge", "--no-page", "-o", folder)
    for target, along in (
        ("load.arm.peak=3", "node.gain"),
        ("load.arm.peak=6.0", "sim.parameters.torque_limit"),
        ("load.arm.peak=4", "node.gain"),
        ("load.arm.peak=3.0", "node.gain"),
    ):
        done = sweep(folder, "--find-boundary", target, "--along", along)
        assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].split() == [
        *("result", "threshold", "along", "sim.parameters.torque_limit", "from", "to"),
        *("result", "there", "and", "there"),
    ]
    assert said[-1] == (
        f"wrote {folder / 'boundary.csv'}: the rows of load.arm.peak=3 along node.gain, beside those of "
        "load.arm.peak=6 along sim.parameters.torque_limit; load.arm.peak=4 along node.gain"
    )
    header, *rows = table_of(folder)
    assert header[3:5] == ["node.gain", "sim.parameters.torque_limit"]
    peak, gain, limit = "load.arm.peak", "node.gain", "sim.parameters.torque_limit"
    assert rows == [
        [peak, "6.0", limit, "0", "", "no crossing", "", "0", ""],
        [peak, "6.0", limit, "8", "", "5.9375", "6", "5.9375", "6"],
        [peak, "4.0", gain, "", "5", "3.875", "4", "3.875", "4"],
        [peak, "4.0", gain, "", "9", "3.875", "4", "3.875", "4"],
        [peak, "3.0", gain, "", "5", "2.875", "3", "2.875", "3"],
        [peak, "3.0", gain, "", "9", "2.875", "3", "2.875", "3"],
    ]
    (folder / "boundary.csv").write_text("mine\n1\n")
    assert run(["sweep", str(folder), "--find-boundary", "load.arm.peak=3", "--along", "node.gain"]) == 2
    assert "boundary.csv has other columns than result, threshold, along" in capfd.readouterr().err
    assert (folder / "boundary.csv").read_text() == "mine\n1\n"

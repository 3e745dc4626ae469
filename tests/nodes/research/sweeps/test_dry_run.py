"""`armswing sweep --dry-run`: axes, runs, compiled groups, estimates of time and disk space."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.research.sweeps.axes import parse_axis
from nodes.research.sweeps.cells import Row
from nodes.research.sweeps.design import Sweep
from nodes.research.sweeps.engine import default_workers
from nodes.research.sweeps.trial import estimate, size_text, time_text

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_dry_run_lists_axes_runs_and_groups_and_writes_nothing(launch: Path, sweep: Run, tmp_path: Path) -> None:
    axes = ("--over", "node.gain=0:1:3", "--over", "sim.parameters.arm_mass=0.09,0.1")
    done = sweep(launch, *axes, "--repeat", 2, "--workers", 2, "--dry-run", "-o", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith("warning: --repeat 2 seems to change nothing: the first repeats are equal")
    lines = done.stdout.splitlines()
    assert lines[0] == f"12 runs of 0.1 s each: 3 x 2 combinations, each 2 times, into {tmp_path / 'out'}"
    assert [line.split(maxsplit=2) for line in lines[1:4]] == [
        ["axis", "number", "values"],
        ["node.gain", "3", "0, 0.5, 1"],
        ["sim.parameters.arm_mass", "2", "0.09, 0.1"],
    ]
    assert lines[4] == "sim.parameters.arm_mass changes what is compiled: 2 groups of runs, each of which compiles once"
    assert lines[5].startswith("estimated time: about ")
    assert " s on 2 processes, " in lines[5]
    assert " ms per run by the beginning of the first run; compiling" in lines[5]
    assert lines[6].startswith("estimated disk space: ")
    assert lines[7].split() == ["cell", "node.gain", "sim.parameters.arm_mass", "repeat", "seed"]
    assert [line.split()[:4] for line in lines[8:]] == [
        [str(4 * k + 2 * m + r), gain, mass, str(r)]
        for k, gain in enumerate(("0", "0.5", "1"))
        for m, mass in enumerate(("0.09", "0.1"))
        for r in (0, 1)
    ]
    assert not list(tmp_path.iterdir())


def test_the_estimates_are_those_of_the_sweep(launch: Path, sweep: Run, tmp_path: Path) -> None:
    """The trial has half a second; a pause of 0.2 s in each run makes the time of a run certain on a slow computer."""
    arguments = (
        launch,
        "--over",
        "node.gain=0:1:30",
        "--set",
        "node.pause_s=0.2",
        "--workers",
        2,
        "-o",
        tmp_path / "o",
    )
    said = sweep(*arguments, "--dry-run", "--json")
    told = json.loads(said.stdout)
    assert [row["node.gain"] for row in told["runs"]][:2] == [0.0, pytest.approx(1 / 29)]
    assert (told["cells"], told["compiling_groups"], told["compiling_axes"]) == (30, 1, [])
    each = told["estimate"]["wall_s_per_run"]
    assert 0.2 <= each < 2.0
    start_s = told["estimate"]["start_s"]
    assert 0.0 < start_s < 30.0
    rounds = 30 / min(2, default_workers())
    assert told["estimate"]["wall_s"] == pytest.approx(1.0 + start_s + rounds * each)
    assert sweep(*arguments, "--no-page").returncode == 0
    size = sum(
        (tmp_path / "o" / name).stat().st_size for name in ("cells.jsonl", "cells.csv", "times.csv", "junit.xml")
    )
    assert 0.6 * size < told["estimate"]["disk_bytes"] < 1.5 * size
    again = sweep(*arguments, "--dry-run").stdout.splitlines()
    assert again[1] == "30 of them are done, 0 are left"
    assert " ms per run by 30 finished runs" in "\n".join(again)
    at = next(k for k, line in enumerate(again) if line.startswith("cell "))
    assert [line.split()[0] for line in again[at:-1]] == ["cell", *map(str, range(12)), "...", *map(str, range(18, 30))]
    assert again[-1] == "6 runs are left out here; --json lists them"


def test_a_dry_run_of_random_runs_says_nothing_of_equal_repeats(launch: Path, sweep: Run, tmp_path: Path) -> None:
    arguments = (launch, "--over", "node.gain=1,2", "--repeat", 2, "--dry-run", "--json", "-o", tmp_path / "out")
    for noisy, equal in (("true", False), ("false", True)):
        done = sweep(*arguments, "--set", f"node.noisy={noisy}")
        assert json.loads(done.stdout)["repeats_equal"] == equal
        assert "seems to change nothing" not in done.stderr


@pytest.mark.parametrize(("how", "reason"), [("raise", "ValueError: it is asked to"), ("segfault", "by SIGSEGV")])
def test_a_first_run_that_ends_early_leaves_the_time_open(
    how: str, reason: str, launch: Path, sweep: Run, tmp_path: Path
) -> None:
    done = sweep(launch, "--over", "node.gain=0:1:3", "--set", f"node.how={how}", "--dry-run", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert "no estimate of the time, because the first run ended early: " in done.stderr
    assert reason in done.stderr
    assert "cell  node.gain  seed" in done.stdout


def test_a_dry_run_refuses_the_folders_that_the_sweep_refuses(
    launch: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder, words in ((tmp_path, "holds other files and no sweep"), (tmp_path / "a/b", "there is no folder")):
        assert run(["sweep", str(launch), "--over", "node.gain=1,2", "--dry-run", "-o", str(folder)]) == 2
        assert words in capfd.readouterr().err


def test_estimates_come_from_finished_runs_where_there_are_some() -> None:
    axes = [parse_axis("node.gain=1:1000:1000")]
    sweep = Sweep(launch="/arm.toml", cwd="/", axes=axes, seconds=1.0)
    assert axes[0].values_text(6) == "1, 2, 3, ..., 998, 999, 1000"
    rows = [Row(cell=k, seed=0, result="passed", wall_s=2.0 + k) for k in range(3)]
    lost = Row(cell=4, seed=0, result="crashed", wall_s=100.0)
    found = estimate(sweep, [*rows, lost], lambda: None)
    assert not isinstance(found, str)
    assert (found.wall_s, found.source) == (3.0, "by 3 finished runs")
    assert found.whole_s(0, 4) == 0.0
    compiles = dataclasses.replace(found, compile_s=0.5)
    assert compiles.whole_s(1, 1, groups=3) == found.whole_s(1, 1) + 1.5
    assert found.whole_s(5, 4) >= 2.0 + 2 * 3.0  # no process has a part of a run
    cores = default_workers()
    assert found.whole_s(100 * cores, 10 * cores) == 2.0 + 100 * 3.0  # more processes than cores make nothing faster


def test_times_and_sizes_are_written_with_two_digits_in_a_fitting_unit() -> None:
    times = {0.0312: "0.031 s", 44.6: "45 s", 100.0: "1.7 min", 6000.0: "1.7 h", 864000.0: "10 days"}
    assert {seconds: time_text(seconds) for seconds in times} == times
    sizes = {12.0: "12 B", 13_777.0: "14 kB", 1.24e9: "1.2 GB", 3e15: "3000 TB"}
    assert {size: size_text(size) for size in sizes} == sizes

"""`armswing sweep` in processes of its own: rows, lost cells, and what is left after kill -9."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.research.sweeps.folder import read_rows
from nodes.research.sweeps.report.statistics import PassRate
from tests.nodes.research.sweeps.conftest import COMMAND, rows_of

Sweep = Callable[..., subprocess.CompletedProcess[str]]
FAULTS = {"segfault": "crashed", "killed": "crashed", "exit": "crashed", "hang": "hung", "raise": "error"}
NOISY = (
    "--over",
    "node.gain=normal:1:0.1",
    "--over",
    "node.how=well,diverge",
    "--repeat",
    4,
    "--set",
    "node.noisy=true",
)


@pytest.fixture(scope="module")
def faulty(launch: Path, sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of a sweep some of whose cells are lost."""
    folder = tmp_path_factory.mktemp("faulty") / "out"
    how = f"node.how=well,{','.join(FAULTS)},diverge"
    ran = sweep(launch, "--over", how, "--over", "node.gain=1,1e20", "--limit-s", 8, "--workers", 2, "-o", folder)
    assert ran.returncode == 1, ran.stderr
    return folder, ran.stdout


def test_a_lost_cell_is_one_row_that_says_so_and_takes_no_other_with_it(faulty: tuple[Path, str]) -> None:
    rows = rows_of(faulty[0])
    assert [int(row["cell"]) for row in rows] == list(range(14))
    expected = {(how, gain): result for how, result in FAULTS.items() for gain in ("1", "1e+20")}
    expected |= {("well", "1"): "passed", ("well", "1e+20"): "passed", ("diverge", "1"): "passed"}
    expected |= {("diverge", "1e+20"): "diverged"}
    assert {(row["node.how"], row["node.gain"]): row["result"] for row in rows} == expected
    reasons = {row["node.how"]: row["reason"] for row in rows if row["result"] != "passed"}
    assert reasons["segfault"] == "its process ended by SIGSEGV"
    assert reasons["exit"] == "its process ended with exit code 7"
    assert reasons["hang"] == "it took longer than 8 s"
    assert reasons["raise"].startswith("ValueError: it is asked to (misbehaving.py:")
    assert "diverged at t = " in reasons["diverge"]
    assert "6 crashed, 3 passed, 2 hung, 2 error, 1 diverged" in faulty[1]


LINKAGE = Path(__file__).parents[4] / "launch/examples/my_linkage.py"
IN_LOOPS = {  # axis of a sweep, other settings, and figures of its rows
    "tree": (
        "sim.parameters.pendulum_damping=0,1e-3",
        ("sim.parameters.coordinates=joint",),
        ("energy", "position.arm", "velocity.pendulum", "output.tip_z"),
    ),
    "closed loop": ("node.gain=0,0.5", ("node.how=diverge", f"sim.robot={LINKAGE}:my_linkage"), ("energy",)),
}


@pytest.mark.parametrize("kind", [pytest.param("tree", marks=pytest.mark.soak), "closed loop"])
def test_kernels_in_loops_give_the_rows_of_straight_line_code(
    kind: str, launch: Path, sweep: Sweep, tmp_path: Path
) -> None:
    """The same figures to 1e-9 in all cells, and the same bytes again in a cell that is run alone."""
    axis, settings, figures = IN_LOOPS[kind]
    tables = {}
    common = ["--over", axis, "--workers", 1, *(word for each in settings for word in ("--set", each))]
    for rolled in ("true", "false"):
        folder = tmp_path / rolled
        ran = sweep(launch, *common, "--set", f"sim.rolled={rolled}", "-o", folder)
        assert ran.returncode == 0, ran.stderr
        tables[rolled] = rows_of(folder)
    for ours, theirs in zip(tables["true"], tables["false"], strict=True):
        assert ours["result"] == theirs["result"] == "passed"
        for name in figures:
            assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-9)
    assert len({row["energy"] for row in tables["true"]}) == len(tables["true"])
    alone = sweep(tmp_path / "true", "--cell", 0)
    assert f"the same as row 0 of {tmp_path / 'true' / 'cells.csv'}" in alone.stdout, alone.stderr


def test_a_run_without_an_accepted_command_has_failed_whatever_a_node_doubts_as_in_a_launch(
    launch: Path, sweep: Sweep, tmp_path: Path
) -> None:
    ran = sweep(launch, "--over", "node.how=doubt,doubt in vain", "--workers", 1, "-o", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    doubtful, vain = rows_of(tmp_path / "out")
    assert (doubtful["result"], doubtful["reason"]) == ("not certain", "node: it is asked to doubt")
    assert vain["result"] == "failed"
    assert vain["reason"].startswith("no command of node was accepted: ")
    launched = subprocess.run(
        [*COMMAND[:-1], "launch", launch, "--set", "node.how=doubt in vain"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert launched.returncode == 1, launched.stderr
    assert "every command of 'node' was rejected" in launched.stdout


@pytest.mark.soak
def test_of_50_cells_exactly_the_four_that_misbehave_are_lost(launch: Path, sweep: Sweep, tmp_path: Path) -> None:
    axes = ("--over", "node.gain=1,2,3,4,5,6,7,8,9,1e20", "--over", "node.how=well,killed,segfault,hang,diverge")
    ran = sweep(launch, *axes, "--set", "node.from_gain=1e19", "--limit-s", 20, "--workers", 2, "-o", tmp_path / "out")
    assert ran.returncode == 1, ran.stderr
    rows = rows_of(tmp_path / "out")
    assert [int(row["cell"]) for row in rows] == list(range(50))
    lost = {(row["node.gain"], row["node.how"]): (row["result"], row["reason"]) for row in rows if row["reason"]}
    diverged = lost.pop(("1e+20", "diverge"))
    assert lost == {
        ("1e+20", "killed"): ("crashed", "its process ended by SIGKILL"),
        ("1e+20", "segfault"): ("crashed", "its process ended by SIGSEGV"),
        ("1e+20", "hang"): ("hung", "it took longer than 20 s"),
    }
    assert diverged[0] == "diverged"
    assert [row["result"] for row in rows].count("passed") == 46


def test_after_an_interrupt_the_page_shows_the_runs_that_are_done(launch: Path, tmp_path: Path) -> None:
    folder, slow = tmp_path / "out", ("--set", "node.pause_s=0.5", "--workers", "1")
    command = [*COMMAND, str(launch), "--over", "node.gain=0:5:6", *slow, "--figure", "load.arm.peak", "-o", folder]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 100.0
            while not (folder / "cells.jsonl").exists() or not read_rows(folder):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, "no row"
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=100.0)[1]
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT, said
    done = len(rows_of(folder))
    assert 1 <= done < 6
    assert f"{done} of 6 runs" in (folder / "index.html").read_text()
    assert f"{done} of 6 runs are done; repeat the command to continue" in said
    assert not (folder / "junit.xml").exists()  # a test report of a part would pass


def test_a_cell_alone_gives_its_row_and_its_recording(faulty: tuple[Path, str], sweep: Sweep) -> None:
    folder, _ = faulty
    ran = sweep(folder, "--cell", 12, "--record")
    assert ran.returncode == 0, ran.stderr
    assert f"the same as row 12 of {folder / 'cells.csv'}" in ran.stdout
    shown = dict(line.split(maxsplit=1) for line in ran.stdout.splitlines() if len(line.split()) == 2)
    row = rows_of(folder)[12]
    assert {name: shown[name] for name in row if row[name]} == {name: value for name, value in row.items() if value}
    assert (folder / "cell_12.mcap").stat().st_size > 1000


def test_retry_failed_runs_the_lost_cells_alone(faulty: tuple[Path, str], sweep: Sweep) -> None:
    folder, _ = faulty
    before = (folder / "cells.csv").read_bytes()
    lines = (folder / "cells.jsonl").read_bytes().splitlines()
    assert sweep(folder, "--retry-failed", "--limit-s", 8).returncode == 1
    assert len((folder / "cells.jsonl").read_bytes().splitlines()) == len(lines) + 11
    assert (folder / "cells.csv").read_bytes() == before


def test_drawn_values_without_effect_are_named_and_all_runs_count(launch: Path, sweep: Sweep, tmp_path: Path) -> None:
    """Such values are independent samples, unlike equal repeats; and no lost run is left to repeat."""
    folder = tmp_path / "out"
    ran = sweep(launch, "--over", "node.gain=uniform:1:2", "--repeat", 3, "--workers", 1, "-o", folder)
    assert ran.returncode == 0, ran.stderr
    assert "the values drawn for node.gain change nothing: all repeats have equal results" in ran.stderr
    assert "leave --repeat out" not in ran.stderr
    assert f"pass rate {PassRate(runs=3, passed=3).text()}, with its 95 % interval\n" in ran.stdout
    again = sweep(folder, "--retry-failed")
    assert "--retry-failed: no run is lost; runs with the result 'failed' are not repeated" in again.stderr


def killed_and_resumed(launch: Path, folder: Path, times: int, pause_s: float) -> None:
    """Run the sweep NOISY, killing it at random moments, until it has ended."""
    chance = random.Random(5)
    sets = ("--set", f"node.pause_s={pause_s}", "--workers", "2", "-o", folder)
    command = [*COMMAND, str(launch), *map(str, NOISY), *map(str, sets)]
    for _ in range(times):
        done = len(read_rows(folder)) if (folder / "sweep.json").exists() else 0
        wanted = min(done + chance.randint(0, 2), 7)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60.0
            while process.poll() is None and time.monotonic() < deadline:
                if (folder / "sweep.json").exists() and len(read_rows(folder)) >= wanted:
                    break
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.3))
            process.send_signal(signal.SIGKILL)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_kills(launch: Path, sweep: Sweep, tmp_path: Path, times: int) -> None:
    killed_and_resumed(launch, tmp_path / "killed", times, 0.3)
    whole = sweep(launch, *NOISY, "--set", "node.pause_s=0.3", "--workers", 1, "-o", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    for name in ("cells.csv", "cells.parquet"):
        if (tmp_path / "whole" / name).exists():
            assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    cells = [line.split(b",")[0] for line in (tmp_path / "killed/cells.jsonl").read_bytes().splitlines()]
    assert len(cells) == len(set(cells)) == 8


def test_after_kill_9_the_table_is_the_same_and_no_finished_cell_runs_again(
    launch: Path, sweep: Sweep, tmp_path: Path
) -> None:
    check_kills(launch, sweep, tmp_path, 2)
    rows = rows_of(tmp_path / "whole")
    assert len({row["seed"] for row in rows}) == len({row["node.gain"] for row in rows}) == 8
    assert len({row["node.draw"] for row in rows}) == 8


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_after_kill_9_at_ten_random_times_the_table_is_the_same(launch: Path, sweep: Sweep, tmp_path: Path) -> None:
    check_kills(launch, sweep, tmp_path, 10)


def test_a_half_written_line_and_a_changed_file_are_noticed(launch: Path, sweep: Sweep, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text((Path(__file__).parent / "misbehaving.py").read_text())
    file, folder = tmp_path / "realtime.toml", tmp_path / "out"
    text = (launch.parent / "realtime.toml").read_text()
    file.write_text(text.replace(str(Path(__file__).parent / "misbehaving.py"), str(own)))
    arguments = (file, "--over", "node.how=well,diverge", "--repeat", 2, "-o", folder)
    first = sweep(*arguments)
    assert first.returncode == 0, first.stderr
    assert "has the mode realtime, but the sweep runs it in lockstep" in first.stderr
    assert "--repeat 2 changes nothing: no run depends on its seed" in first.stderr
    early, late = "--repeat 2 seems to change nothing: the first repeats are equal", "--repeat 2 changes nothing"
    assert 0 <= first.stderr.index(early) < first.stderr.index(late)
    rate = PassRate(runs=2, passed=2).text()
    assert f"pass rate {rate}, with its 95 % interval; the repeats of a combination are equal" in first.stdout
    table, journal = (folder / "cells.csv").read_bytes(), folder / "cells.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert sweep(*arguments).returncode == 0
    assert (folder / "cells.csv").read_bytes() == table
    own.write_text(own.read_text() + "# edited\n")
    refused = sweep(*arguments)
    assert refused.returncode == 2
    assert f"{own} changed since this sweep began" in refused.stderr
    assert refused.stderr.count("\n") == 2  # the mode, and this


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--over", "node.hw=a,b"), "unknown key 'hw'; did you mean 'how'?"),
        (("--over", "nde.how=a,b"), "no node 'nde'; did you mean 'node'?"),
        (("--over", "sim.parameters.torque_limt=1,2"), "did you mean 'torque_limit'?"),
        (("--over", "node.gain=0:-1:3"), "key 'gain' is -1.0, not in 0 .. 1e+30 N m"),
        (("--over", "node.gain=1"), "an axis needs 2 or more values; pass --set node.gain=1 for a fixed value"),
        (
            ("--over", "node.gain=0.03:0.05"),
            "the NUMBER of values is missing; write FROM:TO:NUMBER, such as node.gain=0.03:0.05:5",
        ),
        (("--over", "node.gain=1,2", "--over", "node.gain=3,4"), "two axes have this key"),
        (("--over", "sim.mode=fast,lockstep"), "always use mode lockstep"),
        (("--over", "seed=1,2", "--repeat", "2"), "draws the seeds of its runs"),
        (
            ("--over", "node.gain=1,2", "--seconds", "-1"),
            "--seconds -1: the duration must be at least one time step, 1 ms",
        ),
        (("--over", "node.gain=1,2", "--limit-s", "0"), "--limit-s 0: expected a positive number"),
        (("--over", "node.gain=1,2", "--cell", "1"), "name the folder of the sweep"),
        (("--over", "node.gain=1,2", "--record"), "--record works only with --cell"),
        (("--over", "node.gain=1,2", "-o", "/nonesuch/out"), "there is no folder '/nonesuch'"),
        ((), "name an axis with --over"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], words: str, launch: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = () if "-o" in arguments else ("-o", str(tmp_path / "out"))
    assert run(["sweep", str(launch), *arguments, *folder]) == 2
    said = capfd.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_target_that_does_not_exist_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "nope"
    assert run(["sweep", str(target)]) == 2
    said = capfd.readouterr().err
    assert f"there is no launch file and no folder of a sweep '{target}'; check the path" in said
    assert said.count("\n") == 1


def test_a_folder_of_another_plan_is_refused(
    faulty: tuple[Path, str], launch: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(launch), "--over", "node.gain=1,2", "-o", str(faulty[0])]) == 2
    assert "holds another sweep, over node.how: 7 values" in capfd.readouterr().err
    (tmp_path / "notes.txt").write_text("mine")
    assert run(["sweep", str(launch), "--over", "node.gain=1,2", "-o", str(tmp_path)]) == 2
    assert "holds other files and no sweep; name an empty or a new folder" in capfd.readouterr().err
    assert run(["sweep", str(tmp_path)]) == 2
    assert "holds no sweep" in capfd.readouterr().err
    assert run(["sweep", str(faulty[0]), "--cell", "14"]) == 2
    assert "this sweep has the cells 0 .. 13" in capfd.readouterr().err

"""Robot in the loop: planted faults are named, clock steps are set right, and nothing is accused wrongly.

    python tests/benchmarks/hil_bars.py [--quick] [--runs 10] [--seeds 3] [--healthy 100] [--rows backlash,idle_steps]

Each row is run `--runs` times with its own seeds. Lockstep rows run in this process; clock steps are real-time runs of
launch/hil_robot.toml, on the computer as it is (idle_steps) and beside one burner of time for each processor
(busy_steps; steps are both). The row `planted` has each condition of tests/nodes/hil/planted.py with `--seeds` seeds,
and prints which were named, failed without a cause, were not observable, or rightly passed. Exit code 1 where a verdict
is wrong: "failed" for a robot without a fault, a planted fault that is not named, or another outcome than that of the
table in planted.py. "not certain" is no wrong verdict on a busy computer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, Verdict, limits_of

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from tests.nodes.hil.planted import CONDITIONS, Runs  # noqa: E402

PLAN = ROOT / "launch/hil_robot.toml"
STEPS_S = (0.03, -0.03, 0.05, -0.05, 0.5, -0.5)
STEP_AT_S = 3.0
BURNER = "while True: pass"


def judged(file: Path) -> Verdict:
    """The report's verdict on a recording."""
    case = read_case(file, None)
    return Compared(case, limits_of(case, {})).verdict


def composed(folder: Path, *settings: str) -> Verdict:
    """The same on a lockstep run with these settings."""
    file = folder / "run.mcap"
    with compose(load_plan(PLAN, [*settings, f"recorder.file={file}"])) as composition:
        composition.run()
    return judged(file)


def nothing(folder: Path, seed: int) -> str:
    """The outcome where nothing is planted: right is "nothing named"."""
    verdict = composed(folder, f"seed={seed}")
    return "nothing named" if verdict.passed and not verdict.findings else f"wrong: {verdict.findings}"


def backlash(folder: Path, seed: int) -> str:
    """Half a degree of play."""
    verdict = composed(folder, f"seed={seed}", f"hardware.backlash.joint_2={math.radians(0.5)}")
    named = [(each.kind, each.of) for each in verdict.findings]
    return "named" if named == [("backlash", "joint_2")] else f"wrong: {named}"


def mass_and_delay(folder: Path, seed: int) -> str:
    """A link 5 % heavier beside 10 ms of command delay."""
    verdict = composed(folder, f"seed={seed}", "hardware.mass.link_10=0.05", "hardware.command_delay_ms=10")
    named = {(each.kind, each.of) for each in verdict.findings}
    return "named" if named == {("delay", ""), ("mass", "link_10")} else f"wrong: {named}"


def step(folder: Path, size_s: float, seed: int) -> tuple[str, str]:
    """Outcomes live and of the report where only the robot's clock is stepped, with 100 ppm of drift."""
    settings = {
        "sim.mode": "realtime",
        "sim.deadline_ms": 1000,
        "recorder.file": folder / "run.mcap",
        "seed": seed,
        "hardware.clock_step_s": size_s,
        "hardware.clock_step_at_s": STEP_AT_S + 0.037 * seed,
        "hardware.clock_drift_ppm": 100,
    }
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(PLAN), "--json", str(folder / "summary.json")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
    summary = json.loads((folder / "summary.json").read_text())
    live = summary["verdicts"].get("compare", {"outcome": "none", "reason": summary["ended"]})
    verdict = judged(folder / "run.mcap")
    clock = verdict.measured.clock
    seen = clock is not None and len(clock.steps) == 1 and abs(clock.steps[0].size_s - size_s) < 5e-3
    reported = verdict.outcome if seen or verdict.outcome != "passed" else "passed, step not seen"
    is_right = live["outcome"] in ("passed", "not certain")
    said = live["outcome"] if is_right else f"wrong: {live['outcome']}: {live['reason']}"
    return said, reported if reported != "failed" else f"wrong: {verdict.reason}"


@contextmanager
def busy(is_busy: bool) -> Iterator[None]:
    """One burner of time for each processor, where asked for."""
    burners = [subprocess.Popen([sys.executable, "-c", BURNER]) for _ in range((os.cpu_count() or 1) * is_busy)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def rows(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str]]:
    """(row, outcome) of each run."""
    wanted = arguments.rows.split(",")
    for name, judge, runs in (
        ("nothing", nothing, arguments.healthy),
        ("backlash", backlash, arguments.runs),
        ("mass", mass_and_delay, arguments.runs),
    ):
        for seed in range(runs if name in wanted else 0):
            yield name, judge(folder, seed)
    if "planted" in wanted:
        for seed in range(1, arguments.seeds + 1):
            runs = Runs(folder)
            for name, condition in CONDITIONS.items():
                outcome = runs.outcome(name, seed)
                is_right = outcome == condition.right or outcome.startswith("wrong")
                yield name, outcome if is_right else f"wrong: {outcome} in place of {condition.right}"
    for is_busy in (False, True):
        own = "busy_steps" if is_busy else "idle_steps"
        for size_s in STEPS_S if {"steps", own} & set(wanted) else ():
            for seed in range(arguments.runs):
                with busy(is_busy):
                    live, report = step(folder, size_s, seed)
                where = f"step {size_s:+g} s {'busy' if is_busy else 'idle'}"
                yield f"{where} live", live
                yield f"{where} report", report


def main() -> int:
    """Print how often each row came out how."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--healthy", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each planted condition")
    parser.add_argument("--quick", action="store_true", help="one run of each row, three of a healthy robot")
    parser.add_argument("--rows", default="nothing,backlash,mass,planted,steps")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs, arguments.healthy, arguments.seeds = 1, 3, 1
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row, outcome in rows(arguments, Path(folder)):
            counts.setdefault(row, Counter())[outcome] += 1
            print(f"{row}: {outcome}", flush=True)
    print()
    for row, found in counts.items():
        print(f"{row:38}", ", ".join(f"{count} {outcome}" for outcome, count in found.items()))
    return int(any(outcome.startswith("wrong") for found in counts.values() for outcome in found))


if __name__ == "__main__":
    sys.exit(main())

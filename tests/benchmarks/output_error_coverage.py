"""Coverage of the intervals of output error over deviations planted in the emulated arm of launch/hil_robot.toml.

    python tests/benchmarks/output_error_coverage.py [--runs 10] [--phases 1] [--journal coverage.jsonl]

Each run plants a zero, gain, delay or friction, or a pair of them, of random size in a random joint. Its encoders round
the positions with random phases, once or several times: each gives a recording, to which all four kinds are fitted. One
line per recording: how many intervals contain the planted value, the worst in half widths, and false finds. With
--journal, a second call continues after the last line. Exit code 1 if the coverage or the false finds miss their bar.
Most delays, and frictions of 0, are inside because their intervals have the rounding by a time step and the bound: the
bars judge the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np
from bars import at_least, at_most

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from nodes.framework.plan.files.file import load_plan  # noqa: E402
from nodes.framework.simulation.compose import compose  # noqa: E402
from nodes.hil.fitting.output_error import commanded_of, output_error_of  # noqa: E402
from nodes.hil.fitting.reading import FitCase, read_fit_case  # noqa: E402
from nodes.research.journal import Journal  # noqa: E402
from sim_core.identification.estimates import surely_changed  # noqa: E402
from sim_core.identification.output_error.fitting import QUANTILE, OutputErrorResult  # noqa: E402

KINDS = ("zero", "gain", "delay", "friction")
CELLS = (*((kind,) for kind in KINDS), *combinations(KINDS, 2))
SIZES = {"zero": (-0.04, 0.04), "gain": (-0.15, 0.15), "delay": (3, 12), "friction": (0.3, 1.5)}
SETTINGS = {"zero": "encoder_zero", "gain": "gain", "friction": "friction"}
GROUPS = {"zero": "zero", "gain": "gain", "friction": "viscous"}
ENCODER_STEP = 9.6e-5  # rad, see launch/hil_robot.toml
LEAST_COVERAGE, MOST_COVERAGE, MOST_FALSE = 0.90, 0.97, 0.1


class Judged(msgspec.Struct, frozen=True):
    """Half widths (n,) by which the estimates of a run miss the planted values, and false finds.

    A false find differs from the planted value, beyond chance among all estimates of the actuation.

    bounded  (n,) whether an interval is widened by a time step or lies at the bound 0
    """

    misses: list[float]
    bounded: list[bool]
    names: list[str]
    false: list[str]


class Run(msgspec.Struct):
    """One line of the journal: the recordings of a run."""

    number: int
    phases: int
    judged: list[Judged]


def planted(number: int) -> dict[str, tuple[str, float]]:
    """{kind: (joint, size)} of a run; a delay is of all commands."""
    random, cell = np.random.default_rng([38, 6, number]), CELLS[number % len(CELLS)]
    sizes = {}
    for kind in cell:
        low, high = SIZES[kind]
        size = float(random.integers(int(low), int(high) + 1)) if kind == "delay" else float(random.uniform(low, high))
        sizes[kind] = f"joint_{random.integers(1, 5)}", size
    return sizes


def settings(sizes: dict[str, tuple[str, float]]) -> Iterator[str]:
    """Settings of the launch file."""
    for kind, (joint, size) in sizes.items():
        key = "command_delay_ms" if kind == "delay" else f"{SETTINGS[kind]}.{joint}"
        yield f"hardware.{key}={size!r}"


def rounded(case: FitCase, phases: np.ndarray) -> FitCase:
    """The recordings with encoders that round, and whose zeros are off by `phases` (n_q,) in rad."""
    recordings = (
        dataclasses.replace(each, q=ENCODER_STEP * np.round((each.q + phases) / ENCODER_STEP))
        for each in case.recordings
    )
    return dataclasses.replace(case, recordings=tuple(recordings))


def judged(found: OutputErrorResult, sizes: dict[str, tuple[str, float]], phases: np.ndarray) -> Judged:
    """The estimates beside what was planted, and beside the zeros by the phases (n_q,) of the encoders."""
    planted_in = {f"{joint}/{GROUPS[kind]}": size for kind, (joint, size) in sizes.items() if kind != "delay"}
    truth = {f"{joint}/zero": phase for joint, phase in zip(found.joints, phases, strict=True)}
    truth |= {name: value + truth.get(name, 0.0) for name, value in planted_in.items()}
    late = 1e-3 * sizes["delay"][1] if "delay" in sizes else 0.0
    misses, bounded, names = [], [], []
    for each in (*found.estimates, *found.friction):
        value = late if each.kind == "delay" else truth.get(each.name, 0.0)
        misses.append(float((each.value - each.before - value) / max(0.5 * (each.high - each.low), 1e-300)))
        at_bound = each.kind in ("viscous", "coulomb", "armature") and each.value == 0.0
        bounded.append(bool(each.kind == "delay" or at_bound))
        names.append(each.name)
    chances = [math.erfc(QUANTILE * abs(miss) / math.sqrt(2.0)) for miss in misses[: len(found.estimates)]]
    beside = [dataclasses.replace(each, p=p) for each, p in zip(found.estimates, chances, strict=True)]
    false = [each.name for each in surely_changed(beside)]
    return Judged(misses, bounded, names, false if found.is_better else [])


def measured(runs: int, phases: int, journal: Path | None) -> list[Judged]:
    """All recordings of the runs; prints a line for each. Those that the journal has are not repeated."""
    with ExitStack() as stack:
        kept = journal and stack.enter_context(Journal(journal, Run, f"{journal} is written by another process"))
        done = {run.number: run.judged for run in kept.lines if run.phases == phases} if kept else {}
        for number in range(runs):
            if number not in done:
                done[number] = recorded(number, phases)
                if kept:
                    kept.add(Run(number, phases, done[number]))
    return [each for number in range(runs) for each in done[number]]


def recorded(number: int, phases: int) -> list[Judged]:
    """The recordings of a run."""
    sizes, random = planted(number), np.random.default_rng([38, 7, number])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.mcap"
        exact = f"recorder.file={file}", 'hardware.encoder_step={ "*" = 0.0 }'
        plan = load_plan(ROOT / "launch/hil_robot.toml", [f"seed={number}", *exact, *settings(sizes)])
        with compose(plan) as launch:
            launch.run()
        case = read_fit_case([file])
        zeros = ENCODER_STEP * random.uniform(-0.5, 0.5, (phases, len(case.names)))
        return [one(number, case, sizes, each) for each in zeros]


def one(number: int, case: FitCase, sizes: dict[str, tuple[str, float]], phases: np.ndarray) -> Judged:
    """The fit of a recording with rounding encoders; prints a line."""
    case = rounded(case, phases)
    found = output_error_of(case, commanded_of(case), ("zero", "gain", "delay"), False, 0.3)
    run = judged(found, sizes, phases)
    worst = int(np.argmax(np.abs(run.misses)))
    inside = int(np.sum(np.abs(run.misses) <= 1.0))
    cell = ", ".join(f"{kind} {joint} {size:.3g}" for kind, (joint, size) in sizes.items())
    text = f"{number:3d} {cell:52} {inside} of {len(run.misses)} inside, worst {run.names[worst]} "
    text += f"{run.misses[worst]:.2f}, {found.outcome}"
    print(text + (f", false: {', '.join(run.false)}" if run.false else ""), flush=True)
    return run


def main() -> None:
    """Measure, print the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--phases", type=int, default=1, help="recordings per run")
    parser.add_argument("--journal", type=Path)
    given = parser.parse_args()
    runs = measured(given.runs, given.phases, given.journal)
    inside = np.abs(np.concatenate([run.misses for run in runs])) <= 1.0
    free = ~np.concatenate([run.bounded for run in runs])
    share, false = float(np.mean(inside[free])), float(np.mean([bool(run.false) for run in runs]))
    kinds = np.array([name.rpartition("/")[2] for run in runs for name in run.names])
    for kind in dict.fromkeys(kinds[free].tolist()):
        some = free & (kinds == kind)
        print(f"{kind}: {np.mean(inside[some]):.3f} of {some.sum()}")
    print(f"with delays and frictions at their bound: {np.mean(inside):.3f} of {len(inside)}")
    bars = [
        at_least(f"coverage of {free.sum()} intervals", share, LEAST_COVERAGE),
        at_most(f"coverage of {free.sum()} intervals", share, MOST_COVERAGE),
        at_most(f"share of {len(runs)} recordings with a false find", false, MOST_FALSE),
    ]
    for bar in bars:
        print(f"{bar['what']}: {bar['value']:.3f}, bar {bar['bar']:g}{'' if bar['met'] else ' MISSED'}")
    sys.exit(not all(bar["met"] for bar in bars))


if __name__ == "__main__":
    main()

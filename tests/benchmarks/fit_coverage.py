"""Coverage of the intervals of `hil fit`, and false finds, over deviations planted in the emulated arm.

    python tests/benchmarks/fit_coverage.py [--runs 100] [--journal coverage.jsonl]

The runs are spread over the 15 cells of tests/nodes/hil/fitting/planted_fits.py; each has its own seed and prints one
line. With --journal, a second call continues after the last line. The recordings are kept beside the journal: without
it, the fits alone are repeated. Exit code 1 if the coverage or the false finds miss their bar.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
from bars import at_least, at_most

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from nodes.research.journal import Journal  # noqa: E402
from sim_core.identification.signals import Recorded  # noqa: E402
from tests.nodes.hil.fitting.planted_fits import CELLS, EmulatedArm, Judged, Planted, coverage, judged, planted  # noqa: E402

LEAST_COVERAGE, MOST_COVERAGE = 0.90, 0.97
MOST_FALSE = 0.1  # share of the runs with a false find


class Run(msgspec.Struct):
    """One line of the journal."""

    number: int
    cell: str
    judged: Judged


class Recordings:
    """Recordings of the arm, simulated when they are first needed.

    folder  in which they are kept; None: nowhere
    """

    def __init__(self, arm: EmulatedArm, folder: Path | None) -> None:
        self._arm, self._folder = arm, folder
        if folder is not None:
            folder.mkdir(exist_ok=True)

    def __call__(self, case: Planted) -> Recorded:
        file = None if self._folder is None else self._folder / f"{case.cell.replace(' ', '_')}_{case.seed}.npz"
        if file is not None and file.exists():
            with np.load(file) as kept:
                return Recorded(kept["time"], kept["q"], kept["effort"])
        recorded = self._arm.recorded(case)
        if file is not None:
            np.savez(file, time=recorded.time, q=recorded.q, effort=recorded.effort)
        return recorded


def measured(runs: int, journal: Path | None) -> list[Run]:
    """The runs 0 to `runs` - 1; those that the journal has are not repeated."""
    with ExitStack() as stack:
        kept = journal and stack.enter_context(Journal(journal, Run, f"{journal} is written by another process"))
        done = {run.number: run for run in kept.lines} if kept else {}
        arm = EmulatedArm()
        recordings = Recordings(arm, journal and journal.with_suffix(".recordings"))
        for number in range(runs):
            if number in done:
                continue
            case = planted(CELLS[number % len(CELLS)], number)
            found = judged(arm, case, recordings(case))
            run = done[number] = Run(number, case.cell, found)
            if kept:
                kept.add(run)
            print(line(run), flush=True)
    return [done[number] for number in range(runs)]


def line(run: Run) -> str:
    """The run as a line of text."""
    found = run.judged
    inside = found.intervals - len(found.missed)
    text = f"{run.number:3d} {run.cell:16} {inside} of {found.intervals} inside, {len(found.finds)} finds"
    return text + (f", false: {'; '.join(found.false)}" if found.false else "")


def main() -> None:
    """Measure, print the cells and the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--journal", type=Path)
    given = parser.parse_args()
    runs = measured(given.runs, given.journal)
    for cell in CELLS[: len(runs)]:
        some = [run.judged for run in runs if run.cell == cell]
        false, count = sum(bool(each.false) for each in some), sum(each.intervals for each in some)
        print(f"{cell:16} {coverage(some):.3f} of {count}, {false} of {len(some)} with false finds")
    found = [run.judged for run in runs]
    share, count = coverage(found), sum(each.intervals for each in found)
    bars = [
        at_least(f"coverage of {count} intervals", share, LEAST_COVERAGE),
        at_most(f"coverage of {count} intervals", share, MOST_COVERAGE),
        at_most("share of runs with a false find", sum(bool(each.false) for each in found) / len(found), MOST_FALSE),
    ]
    for bar in bars:
        print(f"{bar['what']}: {bar['value']:.3f}, bar {bar['bar']:g}{'' if bar['met'] else ' MISSED'}")
    sys.exit(not all(bar["met"] for bar in bars))


if __name__ == "__main__":
    main()

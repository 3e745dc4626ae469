"""Coverage of the intervals of output error over deviations planted in the emulated arm of launch/hil_robot.toml.

    python tests/benchmarks/output_error_coverage.py [--runs 20]

Each run plants a zero, gain, delay or friction, or a pair of them, of random size in a random joint, and fits all four
kinds. One line per run: how many intervals contain the planted value, the worst in half widths, and false finds. Exit
code 1 if the coverage or the false finds miss their bar. Most delays, and frictions of 0, are inside because their
intervals have the rounding by a time step and the bound: the share without them is printed, too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from bars import at_least, at_most

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from nodes.framework.plan.files.file import load_plan  # noqa: E402
from nodes.framework.simulation.compose import compose  # noqa: E402
from nodes.hil.fitting.output_error import output_error_of  # noqa: E402
from nodes.hil.fitting.reading import read_fit_case  # noqa: E402
from sim_core.identification.estimates import surely_changed  # noqa: E402
from sim_core.identification.output_error.fitting import OutputErrorResult  # noqa: E402

KINDS = ("zero", "gain", "delay", "friction")
CELLS = (*((kind,) for kind in KINDS), *combinations(KINDS, 2))
SIZES = {"zero": (-0.04, 0.04), "gain": (-0.15, 0.15), "delay": (3, 12), "friction": (0.3, 1.5)}
SETTINGS = {"zero": "encoder_zero", "gain": "gain", "friction": "friction"}
GROUPS = {"zero": "zero", "gain": "gain", "friction": "viscous"}
LEAST_COVERAGE, MOST_COVERAGE, MOST_FALSE = 0.90, 0.97, 0.1


@dataclass(frozen=True)
class Judged:
    """Half widths (n,) by which the estimates of a run miss the planted values, and what was found without a cause.

    bounded  (n,) whether an interval is widened by a time step or lies at the bound 0
    """

    misses: list[float]
    bounded: list[bool]
    names: list[str]
    false: list[str]


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


def judged(found: OutputErrorResult, sizes: dict[str, tuple[str, float]]) -> Judged:
    """The estimates beside what was planted."""
    truth = {f"{joint}/{GROUPS[kind]}": size for kind, (joint, size) in sizes.items() if kind != "delay"}
    late = 1e-3 * sizes["delay"][1] if "delay" in sizes else 0.0
    misses, bounded, names = [], [], []
    for each in (*found.estimates, *found.friction):
        value = late if each.kind == "delay" else truth.get(each.name, 0.0)
        misses.append((each.value - each.before - value) / max(0.5 * (each.high - each.low), 1e-300))
        at_bound = each.kind in ("viscous", "coulomb", "armature") and each.value == 0.0
        bounded.append(each.kind == "delay" or at_bound)
        names.append(each.name)
    false = [
        each.name
        for each in surely_changed(found.estimates)
        if (late == 0.0 if each.kind == "delay" else each.name not in truth)
    ]
    return Judged(misses, bounded, names, false if found.is_better else [])


def measured(runs: int) -> list[Judged]:
    """All runs; prints a line for each."""
    done = []
    for number in range(runs):
        sizes = planted(number)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.mcap"
            plan = load_plan(
                ROOT / "launch/hil_robot.toml", [f"seed={number}", f"recorder.file={file}", *settings(sizes)]
            )
            with compose(plan) as launch:
                launch.run()
            found = output_error_of(read_fit_case([file]), ("zero", "gain", "delay"), False, 0.3)
        run = judged(found, sizes)
        done.append(run)
        worst = int(np.argmax(np.abs(run.misses)))
        inside = int(np.sum(np.abs(run.misses) <= 1.0))
        cell = ", ".join(f"{kind} {joint} {size:.3g}" for kind, (joint, size) in sizes.items())
        text = f"{number:3d} {cell:52} {inside} of {len(run.misses)} inside, worst {run.names[worst]} "
        text += f"{run.misses[worst]:.2f}, {found.outcome}"
        print(text + (f", false: {', '.join(run.false)}" if run.false else ""), flush=True)
    return done


def main() -> None:
    """Measure, print the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    runs = measured(parser.parse_args().runs)
    inside = np.abs(np.concatenate([run.misses for run in runs])) <= 1.0
    free = ~np.concatenate([run.bounded for run in runs])
    share = float(np.mean(inside))
    print(f"without delays and frictions at their bound: {np.mean(inside[free]):.3f} of {free.sum()}")
    bars = [
        at_least(f"coverage of {len(inside)} intervals", share, LEAST_COVERAGE),
        at_most(f"coverage of {len(inside)} intervals", share, MOST_COVERAGE),
        at_most("share of runs with a false find", float(np.mean([bool(run.false) for run in runs])), MOST_FALSE),
    ]
    for bar in bars:
        print(f"{bar['what']}: {bar['value']:.3f}, bar {bar['bar']:g}{'' if bar['met'] else ' MISSED'}")
    sys.exit(not all(bar["met"] for bar in bars))


if __name__ == "__main__":
    main()

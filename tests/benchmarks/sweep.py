"""What a sweep costs beside its cells: processor time in all over that of the cells, and of the engine per cell.

    python tests/benchmarks/sweep.py [--json FILE] [--dask]

The rotary pendulum with its controllers, cells of one simulated second, on two workers, warm caches. The engine's cost
per cell is the slope between a short and a long sweep of equal cells; a cell's own cost is reading and checking its
plan, assembling it and running it. With --dask the same sweeps run on a local scheduler with two workers.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bars import at_most

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/rotary_pendulum_lockstep.toml"
AXIS = "swing_up.torque_limit"
SHORT, LONG = 50, 600  # cells
SECONDS = 1.0  # simulated time of a cell
SHARE_BAR, ENGINE_BAR_MS, DASK_BAR_MS = 1.10, 1.0, 30.0


def swept(folder: Path, cells: int, *more: str) -> tuple[float, float]:
    """Processor time of a sweep with all its processes, and of its cells, s. RuntimeError with what it said."""
    out = folder / f"{cells}{'_'.join(more).replace('/', '')}"
    command = [
        sys.executable,
        "-P",
        "-m",
        "nodes.cli",
        "sweep",
        str(LAUNCH_FILE),
        "--over",
        f"{AXIS}=0.03:0.05:{cells}",
    ]
    command += ["--seconds", str(SECONDS), "--workers", "2", "-o", str(out), "--no-page", *more]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"sweep ended with {done.returncode}: {done.stdout}{done.stderr}")
    with (out / "times.csv").open(newline="") as file:
        own = sum(float(row["cpu_s"]) for row in csv.DictReader(file))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, own


def main(json_path: str | None = None, dask: bool = False) -> dict[str, Any]:
    """Measure, print the table, write it as JSON when asked to."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as name:
        swept(Path(name), 3)  # caches
        short, short_own = swept(Path(name), SHORT)
        long, long_own = swept(Path(name), LONG)
        figures: dict[str, Any] = {
            "cells": LONG,
            "cell_ms": 1e3 * long_own / LONG,
            "share": long / long_own,
            "engine_ms": 1e3 * (long - long_own - short + short_own) / (LONG - SHORT),
            "fixed_s": short - short_own,
        }
        figures["bars"] = [
            at_most("all processor time over the cells'", figures["share"], SHARE_BAR),
            at_most("engine, per cell, ms", figures["engine_ms"], ENGINE_BAR_MS),
        ]
        if dask:
            # without the processes of the cells: they end with their Dask worker, which does not wait for them
            few, _ = swept(Path(name), SHORT, "--dask", "local")
            many, _ = swept(Path(name), LONG, "--dask", "local")
            figures["dask_ms"] = 1e3 * (many - few) / (LONG - SHORT)
            figures["bars"].append(at_most("Dask, per cell, ms", figures["dask_ms"], DASK_BAR_MS))
    print(f"sweep of {LONG} cells of {SECONDS:g} s              measured   at most")
    print(f"  a cell's own processor time         {figures['cell_ms']:7.2f} ms")
    print(f"  all processor time over the cells'  {figures['share']:7.3f}      {SHARE_BAR:.2f}")
    print(f"  engine, per cell                    {figures['engine_ms']:7.2f} ms   {ENGINE_BAR_MS:.1f} ms")
    print(f"  start and end, once                 {figures['fixed_s']:7.2f} s")
    if dask:
        print(f"  Dask, per cell                      {figures['dask_ms']:7.2f} ms   {DASK_BAR_MS:.1f} ms")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--dask", action="store_true", help="also with Dask's scheduler and two local workers")
    given = parser.parse_args()
    main(given.json, given.dask)

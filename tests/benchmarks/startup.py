"""From the start of `armswing launch` to the robot's first state: with cold caches, and with warm ones.

    python tests/benchmarks/startup.py [--json FILE]

The demo's own launch file with all its nodes. Cold: nothing derived or compiled before (a cache folder of its
own). Warm: the same again, the best and the median of several.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bars import at_most

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/rotary_pendulum.toml"
COLD_BAR_S, WARM_BAR_S = 20.0, 2.0
WARM_REPEATS = 3


def first_state_s(folder: Path, cache: Path) -> float:
    """Seconds from the start of the program to the first state; RuntimeError with what launch said."""
    report = folder / "summary.json"
    report.unlink(missing_ok=True)
    runtime = folder / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "XDG_RUNTIME_DIR": str(runtime)}
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(LAUNCH_FILE)]
    command += ["--duration", "0.2", "--json", str(report), "--set", f"recorder.file={folder / 'start.mcap'}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    # exit code 1: the pendulum is not upright after so short a time, as it must be
    if done.returncode not in (0, 1) or not report.exists():
        raise RuntimeError(f"launch ended with {done.returncode}: {done.stdout}{done.stderr}")
    seconds = json.loads(report.read_text())["first_state_s"]
    if seconds is None:
        raise RuntimeError(f"launch saw no state: {done.stdout}{done.stderr}")
    return float(seconds)


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write it as JSON when asked to; the figures in seconds."""
    with tempfile.TemporaryDirectory(prefix="start-") as name:
        folder = Path(name)
        cold = first_state_s(folder, folder / "cache")
        warm = [first_state_s(folder, folder / "cache") for _ in range(WARM_REPEATS)]
    figures = {
        "cold_s": cold,
        "warm_best_s": min(warm),
        "warm_median_s": statistics.median(warm),
        "bars": [
            at_most("cold caches, s", cold, COLD_BAR_S),
            at_most("warm caches, s", statistics.median(warm), WARM_BAR_S),
        ],
    }
    print("start of launch to the first state   measured   at most")
    print(f"  cold caches                        {cold:6.2f} s   {COLD_BAR_S:5.1f} s")
    print(f"  warm caches, median of {WARM_REPEATS}           {statistics.median(warm):6.2f} s   {WARM_BAR_S:5.1f} s")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    main(parser.parse_args().json)

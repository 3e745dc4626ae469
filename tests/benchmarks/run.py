"""Every benchmark of the house, one after the other: prints their tables and writes one JSON file.

    python tests/benchmarks/run.py [--json FILE] [--only NAME] [--viewer] [--quick]

Each benchmark is a file beside this one with `main(json_path=None) -> dict`. It runs in a process of its own,
so that none inherits another's threads or pinned core, and is imported there by its name: numba's cache cannot load
a loop of a module without one. --quick runs everything as briefly as it can; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bars import NOT_MEASURED, missed

FOLDER = Path(__file__).resolve().parent
BENCHMARKS = (
    "dynamics",
    "engines",
    "derivatives",
    "identification",
    "any_robot",
    "size",
    "linkages",
    "steppers",
    "kernels",
    "beam",
    "gibbon",
    "segments",
    "laws",
    "peaks",
    "quadruped",
    "rolling",
    "environments",
    "lost_links",
    "stability",
    "predictive",
    "sweep",
    "messages",
    "network",
    "recorder",
    "server_share",
    "startup",
    "footprint",
    "viewer_frames",
)
VIEWER = ("viewer_frames", "viewer_effect", "viewer_memory", "viewer_recording", "web_view")  # together an hour
QUICK: dict[str, float] = {  # values of a benchmark's constants, where it has them, for --quick
    **{
        "REPEATS": 1,
        "REPEATS_OF_PEER": 1,
        "WARM_REPEATS": 1,
        "STARTS": 1,
        "TURNS": 2,
        "CALLS": 5,
        "ROWS": 10,
        "THREADED": 20,
    },
    **{"STEPS": 20, "TURN_STEPS": 20, "STEPS_BY_SCIPY": 2, "SYSTEM_STEPS": 5, "TURN_US": 50.0, "MESSAGES": 600},
    **{"LOCKSTEP_STEPS": 200, "COMPOSED_STEPS": 200, "SECONDS": 0.5, "FILL_S": 0.5, "YARDSTICK_S": 0.1},
    **{"PAIRS": 1, "PLAIN": 1, "SETTLE_S": 0.5, "MINUTES": 0.05, "SPOTS": 2},
    **{"CELLS": 24, "LOSSES": 2, "CHECKED": 8, "SEARCHES": 0.05, "MOTION_S": 8.0, "PLANTED_RUNS": 1},
}
PROGRAM = """
import importlib, json, sys
folder, name, report, constants = sys.argv[1:]
sys.path.insert(0, folder)
module = importlib.import_module(name)
for constant, value in json.loads(constants).items():
    if hasattr(module, constant):
        setattr(module, constant, value)
module.main(report)
"""
PEERS = {"exudyn": ("exudyn",), "pinocchio": ("pin",), "mujoco": ("mujoco", "mujoco-core")}  # distributions


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores, versions; peers that are missing as None."""
    names = ["numpy", "numba", "llvmlite", "casadi", "pyzmq", "msgspec", "mcap"]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in names},
        "peers": {peer: next(filter(None, map(_version, each)), None) for peer, each in PEERS.items()},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def measure(name: str, quick: bool = False) -> dict[str, Any] | None:
    """The figures of one benchmark, its table printed as it runs.

    None if it failed; {} if it cannot be measured on this computer.
    """
    print(f"\n== {name} ==", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "figures.json"
        constants = json.dumps(QUICK if quick else {})
        command = [sys.executable, "-P", "-c", PROGRAM, str(FOLDER), name, str(report), constants]
        environment = {"OPENBLAS_NUM_THREADS": "1"} | os.environ  # as the command line sets it
        done = subprocess.run(command, check=False, env=environment)
        if done.returncode == NOT_MEASURED:
            return {}
        if done.returncode != 0 or not report.exists():
            print(f"{name} failed with exit code {done.returncode}", file=sys.stderr)
            return None
        figures: dict[str, Any] = json.loads(report.read_text())
        return figures


def main(json_path: str | None, names: Sequence[str], quick: bool = False) -> int:
    """Run these benchmarks; 0 if all of them ran and met their bars.

    A benchmark that misses a bar runs once more; the bars that it misses again are printed at the end.
    """
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores, Python {about['python']}")
    for peer, version in about["peers"].items():
        print(f"{peer}: {version or 'not installed'}")
    figures, misses = {}, []
    for name in names:
        figures[name] = measure(name, quick)
        if not quick and (first := missed(figures[name])):
            print("missed, and measured once more: " + "; ".join(first), flush=True)
            figures[name] = measure(name)
            misses += [f"{name}: {what}: {text}" for what, text in missed(figures[name]).items() if what in first]
    if json_path is not None:
        Path(json_path).write_text(json.dumps({"machine": about, **figures}, indent=2) + "\n")
        print(f"\nwrote {json_path}")
    for line in misses:
        print(f"MISSED {line}")
    return 1 if None in figures.values() or misses else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--only", choices=dict.fromkeys(BENCHMARKS + VIEWER), help="run this one alone")
    parser.add_argument(
        "--viewer", action="store_true", help="run all of the viewer's, also the long ones, and no other"
    )
    parser.add_argument("--quick", action="store_true", help="run as briefly as it goes; the figures mean nothing")
    arguments = parser.parse_args()
    chosen = VIEWER if arguments.viewer else BENCHMARKS
    sys.exit(main(arguments.json, [arguments.only] if arguments.only else chosen, arguments.quick))

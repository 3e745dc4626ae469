"""Every benchmark of the house, one after the other: prints their tables and writes one JSON file.

    python tests/benchmarks/run.py [--json FILE] [--only NAME]

Each benchmark is a file beside this one with `main(json_path=None) -> dict`. It runs in a process of its own,
so that none inherits another's threads or pinned core.
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
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
BENCHMARKS = (
    "dynamics",
    "engines",
    "steppers",
    "kernels",
    "beam",
    "gibbon",
    "laws",
    "messages",
    "network",
    "recorder",
    "server_share",
    "startup",
    "footprint",
)
PEERS = {"exudyn": "exudyn", "pinocchio": "pin", "mujoco": "mujoco"}


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores, versions; peers that are missing as None."""
    names = ["numpy", "numba", "llvmlite", "casadi", "pyzmq", "msgspec", "mcap"]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in names},
        "peers": {peer: _version(package) for peer, package in PEERS.items()},
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


def measure(name: str) -> dict[str, Any] | None:
    """The figures of one benchmark, its table printed as it runs; None when it failed."""
    print(f"\n== {name} ==", flush=True)
    program = "import sys, runpy; runpy.run_path(sys.argv[1])['main'](sys.argv[2])"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "figures.json"
        script = FOLDER / f"{name}.py"
        done = subprocess.run([sys.executable, "-P", "-c", program, str(script), str(report)], check=False)
        if done.returncode != 0 or not report.exists():
            print(f"{name} failed with exit code {done.returncode}", file=sys.stderr)
            return None
        figures: dict[str, Any] = json.loads(report.read_text())
        return figures


def main(json_path: str | None, only: str | None) -> int:
    """Run what is asked for; 0 when all of it ran."""
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores, Python {about['python']}")
    for peer, version in about["peers"].items():
        print(f"{peer}: {version or 'not installed'}")
    figures = {name: measure(name) for name in ([only] if only else BENCHMARKS)}
    if json_path is not None:
        Path(json_path).write_text(json.dumps({"machine": about, **figures}, indent=2) + "\n")
        print(f"\nwrote {json_path}")
    return 1 if None in figures.values() else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--only", choices=BENCHMARKS, help="run this one alone")
    arguments = parser.parse_args()
    sys.exit(main(arguments.json, arguments.only))

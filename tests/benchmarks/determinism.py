"""Whether equal lockstep runs give equal bytes: whole launches under CPU load, and the same plan in one process.

    python tests/benchmarks/determinism.py [--runs 20] [--duration 1.0]

Each run is `armswing launch` on the lockstep plan (server, trajectory, controller and recorder as processes), with
every core kept busy beside it. Exit code 1 when two recordings differ.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from nodes.plan.files.file import load_plan
from nodes.simulation.compose import compose

ROOT = Path(__file__).resolve().parents[2]
PLAN = ROOT / "launch" / "rotary_pendulum_lockstep.toml"


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with processes that end by themselves after ten minutes at the latest."""
    program = "import time; end = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
    load = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


def launched(file: Path, duration_s: float, runtime_folder: Path) -> bytes:
    """The recording of one launch with real processes."""
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(PLAN), "--duration", str(duration_s)]
    command += ["--set", f"recorder.file={str(file)!r}"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime_folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=file.parent)
    # a run this short need not reach its milestone, which exit code 1 says; anything else is a failure
    if done.returncode not in (0, 1) or not file.exists():
        raise RuntimeError(f"launch ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return file.read_bytes()


def composed(file: Path, duration_s: float) -> bytes:
    """The recording of the same plan in this process."""
    plan = msgspec.structs.replace(load_plan(PLAN, [f"recorder.file={str(file)!r}"]), duration_s=duration_s)
    with compose(plan) as composition:
        composition.run()
    return file.read_bytes()


def hashes(runs: int, duration_s: float) -> dict[str, str]:
    """SHA-256 of each recording, by run."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="as-") as name:
        folder = Path(name)
        with busy_cores():
            for run in range(runs):
                data = launched(folder / f"run_{run}.mcap", duration_s, folder)
                found[f"launch {run + 1}"] = hashlib.sha256(data).hexdigest()
        found["in one process"] = hashlib.sha256(composed(folder / "composed.mcap", duration_s)).hexdigest()
    return found


def main() -> int:
    """Print one line per recording, then the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--duration", type=float, default=1.0, help="simulated seconds")
    options = parser.parse_args()
    found = hashes(options.runs, options.duration)
    for run, digest in found.items():
        print(f"  {run:16} {digest}")
    different = len(set(found.values()))
    print(f"{len(found)} recordings, {different} different")
    return 0 if different == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
